"""Everything that `mmie-tasks agreement` says, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePath

import numpy as np

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.agreement.measures import EVERY, IN_GROUPS, LEVELS, Asked, alpha, measure
from mmie_tasks.results.agreement.ratings import Gathered, Pairs, Rater, pairs_of
from mmie_tasks.results.agreement.resampling import Floats, Measured
from mmie_tasks.runs.benchmark import LoggedSample, LoggedSegment

# Everyone's points side by side, and which samples can be compared at all.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """Points of one rater, or the mean points of several people.

    Attributes:
        name: Unique among raters and means.
        points: One entry a sample of the panel; NaN where there are none.
        members: Whose mean it is; its own name alone, for a rater.
    """

    name: str
    points: Floats
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """Everyone's points side by side.

    Attributes:
        ids: Samples that can be compared, in alphabetical order.
        columns: One a rater.
        means: One for each CSV with several people.
        other_answers: How many samples were left out since the judges judged different answers.
        unseen_answers: How many are compared although a log does not hold what was judged.
        in_one_only: How many have no second rater.
        samples: What was judged, by id, where a log has it.
    """

    ids: tuple[str, ...]
    columns: tuple[Column, ...]
    means: tuple[Column, ...]
    other_answers: int
    unseen_answers: int
    in_one_only: int
    samples: Mapping[str, LoggedSample]

    @property
    def matrix(self) -> Floats:
        """Points of all raters; shape ``(samples, raters)``, NaN where there are none."""
        return np.column_stack([column.points for column in self.columns])


def panel(gathered: Gathered) -> Panel:
    """Put everyone's points side by side.

    Raises:
        AnswersUnusable: No sample is in two of the sources, or all those judged different answers.
    """
    raters = gathered.raters
    times = Counter(id_ for r in raters for ids in (r.points, r.unscored) for id_ in ids)
    shared = {id_ for id_, count in times.items() if count > 1}
    if not shared:
        raise AnswersUnusable(
            f"No sample is in two of them: {_ids_of(raters)}.",
            hint="compare runs of one task, and people's scores with the ids of its samples",
        )
    differing, unseen = _differing(raters, shared)
    ids = tuple(sorted(shared - differing))
    if not ids:
        raise AnswersUnusable(
            f"All {len(shared)} samples that two of them have were judged on different answers.",
            hint="agreement compares judges of the same answers; `mmie-tasks compare` compares "
            "tested models",
        )
    columns = tuple(_column(rater, ids) for rater in raters)
    return Panel(
        ids=ids,
        columns=columns,
        means=_means(gathered, columns),
        other_answers=len(differing),
        unseen_answers=len(unseen - differing),
        in_one_only=len(times) - len(shared),
        samples={id_: s for r in reversed(raters) for id_, s in r.samples.items()},
    )


def reference_of(found: Panel, gathered: Gathered, name: str | None) -> Column:
    """Whom the others are compared with: people where there are any, else the first rater.

    Args:
        found: Everyone's points.
        gathered: Everyone.
        name: Of a rater, or of a CSV for the mean of its people; None for the usual one.

    Raises:
        SettingWrong: There is no such name, or nobody is left to be compared.
    """
    every = {column.name: column for column in (*found.columns, *found.means)}
    chosen = _usual(found, gathered) if name is None else _named(name, every, gathered)
    if chosen is None:
        listed = ", ".join(f"`{each}`" for each in every)
        raise SettingWrong(f"`{name}` is none of the raters.", hint=f"name one of {listed}")
    if len(chosen.members) == len(found.columns):
        message = f"There is nobody to compare with the {chosen.name}: all are part of it."
        raise SettingWrong(message, hint=f"`--reference {chosen.members[0]}`, or name a run too")
    return chosen


def _usual(found: Panel, gathered: Gathered) -> Column:
    people = [place for place, r in enumerate(gathered.raters) if r.kind == "person"]
    first = found.columns[people[0] if people else 0]
    means = [mean for mean in found.means if first.name in mean.members]
    return means[0] if means and len(people) < len(found.columns) else first


def _named(name: str, every: Mapping[str, Column], gathered: Gathered) -> Column | None:
    """A column by its name, or by that of its CSV."""
    if known := every.get(name) or every.get(_mean_of(name)):
        return known
    in_party = [rater.name for rater in gathered.raters if rater.party == name]
    return every[in_party[0]] if len(in_party) == 1 else None


def _mean_of(party: str) -> str:
    return f"mean of {party}"


def _ids_of(raters: Sequence[Rater]) -> str:
    def first(rater: Rater) -> str:
        return min({*rater.points, *rater.unscored}, default="nothing")

    return ", ".join(f"`{rater.name}` has ids like {first(rater)}" for rater in raters)


def _column(rater: Rater, ids: Sequence[str]) -> Column:
    points = np.array([rater.points.get(id_, np.nan) for id_ in ids], dtype=np.float64)
    return Column(name=rater.name, points=points, members=(rater.name,))


def _means(gathered: Gathered, columns: Sequence[Column]) -> tuple[Column, ...]:
    by_name = {column.name: column.points for column in columns}
    found = []
    for party, people in gathered.groups.items():
        points = np.column_stack([by_name[person.name] for person in people])
        rated = np.isfinite(points).sum(axis=1)
        mean = np.full(len(points), np.nan)
        np.divide(np.nansum(points, axis=1), rated, out=mean, where=rated > 0)
        members = tuple(person.name for person in people)
        found.append(Column(name=_mean_of(party), points=mean.round(9), members=members))
    return tuple(found)


def _differing(raters: Sequence[Rater], shared: set[str]) -> tuple[set[str], set[str]]:
    """Ids whose logged answers differ, and ids with a log that does not hold the answer."""
    differing: set[str] = set()
    unseen: set[str] = set()
    judges = [rater for rater in raters if rater.samples]
    for one, other in combinations(judges, 2):
        for id_ in shared & one.samples.keys() & other.samples.keys():
            here, there = one.samples[id_].answer, other.samples[id_].answer
            if not here or not there:
                unseen.add(id_)
            elif here != there and _said(here) != _said(there):
                differing.add(id_)
    return differing, unseen


def _said(answer: Sequence[LoggedSegment]) -> tuple[str, tuple[str, ...]]:
    """Words and images of an answer: spaces, and the folder it was saved in, do not matter."""
    words = " ".join(" ".join(segment.text for segment in answer).split())
    images = (segment.image for segment in answer if segment.image)
    return words, tuple(PurePath(image.replace("\\", "/")).name for image in images)


MOST_PAIRED = 4
"""Up to so many raters every pair is compared; of more, each with the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two raters.

    Attributes:
        judge: Who is compared.
        reference: With whom.
        samples: That both rated.
        measures: By name, see `mmie_tasks.results.agreement.measures`.
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
