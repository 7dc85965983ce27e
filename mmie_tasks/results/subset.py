"""How far the scores of subsets stray from those of all samples."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.alignment import Aligned
from mmie_tasks.runs.benchmark import Metric

# Subsets drawn at random, many at once.
#
# A subset's numbers depend only on how many of each kind of sample it holds: samples of one group
# with the same points are alike. So these counts are drawn (multivariate hypergeometric), which is
# the same distribution as drawing the samples.

_CHUNK = 4_000_000  # counts held at once

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A weighted mean of group means.

    Attributes:
        groups: Which group each sample counts for, -1 for none; shape ``(samples,)``.
        weights: Of the groups, in their order.
    """

    groups: Whole
    weights: Floats


def places(sizes: Sequence[int], wanted: int) -> list[int]:
    """How many to take of each stratum: its share, rounded by largest remainder.

    >>> places([5005, 11482, 3616], 1000)
    [249, 571, 180]
    """
    total = sum(sizes)
    shares = [divmod(wanted * size, total) for size in sizes]
    taken = [whole for whole, _ in shares]
    by_remainder = sorted(range(len(sizes)), key=lambda place: -shares[place][1])
    for place in by_remainder[: wanted - sum(taken)]:
        taken[place] += 1
    return taken


def full(points: Floats, means: Sequence[Mean]) -> Floats:
    """The means over all samples; shape ``(means, runs)``, NaN where a group has no sample.

    Args:
        points: Shape ``(runs, samples)``.
        means: To be computed.
    """
    everything = np.ones((1, points.shape[1]))
    return _means(everything, points, means)[:, :, 0]


