"""MileBench's `Benchmark`: its samples in a log, its assets and its published scores."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc
from mmie_tasks.benchmarks.milebench import data, metrics
from mmie_tasks.benchmarks.milebench.published import PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.milebench.record import FORM, read_line, record_of, sample_of
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANTS, selections, task_name
from mmie_tasks.benchmarks.milebench.scoring import score_answer
from mmie_tasks.core.verdict import Unscored, Verdict, Verdicts
from mmie_tasks.record import log_line
from mmie_tasks.record.sample import Line, Record
from mmie_tasks.record.signature import run_signature, signature_text

VERSION = "3-B"  # of every task of MileBench: the number moves with the scores


def provenance(doc: Doc) -> str:
    """Task version, prompt, readers and data in one line, which is saved with the results."""
    return signature_text(
        task=f"milebench@{VERSION}",
        variant=doc["variant"],
        prompt="official",
        reader="official+robust",
        data=doc["data"],
    )


def signature(doc: Doc) -> str:
    """Everything that can move the score: `provenance` and the version of this package."""
    return run_signature(provenance(doc), environment=os.environ)


_NOT_IN_ANSWER = {"no_answer", "not_text", "bad_image"}  # reasons that the saved answer lacks


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to the answer of a line; None if the line lacks what they need.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    verdicts = _score_again(line)
    return {"official": verdicts.official, "robust": verdicts.robust} if verdicts else None


def rerecord(line: Line) -> Record:
    """The record of a line with the current readers' verdicts, or unchanged if they cannot read.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    record, verdicts = record_of(line), _score_again(line)
    if verdicts is None:
        return record
    return {**record, **log_line.verdict_fields(record.get("id"), verdicts, FORM)}


def _score_again(line: Line) -> Verdicts | None:
    logged = read_line(line)
    verdicts = (logged.official, logged.robust)
    if all(isinstance(v, Unscored) and v.reason in _NOT_IN_ANSWER for v in verdicts):
        return Verdicts(official=logged.official, robust=logged.robust)
    answer, sample = log_line.text_answer(line), sample_of(record_of(line))
    return None if sample is None or answer is None else score_answer(sample, [answer])


BENCHMARK = Benchmark(
    name="milebench",
    title="MileBench",
    scale=metrics.SCALE,
    metrics=metrics.METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    published=PUBLISHED_SAMPLES,
    two_of_each={
        task_name("all", variant): 2 * len(selections(variant)["all"]) for variant in VARIANTS
    },
    published_rows=PUBLISHED_ROWS,
    datasets=DATASETS,
    assets=data.assets,
    check_data=data.check_data,
    provenance=provenance,
    signature=signature,
)
