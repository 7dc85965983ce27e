"""Results and judgements of a single judge, for samples that are made by hand."""

from mmie_tasks.core.verdict import Unscored, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from support.signatures import signature_from

MADE_UP = "judge:made_up|model:made-up"


def result_of(*texts, finish="stop"):
    """A judge's result with one reply or two; without texts it failed."""
    replies = [JudgeReply(text=text, model="m", finish=finish) for text in texts]
    failure = None if texts else Unscored("unavailable", "down")
    named = dict(zip(("reply", "second_reply"), replies, strict=False))
    return JudgeResult(**named, failure=failure)


def replied(*replies, judge=MADE_UP):
    """The judgements of a sample with one or two replies of a judge; none without a reply."""
    if not replies:
        return ()
    result = JudgeResult(reply=replies[0], second_reply=replies[1] if replies[1:] else None)
    verdicts = Verdicts.unscored("unparsed", "not read")
    return (Judgement(judge=signature_from(judge), result=result, verdicts=verdicts),)
