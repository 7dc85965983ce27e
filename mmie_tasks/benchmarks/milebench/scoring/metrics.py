"""What one sample adds to which number: the values behind each row of the runner's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample
from mmie_tasks.benchmarks.milebench.scoring import official, robust
from mmie_tasks.benchmarks.milebench.scoring.totals import MEANS_OF_DATASETS, MEANS_OF_TASKS
from mmie_tasks.verdict import Scored, Unscored, UnscoredReason, Verdict

Row = dict[str, object]
_LOGGED = 80  # characters of a reading
_SAME = 1e-9  # two ROUGE-L values closer than this are one


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer, read twice."""

    official: Verdict
    robust: Verdict

    @property
    def differs(self) -> bool:
        """Whether the two readings give different points, or only one gives any."""
        match self.official, self.robust:
            case Scored(points=one), Scored(points=other):
                return abs(one - other) > _SAME
            case Unscored(), Unscored():
                return False
        return True


def read(sample: Sample, answer: object, failure: str | None = None) -> Reading:
    """Read an answer both ways.

    Args:
        sample: The question.
        answer: What the tested model said.
        failure: Why there is no answer to read, if there is none; nothing is scored then.
    """
    if failure is not None:
        return unscored("no_answer", failure)
    return Reading(official(sample, answer), robust(sample, answer))


def unscored(reason: UnscoredReason, detail: str) -> Reading:
    """Neither reading gives points, for a reason outside the answer's text."""
    verdict = Unscored(reason, detail)
    return Reading(verdict, verdict)


def verdict_row(verdict: Verdict, **fields: object) -> Row:
    """A verdict as the runner logs it: ``score`` and ``reading``, or ``unscored`` and why.

    Without a score there is no ``score`` key: the runner leaves such rows out of its standard
    errors, and fails on a None there.
    """
    match verdict:
        case Scored():
            return {**fields, "score": verdict.points, "reading": _cut(verdict.reading)}
        case Unscored():
            return {**fields, "unscored": verdict.reason, "detail": verdict.detail}


def _cut(reading: str) -> str:
    """A reading for the log: the official one can be as long as the answer."""
    return reading if len(reading) <= _LOGGED else f"{reading[:_LOGGED]}…"


def record(sample: Sample, reading: Reading, signature: str) -> Row:
    """Everything to score the sample again later; the runner logs it under ``coverage``."""
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "task": TASK_OF[sample.dataset],
        "rule": sample.rule,
        "level": sample.level,
        "gold": sample.gold,
        "choices": list(sample.choices),
        "official": verdict_row(reading.official),
        "robust": verdict_row(reading.robust),
        "differ": reading.differs,
        "signature": signature,
    }


def dataset_rows(sample: Sample, reading: Reading, signature: str, image_set: str) -> Row:
    """Rows of a ``milebench_<dataset>`` task."""
    who = {"id": sample.id, "image_set": image_set}
    whole = verdict_row(reading.official, **who)
    return {
        "coverage": record(sample, reading, signature),
        "differ": {"differ": reading.differs},
        "official": whole,
        "robust": verdict_row(reading.robust, **who),
        sample.level: whole,
    }


def benchmark_rows(sample: Sample, reading: Reading, signature: str) -> Row:
    """Rows of the ``milebench`` task: only those whose number this sample counts for.

    A mean of means gets its values under ``points``, not ``score``, because the runner would
    print the standard error of the pooled samples beside it.
    """
    rows: Row = {
        "coverage": record(sample, reading, signature),
        "differ": {"differ": reading.differs},
    }
    for name, verdict in (("official", reading.official), ("robust", reading.robust)):
        row = verdict_row(verdict, id=sample.id)
        rows[f"{name}_{sample.dataset}"] = rows[f"{name}_{sample.level}"] = row
        part = {"dataset": sample.dataset, **_points(verdict)}
        rows.update({f"{name}_{mean}": part for mean in _means_with(sample.dataset)})
    return rows


def _means_with(dataset: str) -> list[str]:
    tasks = [name for name, parts in MEANS_OF_TASKS.items() if TASK_OF[dataset] in parts]
    return tasks + [name for name, parts in MEANS_OF_DATASETS.items() if dataset in parts]


def _points(verdict: Verdict) -> Row:
    match verdict:
        case Scored():
            return {"points": verdict.points}
        case Unscored():
            return {"unscored": verdict.reason}


def verdict_of(row: Mapping[str, object]) -> Verdict:
    """The verdict a row was made from: the inverse of `verdict_row`, for aggregation.

    >>> verdict_of({"score": 1.0}), verdict_of({"unscored": "no_answer"})
    (Scored(points=1.0, reading=''), Unscored(reason='no_answer', detail=''))
    """
    points = row.get("score", row.get("points"))
    if isinstance(points, (int, float)):
        return Scored(float(points), str(row.get("reading", "")))
    return Unscored(row["unscored"], str(row.get("detail", "")))  # type: ignore[arg-type]  # ours
