"""Ratings to compare: points of judges, from logs of runs, and of people, from CSV files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names
from mmie_tasks.core.bootstrap import Floats, Indices
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.results.commands import open_run, require_kind
from mmie_tasks.results.people import answer_digest, read_labels
from mmie_tasks.runs.benchmark import Benchmark, LoggedSample, Scale, ScoreKind
from mmie_tasks.runs.log_files import NamedPath, Run, TaskRun, numbered_names, split_name
from mmie_tasks.runs.summary import judge_of

_DIGITS = 9  # points are rounded to this many decimals: two ways to one fraction are equal


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
    signatures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """All raters of one task.

    Attributes:
        task: The rated task.
        benchmark: That the task belongs to.
        raters: In the order of the command line; two at least.
    """

    task: str
    benchmark: Benchmark
    raters: tuple[Rater, ...]


def read_ratings(sources: Sequence[str], task: str | None, score_kind: ScoreKind) -> Ratings:
    """Read every rater that the command line names.

    Args:
        sources: ``PATH`` or ``NAME=PATH``, of runs and CSV files.
        task: The task to compare; may be None where the runs have one in common.
        score_kind: Which score of the replies is a judge's points.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: There are fewer than two raters, or it is not clear of which task.
    """
    opened: list[NamedPath | Run] = []
    for word in sources:
        named = split_name(word)
        if named.path.suffix.lower() in (".csv", ".tsv"):
            opened.append(NamedPath(named.name or named.path.stem, named.path))
        else:
            opened.append(open_run(word, [task] if task else []))
    runs = [source for source in opened if isinstance(source, Run)]
    task_runs = _task_runs(runs, task)
    benchmark = task_runs[0].benchmark if task_runs else _benchmark_of(task)
    judges = iter([_judge(run, task_run, score_kind) for run, task_run in zip(runs, task_runs, strict=True)])
    raters: list[Rater] = []
    for source in opened:
        raters += [next(judges)] if isinstance(source, Run) else _people(source, benchmark.scale, task_runs)
    if len(raters) < 2:
        message = f"Agreement needs two raters or more, and `{raters[0].name}` is the only one."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    task_name = task_runs[0].task if task_runs else task or ""
    return Ratings(task=task_name, benchmark=benchmark, raters=_with_unique_names(raters))


def _task_runs(runs: Sequence[Run], task: str | None) -> list[TaskRun]:
    """The task to compare in each run.

    Runs with one task each may have different ones of one benchmark: ``mmie`` contains ``mmie_sa``.
    """
    common = set.intersection(*(set(run.tasks) for run in runs)) if runs else set()
    if task in common or len(common) == 1:
        name = task if task in common else common.pop()
        return [run.tasks[name or ""] for run in runs]
    single = [next(iter(run.tasks.values())) for run in runs if len(run.tasks) == 1]
    if len(single) == len(runs) and len({task_run.benchmark.name for task_run in single}) <= 1:
        return single
    if common:
        names = ", ".join(sorted(common))
        message = f"The runs have {len(common)} tasks in common: {names}."
        raise SettingWrong(message, hint=f"choose one with `--task {min(common)}`")
    tasks = "; ".join(f"`{run.name}` has {', '.join(run.tasks)}" for run in runs)
    raise SettingWrong(f"The runs have no task in common: {tasks}.", hint="name runs of one task")


def _benchmark_of(task: str | None) -> Benchmark:
    benchmark = benchmark_of_task(task) if task else None
    if benchmark is None:
        unknown = f"`{task}` is not a task of a registered benchmark"
        raise SettingWrong(
            f"The scale of the scores is not known: {unknown if task else 'there is no run of a task'}.",
            hint=f"add `--task`; task names begin with {entry_names(entries())}",
        )
    return benchmark


def _judge(run: Run, task_run: TaskRun, score_kind: ScoreKind) -> Rater:
    require_kind(task_run, run.name, score_kind)
    verdicts = {sample.id: sample.verdict(score_kind) for sample in task_run.samples}
    return Rater(
        name=run.name,
        kind="judge",
        party=run.name,
        source=task_run.log,
        points={i: round(float(v.points), _DIGITS) for i, v in verdicts.items() if isinstance(v, Scored)},
        unscored={i: v.reason for i, v in verdicts.items() if isinstance(v, Unscored)},
        samples=task_run.by_id,
        signatures=task_run.signatures,
        notes=(*run.notes, *task_run.notes),
    )


def _people(source: NamedPath, scale: Scale, task_runs: Sequence[TaskRun]) -> Iterator[Rater]:
    """The people of a CSV; their scores of other answers than those of the runs do not count."""
    labels = [label for label in read_labels(source.path, scale, source.name) if label.rater]
    by_id = [task_run.by_id for task_run in task_runs]
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for id_ in {label.id for label in labels if label.answer}:
        answers[id_] = {answer_digest(samples[id_]) for samples in by_id if id_ in samples}
    points: defaultdict[str, dict[str, float]] = defaultdict(dict)
    unscored: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for label in labels:
        if label.answer and answers[label.id] and label.answer not in answers[label.id]:
            unscored[label.rater][label.id] = "of another answer"
        elif label.points is None:
            unscored[label.rater][label.id] = "left empty"
        elif label.id in points[label.rater]:
            message = f"`{source.path}`, line {label.line}: {label.rater} scored two answers of the sample {label.id}."
            raise AnswersUnusable(message, hint="name the run whose answers are compared; `calibrate` takes two runs")
        else:
            points[label.rater][label.id] = round(label.points, _DIGITS)
    for person in dict.fromkeys(label.rater for label in labels):
        yield Rater(
            name=person,
            kind="person",
            party=source.name,
            source=source.path,
            points=points[person],
            unscored={id_: why for id_, why in unscored[person].items() if id_ not in points[person]},
        )


def _with_unique_names(raters: Sequence[Rater]) -> tuple[Rater, ...]:
    """Raters of one name are distinguished by the judge's model, else by a number."""
    names = []
    for rater in raters:
        models = [_model(other) for other in raters if other.name == rater.name]
        has_own_model = len(models) > 1 and len(set(models)) == len(models) and _model(rater)
        names.append(f"{rater.name} by {_model(rater)}" if has_own_model else rater.name)
    return tuple(replace(rater, name=name) for rater, name in zip(raters, numbered_names(names), strict=True))


