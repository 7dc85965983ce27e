"""OpenING's `Benchmark`: its judge, its samples in a log, its assets and its published scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmie_tasks.answers.drawn import require_drawn
from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, PublishedRow
from mmie_tasks.benchmarks.judged import JudgedBenchmark
from mmie_tasks.benchmarks.model_answers import add_answer_folder
from mmie_tasks.benchmarks.opening import data, metrics, official_files
from mmie_tasks.benchmarks.opening import request as requests
from mmie_tasks.benchmarks.opening.export import run_export
from mmie_tasks.benchmarks.opening.judge_prompts import OTHER
from mmie_tasks.benchmarks.opening.official import METRICS, asks_again, read_official
from mmie_tasks.benchmarks.opening.record import FORM, read_line, record_of
from mmie_tasks.benchmarks.opening.robust import read_robust
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record import log_line
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.sample import SCORE_KINDS, Line
from mmie_tasks.record.segment import Segments

VERSION = "1-A"
"""``N-X`` of every task here: N changes with the scores, X with the interface."""

JUDGE = BenchmarkJudge(
    "opening",
    "openai:gpt-4o-2024-11-20",
    paper="openai:gpt-4o",  # the script's alias, dated
    title="OpenING",
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
        for kind in SCORE_KINDS
        if kind in shares and isinstance(verdicts[kind], Scored)
    }
    return Verdicts(official=official, robust=robust, parts=parts)


def picture_limit(doc: Doc) -> int:
    """How many pictures an answer may have: as many as the steps that the model is told."""
    return requests.told_steps(Sample.from_doc(doc)) or requests.MOST_STEPS


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


_SOURCE = (
    "LanceZPF/OpenING 56b663b, Interleaved_Arena/model_score_summaries.csv; {n} answers of other "
    "questions than the other rows (95 %: {low} to {high}), judged by gpt-4o of 2025 or earlier"
)
PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores={
            name: round(10 * score, 1)
            for name, score in zip((*map(slug, METRICS), ""), scores, strict=True)
        },
        source=_SOURCE.format(n=n, low=f"{10 * low:.1f}", high=f"{10 * high:.1f}"),
    )
    for model, n, (low, high), scores in (
        ("Human", 132, (8.36, 8.76), (8.65, 8.86, 8.89, 8.38, 9.03, 8.77, 7.42, 8.57)),
        ("GPT-4o+DALL-E3", 133, (7.93, 8.44), (7.98, 8.15, 8.38, 8.01, 8.77, 8.66, 7.42, 8.20)),
        ("Gemini1.5+Flux", 133, (6.91, 7.55), (7.03, 6.98, 7.33, 7.26, 7.98, 7.58, 6.48, 7.23)),
        ("SEED-X", 155, (5.43, 6.24), (5.77, 5.72, 5.72, 6.07, 7.03, 5.65, 4.92, 5.84)),
        ("Anole", 166, (5.40, 6.10), (5.06, 4.90, 5.81, 6.02, 6.91, 6.27, 5.28, 5.75)),
        ("SEED-LLaMA", 148, (4.84, 5.54), (4.59, 4.43, 5.13, 5.50, 6.50, 5.59, 4.61, 5.19)),
        ("Emu2", 159, (4.60, 5.33), (4.69, 4.58, 5.03, 5.24, 6.12, 4.76, 4.31, 4.96)),
        ("GILL", 156, (4.23, 4.88), (4.11, 4.21, 4.35, 5.01, 5.99, 4.33, 3.88, 4.55)),
        ("Show-o", 156, (4.12, 4.73), (3.76, 4.04, 4.33, 4.79, 5.78, 4.37, 3.83, 4.41)),
        ("MiniGPT-5", 142, (3.81, 4.43), (3.63, 3.56, 4.10, 4.50, 5.51, 3.91, 3.61, 4.12)),
        ("NExT-GPT", 142, (3.60, 4.29), (3.61, 3.32, 3.85, 4.25, 5.35, 3.89, 3.35, 3.95)),
    )
)
"""The table of the repository, in percent of full marks; intervals are of our own recomputation."""


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


_TOTAL = sum(data.PUBLISHED.values())

BENCHMARK = Benchmark(
    name="opening",
    title="OpenING",
    scale=metrics.SCALE,
    metrics=metrics.ALL_METRICS,
    read_line=read_line,
    reread=JUDGED.reread,
    rerecord=JUDGED.rerecord,
    strata="topic",
    stratum_sizes=data.PUBLISHED,
    counts=metrics.counts,
    notes=metrics.notes,
    published={task: data.PUBLISHED.get(name, _TOTAL) for name, task in data.TASKS.items()},
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
