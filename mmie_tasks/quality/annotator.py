"""What the tables and reports of `mmie_tasks.results` show of a judge: its grades, and the score
that people corrected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.quality.calibrate.correction import correct, labels_by_benchmark
from mmie_tasks.quality.calibrate.estimate import Population
from mmie_tasks.quality.judge_exam.stored import StoredGrades
from mmie_tasks.results.annotation import Annotation
from mmie_tasks.results.labels import Label
from mmie_tasks.results.render import Cell
from mmie_tasks.runs.run import Run, TaskRun

_INTERVAL_NOTES: Mapping[Population | None, str] = {
    None: "The intervals hold the sampling error only, not the judge's error.",
    "larger": (
        "Only the intervals of scores that are corrected by people hold the judge's error too."
    ),
    "run": "Corrected scores, and their intervals, are for the samples of these runs only.",
}


class QualityAnnotator:
    """Annotates with stored grades of judges, and with labels."""

    def __init__(
        self,
        labels: Mapping[str, Sequence[Label]],
        grades: StoredGrades,
        population: Population = "larger",
    ) -> None:
        """With people's scores by the name of the benchmark that they are of."""
        self._labels = labels
        self._grades = grades
        self._population: Population = population

    @property
    def corrected_benchmarks(self) -> frozenset[str]:
        """The names of the benchmarks that people have scored answers of."""
        return frozenset(self._labels)

    @property
    def interval_note(self) -> str:
        """What the intervals of judged scores hold."""
        return _INTERVAL_NOTES[self._population if self._labels else None]

    def annotation(self, task_run: TaskRun) -> Annotation:
        """The judges of a task of a run, and its headline corrected with the labels."""
        labels = self._labels.get(task_run.benchmark.name)
        return Annotation(
            judges=self._grades.judges_of(task_run),
            corrected=_corrected(task_run, labels, self._population) if labels else None,
        )


def open_annotator(
    runs: Sequence[Run],
    people: Sequence[str],
    environment: Mapping[str, str],
    population: Population | None = None,
) -> QualityAnnotator:
    """The annotator of runs, see `mmie_tasks.results.annotation`.

    Args:
        runs: To be annotated.
        people: Files of people's scores, ``PATH`` or ``NAME=PATH``.
        environment: Names the cache folder with the grades.
        population: What the intervals of corrected scores are for. The default is the larger one,
            which the intervals of official scores beside them are for.

    Raises:
        AnswersUnusable: A file cannot be read, or has no label of a sample of these runs.
    """
    task_runs = [task_run for run in runs for task_run in run.tasks.values()]
    labels = labels_by_benchmark(people, task_runs)
    return QualityAnnotator(labels, StoredGrades(environment), population or "larger")


def _corrected(task_run: TaskRun, labels: Sequence[Label], population: Population) -> Cell:
    correction = correct(task_run, labels, population=population)
    score, estimate = correction.headline, correction.headline.corrected
    return Cell(
        percent=estimate.value if estimate else None,
        interval=estimate.interval if estimate else None,
        scored=score.labels,
        total=score.samples,
        notes=correction.notes,
    )
