"""What MileBench says of its logged samples, after a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from mmie_tasks.answers.saved import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.milebench import metrics
from mmie_tasks.benchmarks.milebench.metrics import MEANS_OF_DATASETS, MEANS_OF_TASKS, Reading
from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASK_OF, TASKS, Rule, Sample
from mmie_tasks.core.verdict import Unscored, Verdict
from mmie_tasks.runs import log_line
from mmie_tasks.runs.benchmark import (
    BadRecord,
    Benchmark,
    Doc,
    Line,
    LoggedSample,
    LoggedSegment,
    Metric,
    Record,
    Scale,
)
from mmie_tasks.runs.log_line import IMAGE_PLACEHOLDER

# Both readings of what the runner has of the tested model.


def grade(sample: Sample, results: Sequence[object], unseen: str | None = None) -> metrics.Reading:
    """One answer, read both ways; several (a model that answers in rounds) are no text.

    Args:
        sample: The question.
        results: What the runner has.
        unseen: Why the model could not be shown an image, if it could not.
    """
    answer = results[0] if len(results) == 1 else list(results)
    if isinstance(answer, str) and answer.startswith(NOT_TEXT):
        return metrics.unscored("not_text", answer.removeprefix(NOT_TEXT).strip()[:80])
    if unseen:
        return metrics.unscored("bad_image", unseen)
    return metrics.read(sample, answer, failure_of(answer))


_HEADLINES = {"real": "Realistic", "diag": "Diagnostic"}
_MEANS = {
    "temporal": "Temporal",
    "semantic": "Semantic",
    "needles": "Needles",
    "retrieval": "Retrieval",
    "tasks12": "Mean of 12 tasks",
    "datasets26": "Mean of 26 datasets",
}
_LEVELS = {
    "few": "Few images (up to 5)",
    "medium": "Medium (6 to 31 images)",
    "many": "Many images (32 and more)",
}
_OUTSIDE = {"no_answer", "not_text", "bad_image"}  # reasons that the saved answer does not tell


def _weights(name: str) -> dict[str, float]:
    """What each dataset counts in a mean: as `totals.total` adds them up."""
    if name in MEANS_OF_DATASETS:
        datasets = MEANS_OF_DATASETS[name]
        return {dataset: 1 / len(datasets) for dataset in datasets}
    tasks = MEANS_OF_TASKS[name]
    members = {task: [d for d in DATASETS if TASK_OF[d] == task] for task in tasks}
    return {d: 1 / len(tasks) / len(within) for within in members.values() for d in within}


def _numbers() -> Iterator[Metric]:
    kinds = {"headline": _HEADLINES, "mean": _MEANS, "task": {task: task for task in TASKS}}
    for kind, titles in kinds.items():
        for name, title in titles.items():
            yield Metric(name=name, title=title, kind=kind, by="dataset", weights=_weights(name))
    for name in DATASETS:
        yield Metric(name=name, title=name, kind="dataset", by="dataset", weights={name: 1.0})
    for name, title in _LEVELS.items():
        yield Metric(name=name, title=title, kind="level", by="level", weights={name: 1.0})


SCALE = Scale(full_marks=1, unit="points, 0 to 1", percent=lambda mean: 100 * mean, tabled=1)
METRICS = tuple(_numbers())


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    images = log_line.texts(record, "images")
    gold = log_line.optional_text(record, "gold") or log_line.optional_text(line, "target")
    said = log_line.answer(line)
    return LoggedSample(
        id=log_line.text(record, "id"),
        official=log_line.verdict(record, "official", 1),
        robust=log_line.verdict(record, "robust", 1),
        groups={kind: (log_line.text(record, kind),) for kind in ("dataset", "task", "level")},
        question=log_line.question(line, images),
        gold=(LoggedSegment(text=gold),) if gold else (),
        answer=(LoggedSegment(text=said),) if said else (),
        signature=log_line.optional_text(record, "signature"),
        facts=_facts(line, record, images),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to what a line saved; None if the line lacks it.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    reading = _reread(line, _record(line))
    if reading is None:
        return None
    return {"official": reading.official, "robust": reading.robust}


def rerecord(line: Line) -> Record:
    """The record with what the current readers make of it; as it is, if nothing was read."""
    record = _record(line)
    reading = _reread(line, record)
    return {**record, **metrics.read_in(reading)} if reading else record


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("rule") not in get_args(Rule):
        raise BadRecord("`rule` is none of MileBench's: no sample of it")
    return record


def _reread(line: Line, record: Record) -> Reading | None:
    """What the current readers make of the saved answer, or why there was none to read."""
    stored = Reading(log_line.verdict(record, "official", 1), log_line.verdict(record, "robust", 1))
    both = (stored.official, stored.robust)
    if all(isinstance(each, Unscored) and each.reason in _OUTSIDE for each in both):
        return stored
    if not isinstance(line.get("filtered_resps"), str) or "choices" not in record:
        return None
    return grade(_sample(record), [line["filtered_resps"]])


def _sample(record: Record) -> Sample:
    """As much of the sample as its answer is scored by."""
    dataset, rule = log_line.text(record, "dataset"), log_line.text(record, "rule")
    gold = record.get("gold")
    return Sample(
        dataset=dataset,
        sample_id=log_line.text(record, "id").removeprefix(f"{dataset}/"),
        rule=rule,  # type: ignore[arg-type]  # looked at in `_record`
        instruction="",
        context="",
        images=(),
        gold=None if gold is None else log_line.optional_text(record, "gold"),
        choices=log_line.texts(record, "choices") or (),
    )


def _facts(
    line: Line, record: Record, images: Sequence[str] | None
) -> dict[str, str | float | bool]:
    """The rule and the images; of a needle in a haystack, also how deep in how long a one."""
    asked = log_line.optional_text(line, "input")
    count = asked.count(IMAGE_PLACEHOLDER) if images is None else len(images)
    facts: dict[str, str | float | bool] = {"rule": str(record["rule"]), "images": count}
    if record["rule"] == "needle":
        facts["needle_length"] = count
        gold = log_line.optional_text(record, "gold")
        if gold and (place := asked.find(gold)) >= 0:
            facts["needle_depth"] = place / len(asked)
    return facts


def _check_data(docs: Any) -> None:  # noqa: ANN401 - a Dataset, or a list of documents
    from mmie_tasks.benchmarks.milebench import task

    task.before_requests(docs)


def _provenance(doc: Doc) -> str:
    from mmie_tasks.benchmarks.milebench import task

    return task.provenance(doc)


def _signature(doc: Doc) -> str:
    from mmie_tasks.benchmarks.milebench import task

    return task.signature(doc)


BENCHMARK = Benchmark(
    name="milebench",
    title="MileBench",
    scale=SCALE,
    metrics=METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    datasets=DATASETS,
    check_data=_check_data,
    provenance=_provenance,
    signature=_signature,
)
