"""Putting requests before a judge and reading what it says.

The one place where a judge's failure becomes `Unscored`, and where a reply that cannot be meant is
asked for once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mmie_tasks.core.verdict import Unscored, UnscoredReason, Verdict
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestBroken,
    RequestUnfit,
)

Reader: TypeAlias = Callable[[str], Verdict]

_REASONS: Mapping[type[JudgeError], UnscoredReason] = {
    JudgeUnavailable: "unavailable",
    JudgeMisconfigured: "unavailable",
    JudgeRefused: "refused",
    RequestBroken: "bad_image",
    RequestUnfit: "unfit",
    OutOfBudget: "budget",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request, and when its reply is worth a second one.

    Attributes:
        request: What the judge is asked.
        impossible: Whether a reply says something that cannot be meant, such as more points than
            there are. It is asked for once more, and only once.
    """

    request: JudgeRequest
    impossible: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of one question.

    Attributes:
        reply: The first reply; None where there is none.
        second: The reply to the question asked once more.
        failure: Why there is no reply.
    """

    reply: JudgeReply | None = None
    second: JudgeReply | None = None
    failure: Unscored | None = None

    def first(self, read: Reader, *, unfinished: bool = False) -> Verdict:
        """The verdict of the first reply, whatever it says: as a script that asks once.

        Args:
            read: Makes a verdict of a reply's text.
            unfinished: Also read a reply that ran into its limit of tokens, as a script does that
                is not told.
        """
        if unfinished and self.reply is not None:
            return read(self.reply.text)
        return _verdict(self.reply, self.failure, read)

    def best(self, read: Reader) -> Verdict:
        """The verdict of the second reply where there is one, else of the first."""
        return _verdict(self.second or self.reply, self.failure, read)


def judge_all(
    judge: Judge,
    questions: Sequence[Question],
    watch: Callable[[Outcome], None] = lambda _: None,
) -> Iterator[tuple[int, Judged]]:
    """Ask everything at once and give each question's result, with its index, as it is complete.

    Every question gets exactly one result, also from a judge that gives none or too many.

    Args:
        judge: Who is asked.
        questions: In any number; they are handed to the judge together.
        watch: Told of every outcome, the second ones included.
    """
    first: dict[int, JudgeReply] = {}
    for index, outcome in _outcomes(judge, [question.request for question in questions]):
        watch(outcome)
        if isinstance(outcome, JudgeError):
            yield index, Judged(failure=unscored(outcome))
        elif outcome.finish == "stop" and questions[index].impossible(outcome.text):
            first[index] = outcome
        else:
            yield index, Judged(reply=outcome)
    again = list(first)
    requests = [replace(questions[index].request, attempt=1) for index in again]
    for place, outcome in _outcomes(judge, requests):
        watch(outcome)
        second = outcome if isinstance(outcome, JudgeReply) else None
        yield again[place], Judged(reply=first[again[place]], second=second)


def _outcomes(judge: Judge, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
    """The judge's outcomes, one for each request; what it leaves out is unavailable."""
    missing = dict.fromkeys(range(len(requests)))
    if requests:
        for index, outcome in judge.ask(requests):
            if index in missing:
                del missing[index]
                yield index, outcome
    for index in missing:
        yield index, JudgeUnavailable("the judge gave neither a reply nor an error")


def unscored(error: JudgeError) -> Unscored:
    """The verdict a judge's error stands for."""
    reasons = (reason for kind, reason in _REASONS.items() if isinstance(error, kind))
    return Unscored(next(reasons, "unavailable"), str(error).partition("\n")[0])


def _verdict(reply: JudgeReply | None, failure: Unscored | None, read: Reader) -> Verdict:
    if reply is None:
        return failure or Unscored("unavailable", "the judge was not asked")
    if reply.finish == "length":
        return Unscored("cut_off", "the reply ran into its limit of tokens")
    return read(reply.text)
