"""MIA-Bench's `Benchmark`: its judge, its samples in a log and its assets."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, zip_longest
from pathlib import Path

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc
from mmie_tasks.benchmarks.mia_bench import data, download, metrics, prompts
from mmie_tasks.benchmarks.mia_bench.request import check_prompt, grade, graded_request, last_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import Verdict
from mmie_tasks.hub.asset import Asset, installed_asset
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import BenchmarkJudge
from mmie_tasks.record import log_line
from mmie_tasks.record.log_line import NOT_LOGGED
from mmie_tasks.record.sample import SCORE_KINDS, BadRecord, Line, LoggedSample, Record, ScoreKind
from mmie_tasks.record.segment import LoggedSegment, Segments
from mmie_tasks.record.signature import run_signature, signature_text

VERSION = "3-B"
"""``N-X``: N changes with the scores, X with the interface."""


DEFAULT_JUDGE = "openai:gpt-4o-2024-11-20"
JUDGE = BenchmarkJudge(
    "mia_bench",
    DEFAULT_JUDGE,
    paper="openai:gpt-4o",  # the notebook's alias, dated
    title="MIA-Bench",
    check_setup=check_prompt,
)


def provenance(doc: Doc) -> str:
    """Task version, prompt, readers and data revision in one line; without the judge."""
    return signature_text(
        prompt=f"official,max_tokens={prompts.MAX_TOKENS}",
        reader="official+robust",
        task=f"mia_bench@{VERSION}",
        data=doc["data"],
    )


def signature(doc: Doc) -> str:
    """Everything that can move the score; another judge than the paper's is marked as such.

    Raises:
        SettingWrong: The chosen judge cannot be opened.
    """
    return run_signature(JUDGE.signature(), provenance(doc), environment=os.environ)


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    return replace(
        log_line.sample(line, math.inf),
        groups=metrics.groups(
            log_line.text(record, "type"),
            log_line.texts(record, "categories") or (),
            contradictory=record.get("contradictory") is True,
        ),
        parts={kind: _parts(record, kind) for kind in SCORE_KINDS},
        question=_question(line, record),
        facts=_facts(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to a line's saved replies; None if the line lacks them.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    sample = _sample(_record(line))
    return log_line.reread(line, None if sample is None else partial(grade, sample), math.inf)


def rerecord(line: Line) -> Record:
    """The record with the current readers' results; unchanged if it has no readable reply."""
    record = _record(line)
    if (sample := _sample(record)) is None or not log_line.replies(record):
        return record
    if (judged := log_line.rejudged(record, partial(grade, sample), math.inf)) is None:
        return record
    reply = last_reply(sample, judged)
    return {
        **record,
        **metrics.graded_fields(sample, judged.verdicts, reply),
        **judged.panel_fields,
    }


def judge_request(question: Segments, answer: Segments, line: Line | None) -> GradedRequest:
    """The request for any question and answer in the official text; see `Benchmark.judge_request`.

    Images follow the text, the question's first; marks such as ``[picture 2]`` in the answer show
    where they stand. Without a line there are such marks in the question, too, and its text is the
    instruction and the only component, worth 10 points.

    Raises:
        BadRecord: The line is not a sample of this benchmark, or lacks components.
        DataBroken: The installed runner does not have the official text.
    """
    check_prompt()
    question_parts, answer_parts = log_line.parts(question), log_line.parts(answer)
    images = [part for part in (*question_parts, *answer_parts) if isinstance(part, Path)]
    first_number = sum(isinstance(part, Path) for part in question_parts) + 1
    sample = (
        _pair_sample(_marked(question_parts, 1)) if line is None else _logged_sample(question, line)
    )
    return graded_request(sample, _marked(answer_parts, first_number), images)


def _marked(parts: Sequence[str | Path], first_number: int) -> str:
    """Texts, one per line, with marks in the place of images.

    >>> _marked(("Cut.", Path("a.png"), "Fold."), 2).splitlines()
    ['Cut.', '[picture 2]', 'Fold.']
    """
    numbers = count(first_number)
    return "\n".join(
        part if isinstance(part, str) else f"[picture {next(numbers)}]" for part in parts
    )


