"""People's scores matched to the answers of runs; what does not match is a named problem."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.quality.calibrate.judged_samples import JudgedSamples
from mmie_tasks.quality.calibrate.problems import Problem, ProblemName, problem_with_ids
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.results.labels import Label, answer_digest, id_in_csv
from mmie_tasks.runs.run import TaskRun

Ratings: TypeAlias = Mapping[str, Mapping[str, float]]
"""Rater to sample id to the rater's score; NaN where the answer cannot be rated."""


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


@dataclass(frozen=True, slots=True)
class _WhyUnused:
    """Why a label is not used, and why its sample has no points, if that is why."""

    name: ProblemName
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LabelledAnswer:
    """The answer of a run to the sample of a label.

    Attributes:
        run: Position of the run.
        sample: The answered sample.
        is_labelled: Whether the label is of this answer.
        has_points: Whether the judge's points of it are part of the run's score.
    """

    run: int
    sample: LoggedSample
    is_labelled: bool
    has_points: bool


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
    """The answers of the runs to a label's sample; of a single run, a label without digest is of
    its answer.
    """
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
    """Why a label is not used, none of whose answers has points; None if that is no problem, as it
    is of another answer to a sample without points.
    """
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
    """A problem for each reason why labels are not used, with their ids; not for labels of other
    answers to a sample that has a label of the run's answer.
    """
    for why, ids in unused.items():
        named = [id_ for id_ in ids if why.name != "other_answers" or id_ not in labelled]
        if named:
            what = _UNUSED[why.name].format(reason=why.reason)
            hint = _HINTS.get(why.name, "")
            yield problem_with_ids(why.name, "label", "are", what, named, hint)


def _scores(points: Sequence[Mapping[str, float]], percent: float) -> dict[str, float]:
    """The scores of a run; of two, the first less the second where both have one."""
    first, *second = points
    return {
        id_: percent * (first[id_] - sum(other[id_] for other in second))
        for id_ in first
        if all(id_ in other for other in second)
    }
