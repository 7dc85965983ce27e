"""The `Benchmark` object of Odd one out, which lmms-eval and the results commands read."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.extend import (
    BadRecord,
    Benchmark,
    Line,
    LoggedSample,
    Segment,
    Unscored,
    Verdict,
    log_line,
)
from odd_one_out import task


def read_line(line: Line) -> LoggedSample:
    """The sample of a log line: the row under ``coverage`` holds everything but the answer."""
    record = log_line.record_of(line)
    sample_id, category = log_line.text(record, "id"), log_line.text(record, "category")
    if category not in task.CATEGORIES:
        raise BadRecord(f"`category` is `{category}`: not a sample of odd_one_out")
    shapes = task.picture(sample_id.rpartition("/")[2])  # ids in a log are untrusted
    return LoggedSample(
        id=sample_id,
        official=log_line.verdict(record, "official", 1),
        robust=log_line.verdict(record, "robust", 1),
        groups={"category": (category,)},
        question=(Segment(image=str(shapes)), Segment(text=task.QUESTION)),
        gold=(Segment(text=log_line.text(record, "gold")),),
        answer=(Segment(text=log_line.answer(line)),),
        signature=log_line.signature(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """The saved answer, scored again; without an answer, the verdicts as logged."""
    sample = read_line(line)
    if isinstance(sample.official, Unscored):
        return {"official": sample.official, "robust": sample.robust}
    if "filtered_resps" not in line:
        return None
    return task.read(line["filtered_resps"], log_line.text(log_line.record_of(line), "gold"))


BENCHMARK = Benchmark(
    name="odd_one_out",
    title="Odd one out",
    scale=task.SCALE,
    metrics=task.METRICS,
    read_line=read_line,
    reread=reread,
    check_data=task.check_data,
    provenance=task.provenance,
    signature=task.signature,
)
