"""All measures of the raters that `mmie-tasks agreement` compares."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.results.agreement.bridge import Bridge, bridge
from mmie_tasks.results.agreement.measures import (
    GROUP_MEASURES,
    LEVELS,
    MEASURES,
    Measurement,
    alpha,
    measure,
)
from mmie_tasks.results.agreement.rater_panel import RaterPanel

# With up to this many raters every pair is compared; with more, each with the reference.
_MAX_PAIRED_RATERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterPair:
    """Agreement of two raters on the samples that both rated.

    `confusion` has how many samples have which points, the reference's down, the judge's across;
    it is empty where points are not whole numbers. `kind` and `group` name a group of samples, such
    as ``category`` and ``SA``; they are empty for all samples.
    """

    judge: str
    reference: str
    samples: int
    measures: Mapping[str, Measurement]
    confusion: tuple[tuple[int, ...], ...] = ()
    kind: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAlpha:
    """Krippendorff's alpha by level of measurement, over the samples that two or more of the raters
    rated.
    """

    raters: str
    samples: int
    measures: Mapping[str, Measurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedSample:
    """A sample, each rater's points (None where there are none), and their range."""

    id: str
    points: tuple[float | None, ...]
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """All results: of the pairs with the reference, of the others where there are few raters, of
    the pairs with the reference by group of samples; the reference's scale for each judge with
    points of the same samples; and the samples that raters disagree on most.
    """

    panel: RaterPanel
    reference: str
    with_reference: tuple[RaterPair, ...]
    other_pairs: tuple[RaterPair, ...]
    alphas: tuple[RaterAlpha, ...]
    group_pairs: tuple[RaterPair, ...]
    bridges: tuple[Bridge, ...]
    disputed: tuple[DisputedSample, ...]


def analyse(panel: RaterPanel, reference: str, top: int) -> Agreement:
    """Compute all measures.

    Args:
        panel: The raters and their points.
        reference: The rater that the others are compared with.
        top: How many samples that raters disagree on.

    Raises:
        AnswersUnusable: No other rater has points of a sample that the reference has points of.
    """
    raters = panel.raters
    in_reference = panel.members.get(reference, [reference])
    judges = [rater.name for rater in raters if rater.name not in in_reference]
    # Without the reference, people are the reference of judges, else the earlier one.
    ordered = [rater.name for rater in sorted(raters, key=lambda rater: rater.kind != "person")]
    others = [name for name in ordered if name != reference]
    other_pairs = combinations(others if len(ordered) <= _MAX_PAIRED_RATERS else (), 2)
    with_reference = [_rater_pair(judge, reference, panel) for judge in judges]
    if not any(pair.samples for pair in with_reference):
        counts = []
        for rater in raters:
            listed = ", ".join(f"{n} {reason}" for reason, n in rater.unscored_counts.items())
            counts.append(f"{rater.name} has {len(rater.points)} ({listed or 'none unscored'})")
        raise AnswersUnusable(
            f"No sample has points of {reference} and of another rater: {'; '.join(counts)}.",
            hint="check the judges' replies: `mmie-tasks report RUN`",
        )
    return Agreement(
        panel=panel,
        reference=reference,
        with_reference=tuple(with_reference),
        other_pairs=tuple(_rater_pair(judge, earlier, panel) for earlier, judge in other_pairs),
        alphas=tuple(_alphas(panel)),
        group_pairs=tuple(_group_pairs(judges, reference, panel)),
        bridges=tuple(_bridges(with_reference, panel)),
        disputed=tuple(_disputed(panel, top)),
    )


def _rater_pair(judge: str, reference: str, panel: RaterPanel) -> RaterPair:
    x, y = panel.column(judge), panel.column(reference)
    both, scale = np.isfinite(x) & np.isfinite(y), panel.benchmark.scale
    confusion: tuple[tuple[int, ...], ...] = ()
    if scale.whole:
        counts = np.zeros((round(scale.full_marks) + 1,) * 2, dtype=np.intp)
        np.add.at(counts, (np.rint(y[both]).astype(int), np.rint(x[both]).astype(int)), 1)
        confusion = tuple(map(tuple, counts.tolist()))
    return RaterPair(
        judge=judge,
        reference=reference,
        samples=int(both.sum()),
        measures=measure(x, y, tuple(MEASURES), scale),
        confusion=confusion,
    )


def _alphas(panel: RaterPanel) -> Iterator[RaterAlpha]:
    """Of all raters, and of people and of judges where both are several."""
    kinds = np.array([rater.kind for rater in panel.raters])
    chosen_by_name = {
        "both raters" if len(kinds) == 2 else f"all {len(kinds)} raters": kinds != "",
        "people": kinds == "person",
        "judges": kinds == "judge",
    }
    for name, chosen in chosen_by_name.items():
        if name in ("people", "judges") and (chosen.sum() < 2 or chosen.all()):
            continue
        points = panel.points.to_numpy()[:, chosen]
        yield RaterAlpha(
            raters=name,
            samples=int((np.isfinite(points).sum(axis=1) >= 2).sum()),
            measures={level: alpha(points, level, panel.benchmark.scale) for level in LEVELS},
        )


def _group_pairs(judges: Sequence[str], reference: str, panel: RaterPanel) -> Iterator[RaterPair]:
    """Of each judge and each group; kinds with one group only are left out."""
    indices_of: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, id_ in enumerate(panel.points.index):
        if sample := panel.samples.get(id_):
            for kind, names in sample.groups.items():
                for name in names:
                    indices_of[kind, name].append(index)
    group_counts = Counter(kind for kind, _ in indices_of)
    groups = [key for key in sorted(indices_of) if group_counts[key[0]] > 1]
    for judge, (kind, group) in product(judges, groups):
        indices = indices_of[kind, group]
        x, y = panel.column(judge)[indices], panel.column(reference)[indices]
        yield RaterPair(
            judge=judge,
            reference=reference,
            samples=int((np.isfinite(x) & np.isfinite(y)).sum()),
            measures=measure(x, y, GROUP_MEASURES, panel.benchmark.scale),
            kind=kind,
            group=group,
        )


def _bridges(pairs: Sequence[RaterPair], panel: RaterPanel) -> Iterator[Bridge]:
    """Of each judge with the reference; people are not put on a judge's scale."""
    judges = {rater.name: rater for rater in panel.raters if rater.kind == "judge"}
    for pair in pairs:
        if pair.samples and pair.judge in judges:
            judge, rank_correlation = judges[pair.judge], pair.measures["spearman"]
            yield bridge(judge, pair.reference, rank_correlation, panel)


def _disputed(panel: RaterPanel, top: int) -> list[DisputedSample]:
    points = panel.points.to_numpy()
    spread = np.nan_to_num(np.fmax.reduce(points, axis=1) - np.fmin.reduce(points, axis=1)).round(9)
    # Of equals, those with more raters, then ids.
    order = np.lexsort((np.isnan(points).sum(axis=1), -spread))
    return [
        DisputedSample(
            id=panel.points.index[index],
            points=tuple(float(p) if np.isfinite(p) else None for p in points[index]),
            spread=float(spread[index]),
        )
        for index in order[:top]
        if spread[index] > 0
    ]
