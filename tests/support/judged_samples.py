"""Samples that wait for a judge, whose points are the number that it replies."""

from __future__ import annotations

from mmie_tasks.core.verdict import Scored, Unscored, Verdict, Verdicts
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.batch import DeferredRow, GradedRequest, MetricRows, PendingSample
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.reply import JudgeResult


def read(text: str) -> Verdict:
    return Scored(float(text)) if text.isdigit() else Unscored("unparsed")


def grade(result: JudgeResult) -> Verdicts:
    verdict = result.verdict(read)
    return Verdicts(official=verdict, robust=verdict)


def graded(text: str) -> GradedRequest:
    """The request of this text; the reply ``impossible`` has it sent a second time."""
    request = JudgeRequest(parts=(text,), max_tokens=9)
    return GradedRequest(request=request, grade=grade, is_impossible="impossible".__eq__)


def submit(benchmark: BenchmarkJudge, text: str, judged: list[Judged] | None = None) -> DeferredRow:
    """The row of a sample with this request; its judgement is added to `judged`."""

    def make_rows(one: Judged) -> MetricRows:
        if judged is not None:
            judged.append(one)
        match one.verdicts.official:
            case Scored(points=points):
                return {"points": {"score": points}}
            case Unscored(reason=reason, detail=detail):
                return {"points": {"unscored": reason, "detail": detail}}

    sample = PendingSample(request=graded(text), make_rows=make_rows, metrics=("points",))
    row = benchmark.submit(sample)["points"]
    assert isinstance(row, DeferredRow)
    return row
