"""Everyone's points side by side, and which samples can be compared at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePath

import numpy as np

from mmie_tasks.agreement.raters import Gathered, Rater
from mmie_tasks.agreement.resampling import Floats
from mmie_tasks.errors import AnswersUnusable, SettingWrong
from mmie_tasks.review import Reviewed, Segment


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
    samples: Mapping[str, Reviewed]

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


def _said(answer: Sequence[Segment]) -> tuple[str, tuple[str, ...]]:
    """Words and images of an answer: spaces, and the folder it was saved in, do not matter."""
    words = " ".join(" ".join(segment.text for segment in answer).split())
    images = (segment.image for segment in answer if segment.image)
    return words, tuple(PurePath(image.replace("\\", "/")).name for image in images)
