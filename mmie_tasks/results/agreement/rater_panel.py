"""Raters, and their points on the same samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.record.intervals import Floats
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.labels import answer_digest

POINTS_DIGITS = 9
"""Points are rounded to this many decimals: two ways to one fraction are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rater:
    """A judge, or a person.

    Attributes:
        name: Unique among the compared raters.
        kind: Which of the two.
        party: Of a person, the name of the CSV; of a judge, its own name.
        source: The log or CSV.
        points: Sample id to points on the benchmark's scale.
        unscored: Sample id to the reason.
        samples: The judged samples by id; empty for people.
        signatures: Of a judge, every one in its log.
        notes: On lines of the log that were left out.
    """

    name: str
    kind: Literal["judge", "person"]
    party: str
    source: Path
    points: Mapping[str, float]
    unscored: Mapping[str, str]
    samples: Mapping[str, LoggedSample] = field(default_factory=dict)
    signatures: tuple[Signature, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> float | None:
        """The mean of its points; None without points."""
        return sum(self.points.values()) / len(self.points) if self.points else None

    @property
    def unscored_counts(self) -> dict[str, int]:
        """Reason why it has no points to the number of samples, sorted."""
        return dict(sorted(Counter(self.unscored.values()).items()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RaterPanel:
    """The points of all raters of the same samples.

    Attributes:
        task: The rated task.
        benchmark: That the task belongs to.
        raters: In the order of the command line; two at least.
        points: A row for each sample that can be compared, in alphabetical order; a column for each
            rater; NaN where there are none.
        means: The same for the mean of each CSV with several people.
        members: The name of each mean to its people.
        other_answers: How many samples were left out because the judges judged different answers.
        unseen_answers: How many are compared although a log does not hold the judged answer.
        in_one_only: How many have no second rater.
        samples: The judged sample, by id, where a log has it.
        headline: The metric that is the task's score.
        other_runs: The name of a judge to its runs of other answers, which no other rater rated.
    """

    task: str
    benchmark: Benchmark
    raters: tuple[Rater, ...]
    points: pd.DataFrame
    means: pd.DataFrame
    members: Mapping[str, Sequence[str]]
    other_answers: int
    unseen_answers: int
    in_one_only: int
    samples: Mapping[str, LoggedSample]
    headline: Metric
    other_runs: Mapping[str, Sequence[Rater]]

    def column(self, name: str) -> Floats:
        """The points of a rater, or a mean; shape ``(samples,)``."""
        column: Floats = (self.means if name in self.members else self.points)[name].to_numpy()
        return column


def aligned_panel(
    task: str,
    benchmark: Benchmark,
    headline: Metric,
    raters: tuple[Rater, ...],
    other_runs: Mapping[str, Sequence[Rater]],
) -> RaterPanel:
    """Align the points of all raters by sample; the arguments are fields of the panel.

    Raises:
        AnswersUnusable: No sample is in two sources, or all those were judged on different answers.
    """
    times = Counter(id_ for r in raters for ids in (r.points, r.unscored) for id_ in ids)
    shared = {id_ for id_, count in times.items() if count > 1}
    if not shared:
        first_ids = {r.name: min({*r.points, *r.unscored}, default="nothing") for r in raters}
        examples = ", ".join(f"`{name}` has ids like {id_}" for name, id_ in first_ids.items())
        raise AnswersUnusable(
            f"No sample is in two of the sources: {examples}.",
            hint="compare runs of one task, and people's scores with the ids of its samples",
        )
    differing, unseen = _differing_answers(raters, shared)
    ids = sorted(shared - differing)
    if not ids:
        raise AnswersUnusable(
            f"All {len(shared)} samples that two of the sources have were judged on different "
            "answers.",
            hint="agreement compares judges of the same answers; `mmie-tasks compare` compares "
            "tested models. A run of other answers needs two runs that have the same ones, one of "
            "them judged as it was",
        )
    points = pd.DataFrame({r.name: pd.Series(r.points, dtype=np.float64) for r in raters}).reindex(
        ids
    )
    people_by_csv: defaultdict[str, list[str]] = defaultdict(list)
    for rater in raters:
        if rater.kind == "person":
            people_by_csv[rater.party].append(rater.name)
    members = {
        f"mean of {party}": people for party, people in people_by_csv.items() if len(people) > 1
    }
    return RaterPanel(
        task=task,
        benchmark=benchmark,
        raters=raters,
        points=points,
        means=pd.DataFrame(
            {
                name: points[people].mean(axis=1).round(POINTS_DIGITS)
                for name, people in members.items()
            }
        ),
        members=members,
        other_answers=len(differing),
        unseen_answers=len(unseen - differing),
        in_one_only=len(times) - len(shared),
        samples={id_: s for r in reversed(raters) for id_, s in r.samples.items()},
        headline=headline,
        other_runs=other_runs,
    )


def reference_of(panel: RaterPanel, name: str | None) -> str:
    """The rater to compare the others with: people where there are any, else the first rater.

    Args:
        panel: The points of all raters.
        name: Of a rater, or of a CSV for the mean of its people; None for the default.

    Raises:
        SettingWrong: There is no such name, or no rater is left to be compared.
    """
    raters = panel.raters
    names = [*panel.points, *panel.members]
    if name is None:
        people = [rater.name for rater in raters if rater.kind == "person"]
        reference: str = people[0] if people else raters[0].name
        if len(people) < len(raters):
            reference = next(
                (mean for mean, members in panel.members.items() if reference in members), reference
            )
    elif match := [known_name for known_name in (name, f"mean of {name}") if known_name in names]:
        reference = match[0]
    elif len(in_party := [rater.name for rater in raters if rater.party == name]) == 1:
        reference = in_party[0]
    else:
        listed_names = ", ".join(f"`{known_name}`" for known_name in names)
        raise SettingWrong(f"`{name}` is none of the raters.", hint=f"name one of {listed_names}")
    members = panel.members.get(reference, [reference])
    if len(members) == len(raters):
        message = f"No rater is left to compare with the {reference}: all are part of it."
        raise SettingWrong(message, hint=f"`--reference {members[0]}`, or name a run too")
    return reference


def _differing_answers(raters: Sequence[Rater], shared: set[str]) -> tuple[set[str], set[str]]:
    """Ids whose logged answers differ, and ids with a log that does not hold the answer."""
    differing: set[str] = set()
    unseen: set[str] = set()
    judges = [rater for rater in raters if rater.samples]
    for judge, second in combinations(judges, 2):
        for id_ in shared & judge.samples.keys() & second.samples.keys():
            is_same = same_answer(judge.samples[id_], second.samples[id_])
            if is_same is None:
                unseen.add(id_)
            elif not is_same:
                differing.add(id_)
    return differing, unseen


def same_answer(a: LoggedSample, b: LoggedSample) -> bool | None:
    """Whether two logs have the same answer to a sample; None where one does not hold it."""
    if not a.answer or not b.answer:
        return None
    return a.answer == b.answer or answer_digest(a) == answer_digest(b)
