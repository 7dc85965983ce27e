"""How far the scores of subsets stray from those of all samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mmie_tasks.comparison.aligned import Aligned
from mmie_tasks.errors import SettingWrong
from mmie_tasks.review import Number
from mmie_tasks.subset.drawing import Floats, Mean, Whole, drawn, full
from mmie_tasks.subset.findings import Fixed, Order, Stray, Study

WHOLE = Number(name="", title="", kind="")
"""The plain mean of the points of all samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be looked at.

    Attributes:
        sizes: Of subsets; those not smaller than what there is are left out.
        draws: Of each size.
        stratify: A kind of group, ``none``, or empty for the benchmark's own.
    """

    sizes: tuple[int, ...]
    draws: int
    stratify: str


def study(aligned: Aligned, plan: Plan, given: Mapping[str, Collection[str]]) -> Study:
    """Draw subsets, and look at given ones.

    Args:
        aligned: One or more runs.
        plan: Which subsets to draw.
        given: Name to the ids of a subset.

    Raises:
        SettingWrong: The samples have no such groups.
    """
    own = _own_kind(aligned)
    kind = {"": own, "none": ""}.get(plan.stratify, plan.stratify)
    if kind and kind not in aligned.kinds:
        hint = f"one of {', '.join([*aligned.kinds, 'none'])}"
        raise SettingWrong(f"`--stratify`: no sample has a `{kind}`.", hint=hint)
    numbers, why_not = _numbers(aligned, kind or own)
    points = np.stack([column.points for column in aligned.columns(WHOLE)])
    population = np.flatnonzero(np.isfinite(points).all(axis=0))
    drawing = _Drawing(
        points=points[:, population],
        strata=_strata(aligned, kind)[population],
        means=[_mean(aligned, number, population) for number in numbers],
    )
    sizes = [size for size in plan.sizes if size < len(population)] if numbers else []
    percent = 100 / aligned.scale.full_marks
    draws = {size: drawing.draw(size, plan.draws) for size in sizes}
    whole = drawing.full() if numbers else np.empty((0, len(points)))
    return Study(
        numbers=tuple(numbers),
        why_not=why_not,
        samples=len(population),
        unscored=len(aligned.ids) - len(population),
        stratify=kind,
        percent=tuple(tuple(aligned.scale.percent(float(x)) for x in row) for row in whole),
        strays={
            size: _strays((found - whole[:, :, None]) * percent) for size, found in draws.items()
        },
        orders=_orders(whole * percent, {size: found * percent for size, found in draws.items()}),
        ranks=_ranks(whole, draws),
        fixed=tuple(_fixed(aligned, drawing, population, name, ids) for name, ids in given.items()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    """Points on the benchmark's own scale, shape ``(runs, samples)``."""

    points: Floats
    strata: Whole
    means: list[Mean]

    def full(self) -> Floats:
        return full(self.points, self.means)

    def draw(self, size: int, draws: int) -> Floats:
        return drawn(self.points, self.strata, self.means, size, draws)


def _own_kind(aligned: Aligned) -> str:
    return "category" if "category" in aligned.kinds else next(iter(aligned.kinds), "")


def _numbers(aligned: Aligned, kind: str) -> tuple[list[Number], dict[str, str]]:
    """The headline and the numbers of a kind; those that the runs have none of, to why."""
    headline = aligned.numbers[0].kind
    found, why_not = [], {}
    for number in aligned.numbers:
        if number.kind not in (headline, kind) or number.part:
            continue
        shared = aligned.shared(number)
        if shared is not None and shared.why_not:
            why_not[number.title] = shared.why_not
        elif shared is not None:
            found.append(number)
    return found, why_not


def _strata(aligned: Aligned, kind: str) -> Whole:
    strata = np.zeros(len(aligned.ids), dtype=np.int64)
    for place, places in enumerate(aligned.kind(kind).values() if kind else ()):
        strata[places] = place
    return strata


def _mean(aligned: Aligned, number: Number, population: Whole) -> Mean:
    groups = np.full(len(aligned.ids), -1, dtype=np.int64)
    strata = aligned.strata(number)
    for place, name in enumerate(number.weights):
        groups[strata[name]] = place
    return Mean(groups=groups[population], weights=np.array(list(number.weights.values())))


def _strays(apart: Floats) -> tuple[tuple[Stray | None, ...], ...]:
    return tuple(tuple(_stray(np.abs(each)) for each in runs) for runs in apart)


def _stray(far: Floats) -> Stray | None:
    if not np.isfinite(far).all():
        return None
    within = float(np.quantile(far, 0.95))
    return Stray(mean=float(far.mean()), within=within, worst=float(far.max()))


def _orders(whole: Floats, draws: Mapping[int, Floats]) -> tuple[Order, ...]:
    found = []
    for one, other in combinations(range(whole.shape[1]), 2) if len(whole) else ():
        by = float(whole[0, one] - whole[0, other])
        if abs(by) < 1e-9:
            continue
        ahead, behind = (one, other) if by > 0 else (other, one)
        kept = {
            size: float((means[0, ahead] > means[0, behind]).mean())
            for size, means in draws.items()
            if np.isfinite(means[0]).all()
        }
        found.append(Order(ahead=ahead, behind=behind, by=abs(by), kept=kept))
    return tuple(found)


def _ranks(whole: Floats, draws: Mapping[int, Floats]) -> dict[int, float]:
    """Spearman's rank correlation with the order over all samples; the mean over the draws."""
    from scipy.stats import rankdata

    runs = whole.shape[1]
    if runs < 3 or not len(whole) or np.ptp(whole[0]) == 0:
        return {}
    true = rankdata(whole[0]) - (runs + 1) / 2
    found = {}
    for size, means in draws.items():
        ranks = rankdata(means[0], axis=0) - (runs + 1) / 2
        spread = np.sqrt((ranks**2).sum(axis=0) * (true**2).sum())
        if np.isfinite(means[0]).all() and (spread > 0).all():
            found[size] = float((true @ ranks / spread).mean())
    return found


def _fixed(
    aligned: Aligned, drawing: _Drawing, population: Whole, name: str, ids: Collection[str]
) -> Fixed:
    wanted = set(ids)
    inside = np.array([one in wanted for one in aligned.ids], dtype=np.bool_)
    chosen = inside[population]
    means = [Mean(groups=mean.groups[chosen], weights=mean.weights) for mean in drawing.means]
    found = full(drawing.points[:, chosen], means)
    percent = aligned.scale.percent
    return Fixed(
        name=name,
        samples=int(chosen.sum()),
        unscored=int(inside.sum() - chosen.sum()),
        unknown=len(wanted) - int(inside.sum()),
        counts=tuple(int((mean.groups >= 0).sum()) for mean in means),
        percent=tuple(
            tuple(percent(float(x)) if np.isfinite(x) else None for x in row) for row in found
        ),
    )
