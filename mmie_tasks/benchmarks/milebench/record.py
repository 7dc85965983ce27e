"""The record of a sample of MileBench: what a run logs of it, and the sample that is read from a
log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample, ScoringRule
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.record import log_line
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record

FORM = log_line.RecordForm(differ=True)


def sample_record(
    sample: Sample, verdicts: Verdicts, signature: str, images: Sequence[str] | None = None
) -> Row:
    """Everything that is needed to score the sample again; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        verdicts: On its answer.
        signature: Everything that can move the score.
        images: The files at the placeholders of the prompt; by default all of the sample's.
    """
    fields = {
        "dataset": sample.dataset,
        "task": TASK_OF[sample.dataset],
        "rule": sample.rule,
        "level": sample.level,
        "gold": sample.gold,
        "choices": list(sample.choices),
        "images": list(sample.images if images is None else images),
    }
    return log_line.sample_record(sample.id, verdicts, signature, form=FORM, sample_fields=fields)


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    record = record_of(line)
    images = log_line.texts(record, "images")
    gold = log_line.optional_text(record, "gold") or log_line.optional_text(line, "target")
    return replace(
        log_line.sample(line, 1, groups=("dataset", "task", "level")),
        question=log_line.question(line, images),
        gold=log_line.text_segments(gold),
        facts=_facts(line, record, images),
    )


def record_of(line: Line) -> Record:
    """The record of a line.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    record = log_line.record_of(line)
    if record.get("rule") not in get_args(ScoringRule):
        raise BadRecord("`rule` is not a rule of MileBench: the line is not one of its samples")
    return record


def _facts(
    line: Line, record: Record, images: Sequence[str] | None
) -> dict[str, str | float | bool]:
    """Rule and number of images; of a needle in a haystack, its depth (0 to 1) and the length."""
    question = log_line.optional_text(line, "input")
    n_images = question.count(log_line.IMAGE_PLACEHOLDER) if images is None else len(images)
    facts: dict[str, str | float | bool] = {"rule": str(record["rule"]), "images": n_images}
    if record["rule"] == "needle":
        facts["needle_length"] = n_images
        if (gold := log_line.optional_text(record, "gold")) and (
            position := question.find(gold)
        ) >= 0:
            facts["needle_depth"] = position / len(question)
    return facts


def sample_of(record: Record) -> Sample | None:
    """The fields of the sample that the readers need; None if the record lacks them.

    Raises:
        BadRecord: A field has another form.
    """
    if "choices" not in record:
        return None
    dataset, gold = log_line.text(record, "dataset"), record.get("gold")
    return Sample(
        dataset=dataset,
        sample_id=log_line.text(record, "id").removeprefix(f"{dataset}/"),
        rule=cast("ScoringRule", log_line.text(record, "rule")),
        instruction="",
        context="",
        images=(),
        gold=None if gold is None else log_line.optional_text(record, "gold"),
        choices=log_line.texts(record, "choices") or (),
    )
