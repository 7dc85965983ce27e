"""A run's score, corrected with people's scores of a random sample of its answers.

Labels are matched to a run by sample and answer. They give a corrected score only where they are
the first ones of each stratum in the plan's order: then they are a random sample, and everything
else is a named problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

import numpy as np

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.tables import counted, short_name
from mmie_tasks.core.verdict import Scored
from mmie_tasks.quality.calibrate.estimate import (
    CorrectedMean,
    Estimate,
    Population,
    StratumScores,
    corrected_mean,
)
from mmie_tasks.quality.plan import JudgedSamples, judged_samples, strata_in_order, stratum_weights
from mmie_tasks.record.intervals import Floats
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.measures import (
    Measurement,
    alpha,
    measure,
    pearson,
    with_interval,
)
from mmie_tasks.results.labels import Label, answer_digest, id_in_csv, read_label_files
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.summary import metrics_of

ProblemName = Literal[
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
_NOT_RANDOM: tuple[ProblemName, ...] = ("hand_picked", "several_seeds", "gaps")
_SHOWN_IDS = 3
_ROUNDING = 1e-9
_WEAK = 0.3  # a correlation below it makes 100 labels worth 110 at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Labels that cannot be used, or why there is no corrected score.

    Attributes:
        name: What kind of problem.
        text: A sentence, with up to three ids.
        count: Of labels or samples.
        ids: Of the samples, all of them.
        hint: What to do about it; empty if nothing is to be done.
    """

    name: ProblemName
    text: str
    count: int
    ids: tuple[str, ...] = ()
    hint: str = ""

    @property
    def reason(self) -> str:
        """Why there is no corrected score; empty if the problem does not prevent it."""
        if self.name in _NOT_RANDOM:
            return f"not a random sample: {self.text}"
        return self.text if self.name == "no_score" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedScore:
    """The headline, or one stratum, in percent of full marks; of two runs everything is their
    difference.

    Attributes:
        name: Of the stratum; empty for the headline.
        samples: With points of the judge.
        labels: Samples with points of people.
        judge: The judge's mean over all samples, rounded as in the tables; None without samples.
        judge_on_labels: The judge's mean over the labelled samples alone, unweighted; None without
            labels.
        people_on_labels: People's mean over the same samples.
        mean: The estimates, in percent; None where labels are missing or not a random sample.
        why_not: Why there is no corrected score with an interval; empty if there is one.
    """

    name: str
    samples: int
    labels: int
    judge: float | None
    judge_on_labels: float | None
    people_on_labels: float | None
    mean: CorrectedMean | None
    why_not: str

    @property
    def corrected(self) -> Estimate | None:
        """The corrected score, in percent; None without an interval."""
        return self.mean.corrected if self.mean and not self.why_not else None

    @property
    def worth(self) -> str:
        """Whether the judge saves labels, in words; empty without an interval."""
        if self.mean is None or self.mean.labels_worth is None:
            return ""
        if self.mean.saves_labels:
            worth = f"{self.mean.labels_worth:,.0f}"
            return f"this judge makes {counted(self.labels, 'label')} worth {worth}"
        r = self.mean.correlation
        number = "not defined" if r is None else f"{r:.2f}"
        if r is None or r < _WEAK:
            why = "its scores say next to nothing about people's"
            return f"this judge saves no labels: {why} (r = {number})"
        return f"this judge saves no labels here (r = {number})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """How far people agree with each other: no judge can be expected to agree with them more.

    Attributes:
        raters: Their names, sorted.
        samples: That two or more of them scored.
        alpha: Krippendorff's, for interval data.
        correlation: Pearson's, of a rater with the mean of the others, averaged over raters; None
            where it is not defined.
    """

    raters: tuple[str, ...]
    samples: int
    alpha: Measurement
    correlation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherScore:
    """Whether another score of the same replies follows people better than the official one.

    Attributes:
        kind: Robust or expected.
        labels: Samples with this score, the official one and people's.
        correlation: Of this score with people's; None where it is not defined.
        official: Of the official score with people's, on the same samples.
        difference: This correlation less the official one.
    """

    kind: ScoreKind
    labels: int
    correlation: float | None
    official: float | None
    difference: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Everything that is computed of one task of a run, or of its difference to a baseline, with
    labels.

    Attributes:
        task: The task's name.
        title: The benchmark's.
        kind: Which score is corrected.
        population: What the intervals are for.
        seed: Of the plan; None if there is no single one.
        headline: The score.
        strata: One entry each; empty if there is one only.
        correlation: Pearson's, of the judge and people on all labels.
        rater_names: Everyone whose labels are used.
        raters: How far they agree; None with one rater.
        other_scores: The scores of this run that are not the official one.
        without: Why samples have no points and are in no mean here, to how many.
        problems: What could not be used, and why there is no corrected score.
    """

    task: str
    title: str
    kind: ScoreKind
    population: Population
    seed: int | None
    headline: CorrectedScore
    strata: tuple[CorrectedScore, ...]
    correlation: Measurement
    rater_names: tuple[str, ...]
    raters: RaterAgreement | None
    other_scores: tuple[OtherScore, ...]
    without: Mapping[str, int]
    problems: tuple[Problem, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no corrected headline, what it rests on (``100 labels by 2 raters``), and
        labels saved.
        """
        basis = (
            f"{counted(self.headline.labels, 'label')} by {counted(len(self.rater_names), 'rater')}"
        )
        notes = (self.headline.why_not, basis if self.rater_names else "", self.headline.worth)
        return tuple(filter(None, notes))

    @property
    def is_random_sample(self) -> bool:
        """Whether the labelled samples are the first ones of a plan."""
        return not any(problem.name in _NOT_RANDOM for problem in self.problems)


Ratings: TypeAlias = Mapping[str, Mapping[str, float]]
"""Sample id to the points of each rater."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MatchedLabels:
    """The labels of some runs: `ratings` has one entry per run; `labels` are those that are
    used.
    """

    ratings: tuple[Ratings, ...]
    labels: tuple[Label, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """Percent by sample, of one run or of a difference: of the judge, and of people on the labelled
    samples.
    """

    strata: Mapping[str, str]
    judge: Mapping[str, float]
    people: Mapping[str, float]


def correct(
    task_run: TaskRun,
    labels: Sequence[Label],
    kind: ScoreKind = "official",
    population: Population = "run",
    *,
    baseline: TaskRun | None = None,
) -> Correction:
    """Correct a task's headline, and each stratum of it, or its difference to that of a baseline.

    A difference is over the samples that both runs have points for. Labelled are those whose
    answers of both runs have labels; an answer that both gave counts for both.

    Args:
        task_run: One task of a run that a judge scored.
        labels: People's scores, of any runs.
        kind: The score to correct.
        population: What the intervals are for.
        baseline: The same task of another run, whose points are subtracted; None for the score
            itself.
    """
    runs = [task_run, baseline] if baseline else [task_run]
    judged = [judged_samples(run, kind) for run in runs]
    matched = _match(runs, judged, labels)
    scores = _scores(judged, matched.ratings, 100 / task_run.benchmark.scale.full_marks)
    problems = [*matched.problems, *_sample_problems(scores, matched.labels)]
    weights = stratum_weights(metrics_of(runs)[0], list(scores.strata.values()))
    absent = [
        f"no sample of {name} has a score in both runs"
        for name in weights
        if name not in scores.strata.values()
    ]
    if why_not := next(filter(None, [*(run.why_not for run in judged), *absent]), ""):
        problems.append(
            Problem(name="no_score", text=f"there is no score to correct: {why_not}", count=0)
        )
    blocked = next((problem.reason for problem in problems if problem.reason), "")
    strata = _stratum_scores(scores, weights)
    rows = [_corrected_score("", strata, population, blocked)]
    if len(strata) > 1:
        rows += [
            _corrected_score(s.name, [replace(s, weight=1.0)], population, blocked) for s in strata
        ]
    if not baseline:
        rows = [
            replace(row, judge=_as_in_tables(row.judge, task_run.benchmark.scale)) for row in rows
        ]
    if rows[0].why_not and not blocked and matched.labels:
        hint = "`mmie-tasks calibrate RUN --people FILE --plan N -o more.csv` extends the plan"
        problems.append(
            Problem(name="too_few", text=rows[0].why_not, count=rows[0].labels, hint=hint)
        )
    seeds = {label.seed for label in matched.labels}
    percent = replace(task_run.benchmark.scale, full_marks=100)
    reasons = dict.fromkeys(reason for run in judged for reason in run.without)
    ids = sorted(scores.people)
    pairs = _points(scores.judge, ids), _points(scores.people, ids)
    return Correction(
        task=task_run.task,
        title=task_run.benchmark.title,
        kind=kind,
        population=population,
        seed=next(iter(seeds)) if len(seeds) == 1 else None,
        headline=rows[0],
        strata=tuple(rows[1:]),
        correlation=measure(*pairs, ["pearson"], percent)["pearson"],
        rater_names=tuple(sorted({label.rater for label in matched.labels})),
        raters=_rater_agreement(matched.labels, task_run.benchmark.scale),
        other_scores=() if baseline else tuple(_other_scores(task_run, scores.people)),
        without={
            reason: sum(len(run.without.get(reason, ())) for run in judged) for reason in reasons
        },
        problems=tuple(problems),
    )


def _scores(judged: Sequence[JudgedSamples], ratings: Sequence[Ratings], factor: float) -> _Scores:
    """The percentages of a run; of two, the first less the second where both have points."""
    judge = [{id_: sample.points * factor for id_, sample in run.by_id.items()} for run in judged]
    people = [
        {
            id_: factor * sum(by_rater.values()) / len(by_rater)
            for id_, by_rater in by_sample.items()
        }
        for by_sample in ratings
    ]
    strata = {
        id_: sample.stratum
        for id_, sample in judged[0].by_id.items()
        if all(id_ in run for run in judge)
    }
    if len(judged) == 1:
        return _Scores(strata=strata, judge=judge[0], people=people[0])
    shared = [id_ for id_ in strata if all(id_ in run for run in people)]
    return _Scores(
        strata=strata,
        judge={id_: judge[0][id_] - judge[1][id_] for id_ in strata},
        people={id_: people[0][id_] - people[1][id_] for id_ in shared},
    )


def _as_in_tables(percent: float | None, scale: Scale) -> float | None:
    return None if percent is None else scale.percent(percent * scale.full_marks / 100)


def _match(
    task_runs: Sequence[TaskRun], judged: Sequence[JudgedSamples], labels: Iterable[Label]
) -> _MatchedLabels:
    """Match labels to the answers of runs by sample and digest; a label without digest, by sample
    to a single run.
    """
    samples = [
        {id_in_csv(sample.id): sample for sample in task_run.samples} for task_run in task_runs
    ]
    reasons = {id_: reason for run in judged for reason, ids in run.without.items() for id_ in ids}
    ratings: list[defaultdict[str, dict[str, float]]] = [defaultdict(dict) for _ in task_runs]
    used: list[Label] = []
    unused: defaultdict[tuple[ProblemName, str], list[str]] = defaultdict(list)
    for label in labels:
        if label.points is None:
            continue
        logged = [
            (run, by_id[key])
            for run, by_id in enumerate(samples)
            if (key := id_in_csv(label.id)) in by_id
        ]
        answers = [
            (run, s)
            for run, s in logged
            if label.answer in (answer_digest(s), "" if len(samples) == 1 else None)
        ]
        scored = [(run, sample) for run, sample in answers if sample.id in judged[run].by_id]
        for run, sample in scored:
            ratings[run][sample.id][label.rater] = label.points
        if scored:
            used.append(label)
        elif answers:
            reason = reasons.get(answers[0][1].id, "not part of the score")
            unused["left_out" if reason == "left_out" else "unscored", reason].append(label.id)
        else:
            unused["other_answers" if logged else "unknown_ids", ""].append(label.id)
    problems = []
    for (name, reason), ids in unused.items():
        hint = "check that labels and run are of one task" if name == "unknown_ids" else ""
        problems.append(_problem(name, "label", _UNUSED[name].format(reason=reason), ids, hint))
    return _MatchedLabels(ratings=tuple(ratings), labels=tuple(used), problems=tuple(problems))


def _problem(
    name: ProblemName, noun: str, what: str, ids: Sequence[str], hint: str = ""
) -> Problem:
    """A problem with the first ids."""
    verb = what.replace("are ", "is ", 1).replace("have ", "has ", 1) if len(ids) == 1 else what
    distinct = tuple(dict.fromkeys(ids))
    more = ["..."] if len(distinct) > _SHOWN_IDS else []
    shown = ", ".join([*map(short_name, distinct[:_SHOWN_IDS]), *more])
    text = f"{counted(len(ids), noun)} {verb}: {shown}"
    return Problem(name=name, text=text, count=len(ids), ids=distinct, hint=hint)


def _sample_problems(scores: _Scores, labels: Sequence[Label]) -> list[Problem]:
    """Why the labelled samples are not the first ones of each stratum in the order of a plan."""
    problems = []
    if hand_picked := [label.id for label in labels if label.seed is None or not label.answer]:
        hint = "`mmie-tasks calibrate RUN --plan 100 -o people.csv` draws a random sample"
        what = "are not of a plan, as they have no seed or do not say of which answer they are"
        problems.append(_problem("hand_picked", "label", what, hand_picked, hint))
    seeds = sorted({label.seed for label in labels if label.seed is not None})
    if len(seeds) > 1:
        text = f"the labels are of plans with different seeds: {', '.join(map(str, seeds))}"
        problems.append(
            Problem(
                name="several_seeds", text=text, count=len(seeds), hint="use the labels of one plan"
            )
        )
    if problems or not seeds:
        return problems
    gaps: list[str] = []
    plan_size = 0
    for ids in strata_in_order(scores.strata, seeds[0]).values():
        labelled = [rank for rank, id_ in enumerate(ids) if id_ in scores.people]
        missing = (
            [id_ for id_ in ids[: labelled[-1]] if id_ not in scores.people] if labelled else []
        )
        gaps += missing
        if missing:
            plan_size = max(plan_size, ceil((labelled[-1] + 1) * len(scores.strata) / len(ids)))
    if gaps:
        hint = (
            f"`mmie-tasks calibrate RUN --people FILE --plan {plan_size} -o more.csv` writes a "
            "page of the missing ones"
        )
        problems.append(
            _problem("gaps", "sample", "have no label, unlike later ones of the plan", gaps, hint)
        )
    return problems


def _points(points: Mapping[str, float], ids: Sequence[str]) -> Floats:
    return np.array([points[id_] for id_ in ids], dtype=np.float64)


def _stratum_scores(scores: _Scores, weights: Mapping[str, float]) -> list[StratumScores]:
    """The strata that have samples."""
    ids_by_stratum: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in sorted(scores.strata):
        ids_by_stratum[scores.strata[id_]].append(id_)
    strata = []
    for name, weight in weights.items():
        if ids := ids_by_stratum[name]:
            labelled = np.array(
                [index for index, id_ in enumerate(ids) if id_ in scores.people], dtype=np.int64
            )
            people = _points(scores.people, [ids[index] for index in labelled])
            judge = _points(scores.judge, ids)
            strata.append(
                StratumScores(
                    name=name, weight=weight, judge=judge, labelled=labelled, people=people
                )
            )
    return strata


def _corrected_score(
    name: str, strata: Sequence[StratumScores], population: Population, blocked: str
) -> CorrectedScore:
    """The score of some strata; `blocked` is why there can be no estimate."""
    judge = np.concatenate([np.empty(0), *(stratum.judge[stratum.labelled] for stratum in strata)])
    people = np.concatenate([np.empty(0), *(stratum.people for stratum in strata)])
    is_whole = abs(sum(stratum.weight for stratum in strata) - 1) < _ROUNDING
    mean = corrected_mean(strata, population) if is_whole else None
    blocked = blocked or ("" if people.size else "no sample has the labels that it needs")
    return CorrectedScore(
        name=name,
        samples=sum(len(stratum.judge) for stratum in strata),
        labels=people.size,
        judge=mean.judge if mean else None,
        judge_on_labels=float(judge.mean()) if judge.size else None,
        people_on_labels=float(people.mean()) if people.size else None,
        mean=None if blocked or not mean or np.isnan(mean.corrected.value) else mean,
        why_not=blocked or (mean.corrected.why_not if mean else "no samples"),
    )


def _rater_agreement(labels: Sequence[Label], scale: Scale) -> RaterAgreement | None:
    raters = sorted({label.rater for label in labels})
    if len(raters) < 2:
        return None
    answers = {
        key: row for row, key in enumerate(sorted({(label.id, label.answer) for label in labels}))
    }
    points = np.full((len(answers), len(raters)), np.nan)
    for label in labels:
        points[answers[label.id, label.answer], raters.index(label.rater)] = label.points
    several = points[np.isfinite(points).sum(axis=1) > 1]
    correlations = []
    for rater in range(len(raters)):
        rated = several[np.isfinite(several[:, rater])]
        others = np.delete(rated, rater, axis=1)
        if len(rated) < 2:
            continue
        means = np.nanmean(others, axis=1)
        if np.ptp(rated[:, rater]) and np.ptp(means):
            correlations.append(float(np.corrcoef(rated[:, rater], means)[0, 1]))
    return RaterAgreement(
        raters=tuple(raters),
        samples=len(several),
        alpha=alpha(points, "interval", scale),
        correlation=sum(correlations) / len(correlations) if correlations else None,
    )


def _other_scores(task_run: TaskRun, people: Mapping[str, float]) -> Iterator[OtherScore]:
    """The robust and the expected score, each if the labelled samples have it and it is not the
    official one.
    """
    labelled = [sample for sample in task_run.samples if sample.id in people]
    kinds: tuple[ScoreKind, ...] = ("robust", "expected")
    for kind in kinds:
        full_marks = task_run.benchmark.scale.full_marks
        verdicts = [
            (people[s.id] * full_marks / 100, s.official, s.verdict(kind)) for s in labelled
        ]
        points = [
            (human, official.points, other.points)
            for human, official, other in verdicts
            if isinstance(official, Scored) and isinstance(other, Scored)
        ]
        if all(official == other for _, official, other in points):
            continue
        rows = np.array(points, dtype=np.float64).reshape(-1, 3)
        scale = task_run.benchmark.scale
        of_official, of_other = (
            measure(rows[:, column], rows[:, 0], ["pearson"], scale)["pearson"] for column in (1, 2)
        )
        difference = Measurement(why_not=of_official.why_not or of_other.why_not)
        if of_official.value is not None and of_other.value is not None:
            difference = with_interval(
                lambda r: pearson(r[:, 2], r[:, 0]) - pearson(r[:, 1], r[:, 0]),
                rows,
                scale.full_marks,
                "difference",
            )
        yield OtherScore(
            kind=kind,
            labels=len(rows),
            correlation=of_other.value,
            official=of_official.value,
            difference=difference,
        )


def labels_by_benchmark(
    words: Sequence[str], task_runs: Iterable[TaskRun]
) -> dict[str, tuple[Label, ...]]:
    """People's scores of several files, by the name of the benchmark whose samples they are of.

    Args:
        words: ``PATH`` or ``NAME=PATH`` of CSV files, each with labels of one benchmark.
        task_runs: Of any runs; those that no judge scored do not count.

    Raises:
        AnswersUnusable: A file cannot be read, or has no label of a sample of these runs.
    """
    ids: defaultdict[str, set[str]] = defaultdict(set)
    benchmarks = {}
    for task_run in (run for run in task_runs if run.benchmark.judge is not None):
        benchmarks[task_run.benchmark.name] = task_run.benchmark
        ids[task_run.benchmark.name] |= {id_in_csv(sample.id) for sample in task_run.samples}
    words_by_benchmark: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        labels = read_label_files([word], None)
        known = {
            name: sum(id_in_csv(label.id) in own for label in labels) for name, own in ids.items()
        }
        name = max(known, key=lambda name: known[name], default="")
        if not known.get(name):
            message = f"`{word}` has no label of a sample that a judge scored in these runs."
            raise AnswersUnusable(
                message, hint="name the labels of these runs: `--people people.csv`"
            )
        words_by_benchmark[name].append(word)
    return {
        name: read_label_files(own, benchmarks[name].scale)
        for name, own in words_by_benchmark.items()
    }
