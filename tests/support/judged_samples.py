"""Samples that wait for a judge, whose points are the number that it replies."""

from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.batch import DeferredRow, PendingSample
from mmie_tasks.record.judgement import combine


def read(text):
    return Scored(float(text)) if text.isdigit() else Unscored("unparsed")


def grade(result):
    verdict = result.verdict(read)
    return Verdicts(official=verdict, robust=verdict)


def submit(benchmark, text, judged=None):
    """The row of a sample with a request of this text; its judgements are added to `judged`.

    The reply ``impossible`` has the request sent a second time.
    """

    def make_rows(judgements):
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