def _model(rater: Rater) -> str:
    """The judge's model or the panel, from the first signature of a log; empty where it has none."""
    return judge_of("".join(rater.signatures[:1]))


@dataclass(frozen=True, slots=True, eq=False)
class RatingRows:
    """Distinct rows of ratings, of samples that two raters or more have rated.

    Attributes:
        points: Shape ``(rows, raters)``, in ascending order; NaN where a rater has none.
        counts: How many samples have this row; shape ``(rows,)``.
    """

    points: Floats
    counts: Indices

    @property
    def samples(self) -> int:
        """How many samples the rows stand for."""
        return int(self.counts.sum())

    @property
    def judge(self) -> Floats:
        """Points of the first rater."""
        return self.points[:, 0]

    @property
    def reference(self) -> Floats:
        """Points of the second rater."""
        return self.points[:, 1]

    @property
    def by_sample(self) -> Floats:
        """One column per sample; shape ``(raters, samples)``."""
        return np.repeat(self.points.T, self.counts, axis=1)

    @property
    def rounded(self) -> RatingRows:
        """With points rounded to whole numbers, halves to the even one."""
        return RatingRows(np.rint(self.points), self.counts)


def rating_rows(*raters: Floats) -> RatingRows:
    """The rows of the samples that two raters or more have rated.

    Args:
        raters: Points of each, one entry per sample; NaN where there are none.
    """
    points = np.column_stack(raters)
    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    filled = np.where(np.isfinite(rated), rated, -np.inf)  # NaN is not equal to NaN
    distinct, counts = np.unique(filled, axis=0, return_counts=True)
    return RatingRows(np.where(np.isfinite(distinct), distinct, np.nan), counts)
