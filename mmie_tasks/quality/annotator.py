"""Adds scores corrected by people to tables and reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.quality.calibrate.correct import correct
from mmie_tasks.quality.calibrate.estimate import Population
from mmie_tasks.results.annotation import Annotation
from mmie_tasks.results.arguments import IntervalsOf
from mmie_tasks.results.labels import Label, id_in_csv, read_label_files
from mmie_tasks.results.render import Cell
from mmie_tasks.runs.run import Run, TaskRun

_INTERVAL_NOTES: Mapping[Population | None, str] = {
    None: "The intervals hold the sampling error only, not the judge's error.",
    "larger": (
        "Only the intervals of scores that are corrected by people hold the judge's error too."
    ),
    "run": "Corrected scores, and their intervals, are for the samples of these runs only.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityAnnotator:
    """Implements `mmie_tasks.results.annotation.Annotator`; labels are by benchmark."""

    labels: Mapping[str, Sequence[Label]]
    population: Population

    @property
    def corrected_benchmarks(self) -> frozenset[str]:
        """Names of the benchmarks with labels."""
        return frozenset(self.labels)

    @property
    def interval_note(self) -> str:
        """Which errors the intervals of judged scores include."""
        return _INTERVAL_NOTES[self.population if self.labels else None]

    def annotation(self, task_run: TaskRun) -> Annotation:
        """The headline of a task, corrected with the labels."""
        labels = self.labels.get(task_run.benchmark.name)
        if not labels:
            return Annotation()
        correction = correct(task_run, labels, population=self.population)
        score, estimate = correction.headline, correction.headline.corrected
        corrected = Cell(
            percent=estimate.value if estimate else None,
            interval=estimate.interval if estimate else None,
            scored=score.labels,
            total=score.samples,
            notes=correction.notes,
        )
        return Annotation(corrected=corrected)


def open_annotator(
    runs: Sequence[Run], people: Sequence[str], population: IntervalsOf = "larger"
) -> QualityAnnotator:
    """Implements `mmie_tasks.results.annotation.OpenAnnotator`.

    `people` names files of scores, ``PATH`` or ``NAME=PATH``.

    Raises:
        AnswersUnusable: A file cannot be read, or has no label of a sample of these runs.
        SettingWrong: The population is ``run``, and no file of scores is given.
    """
    if population == "run" and not people:
        raise SettingWrong(
            "`--population run` is about corrected scores, and no `--people` corrects one.",
            hint=f"add `--people people.csv`, see `{as_called('mmie-tasks calibrate')}`",
        )
    task_runs = [task_run for run in runs for task_run in run.tasks.values()]
    return QualityAnnotator(labels=labels_by_benchmark(people, task_runs), population=population)


def labels_by_benchmark(
    words: Sequence[str], task_runs: Iterable[TaskRun]
) -> dict[str, tuple[Label, ...]]:
    """People's scores by benchmark: a file belongs to the one that has most of its samples.

    Raises `AnswersUnusable` if a file cannot be read, or has no label of a judged sample.
    """
    ids: defaultdict[str, set[str]] = defaultdict(set)
    scales = {}
    for task_run in (run for run in task_runs if run.benchmark.judge is not None):
        scales[task_run.benchmark.name] = task_run.benchmark.scale
        ids[task_run.benchmark.name] |= {id_in_csv(sample.id) for sample in task_run.samples}
    words_by_benchmark: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        labelled = [id_in_csv(label.id) for label in read_label_files([word], None)]
        counts = {name: sum(id_ in own for id_ in labelled) for name, own in ids.items()}
        name = max(counts, key=counts.__getitem__, default="")
        if not counts.get(name):
            message = f"`{word}` has no label of a sample that a judge scored in these runs."
            hint = "name the labels of these runs: `--people people.csv`"
            raise AnswersUnusable(message, hint=hint)
        words_by_benchmark[name].append(word)
    return {name: read_label_files(own, scales[name]) for name, own in words_by_benchmark.items()}
