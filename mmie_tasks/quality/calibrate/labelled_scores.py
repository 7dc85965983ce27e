"""People's scores matched to the answers of runs; what does not match is a named problem."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.core.tables import short_name
from mmie_tasks.core.wording import counted
from mmie_tasks.quality.calibrate.judged_samples import JudgedSamples
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
_SHOWN_IDS = 3
_SINGULAR = {"are": "is", "have": "has"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Labels that cannot be used, or why there is no corrected score.

    Attributes:
        text: A sentence, with up to three ids.
        count: Number of labels or samples.
        ids: All their ids.
        hint: What to do about it; may be empty.
    """

    name: ProblemName
    text: str
    count: int
    ids: tuple[str, ...] = ()
    hint: str = ""


def problem_with_ids(
    name: ProblemName,
    noun: str,
    verb: Literal["are", "have"],
    what: str,
    ids: Sequence[str],
    hint: str = "",
) -> Problem:
    """A problem whose text contains the first ids.

    >>> problem_with_ids("gaps", "sample", "have", "no label", ["SA-1"]).text
    '1 sample has no label: SA-1'
    """
    form = _SINGULAR[verb] if len(ids) == 1 else verb
    distinct = tuple(dict.fromkeys(ids))
    more = ["..."] if len(distinct) > _SHOWN_IDS else []
    shown = ", ".join([*map(short_name, distinct[:_SHOWN_IDS]), *more])
    text = f"{counted(len(ids), noun)} {form} {what}: {shown}"
    return Problem(name=name, text=text, count=len(ids), ids=distinct, hint=hint)


Ratings: TypeAlias = Mapping[str, Mapping[str, float]]
"""Scores by rater, then by sample id; NaN where the rater could not rate the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledScores:
    """The scores of a run, or the differences of two runs, in percent of full marks.

    Attributes:
        strata, judge: The stratum and the judge's score of all samples with points, by sample id.
        ratings: People's scores.
        labels: The labels of answers with points of the judge.
        problems: Why other labels are not used.
    """

    strata: Mapping[str, str]
    judge: Mapping[str, float]
    ratings: Ratings
    labels: tuple[Label, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _WhyUnused:
    """Why a label is not used; `reason` is why its sample has no points, if that is the cause."""

    name: ProblemName
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LabelledAnswer:
    """A run's answer to the sample of a label; `is_labelled` if the label is of this answer."""

    run: int
    sample: LoggedSample
    is_labelled: bool
    has_points: bool


def match_labels(
    runs: Sequence[TaskRun], judged: Sequence[JudgedSamples], labels: Iterable[Label]
) -> LabelledScores:
    """Match labels to the answers of one run or two, by sample and digest. For a single run, a
    label without a digest is matched by sample.

    With two runs of a task, a score is the first run's less the second's where both have one. A
    label of another answer is not a problem if the sample also has a label of the run's answer, or
    has no points: it belongs to the other run of a common plan.
    """
    samples = [{id_in_csv(sample.id): sample for sample in run.samples} for run in runs]
    points: dict[str, list[dict[str, float]]] = {}  # rater to the points of each run's answers
    matched: list[Label] = []
    unused: defaultdict[_WhyUnused, list[str]] = defaultdict(list)
    for label in labels:
        if label.points is None and not label.unratable:  # left empty
            continue
        answers = _answers(label, samples, judged)
        scored = [answer for answer in answers if answer.is_labelled and answer.has_points]
        for answer in scored:
            by_run = points.setdefault(label.rater, [{} for _ in runs])
            by_run[answer.run][answer.sample.id] = (
                math.nan if label.points is None else label.points
            )
        if scored:
            matched.append(label)
        elif why_unused := _why_unused(answers, judged):
            unused[why_unused].append(label.id)
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
        problems=tuple(_unused_problems(unused, {label.id for label in matched})),
    )


def _answers(
    label: Label, samples: Sequence[Mapping[str, LoggedSample]], judged: Sequence[JudgedSamples]
) -> list[_LabelledAnswer]:
    id_ = id_in_csv(label.id)
    is_any = not label.answer and len(samples) == 1
    return [
        _LabelledAnswer(
            run=run,
            sample=by_id[id_],
            is_labelled=is_any or answer_digest(by_id[id_]) == label.answer,
            has_points=by_id[id_].id in judged[run].by_id,
        )
        for run, by_id in enumerate(samples)
        if id_ in by_id
    ]


def _why_unused(
    answers: Sequence[_LabelledAnswer], judged: Sequence[JudgedSamples]
) -> _WhyUnused | None:
    """None if the label is of another answer to a sample without points, which is not a problem."""
    if not answers:
        return _WhyUnused("unknown_ids")
    labelled = next((answer for answer in answers if answer.is_labelled), None)
    if labelled is None:
        has_points = any(answer.has_points for answer in answers)
        return _WhyUnused("other_answers") if has_points else None
    without = judged[labelled.run].without
    reasons = (reason for reason, ids in without.items() if labelled.sample.id in ids)
    reason = next(reasons, "not part of the score")
    return _WhyUnused("left_out" if reason == "left_out" else "unscored", reason)


_UNUSED: Mapping[ProblemName, str] = {
    "unknown_ids": "of samples that are not in the run",
    "other_answers": "of other answers: of another model, or from before the run was repeated",
    "left_out": "of samples that the official script leaves out",
    "unscored": "of samples without points ({reason})",
}
_HINTS: Mapping[ProblemName, str] = {"unknown_ids": "check that labels and run are of one task"}


def _unused_problems(
    unused: Mapping[_WhyUnused, Sequence[str]], labelled: Collection[str]
) -> Iterator[Problem]:
    """One problem for each reason, without other answers to samples that are labelled."""
    for why, ids in unused.items():
        named = [id_ for id_ in ids if why.name != "other_answers" or id_ not in labelled]
        if named:
            what = _UNUSED[why.name].format(reason=why.reason)
            hint = _HINTS.get(why.name, "")
            yield problem_with_ids(why.name, "label", "are", what, named, hint)


def _scores(points: Sequence[Mapping[str, float]], percent: float) -> dict[str, float]:
    """The scores of a run; for two, the first less the second where both have one."""
    first, *second = points
    return {
        id_: percent * (first[id_] - sum(other[id_] for other in second))
        for id_ in first
        if all(id_ in other for other in second)
    }
