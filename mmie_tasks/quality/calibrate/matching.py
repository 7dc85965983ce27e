"""People's scores matched to the answers of runs; what does not match is a named problem."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.core.tables import counted, short_name
from mmie_tasks.quality.plan import JudgedSamples
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.results.labels import Label, answer_digest, id_in_csv
from mmie_tasks.runs.run import TaskRun

ProblemName: TypeAlias = Literal[
    "hand_picked",  # labels without a seed or without the answer's digest: not from a plan
    "several_seeds",  # labels of two plans
    "gaps",  # samples that come earlier in the plan than labelled ones have no label
    "too_few",  # no interval from so few labels
    "no_score",  # the run's score has no value that could be corrected
    "unknown_ids",  # labels of samples that are not in the run
    "other_answers",  # labels of answers that are not the run's
    "left_out",  # labels of samples that the official script leaves out
    "unscored",  # labels of samples without points of the judge
]

_UNUSED: Mapping[ProblemName, str] = {
    "unknown_ids": "are of samples that are not in the run",
    "other_answers": "are of other answers: of another model, or from before the run was repeated",
    "left_out": "are of samples that the official script leaves out",
    "unscored": "are of samples without points ({reason})",
}
_HINTS: Mapping[ProblemName, str] = {"unknown_ids": "check that labels and run are of one task"}
_SHOWN_IDS = 3

Ratings: TypeAlias = Mapping[str, Mapping[str, float]]
"""Rater to sample id to the rater's score; NaN where the answer cannot be rated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Labels that cannot be used, or why there is no corrected score.

    Attributes:
        name: What kind of problem.
        text: A sentence, with up to three ids.
        count: Of labels or samples; `ids` has all of them.
        hint: What to do about it; empty if nothing is to be done.
    """

    name: ProblemName
    text: str
    count: int
    ids: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledScores:
    """The scores of a run, or of the difference of two, in percent of full marks.

    Attributes:
        strata: Sample id to its stratum, of all samples with points.
        judge: The judge's score of each.
        ratings: People's.
        labels: Those that are of an answer with points of the judge.
        problems: Why others are not used.
    """

    strata: Mapping[str, str]
    judge: Mapping[str, float]
    ratings: Ratings
    labels: tuple[Label, ...]
    problems: tuple[Problem, ...]


def match_labels(
    runs: Sequence[TaskRun], judged: Sequence[JudgedSamples], labels: Iterable[Label]
) -> LabelledScores:
    """Match labels to the answers of one run, or of two, by sample and digest; a label without
    digest, by sample to a single run.

    A label of another answer to a labelled sample is of the other run of a common plan, and so is
    one of another answer to a sample without points: no problem.

    Args:
        runs: One task of each; of two, scores are the first less the second where both have one.
        judged: Their samples with points.
        labels: Of any runs.
    """
    samples = [{id_in_csv(sample.id): sample for sample in run.samples} for run in runs]
    points: dict[str, list[dict[str, float]]] = {}
    matched: list[Label] = []
    unused: defaultdict[tuple[ProblemName, str], list[str]] = defaultdict(list)
    for label in (label for label in labels if label.points is not None or label.unratable):
        id_ = id_in_csv(label.id)
        logged = [(run, by_id[id_]) for run, by_id in enumerate(samples) if id_ in by_id]
        is_any = not label.answer and len(runs) == 1
        answers = [own for own in logged if is_any or answer_digest(own[1]) == label.answer]
        scored = [(run, s.id) for run, s in answers if s.id in judged[run].by_id]
        for run, sample_id in scored:
            by_run = points.setdefault(label.rater, [{} for _ in runs])
            by_run[run][sample_id] = math.nan if label.points is None else label.points
        if scored:
            matched.append(label)
        elif answers or not logged or any(s.id in judged[run].by_id for run, s in logged):
            unused[_why_unused(logged, answers, judged)].append(label.id)
    labelled = {label.id for label in matched}
    problems = []
    for (name, reason), ids in unused.items():
        named = [id_ for id_ in ids if name != "other_answers" or id_ not in labelled]
        if named:
            what = _UNUSED[name].format(reason=reason)
            problems.append(problem(name, "label", what, named, _HINTS.get(name, "")))
    percent = 100 / runs[0].benchmark.scale.full_marks
    judge = _scores([{id_: s.points for id_, s in run.by_id.items()} for run in judged], percent)
    return LabelledScores(
        strata={id_: s.stratum for id_, s in judged[0].by_id.items() if id_ in judge},
        judge=judge,
        ratings={
            rater: {id_: score for id_, score in _scores(own, percent).items() if id_ in judge}
            for rater, own in sorted(points.items())
        },
        labels=tuple(matched),
        problems=tuple(problems),
    )


def _why_unused(
    logged: Sequence[tuple[int, LoggedSample]],
    answers: Sequence[tuple[int, LoggedSample]],
    judged: Sequence[JudgedSamples],
) -> tuple[ProblemName, str]:
    """Why a label is not used, and why its sample has no points, if that is why."""
    if not answers:
        return ("other_answers" if logged else "unknown_ids"), ""
    run, sample = answers[0]
    reasons = (reason for reason, ids in judged[run].without.items() if sample.id in ids)
    reason = next(reasons, "not part of the score")
    return ("left_out" if reason == "left_out" else "unscored"), reason


def _scores(points: Sequence[Mapping[str, float]], percent: float) -> dict[str, float]:
    """The scores of a run; of two, the first less the second where both have one."""
    first, *second = points
    return {
        id_: percent * (first[id_] - sum(other[id_] for other in second))
        for id_ in first
        if all(id_ in other for other in second)
    }


def problem(name: ProblemName, noun: str, what: str, ids: Sequence[str], hint: str = "") -> Problem:
    """A problem whose text has the first ids."""
    verb = what.replace("are ", "is ", 1).replace("have ", "has ", 1) if len(ids) == 1 else what
    distinct = tuple(dict.fromkeys(ids))
    more = ["..."] if len(distinct) > _SHOWN_IDS else []
    shown = ", ".join([*map(short_name, distinct[:_SHOWN_IDS]), *more])
    text = f"{counted(len(ids), noun)} {verb}: {shown}"
    return Problem(name=name, text=text, count=len(ids), ids=distinct, hint=hint)
