"""The score of a task that people quote: a line of the block that a run ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mmie_tasks.core.tables import NO_VALUE, percent_cell
from mmie_tasks.record.metrics import MetricValue
from mmie_tasks.record.sample import SCORE_KINDS, ScoreKind
from mmie_tasks.runs.marks import paper_marks
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The score of a task that people quote: one line of the block that a run ends with."""

    task: str
    official: MetricValue | None
    robust: MetricValue | None
    judge: str  # its model, or the panel; empty for a benchmark that is scored by rule
    marks: tuple[str, ...]  # see `paper_marks`
    missing: tuple[str, ...] = ()  # why a score does not exist, for each that does not

    @property
    def cells(self) -> tuple[str, ...]:
        """Task, official score with interval, robust score, scored samples, judge, and marks after
        what is missing.
        """
        official = self.official and percent_cell(self.official.percent, self.official.interval)
        robust = self.robust and percent_cell(self.robust.percent)
        scores = (cell or NO_VALUE for cell in (official, robust))
        why = "; ".join((*self.missing, *self.marks))
        scored = self.official.counts_text if self.official else NO_VALUE
        return (self.task, *scores, scored, self.judge or "by rule", why)


def headline_of(task_run: TaskRun) -> Headline:
    """Compute the headline of a task from its samples."""
    metric = metrics_of([task_run])[0]
    values = {kind: value_of(task_run, metric, kind) for kind in SCORE_KINDS}
    return Headline(
        task=task_run.task,
        official=values["official"],
        robust=values["robust"],
        judge=task_run.judge_name,
        marks=paper_marks(task_run),
        missing=tuple(_missing_scores(values)),
    )


def _missing_scores(values: Mapping[ScoreKind, MetricValue | None]) -> Iterator[str]:
    """Why a score is missing, each reason once."""
    reasons: dict[str, ScoreKind] = {}
    for kind, value in values.items():
        if value is None or value.percent is None:
            reasons.setdefault(value.why_not if value else "no sample counts for it", kind)
    yield from (f"no {kind} score: {reason}" for reason, kind in reasons.items())
