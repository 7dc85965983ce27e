"""MMIE's `Benchmark`: its judge, its samples in a log, its assets and its published scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mmie_tasks.benchmarks.answer_request import require_drawn
from mmie_tasks.benchmarks.benchmark import Benchmark, Doc
from mmie_tasks.benchmarks.judged_benchmark import JudgedBenchmark
from mmie_tasks.benchmarks.mmie import data, download, judge_prompts, metrics, prompts
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.export import run_export
from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, digit_offset, read_official
from mmie_tasks.benchmarks.mmie.published import CATEGORY_SIZES, PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.mmie.question import question_parts
from mmie_tasks.benchmarks.mmie.record import FORM, read_line, record_of
from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.benchmarks.model_answers import add_answer_folder
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record import log_line
from mmie_tasks.record.expected import expected_verdict
from mmie_tasks.record.picture_sample import shown_answer
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.sample import Line
from mmie_tasks.record.segment import Segments

VERSION = "8-C"
"""``N-X`` of every task here: N changes with the scores, X with the interface."""

JUDGE = BenchmarkJudge(
    "mmie",
    "mmie_score",
    paper="mmie_score",
    title="MMIE",
    max_images=12,
    check_setup=requests.check_setup,
)


def grade(result: JudgeResult) -> Verdicts:
    """All verdicts of a reply. The official script also reads a reply that reached its limit."""
    official = result.first_verdict(read_official, read_cut_off=True)
    offset = digit_offset(result.reply.text) if result.reply else None
    expected = expected_verdict(result.reply, offset, official, FULL_MARKS)
    return Verdicts(
        official=official,
        robust=result.first_verdict(read_robust),
        expected=expected.verdict,
        entropy_bits=expected.entropy_bits,
    )


def picture_limit(doc: Doc) -> int:
    """How many pictures of an answer the judge can see; 0 for multi-step reasoning, whose answers
    are texts.

    The answer ends with the third image of question and answer together (rules D9 and D5 in
    `prompts`).
    """
    sample = Sample.from_doc(doc)
    in_question = sum(isinstance(part, Path) for part in question_parts(sample))
    return 0 if sample.category == "MSR" else max(0, prompts.IMAGES_AT_END - in_question)


JUDGED = JudgedBenchmark(
    judge=JUDGE,
    version=VERSION,
    request_signature=requests.signature,
    grade=grade,
    full_marks=FULL_MARKS,
    record_of=record_of,
    form=FORM,
)


def judge_request(question: Segments, answer: Segments, line: Line | None) -> GradedRequest:
    """The request for any question and answer, assembled as in a run; see
    `Benchmark.judge_request`.

    Without a line the template is that of situational analysis (SA).

    Raises:
        BadRecord: The line is not a sample of this benchmark, or the official script sends no such
            request.
        MmieTasksError: The templates are not available.
    """
    sample = Sample(id="", category="SA", question=question, gold=())
    if line is not None:
        record = record_of(line)
        require_drawn(record)
        logged = read_line(line)
        if answer == logged.answer:
            answer = shown_answer(record)  # also one that was not parsed
        sample = replace(
            sample, id=logged.id, category=logged.names("category")[0], gold=logged.gold
        )
    log_line.parts(question + answer)  # every image is a file
    return JUDGED.graded(requests.request_for(sample, answer))


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The data, and the official judge prompts; every task of MMIE needs both.

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    return [
        download.asset(environment, lambda: data.describe(environment)),
        judge_prompts.prompts_asset(environment, requests.describe_prompts),
    ]


BENCHMARK = Benchmark(
    name="mmie",
    title="MMIE",
    scale=metrics.SCALE,
    metrics=metrics.METRICS,
    read_line=read_line,
    reread=JUDGED.reread,
    rerecord=JUDGED.rerecord,
    strata="category",
    stratum_sizes=CATEGORY_SIZES,
    counts=metrics.counts,
    notes=metrics.notes,
    published=PUBLISHED_SAMPLES,
    published_rows=PUBLISHED_ROWS,
    judge=JUDGE,
    judge_request=judge_request,
    assets=assets,
    check_data=data.check_data,
    provenance=JUDGED.provenance,
    signature=JUDGED.signature,
    add_answer_folder=add_answer_folder,
    picture_limit=picture_limit,
    export=run_export,
)
