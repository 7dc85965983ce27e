"""The record of a sample of MileBench: what a run logs of it, and the sample that is read from a
log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import cast, get_args

from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample, ScoringRule
from mmie_tasks.benchmarks.text_answer import logged_answer
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.record import log_line
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Needle, Record
from mmie_tasks.record.text_facts import TextFacts

FORM = log_line.RecordForm(differ=True)


def sample_record(
    sample: Sample,
    verdicts: Verdicts,
    signature: str,
    images: Sequence[str] | None = None,
    facts: TextFacts | None = None,
) -> Row:
    """Everything that is needed to score the sample again; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        verdicts: On its answer.
        signature: Everything that can move the score.
        images: The files at the placeholders of the prompt; by default all of the sample's.
        facts: About the text of the answer.
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
    return log_line.sample_record(
        sample.id,
        verdicts,
        signature,
        form=FORM,
        sample_fields=fields,
        answer_fields={"facts": asdict(facts or TextFacts())},
    )


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    record = record_of(line)
    images = log_line.texts(record, "images")
    placeholders = log_line.optional_text(line, "input").count(log_line.IMAGE_PLACEHOLDER)
    n_images = placeholders if images is None else len(images)
    needle = _needle(line, record, n_images)
    gold = log_line.optional_text(record, "gold") or log_line.optional_text(line, "target")
    return replace(
        log_line.sample(line, 1, groups=("dataset", "task", "level")),
        question=log_line.question(line, images),
        answer=logged_answer(line),
        gold=log_line.text_segments(gold),
        needle=needle,
        facts={"rule": str(record["rule"]), "images": n_images, **_needle_facts(needle)},
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


def _needle(line: Line, record: Record, n_images: int) -> Needle | None:
    """The needle of a sample; its depth is known if the question has the gold answer in it."""
    if record["rule"] != "needle":
        return None
    question, gold = log_line.optional_text(line, "input"), log_line.optional_text(record, "gold")
    position = question.find(gold) if gold else -1
    return Needle(length=n_images, depth=position / len(question) if position >= 0 else None)


def _needle_facts(needle: Needle | None) -> dict[str, float]:
    if needle is None:
        return {}
    depth = {} if needle.depth is None else {"needle_depth": needle.depth}
    return {"needle_length": needle.length, **depth}


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
