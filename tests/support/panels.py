"""Judgements of panels: several judges with a reply each, and MMIE lines that hold them."""

from mmie_tasks.benchmarks.mmie.benchmark import grade
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult, Usage
from mmie_tasks.record.segment import Segment
from support.records import record_of
from support.signatures import signature_from

MODELS = ("gpt-4o", "gpt-4o-mini", "qwen")


def signature(models=MODELS):
    judges = "|".join(f"judge:openai|model:{model}|t:0" for model in models)
    return f"{judges}|paper_judge:no|task:mmie@5-C|pkg:1"


def member(points, model="m"):
    """A judge of MMIE that replied with these points; with None it failed."""
    result = JudgeResult(failure=Unscored("unavailable", "HTTP 503"))
    if points is not None:
        usage = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5)
        reply = JudgeReply(text=f"### Score\n{points}", model=model, usage=usage)
        result = JudgeResult(reply=reply)
    judge = signature_from(f"judge:openai|model:{model}|t:0")
    return Judgement(judge=judge, result=result, verdicts=grade(result))


def judged(*points, sample_id="SA-1"):
    """A sample of MMIE whose judges gave these points; without points, it was not judged."""
    record = record_of(
        sample_id,
        Unscored("no_answer", "the request failed"),
        groups={"category": ("SA",), "field": ("art",)},
        question=(Segment(text="Draw."),),
        answer=(Segment(text="A kite."),),
        signature=signature_from(signature()),
    )
    members = [member(value, model) for value, model in zip(points, MODELS, strict=False)]
    return record.judged(members) if members else record


def mmie_line(record):
    return {"input": "Draw.", "filtered_resps": "A kite.", "record": record.logged}
