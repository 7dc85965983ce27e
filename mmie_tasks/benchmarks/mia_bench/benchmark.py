"""What MIA-Bench says of its logged samples, after a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from mmie_tasks.benchmarks.mia_bench import metrics
from mmie_tasks.benchmarks.mia_bench.metrics import Grading
from mmie_tasks.benchmarks.mia_bench.official import read_official
from mmie_tasks.benchmarks.mia_bench.robust import is_impossible, read_robust
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.judging.session import BenchmarkJudge, JudgeResult
from mmie_tasks.runs import log_line
from mmie_tasks.runs.benchmark import (
    SCORE_KINDS,
    BadRecord,
    Benchmark,
    Doc,
    Line,
    LoggedSample,
    LoggedSegment,
    Metric,
    Record,
    Scale,
    ScoreKind,
)
from mmie_tasks.runs.log_line import NOT_LOGGED

# Both readings of what came of one request.


def grade(sample: Sample, judged: JudgeResult) -> Grading:
    """The official script reads the first reply; the robust reading is of the last."""
    replies = [reply for reply in (judged.reply, judged.second_reply) if reply is not None]
    return Grading(
        official=judged.first_verdict(lambda reply: read_official(sample.categories, reply)),
        official_text=replies[0].text if replies else "",
        robust=judged.verdict(lambda reply: read_robust(sample, reply)),
        robust_text=replies[-1].text if replies else "",
    )


FULL_MARKS = 100

_CLEAN = "clean"


def _numbers() -> Iterator[Metric]:
    yield Metric(name="", title="Total", kind="headline")
    yield Metric(
        name=_CLEAN,
        title="Total without contradictory samples",
        kind="headline",
        by=_CLEAN,
        weights={_CLEAN: 1.0},
    )
    for name in CATEGORIES:
        title, weights = name.replace("_", " ").capitalize(), {name: 1.0}
        yield Metric(
            name=name, title=title, kind="component", by="component", weights=weights, part=name
        )
    for name in TYPES:
        title, weights = name.capitalize(), {name: 1.0}
        yield Metric(name=name, title=title, kind="type", by="type", weights=weights)


SCALE = Scale(full_marks=FULL_MARKS, unit="percent of full marks", percent=lambda mean: mean)
METRICS = tuple(_numbers())


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    said = log_line.answer(line)
    return LoggedSample(
        id=log_line.text(record, "id"),
        official=log_line.verdict(record, "official"),
        robust=log_line.verdict(record, "robust"),
        groups=_groups(record),
        parts={reading: _parts(record, reading) for reading in SCORE_KINDS},
        question=_question(line, record),
        answer=(LoggedSegment(text=said),) if said else (),
        replies=log_line.replies(record) or (),
        signature=log_line.optional_text(record, "signature"),
        facts=_facts(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to what a line saved; None if the line lacks it.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    graded = _regraded(record)
    if graded is not None:
        return {"official": _percent(graded.official), "robust": _percent(graded.robust)}
    stored: dict[str, Verdict] = {name: log_line.verdict(record, name) for name in SCORE_KINDS}
    unasked = log_line.replies(record) == ()
    unscored = not any(isinstance(verdict, Scored) for verdict in stored.values())
    return stored if unasked and unscored else None


def rerecord(line: Line) -> Record:
    """The record with what the current readers make of it; as it is, if nothing was read."""
    record = _record(line)
    graded, sample = _regraded(record), _sample(record)
    if graded is None or sample is None:
        return record
    return {**record, **metrics.read_in(sample, graded)}


def _regraded(record: Record) -> Grading | None:
    """What the current readers make of the saved replies; None where that cannot be said.

    A second reply is read only where the first is still found impossible: it would not have been
    asked for otherwise.
    """
    found, sample = log_line.replies(record), _sample(record)
    if not found or sample is None:
        return None
    first = found[0]
    again = first.finish == "stop" and is_impossible(sample, first.text)
    return grade(sample, log_line.judge_result(found if again else found[:1]))


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("type") not in TYPES:
        raise BadRecord("`type` is none of MIA-Bench's: no sample of it")
    return record


def _sample(record: Record) -> Sample | None:
    """As much of the sample as its replies are read by."""
    categories, weights = _categories(record), _weights(record)
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


def _categories(record: Record) -> tuple[str, ...]:
    return log_line.texts(record, "categories") or ()


def _weights(record: Record) -> tuple[int, ...]:
    """Full marks of each component, in points.

    Raises:
        BadRecord: They are something else.
    """
    value = record.get("weights")
    if value is None:
        return ()
    whole = isinstance(value, list) and all(type(each) is int and each > 0 for each in value)
    if not isinstance(value, list) or not whole:
        raise BadRecord("`weights` is not a list of numbers of points from 1")
    return tuple(value)


def _percent(verdict: Verdict) -> Verdict:
    match verdict:
        case Scored(points=points, reading=reading):
            return Scored(FULL_MARKS * points, reading)
    return verdict


def _groups(record: Record) -> dict[str, tuple[str, ...]]:
    groups = {
        "type": (log_line.text(record, "type"),),
        "component": tuple(dict.fromkeys(_categories(record))),
    }
    return groups if record.get("contradictory") is True else {**groups, _CLEAN: (_CLEAN,)}


def _parts(record: Record, reading: ScoreKind) -> dict[str, float]:
    shares = log_line.mapping(log_line.mapping(record, "parts"), reading)
    known = {name: log_line.number(share) for name, share in shares.items()}
    return {name: share for name, share in known.items() if share is not None}


def _question(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    """The image, then the instruction, as the tested model is asked."""
    said = log_line.optional_text(line, "input")
    text = (LoggedSegment(text=said),) if said else ()
    if "image" not in record:
        return (LoggedSegment(problem=NOT_LOGGED), *text)
    image = log_line.optional_text(record, "image")
    return (
        (LoggedSegment(image=image) if image else LoggedSegment(problem="the data name no file")),
        *text,
    )


def _facts(record: Record) -> dict[str, str | float | bool]:
    """What each component asks and was given, and what is odd."""
    facts: dict[str, str | float | bool] = dict(_components(record))
    if record.get("contradictory") is True:
        facts["contradictory"] = True
    if record.get("agrees") is False:
        facts["the stated total is that of its parts"] = False
    if (recomputed := log_line.number(record.get("recomputed"))) is not None:
        facts["total of the parts, percent"] = recomputed
    return facts


def _components(record: Record) -> Iterator[tuple[str, str]]:
    marks = record.get("components")
    each = zip_longest(
        _categories(record),
        _weights(record),
        marks if isinstance(marks, list) else (),
        log_line.texts(record, "asked") or (),
    )
    for place, (category, weight, mark, asked) in enumerate(each, 1):
        what = f": {asked}" if asked else ""
        yield f"component {place}", f"{category or '?'} {_mark(mark, weight)}{what}"


def _mark(mark: object, weight: int | None) -> str:
    """``3/4``; ``-/4`` where the reply gives none."""
    if isinstance(mark, list) and len(mark) == 2:
        points, out_of = map(log_line.number, mark)
        if points is not None and out_of is not None:
            return f"{points:g}/{out_of:g}"
    return f"-/{weight or '?'}"


DEFAULT_JUDGE = "openai:gpt-4o-2024-11-20"


def _prepare() -> None:
    from mmie_tasks.benchmarks.mia_bench import task

    task.check_prompt()


JUDGE = BenchmarkJudge("MIA-Bench", DEFAULT_JUDGE, check_setup=_prepare)


def _check_data(docs: Any) -> None:  # noqa: ANN401 - a Dataset, or a list of documents
    from mmie_tasks.benchmarks.mia_bench import task

    task.before_requests(docs)


def _provenance(doc: Doc) -> str:
    from mmie_tasks.benchmarks.mia_bench import task

    return task.provenance(doc)


def _signature(doc: Doc) -> str:
    from mmie_tasks.benchmarks.mia_bench import task

    return task.signature(doc)


BENCHMARK = Benchmark(
    name="mia_bench",
    title="MIA-Bench",
    scale=SCALE,
    metrics=METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    judge=JUDGE,
    check_data=_check_data,
    provenance=_provenance,
    signature=_signature,
)
