"""MMIE as a `Benchmark`: its metrics, its judge, and its samples in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmie_tasks.benchmarks.mmie import assets, data, export, metrics, request, task
from mmie_tasks.benchmarks.mmie.metrics import METRICS, SCALE
from mmie_tasks.benchmarks.mmie.official import FULL_MARKS
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample, Segment
from mmie_tasks.core.tables import listed
from mmie_tasks.core.verdict import Verdict
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.runs import log_line
from mmie_tasks.runs.benchmark import (
    BadRecord,
    Benchmark,
    Line,
    LoggedSample,
    LoggedSegment,
    PublishedRow,
    Record,
    Segments,
)

_FACTS = {
    "shape": "shape of the answer",
    "answer_images": "images in the answer",
    "shown_images": "images shown to the judge",
    "tiles": "tiles",
    "judge_tokens": "judge tokens",
    "judge_tokens_exact": "judge tokens are exact",
    "truncated": "truncated",
    "dropped": "dropped",
    "missing_images": "missing images",
    "bad_images": "bad images",
    "drawn": "pictures drawn",
}


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    question = log_line.segments(record, "question")
    gold, target = log_line.segments(record, "gold"), log_line.optional_text(line, "target")
    answer = log_line.segments(record, "answer")  # empty or None: not parsed into segments
    return replace(
        log_line.sample(line, FULL_MARKS),
        groups=metrics.groups(str(record["category"]), log_line.optional_text(record, "field")),
        question=log_line.question(line, None) if question is None else question,
        gold=log_line.text_segments(target) if gold is None else gold,
        answer=answer or log_line.text_segments(log_line.answer(line)),
        pictures_not_drawn=sum(_counts(record, "not_drawn").values()),
        facts=_facts(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to a line's saved replies; None if the line lacks them.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    _record(line)
    return log_line.reread(line, task.grade, FULL_MARKS)


def rerecord(line: Line) -> Record:
    """The record with the current readers' results; unchanged if it has no reply."""
    record = _record(line)
    judged = log_line.rejudged(record, task.grade, FULL_MARKS)
    if judged is None or not log_line.replies(record):
        return record
    return {**record, **metrics.graded_fields(judged.verdicts), **judged.panel_fields}


def judge_request(question: Segments, answer: Segments, line: Line | None) -> GradedRequest:
    """The request for any question and answer, assembled as in a run; see `Benchmark.judge_request`.

    Without a line the template is that of situational analysis (SA).

    Raises:
        BadRecord: The line is not a sample of this benchmark, or the official script sends no such request.
        MmieTasksError: The templates are not available.
    """
    record = {} if line is None else _record(line)
    logged = None if line is None else read_line(line)
    if logged and answer == logged.answer and not record.get("answer"):
        answer = log_line.segments(record, "answer") or ()
    sample = Sample(
        id=logged.id if logged else "",
        index=0,
        row=0,
        category=str(record.get("category", "SA")),
        field="",
        question=_segments(question, record, "question"),
        gold=_segments([replace(segment, image=None) for segment in logged.gold], record, "gold") if logged else (),
    )
    built = request.request_for(sample, _segments(answer, record, "answer"))
    if built.request is None:
        raise BadRecord(f"{built.reason}: {built.detail}")
    cut_images, cut_texts = built.cut_images, built.cut_texts
    return GradedRequest(request=built.request, grade=task.grade, cut_images=cut_images, cut_texts=cut_texts)


def _segments(segments: Sequence[LoggedSegment], record: Record, name: str) -> tuple[Segment, ...]:
    """Segments for the assembly, in which an empty text ends a line and an absent one does not.

    A logged segment has an empty text in both cases; the record says which it is at this position.
    """
    rows = record.get(name)
    texts = [row.get("text") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    log_line.parts(tuple(segments))  # every image is a file
    return tuple(
        Segment(segment.text or ("" if "" in texts[position : position + 1] else None), segment.image)
        for position, segment in enumerate(segments)
    )


def subsets(task_name: str, samples: Sequence[LoggedSample]) -> Mapping[str, frozenset[str]]:
    """The ids of ``mmie_1k``, in a run of the whole dataset; a part would give other ids."""
    ids: dict[str, list[str]] = {category: [] for category in CATEGORIES}
    for sample in samples:
        ids[sample.names("category")[0]].append(sample.id)
    is_whole = {category: len(members) for category, members in ids.items()} == data.PUBLISHED
    return {"mmie_1k": data.ids_of_1k(ids)} if task_name == "mmie" and is_whole else {}


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("category") not in CATEGORIES:
        raise BadRecord(f"`category` is none of {', '.join(CATEGORIES)}: not a sample of MMIE")
    return record


def _facts(record: Record) -> dict[str, str | float | bool]:
    """The facts worth showing: without zeros, empty texts and unset flags."""
    facts = log_line.mapping(record, "facts")
    shown: dict[str, str | float | bool] = {}
    for name, title in _FACTS.items():
        value = facts.get(name)
        fact = value if isinstance(value, (str, bool)) else log_line.number(value)
        if fact:
            shown[title] = fact
    if marks := ", ".join(mark for mark, count in log_line.mapping(facts, "typed").items() if count):
        shown["typed control marks"] = marks
    for name, title in (("not_drawn", "pictures not drawn"), ("unused", "not used of the writer's answer")):
        if counts := _counts(record, name):
            shown[title] = listed(counts)
    return shown


def _counts(record: Record, name: str) -> dict[str, int]:
    """Counts above 0 in the facts of a record, by name; of a log that may have any content."""
    counts = log_line.mapping(log_line.mapping(record, "facts"), name)
    return {reason: count for reason, value in counts.items() if (count := int(log_line.number(value) or 0)) > 0}


PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores=dict(zip(("SA", "PBL", "MSR", ""), percents, strict=True)),
        source="MMIE's project site, mmie-bench.github.io",
    )
    for model, percents in {
        "MiniGPT-5": (47.63, 55.12, 42.17, 50.92),
        "EMU-2": (39.65, 46.12, 50.75, 45.33),
        "GILL": (46.72, 57.57, 39.33, 51.58),
        "Anole": (48.95, 59.05, 51.72, 55.22),
        "GPT-4o + SD-XL": (56.12, 73.25, 53.67, 65.47),
        "Gemini-1.5 + SD-XL": (49.43, 71.85, 60.05, 64.15),
        "LLaVA-34b + SD-XL": (55.97, 74.60, 47.28, 65.05),
        "Qwen-VL-70b + SD-XL": (52.58, 73.57, 55.63, 65.12),
    }.items()
)
_TOTAL = sum(data.PUBLISHED.values())

BENCHMARK = Benchmark(
    name="mmie",
    title="MMIE",
    scale=SCALE,
    metrics=METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    strata="category",
    subsets=subsets,
    counts=metrics.counts,
    notes=metrics.notes,
    published={
        "mmie": _TOTAL,
        "mmie_1k": _TOTAL,
        **{f"mmie_{name.lower()}": n_samples for name, n_samples in data.PUBLISHED.items()},
    },
    published_rows=PUBLISHED_ROWS,
    judge=task.JUDGE,
    judge_request=judge_request,
    assets=assets.assets,
    check_data=task.check_data,
    provenance=task.provenance,
    signature=task.signature,
    add_answer_folder=request.add_answer_folder,
    picture_limit=task.picture_limit,
    export=export.run,
)