def drawn(
    points: Floats, strata: Whole, means: Sequence[Mean], wanted: int, draws: int, seed: int = 0
) -> Floats:
    """Means over subsets that are drawn without replacement, each stratum by its share.

    Args:
        points: Shape ``(runs, samples)``; the same samples are drawn for every run.
        strata: Of each sample, from 0; all 0 for simple random subsets.
        means: To be computed.
        wanted: Samples in a subset; at most as many as there are.
        draws: How many subsets.
        seed: The same samples, in whatever order, with the same seed give the same subsets.

    Returns:
        Shape ``(means, runs, draws)``; NaN where the subset has no sample of a group.
    """
    cells = _cells(points, strata, means)
    bounds = np.append(np.searchsorted(cells.strata, np.arange(strata.max() + 1)), len(cells.sizes))
    sizes = [cells.sizes[begin:end] for begin, end in pairwise(bounds)]
    taken = places([int(each.sum()) for each in sizes], wanted)
    random = np.random.default_rng([seed, wanted])
    found = []
    for count in _chunks(draws, len(cells.sizes)):
        counts = [
            random.multivariate_hypergeometric(size, take, size=count, method="count")
            for size, take in zip(sizes, taken, strict=True)
        ]
        found.append(_means(np.concatenate(counts, axis=1), cells.points, cells.means))
    return np.concatenate(found, axis=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Samples that are alike, together: sorted by stratum; `sizes` is how many there are."""

    points: Floats
    strata: Whole
    means: list[Mean]
    sizes: Whole


def _cells(points: Floats, strata: Whole, means: Sequence[Mean]) -> _Cells:
    columns = np.column_stack([strata, *(mean.groups for mean in means), *points])
    alike, sizes = np.unique(columns, axis=0, return_counts=True)
    groups = alike[:, 1 : 1 + len(means)].astype(np.int64).T
    return _Cells(
        points=alike[:, 1 + len(means) :].T,
        strata=alike[:, 0].astype(np.int64),
        means=[Mean(groups=g, weights=m.weights) for g, m in zip(groups, means, strict=True)],
        sizes=sizes.astype(np.int64),
    )


def _means(counts: npt.NDArray[np.generic], points: Floats, means: Sequence[Mean]) -> Floats:
    """From how often each sample, or kind of sample, is in a draw: ``(means, runs, draws)``."""
    times = counts.astype(np.float64)
    found = np.empty((len(means), len(points), len(times)))
    for place, mean in enumerate(means):
        inside = (mean.groups[:, None] == np.arange(len(mean.weights))).astype(np.float64)
        held = times @ inside
        held[held == 0] = np.nan
        for run, each in enumerate(points):
            found[place, run] = times @ (inside * each[:, None]) / held @ mean.weights
    return found


def _chunks(draws: int, width: int) -> Iterator[int]:
    most = max(1, _CHUNK // width)
    for begin in range(0, draws, most):
        yield min(most, draws - begin)


# What came of looking at subsets.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Deviations of one number of one run, in percent points, whichever way.

    Attributes:
        mean: Of the deviations.
        within: 95 % of them are not larger.
        worst: The largest.
    """

    mean: float
    within: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two runs, by their first number over all samples.

    Attributes:
        ahead: The run with more, by its place.
        behind: The other.
        by: Percent points.
        kept: Size to the share of draws in which `ahead` stays ahead.
    """

    ahead: int
    behind: int
    by: float
    kept: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A given subset.

    Attributes:
        name: For people.
        samples: Those of it that all runs have points for.
        unscored: Those that some run has no points for.
        unknown: Ids that no run has.
        counts: Metric, by its place, to how many of `samples` count for it.
        percent: Metric, by its place, to the score of each run; None where there is none.
    """

    name: str
    samples: int
    unscored: int
    unknown: int
    counts: tuple[int, ...]
    percent: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One task of one or more runs.

    Attributes:
        numbers: Those that were looked at, headline first.
        why_not: Title of a number to why it was not looked at.
        samples: How many have points in all runs: what subsets are drawn from.
        unscored: How many have none in some run, or are not there.
        stratify: The kind of group that is kept in proportion; empty for none.
        percent: Metric, by its place, to the full score of each run.
        strays: Size to number to run; None where a subset may lack a group that is averaged.
        orders: Of every two runs that are not level.
        ranks: Size to the mean rank correlation (Spearman) of the runs; from three runs on.
        fixed: Given subsets.
    """

    numbers: tuple[Metric, ...]
    why_not: Mapping[str, str]
    samples: int
    unscored: int
    stratify: str
    percent: tuple[tuple[float, ...], ...]
    strays: Mapping[int, tuple[tuple[Stray | None, ...], ...]]
    orders: tuple[Order, ...]
    ranks: Mapping[int, float]
    fixed: tuple[Fixed, ...]


WHOLE = Metric(name="", title="", kind="")
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


def _numbers(aligned: Aligned, kind: str) -> tuple[list[Metric], dict[str, str]]:
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


def _mean(aligned: Aligned, number: Metric, population: Whole) -> Mean:
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


# Ids of a given subset, from a file.

_HINT = "one id a line, or a JSON list of ids"


def read_ids(path: Path) -> frozenset[str]:
    """The ids of a file: one a line, or a JSON list.

    Raises:
        AnswersUnusable: The file cannot be read, or holds no ids.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"Cannot read `{path}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise AnswersUnusable(f"`{path}` is no text in UTF-8.", hint=_HINT) from error
    found = _from_json(path, text) if text.lstrip().startswith("[") else text.splitlines()
    ids = frozenset(one.strip() for one in found if one.strip())
    if not ids:
        raise AnswersUnusable(f"`{path}` holds no ids.", hint=_HINT)
    return ids


def _from_json(path: Path, text: str) -> list[str]:
    try:
        values: list[object] = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"`{path}` begins like a JSON list and is none: {error}."
        raise AnswersUnusable(message, hint=_HINT) from error
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            message = f"`{path}`: element {place} of the list is no id: {str(value)[:80]}."
            raise AnswersUnusable(message, hint=_HINT)
    return [str(value) for value in values]