def _pair_sample(text: str) -> Sample:
    """A question that is no sample of the benchmark."""
    return Sample(
        id="",
        instruction=text,
        type=TYPES[0],
        components=(text,),
        weights=(10,),
        categories=CATEGORIES[:1],
    )


def _logged_sample(question: Segments, line: Line) -> Sample:
    """The sample of a line, with the instruction of a question, which is the sample's own or
    another.
    """
    record = _record(line)
    sample = _sample(record)
    if sample is None or len(sample.components) != len(sample.categories):
        raise BadRecord("the components of the instruction are not in this log")
    texts, own_texts = (
        [s.text for s in segments if s.text] for segments in (question, _question(line, record))
    )
    instruction = log_line.optional_text(record, "instruction") if texts == own_texts else ""
    return replace(sample, instruction=instruction or "\n".join(texts))


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("type") not in TYPES:
        raise BadRecord("`type` is none of MIA-Bench's types: not a sample of MIA-Bench")
    return record


def _sample(record: Record) -> Sample | None:
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


def _parts(record: Record, kind: ScoreKind) -> dict[str, float]:
    shares = log_line.mapping(log_line.mapping(record, "parts"), kind)
    return {
        name: number
        for name, share in shares.items()
        if (number := log_line.number(share)) is not None
    }


def _question(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    """The image, then the instruction, as in the request to the tested model."""
    text = log_line.text_segments(log_line.optional_text(line, "input"))
    if "image" not in record:
        return (LoggedSegment(problem=NOT_LOGGED), *text)
    image = log_line.optional_text(record, "image")
    return (
        LoggedSegment(image=image or None, problem="" if image else "the data names no file"),
        *text,
    )


def _facts(record: Record) -> dict[str, str | float | bool]:
    """Text and mark of each component, of several judges their marks in order, and what is unusual
    about the sample.
    """
    facts: dict[str, str | float | bool] = {}
    marks_of_judges = record.get("marks", [record])  # a panel has a list
    components = [
        marks if isinstance(marks, list) else []
        for judge_marks in (marks_of_judges if isinstance(marks_of_judges, list) else ())
        if isinstance(judge_marks, Mapping)
        for marks in [judge_marks.get("components")]
    ]
    columns = zip_longest(
        log_line.texts(record, "categories") or (),
        _weights(record),
        log_line.texts(record, "asked") or (),
        *components,
    )
    for number, (category, weight, text, *marks) in enumerate(columns, 1):
        suffix = f": {text}" if text else ""
        shown_marks = ", ".join(_mark(mark, weight) for mark in marks)
        facts[f"component {number}"] = f"{category or '?'} {shown_marks}{suffix}"
    if record.get("contradictory") is True:
        facts["contradictory"] = True
    if record.get("agrees") is False:
        facts["the stated total is that of its parts"] = False
    if (recomputed := log_line.number(record.get("recomputed"))) is not None:
        facts["total of the parts, percent"] = recomputed
    return facts


def _mark(mark: object, weight: int | None) -> str:
    """``3/4``; ``-/4`` if the reply gives no mark."""
    if isinstance(mark, list) and len(mark) == 2:
        points, out_of = map(log_line.number, mark)
        if points is not None and out_of is not None:
            return f"{points:g}/{out_of:g}"
    return f"-/{weight or '?'}"


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The samples with their images, and the judge prompt, which is installed with the runner.

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """

    def describe_prompt() -> str:
        check_prompt()
        return "unchanged, as in lmms-eval's own task"

    return [
        download.asset(environment, lambda: data.describe(environment)),
        installed_asset("mia_bench: judge prompt", "lmms-eval", describe_prompt),
    ]


BENCHMARK = Benchmark(
    name="mia_bench",
    title="MIA-Bench",
    scale=metrics.SCALE,
    metrics=metrics.METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    counts=metrics.counts,
    notes=metrics.notes,
    published={"mia_bench": 400},
    judge=JUDGE,
    judge_request=judge_request,
    assets=assets,
    check_data=data.check_data,
    provenance=provenance,
    signature=signature,
)
