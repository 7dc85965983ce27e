"""MIA-Bench's `Benchmark`: its judge, its samples in a log and its assets."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc
from mmie_tasks.benchmarks.mia_bench import data, download, metrics, prompts
from mmie_tasks.benchmarks.mia_bench.record import (
    FORM,
    marks,
    question_of,
    read_line,
    record_of,
    sample_of,
)
from mmie_tasks.benchmarks.mia_bench.request import check_prompt, grade, graded_request, last_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import Verdict
from mmie_tasks.hub.asset import Asset, installed_asset
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record import log_line
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, Record
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.signature import run_signature, signature_text

VERSION = "5-B"
"""``N-X``: N changes with the scores, X with the interface."""


DEFAULT_JUDGE = "openai:gpt-4o-2024-11-20"
JUDGE = BenchmarkJudge(
    "mia_bench",
    DEFAULT_JUDGE,
    paper="openai:gpt-4o",  # the notebook's alias, dated
    title="MIA-Bench",
    max_images=1,
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


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to a line's saved replies; None if the line lacks them.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    sample = sample_of(record_of(line))
    return log_line.reread(line, None if sample is None else partial(grade, sample), math.inf)


def rerecord(line: Line) -> Record:
    """The record with the current readers' results; unchanged if it has no readable reply."""
    record = record_of(line)
    sample = sample_of(record)
    if sample is None:
        return record

    def readings(judged: Judged) -> Row:
        return marks(sample, last_reply(sample, judged))

    return log_line.rerecord(record, partial(grade, sample), math.inf, FORM, readings)


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
    record = record_of(line)
    sample = sample_of(record)
    if sample is None or len(sample.components) != len(sample.categories):
        raise BadRecord("the components of the instruction are not in this log")
    texts, own_texts = (
        [s.text for s in segments if s.text] for segments in (question, question_of(line, record))
    )
    instruction = log_line.optional_text(record, "instruction") if texts == own_texts else ""
    return replace(sample, instruction=instruction or "\n".join(texts))


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
