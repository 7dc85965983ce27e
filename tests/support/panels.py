"""Judgements of panels: several judges with a reply each, and MMIE lines that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmie_tasks.benchmarks.mmie.benchmark import grade
from mmie_tasks.benchmarks.mmie.record import MmieRecord
from mmie_tasks.core.verdict import Unscored, Verdicts
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult, Usage
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature

MODELS = ("gpt-4o", "gpt-4o-mini", "qwen")
FAILURE = Unscored("unavailable", "HTTP 503")


def signature(models: Sequence[str] = MODELS) -> str:
    """The signature of an MMIE sample that a panel of these models judged."""
    judges = "|".join(f"judge:openai|model:{model}|t:0" for model in models)
    return f"{judges}|paper_judge:no|task:mmie@5-C|pkg:1"


def member(points: object, model: str = "m") -> Judgement:
    """A judge of MMIE that replied with these points; with None it failed."""
    result = JudgeResult(failure=FAILURE)
    if points is not None:
        usage = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5)
        result = JudgeResult(
            reply=JudgeReply(text=f"### Score\n{points}", model=model, usage=usage)
        )
    return Judgement(
        judge=Signature.parse(f"judge:openai|model:{model}|t:0"),
        result=result,
        verdicts=grade(result),
    )


def judged(*points: object) -> Judged:
    """The judgement of a panel whose judges gave these points."""
    return Judged.by([member(value, model) for value, model in zip(points, MODELS, strict=False)])


def mmie_line(judgement: Judged, sample_id: str = "SA-1") -> dict[str, Any]:
    """A line of a log of MMIE with this judgement; without members, the answer was not judged."""
    record = MmieRecord.of(
        judgement,
        id=sample_id,
        category="SA",
        field="Art",
        question=(Segment(text="Draw."),),
        signature=Signature.parse(signature()),
    )
    logged = record.model_dump()
    return {"input": "Draw.", "target": "", "filtered_resps": "A kite.", "record": logged}


NOT_JUDGED = Judged(verdicts=Verdicts.unscored("no_answer", "the request failed"))
