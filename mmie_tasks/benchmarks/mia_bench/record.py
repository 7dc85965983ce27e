"""The record of a sample of MIA-Bench: what a run logs of it, and the sample that is read from a
log.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest

from mmie_tasks.benchmarks.mia_bench.robust import Mark, read_reply
from mmie_tasks.benchmarks.mia_bench.sample import TYPES, Sample
from mmie_tasks.benchmarks.text_answer import facts_of_results, logged_answer
from mmie_tasks.record import log_line
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.log_line import NOT_LOGGED
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import Segment

FORM = log_line.RecordForm(rows_have_id=True, differ=True, parts=True)

CLEAN = "clean"
"""The group of the samples that do not contradict themselves."""


def sample_record(
    sample: Sample,
    judged: Judged,
    reply: str | tuple[str, ...],
    *,
    image: str,
    signature: str,
    results: Sequence[object],
) -> Row:
    """Everything that is needed to score the sample again; the runner logs it under ``coverage``.

    Args:
        sample: The instruction.
        judged: The verdicts on its answer, and the judges' replies.
        reply: As for `marks`.
        image: Path of the image.
        signature: Everything that can move the score.
        results: The answer, which the runner logs itself; its hash is in the record, and
            what is unusual about its text.
    """
    answer = "".join(map(str, results)).encode(errors="surrogatepass")
    return log_line.sample_record(
        sample.id,
        judged,
        signature,
        form=FORM,
        sample_fields={
            "type": sample.type,
            "categories": list(sample.categories),
            "weights": list(sample.weights),
            "contradictory": sample.contradictory,
            "asked": list(sample.components),
            "instruction": sample.instruction,
        },
        readings=marks(sample, reply),
        request_fields={"image": image},
        answer_fields={
            "answer_sha256": hashlib.sha256(answer).hexdigest(),
            "facts": asdict(facts_of_results(results)),
        },
    )


def marks(sample: Sample, reply: str | tuple[str, ...]) -> Row:
    """The marks in a judge's last reply as fields of a record; of several judges a list of
    ``marks``, in their order.

    Args:
        sample: The sample.
        reply: The last reply; of several judges, that of each; empty without one.
    """
    if isinstance(reply, str):
        return _marks(sample, reply)
    return {"marks": [_marks(sample, text) for text in reply]}


def _marks(sample: Sample, reply: str) -> Row:
    parsed = read_reply(reply, sample.weights)
    return {
        "components": [mark and [mark.points, mark.out_of] for mark in parsed.components],
        "total": parsed.total and [parsed.total.points, parsed.total.out_of],
        "recomputed": None if parsed.recomputed is None else 100 * parsed.recomputed,
        "agrees": parsed.agrees,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMarks:
    """The marks in a judge's last reply, as a record has them.

    Attributes:
        components: The mark of each component; None without one.
        recomputed: Total of the components in percent of full marks; None if a mark is missing or
            impossible.
        agrees: Whether the stated total is that of the components.
    """

    components: tuple[Mark | None, ...]
    recomputed: float | None
    agrees: bool


def marks_of(record: Record) -> tuple[LoggedMarks, ...]:
    """The marks of each judge in a record, of a log that may have any content."""
    of_judges = record.get("marks", [record])  # a panel has a list
    return tuple(
        LoggedMarks(
            components=tuple(map(_read_mark, components if isinstance(components, list) else ())),
            recomputed=log_line.number(of_judge.get("recomputed")),
            agrees=of_judge.get("agrees") is not False,
        )
        for of_judge in (of_judges if isinstance(of_judges, list) else ())
        if isinstance(of_judge, Mapping)
        for components in [of_judge.get("components")]
    )


def _read_mark(mark: object) -> Mark | None:
    if isinstance(mark, list) and len(mark) == 2:
        points, out_of = map(log_line.number, mark)
        if points is not None and out_of is not None:
            return Mark(points, out_of)
    return None


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = record_of(line)
    return replace(
        log_line.sample(line, math.inf),
        groups=groups(
            log_line.text(record, "type"),
            log_line.texts(record, "categories") or (),
            contradictory=record.get("contradictory") is True,
        ),
        parts=log_line.component_shares(record),
        question=question_of(line, record),
        answer=logged_answer(line),
        facts=_facts(record),
    )


def groups(
    kind: str, categories: Iterable[str], *, contradictory: bool
) -> dict[str, tuple[str, ...]]:
    """Kind of group to the groups of a sample."""
    clean = {} if contradictory else {CLEAN: (CLEAN,)}
    return {"type": (kind,), "component": tuple(dict.fromkeys(categories)), **clean}


def record_of(line: Line) -> Record:
    """The record of a line.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = log_line.record_of(line)
    if record.get("type") not in TYPES:
        raise BadRecord("`type` is none of MIA-Bench's types: not a sample of MIA-Bench")
    return record


def sample_of(record: Record) -> Sample | None:
    """The fields of the sample that the readers need; None if the record lacks them."""
    categories, weights = log_line.texts(record, "categories") or (), _weights(record)
    if not categories or len(weights) != len(categories):
        return None
    return Sample(
        id=log_line.text(record, "id"),
        instruction="",
        type=log_line.text(record, "type"),
        components=log_line.texts(record, "asked") or (),
        weights=weights,
        categories=categories,
    )


def _weights(record: Record) -> tuple[int, ...]:
    """Full marks of each component, in points.

    Raises:
        BadRecord: The field has another form.
    """
    value = record.get("weights")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(
        type(weight) is int and 0 < weight < 1000 for weight in value
    ):
        raise BadRecord("`weights` is not a list of numbers of points from 1")
    return tuple(value)


def question_of(line: Line, record: Record) -> tuple[Segment, ...]:
    """The image, then the instruction, as in the request to the tested model."""
    text = log_line.text_segments(log_line.optional_text(line, "input"))
    if "image" not in record:
        return (Segment(problem=NOT_LOGGED), *text)
    image = log_line.optional_text(record, "image")
    return (Segment(image=image or None, problem="" if image else "the data names no file"), *text)


def _facts(record: Record) -> dict[str, str | float | bool]:
    """Text and mark of each component, of several judges their marks in order, and what is unusual
    about the sample.
    """
    facts: dict[str, str | float | bool] = {}
    of_judges = marks_of(record)
    columns = zip_longest(
        log_line.texts(record, "categories") or (),
        _weights(record),
        log_line.texts(record, "asked") or (),
        zip_longest(*(marks.components for marks in of_judges)),
    )
    for number, (category, weight, text, component_marks) in enumerate(columns, 1):
        suffix = f": {text}" if text else ""
        marks_in_order = component_marks or (None,) * len(of_judges)
        shown_marks = ", ".join(_shown_mark(mark, weight) for mark in marks_in_order)
        facts[f"component {number}"] = f"{category or '?'} {shown_marks}{suffix}"
    if record.get("contradictory") is True:
        facts["contradictory"] = True
    if "marks" not in record:  # of a single judge
        for marks in of_judges:
            if not marks.agrees:
                facts["the stated total is that of its parts"] = False
            if marks.recomputed is not None:
                facts["total of the parts, percent"] = marks.recomputed
    return facts


def _shown_mark(mark: Mark | None, weight: int | None) -> str:
    """``3/4``; ``-/4`` if the reply gives no mark."""
    return f"{mark.points:g}/{mark.out_of:g}" if mark else f"-/{weight or '?'}"
