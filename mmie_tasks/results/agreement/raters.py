"""The raters that `mmie-tasks agreement` compares, from logs of runs and CSV files of people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.tables import numbered_names
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.intervals import Floats
from mmie_tasks.record.log_files import NamedPath, split_name
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.sample import LoggedSample, ScoreKind
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.commands import open_run, require_kind
from mmie_tasks.results.labels import answer_digest, read_labels
from mmie_tasks.runs.run import Run, TaskRun

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


def read_panel(sources: Sequence[str], task: str | None, score_kind: ScoreKind) -> RaterPanel:
    """Read every rater that the command line names, ``PATH`` or ``NAME=PATH`` of runs and CSV
    files, and align them.

    The task may be None where the runs have one in common. `score_kind` says which score of the
    replies is a judge's points.

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
    judges = (_judge(*pair, score_kind) for pair in zip(runs, task_runs, strict=True))
    raters: list[Rater] = []
    for source, is_file in zip(named, is_csv, strict=True):
        raters += _people(source, benchmark.scale, task_runs) if is_file else [next(judges)]
    if len(raters) < 2:
        message = f"Agreement needs two raters or more, and `{raters[0].name}` is the only one."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    task_name = task_runs[0].task if task_runs else task or ""
    return _panel(task_name, benchmark, _with_unique_names(raters))


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


def _judge(run: Run, task_run: TaskRun, score_kind: ScoreKind) -> Rater:
    require_kind(task_run, run.name, score_kind)
    verdicts = {sample.id: sample.verdict(score_kind) for sample in task_run.samples}
    return Rater(
        name=run.name,
        kind="judge",
        party=run.name,
        source=task_run.log,
        points={i: round(v.points, _DIGITS) for i, v in verdicts.items() if isinstance(v, Scored)},
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
            of_rater[label.id] = round(label.points, _DIGITS)
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

    def column(self, name: str) -> Floats:
        """The points of a rater, or a mean; shape ``(samples,)``."""
        column: Floats = (self.means if name in self.members else self.points)[name].to_numpy()
        return column


def _panel(task: str, benchmark: Benchmark, raters: tuple[Rater, ...]) -> RaterPanel:
    """Align the points of all raters by sample."""
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
            "tested models",
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
            {name: points[people].mean(axis=1).round(_DIGITS) for name, people in members.items()}
        ),
        members=members,
        other_answers=len(differing),
        unseen_answers=len(unseen - differing),
        in_one_only=len(times) - len(shared),
        samples={id_: s for r in reversed(raters) for id_, s in r.samples.items()},
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
            sample, second_sample = judge.samples[id_], second.samples[id_]
            if not sample.answer or not second_sample.answer:
                unseen.add(id_)
            elif sample.answer != second_sample.answer and answer_digest(sample) != answer_digest(
                second_sample
            ):
                differing.add(id_)
    return differing, unseen
