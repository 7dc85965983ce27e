"""OpenING's `Benchmark`: its judge, its samples in a log, its assets and its published scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmie_tasks.benchmarks.answer_request import require_drawn
from mmie_tasks.benchmarks.benchmark import Benchmark, Doc
from mmie_tasks.benchmarks.judged_benchmark import JudgedBenchmark
from mmie_tasks.benchmarks.model_answers import add_answer_folder
from mmie_tasks.benchmarks.opening import data, metrics, official_files
from mmie_tasks.benchmarks.opening import request as requests
from mmie_tasks.benchmarks.opening.export import run_export
from mmie_tasks.benchmarks.opening.judge_prompts import OTHER
from mmie_tasks.benchmarks.opening.official import asks_again, read_official
from mmie_tasks.benchmarks.opening.published import PUBLISHED_ROWS, PUBLISHED_SAMPLES, TOPIC_SIZES
from mmie_tasks.benchmarks.opening.question import MOST_STEPS, told_steps
from mmie_tasks.benchmarks.opening.record import FORM, read_line, record_of
from mmie_tasks.benchmarks.opening.robust import read_robust
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record import log_line
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.sample import READER_KINDS, Line
from mmie_tasks.record.segment import Segments

VERSION = "3-A"
"""``N-X`` of every task here: N changes with the scores, X with the interface."""

JUDGE = BenchmarkJudge(
    "opening",
    "openai:gpt-4o-2024-11-20",
    paper="openai:gpt-4o",  # the script's alias, dated
    title="OpenING",
    max_images=19,  # 9 of a question and 10 steps with one
    check_setup=requests.check_setup,
)


def grade(result: JudgeResult) -> Verdicts:
    """All verdicts on the last reply that the official script would have asked for.

    It reads a reply that reached its limit, too, if that is JSON.
    """
    reply = result.reply
    if reply is not None and not asks_again(reply.text):
        result = replace(result, second_reply=None)
    official = result.verdict(read_official)
    if result.second_reply is None:
        official = result.first_verdict(read_official, read_cut_off=True)
    robust, shares = result.verdict(read_robust), metrics.shares(result.last_text)
    verdicts = {"official": official, "robust": robust}
    parts = {
        kind: shares[kind]
        for kind in READER_KINDS
        if kind in shares and isinstance(verdicts[kind], Scored)
    }
    return Verdicts(official=official, robust=robust, parts=parts)


def picture_limit(doc: Doc) -> int:
    """How many pictures an answer may have: as many as the steps that the model is told."""
    return told_steps(Sample.from_doc(doc)) or MOST_STEPS


JUDGED = JudgedBenchmark(
    judge=JUDGE,
    version=VERSION,
    request_signature=requests.signature,
    grade=grade,
    is_impossible=asks_again,
    full_marks=math.inf,  # the official script does not check the scale
    record_of=record_of,
    form=FORM,
)


def judge_request(question: Segments, answer: Segments, line: Line | None) -> GradedRequest:
    """The request for any question and answer, put together as in a run; see
    `Benchmark.judge_request`.

    Raises:
        BadRecord: The line is not a sample of this benchmark, or a picture of the question cannot
            be shown.
        MmieTasksError: The fixed texts are not available.
    """
    if line is not None:
        require_drawn(record_of(line))
    log_line.parts(question + answer)  # every picture is a file
    sample = Sample(id="", topic="", subtask="", question=question, gold=())
    return JUDGED.graded(requests.request_for(sample, answer))


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The questions with their pictures, and the fixed texts; every task needs both."""
    questions, prompts = (official_files.QUESTIONS,), official_files.PROMPT_FILES
    return [
        official_files.files_asset(
            "opening: data",
            official_files.DATA,
            questions,
            environment,
            lambda: data.describe(environment),
        ),
        official_files.files_asset(
            "opening: prompts", OTHER, prompts, environment, requests.describe_prompts
        ),
    ]


BENCHMARK = Benchmark(
    name="opening",
    title="OpenING",
    scale=metrics.SCALE,
    metrics=metrics.ALL_METRICS,
    read_line=read_line,
    reread=JUDGED.reread,
    rerecord=JUDGED.rerecord,
    strata="topic",
    stratum_sizes=TOPIC_SIZES,
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
