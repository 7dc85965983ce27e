"""Reads the raters that ``mmie-tasks agreement`` compares, from runs and CSV files of people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.core.wording import numbered_names
from mmie_tasks.record.log_files import NamedPath, split_name
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.rater_panel import (
    POINTS_DIGITS,
    Rater,
    RaterPanel,
    aligned_panel,
    same_answer,
)
from mmie_tasks.results.commands import open_run, require_kind
from mmie_tasks.results.comparability import signature_differences
from mmie_tasks.results.labels import answer_digest, read_labels
from mmie_tasks.runs.panels import judge_runs
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.runs.values import metrics_of


def read_raters(sources: Sequence[str], task: str | None, score_kind: ScoreKind) -> RaterPanel:
    """Read every rater that the command line names, ``PATH`` or ``NAME=PATH`` of runs and CSV
    files, and align them.

    The raters of a panel's run are its judges if no other rater is named. The task may be None
    where the runs have one in common. `score_kind` says which score of the replies is a judge's
    points.

    Raises:
        AnswersUnusable: A run or CSV cannot be read, no sample is in two of them, or all those were
            judged on different answers.
        SettingWrong: There are fewer than two raters, or it is not clear of which task.
    """
    named = [split_name(word) for word in sources]
    is_csv = [source.path.suffix.lower() in (".csv", ".tsv") for source in named]
    words = [word for word, is_file in zip(sources, is_csv, strict=True) if not is_file]
    runs = [open_run(word, [task] if task else []) for word in words]
    task_runs = _task_runs(runs, task)
    benchmark = task_runs[0].benchmark if task_runs else _benchmark_of(task)
    judges = _judges(runs, task_runs, score_kind, is_alone=len(named) == 1)
    other_runs = _other_runs(judges, others=is_csv.count(True)) if len(named) > 1 else {}
    compared = [task_run for i, task_run in enumerate(task_runs) if i not in other_runs]
    raters: list[Rater] = []
    positions: list[int] = []  # of the judges
    for source, is_file in zip(named, is_csv, strict=True):
        if is_file:
            raters += _people(source, benchmark.scale, compared)
        else:
            positions.append(len(raters))
            raters.append(judges[len(positions) - 1])
    raters += judges[len(positions) :]  # of a panel's run alone
    if len(raters) < 2:
        message = f"Agreement needs two raters or more, and `{raters[0].name}` is the only one."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    unique = _with_unique_names(raters)
    runs_of: defaultdict[str, list[Rater]] = defaultdict(list)
    for run, judge in other_runs.items():
        runs_of[unique[positions[judge]].name].append(unique[positions[run]])
    left_out = {positions[run] for run in other_runs}
    return aligned_panel(
        task_runs[0].task if task_runs else task or "",
        benchmark,
        metrics_of(task_runs)[0] if task_runs else benchmark.metrics[0],
        tuple(rater for i, rater in enumerate(unique) if i not in left_out),
        runs_of,
    )


def _judges(
    runs: Sequence[Run], task_runs: Sequence[TaskRun], score_kind: ScoreKind, *, is_alone: bool
) -> list[Rater]:
    """A rater for each run; the judges of a panel if its run is the only source."""
    members = judge_runs(task_runs[0]) if is_alone and task_runs else {}
    if members:
        return [_judge(name, runs[0], member, score_kind) for name, member in members.items()]
    return [
        _judge(run.name, run, of_run, score_kind)
        for run, of_run in zip(runs, task_runs, strict=True)
    ]


def _other_runs(judges: Sequence[Rater], others: int) -> dict[int, int]:
    """The runs with answers that no other run has, by index, to the first run that was judged
    alike; none if that leaves a single source, with this many others. Where all are such runs,
    people may have rated the first.
    """
    pairs = combinations(range(len(judges)), 2)
    compared = {i for pair in pairs if _have_same_answers(*(judges[i] for i in pair)) for i in pair}
    compared = compared or {0}
    other_runs = {
        i: min(alike)
        for i, run in enumerate(judges)
        if i not in compared and (alike := {j for j in compared if _judged_alike(run, judges[j])})
    }
    return other_runs if len(judges) + others - len(other_runs) > 1 else {}


def _have_same_answers(a: Rater, b: Rater) -> bool:
    """Whether most samples of both have the same answer, as far as the logs hold it."""
    same = [same_answer(sample, b.samples[i]) for i, sample in a.samples.items() if i in b.samples]
    return len(same) > 0 and same.count(False) <= len(same) / 2


def _judged_alike(a: Rater, b: Rater) -> bool:
    """Whether the signatures of their points, if there are any, allow a comparison."""
    signatures = [{rater.samples[id_].signature for id_ in rater.points} for rater in (a, b)]
    return all(map(any, signatures)) and not signature_differences(*signatures)


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
    tasks = "; ".join(f"`{run.name}` has {', '.join(run.tasks)}" for run in runs)
    problem = f"{len(common) or 'no'} tasks in common"
    hint = f"choose one with `--task {min(common)}`" if common else "name runs of one task"
    raise SettingWrong(f"The runs have {problem}: {tasks}.", hint=hint)


def _benchmark_of(task: str | None) -> Benchmark:
    benchmark = benchmark_of_task(task) if task else None
    if benchmark is None:
        problem = (
            f"`{task}` is not a task of a registered benchmark" if task else "no task is named"
        )
        raise SettingWrong(
            f"The scale of the scores is not known: {problem}.",
            hint=f"add `--task`; task names begin with {entry_names(entries())}",
        )
    return benchmark


def _judge(name: str, run: Run, task_run: TaskRun, score_kind: ScoreKind) -> Rater:
    require_kind(task_run, name, score_kind)
    verdicts = {sample.id: sample.verdict(score_kind) for sample in task_run.samples}
    return Rater(
        name=name,
        kind="judge",
        party=name,
        source=task_run.log,
        points={
            i: round(v.points, POINTS_DIGITS) for i, v in verdicts.items() if isinstance(v, Scored)
        },
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
        of_rater = points[label.rater]
        if label.answer and answers[label.id] and label.answer not in answers[label.id]:
            unscored[label.rater][label.id] = "of another answer"
        elif label.points is None:
            unscored[label.rater][label.id] = "left empty"
        elif label.id in of_rater:
            scored = f"{label.rater} scored two answers of the sample {label.id}"
            raise AnswersUnusable(
                f"`{source.path}`, line {label.line}: {scored}.",
                hint="name the run whose answers are compared; `calibrate` takes two runs",
            )
        else:
            of_rater[label.id] = round(label.points, POINTS_DIGITS)
    for person, scores in points.items():
        yield Rater(
            name=person,
            kind="person",
            party=source.name or source.path.stem,
            source=source.path,
            points=scores,
            unscored={i: why for i, why in unscored[person].items() if i not in scores},
        )


def _with_unique_names(raters: Sequence[Rater]) -> tuple[Rater, ...]:
    """Raters of one name are distinguished by the judge's model, else by a number."""
    models = [rater.signatures[0].name if rater.signatures else "" for rater in raters]
    models_of: defaultdict[str, list[str]] = defaultdict(list)
    for rater, model in zip(raters, models, strict=True):
        models_of[rater.name].append(model)
    by_model = {
        name for name, judges in models_of.items() if len(set(filter(None, judges))) == len(judges)
    }
    unique = numbered_names(
        [
            f"{rater.name} by {model}"
            if rater.name in by_model and len(models_of[rater.name]) > 1
            else rater.name
            for rater, model in zip(raters, models, strict=True)
        ]
    )
    return tuple(replace(rater, name=name) for rater, name in zip(raters, unique, strict=True))
