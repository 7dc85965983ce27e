"""What one sample adds to which number: the values behind each row of the runner's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample
from mmie_tasks.benchmarks.milebench.scoring import official, robust
from mmie_tasks.benchmarks.milebench.scoring.totals import MEANS_OF_DATASETS, MEANS_OF_TASKS
from mmie_tasks.verdict import Scored, Unscored, UnscoredReason, Verdict, as_row, differ

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer, read twice."""

    official: Verdict
    robust: Verdict

    @property
    def differs(self) -> bool:
        """Whether the two readings give different points, or only one gives any."""
        return differ(self.official, self.robust)


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


def record(
    sample: Sample, reading: Reading, signature: str, images: Sequence[str] | None = None
) -> Row:
    """Everything to score the sample again later; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        reading: What came of the answer.
        signature: Everything that moves the number.
        images: The files at the places of the prompt; where not given, all of the sample's.
    """
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "task": TASK_OF[sample.dataset],
        "rule": sample.rule,
        "level": sample.level,
        "gold": sample.gold,
        "choices": list(sample.choices),
        "images": list(sample.images if images is None else images),
        **read_in(reading),
        "signature": signature,
    }


def read_in(reading: Reading) -> Row:
    """What the readings put into a record."""
    return {
        "official": as_row(reading.official),
        "robust": as_row(reading.robust),
        "differ": reading.differs,
    }


def dataset_rows(
    sample: Sample,
    reading: Reading,
    signature: str,
    image_set: str,
    images: Sequence[str] | None = None,
) -> Row:
    """Rows of a ``milebench_<dataset>`` task; see `record` for the arguments."""
    who = {"id": sample.id, "image_set": image_set}
    whole = as_row(reading.official, **who)
    return {
        "coverage": record(sample, reading, signature, images),
        "differ": {"differ": reading.differs},
        "official": whole,
        "robust": as_row(reading.robust, **who),
        sample.level: whole,
    }


def benchmark_rows(
    sample: Sample, reading: Reading, signature: str, images: Sequence[str] | None = None
) -> Row:
    """Rows of the ``milebench`` task: only those whose number this sample counts for.

    A mean of means gets its values under ``points``, not ``score``, because the runner would
    print the standard error of the pooled samples beside it.
    """
    rows: Row = {
        "coverage": record(sample, reading, signature, images),
        "differ": {"differ": reading.differs},
    }
    for name, verdict in (("official", reading.official), ("robust", reading.robust)):
        row = as_row(verdict, id=sample.id)
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
