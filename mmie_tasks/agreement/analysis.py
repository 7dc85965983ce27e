"""Everything that `mmie-tasks agreement` says, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mmie_tasks.agreement.alpha import LEVELS, alpha
from mmie_tasks.agreement.measures import EVERY, IN_GROUPS, Asked, measure
from mmie_tasks.agreement.pairs import Pairs, pairs_of
from mmie_tasks.agreement.panel import Column, Panel
from mmie_tasks.agreement.raters import Gathered, Rater
from mmie_tasks.agreement.resampling import Measured
from mmie_tasks.errors import AnswersUnusable

MOST_PAIRED = 4
"""Up to so many raters every pair is compared; of more, each with the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two raters.

    Attributes:
        judge: Who is compared.
        reference: With whom.
        samples: That both rated.
        measures: By name, see `mmie_tasks.agreement.measures`.
        confusion: How many samples have which points, the reference's down, the judge's across;
            empty where points are not whole numbers.
    """

    judge: str
    reference: str
    samples: int
    measures: Mapping[str, Measured]
    confusion: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InGroup:
    """Two raters on the samples of one group."""

    kind: str
    group: str
    compared: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Alpha:
    """Krippendorff's alpha of several raters.

    Attributes:
        who: Whose, in words.
        samples: That two or more of them rated.
        measures: By level of measurement.
    """

    who: str
    samples: int
    measures: Mapping[str, Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disputed:
    """A sample, each rater's points (None where there are none), and how far apart they are."""

    id: str
    points: tuple[float | None, ...]
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Everything that was found.

    Attributes:
        gathered: Who rated what.
        panel: Their points.
        reference: The name of whom the others are compared with.
        asked: The scale, and how many resamples.
        with_reference: Everyone else, compared with it.
        other_pairs: All other pairs, where there are few raters.
        alphas: Of all raters first.
        in_groups: With the reference, by group of samples.
        disputed: Samples that raters disagree on most, the worst first.
    """

    gathered: Gathered
    panel: Panel
    reference: str
    asked: Asked
    with_reference: tuple[Compared, ...]
    other_pairs: tuple[Compared, ...]
    alphas: tuple[Alpha, ...]
    in_groups: tuple[InGroup, ...]
    disputed: tuple[Disputed, ...]


def analyse(
    gathered: Gathered, panel: Panel, reference: Column, asked: Asked, top: int
) -> Agreement:
    """Compare everyone.

    Args:
        gathered: Who rated what.
        panel: Their points.
        reference: Whom they are compared with.
        asked: The scale, and how many resamples.
        top: How many samples that they disagree on.

    Raises:
        AnswersUnusable: Nobody has points of a sample that the reference has points of.
    """
    judges = [column for column in panel.columns if column.name not in reference.members]
    with_reference = [_compared(judge, reference, asked) for judge in judges]
    if not any(each.samples for each in with_reference):
        raise AnswersUnusable(
            f"No sample has points of {reference.name} and of anyone else: {_missing(gathered)}.",
            hint="look at the judges' replies: `mmie-tasks report RUN`",
        )
    others = _others(gathered, panel, reference, asked)
    return Agreement(
        gathered=gathered,
        panel=panel,
        reference=reference.name,
        asked=asked,
        with_reference=tuple(with_reference),
        other_pairs=tuple(others),
        alphas=tuple(_alphas(gathered, panel, asked)),
        in_groups=tuple(
            each for judge in judges for each in _groups(judge, reference, panel, asked)
        ),
        disputed=tuple(_disputed(panel, top)),
    )


def _missing(gathered: Gathered) -> str:
    def said(rater: Rater) -> str:
        counts = Counter(rater.unscored.values())
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        return f"{rater.name} has {len(rater.points)} ({reasons or 'none unscored'})"

    return "; ".join(said(rater) for rater in gathered.raters)


def _compared(judge: Column, reference: Column, asked: Asked) -> Compared:
    pairs = pairs_of(judge.points, reference.points)
    return Compared(
        judge=judge.name,
        reference=reference.name,
        samples=pairs.samples,
        measures=measure(pairs, EVERY, asked),
        confusion=_confusion(pairs.rounded, asked) if asked.scale.whole else (),
    )


def _confusion(pairs: Pairs, asked: Asked) -> tuple[tuple[int, ...], ...]:
    size = round(asked.scale.full_marks) + 1
    found = np.zeros((size, size), dtype=np.intp)
    np.add.at(found, (pairs.reference.astype(int), pairs.judge.astype(int)), pairs.counts)
    return tuple(tuple(int(count) for count in row) for row in found)


def _others(gathered: Gathered, panel: Panel, reference: Column, asked: Asked) -> list[Compared]:
    """Pairs without the reference; people are the reference of judges, else the earlier one."""
    if len(panel.columns) > MOST_PAIRED:
        return []
    people = {rater.name for rater in gathered.raters if rater.kind == "person"}
    ordered = sorted(panel.columns, key=lambda column: column.name not in people)
    pairs = combinations([column for column in ordered if column.name != reference.name], 2)
    return [_compared(judge, earlier, asked) for earlier, judge in pairs]


def _alphas(gathered: Gathered, panel: Panel, asked: Asked) -> list[Alpha]:
    kinds = np.array([rater.kind for rater in gathered.raters])
    everyone = np.ones(len(kinds), dtype=bool)
    found = []
    for who, chosen in (
        ("both raters" if len(kinds) == 2 else f"all {len(kinds)} raters", everyone),
        ("people", kinds == "person"),
        ("judges", kinds == "judge"),
    ):
        if chosen.sum() < 2 or (chosen.all() and chosen is not everyone):
            continue
        points = panel.matrix[:, chosen]
        rated = int((np.isfinite(points).sum(axis=1) >= 2).sum())
        measures: dict[str, Measured] = {
            level: alpha(points, level, asked.resamples) for level in LEVELS
        }
        found.append(Alpha(who=who, samples=rated, measures=measures))
    return found


def _groups(judge: Column, reference: Column, panel: Panel, asked: Asked) -> list[InGroup]:
    found = []
    for (kind, group), places in _places(panel).items():
        pairs = pairs_of(judge.points[places], reference.points[places])
        compared = Compared(
            judge=judge.name,
            reference=reference.name,
            samples=pairs.samples,
            measures=measure(pairs, IN_GROUPS, asked),
        )
        found.append(InGroup(kind=kind, group=group, compared=compared))
    return found


def _places(panel: Panel) -> dict[tuple[str, str], Sequence[int]]:
    """Where in the panel the samples of each group are; kinds with one group only are left out."""
    found: dict[tuple[str, str], list[int]] = {}
    for place, id_ in enumerate(panel.ids):
        if sample := panel.samples.get(id_):
            for kind, names in sample.groups.items():
                for name in names:
                    found.setdefault((kind, name), []).append(place)
    several = Counter(kind for kind, _ in found)
    return {key: found[key] for key in sorted(found) if several[key[0]] > 1}


def _disputed(panel: Panel, top: int) -> list[Disputed]:
    points = panel.matrix
    rated = np.isfinite(points)
    highest = np.where(rated, points, -np.inf).max(axis=1)
    lowest = np.where(rated, points, np.inf).min(axis=1)
    spread = np.where(rated.sum(axis=1) >= 2, highest - lowest, 0).round(9)
    by_all_first = np.lexsort((-rated.sum(axis=1), -spread))  # then in the order of their ids
    return [
        Disputed(
            id=panel.ids[place],
            points=tuple(float(p) if np.isfinite(p) else None for p in points[place]),
            spread=float(spread[place]),
        )
        for place in by_all_first[:top]
        if spread[place] > 0
    ]
