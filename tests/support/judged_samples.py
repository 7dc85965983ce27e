"""Samples that wait for a judge, whose points are the number that it replies."""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.core.verdict import Scored, Unscored, Verdict, Verdicts
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.batch import DeferredRow, MetricRows, PendingSample
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.judgement import Judgement, combine
from mmie_tasks.record.reply import JudgeResult


def read(text: str) -> Verdict:
    return Scored(float(text)) if text.isdigit() else Unscored("unparsed")


def grade(result: JudgeResult) -> Verdicts:
    verdict = result.verdict(read)
    return Verdicts(official=verdict, robust=verdict)


def submit(
    benchmark: BenchmarkJudge, text: str, judged: list[Sequence[Judgement]] | None = None
) -> DeferredRow:
    """The row of a sample with a request of this text; its judgements are added to `judged`.

    The reply ``impossible`` has the request sent a second time.
    """

    def make_rows(judgements: Sequence[Judgement]) -> MetricRows:
        if judged is not None:
            judged.append(judgements)
        match combine(judgements).official:
            case Scored(points=points):
                return {"points": {"score": points}}
            case Unscored(reason=reason, detail=detail):
                return {"points": {"unscored": reason, "detail": detail}}

    sample = PendingSample(
        request=JudgeRequest(parts=(text,), max_tokens=9),
        is_impossible="impossible".__eq__,
        grade=grade,
        make_rows=make_rows,
        metrics=("points",),
    )
    row = benchmark.submit(sample)["points"]
    assert isinstance(row, DeferredRow)
    return row
