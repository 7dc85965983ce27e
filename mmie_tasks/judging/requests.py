"""Requests to a judge with their checks and readers, and the results of judging.

`judge_all` is the only function that turns the failure of a judge into `Unscored`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mmie_tasks.core.verdict import Unscored, UnscoredReason, Verdict, Verdicts
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

ReplyReader: TypeAlias = Callable[[str], Verdict]

_REASONS: Mapping[type[JudgeError], UnscoredReason] = {
    JudgeUnavailable: "unavailable",
    JudgeMisconfigured: "unavailable",
    JudgeRefused: "refused",
    RequestBroken: "bad_image",
    RequestUnfit: "unfit",
    OutOfBudget: "budget",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """A request, and the check that its reply must pass.

    Attributes:
        request: The request to the judge.
        is_impossible: Whether a reply's text gives an impossible verdict, such as more points than
            the scale has. The request is then sent a second time, and only once.
    """

    request: JudgeRequest
    is_impossible: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeResult:
    """The replies to a request, or the reason there is none.

    Attributes:
        reply: The first reply; None without one.
        second_reply: The reply to the request when it was sent a second time.
        failure: Why there is no reply.
    """

    reply: JudgeReply | None = None
    second_reply: JudgeReply | None = None
    failure: Unscored | None = None

    @property
    def replies(self) -> tuple[JudgeReply, ...]:
        """The replies in order; none, one or two."""
        return tuple(reply for reply in (self.reply, self.second_reply) if reply is not None)

    @property
    def last_text(self) -> str:
        """The text of the last reply; empty without one."""
        return self.replies[-1].text if self.replies else ""

    def first_verdict(self, read: ReplyReader, *, read_cut_off: bool = False) -> Verdict:
        """The verdict of the first reply, as a script gives that sends each request once.

        Args:
            read: Makes a verdict of a reply's text.
            read_cut_off: Also read a reply that reached its token limit, as a script does that
                does not look at the finish reason.
        """
        if read_cut_off and self.reply is not None:
            return read(self.reply.text)
        return _verdict(self.reply, self.failure, read)

    def verdict(self, read: ReplyReader) -> Verdict:
        """The verdict of the second reply if there is one, else of the first."""
        return _verdict(self.second_reply or self.reply, self.failure, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRequest(CheckedRequest):
    """A request, and the benchmark's readers of its replies.

    Attributes:
        grade: Every verdict on the replies, on the benchmark's own scale.
        cut_images: Images of the answer that the benchmark's prompt does not show.
        cut_texts: Texts of the answer that it does not show.
    """

    grade: Callable[[JudgeResult], Verdicts]
    cut_images: int = 0
    cut_texts: int = 0


def _verdict(reply: JudgeReply | None, failure: Unscored | None, read: ReplyReader) -> Verdict:
    if reply is None:
        return failure or Unscored("unavailable", "no request was sent to the judge")
    if reply.finish == "length":
        return Unscored("cut_off", "the reply reached its token limit")
    return read(reply.text)


def judge_all(
    judge: Judge, requests: Sequence[CheckedRequest], on_outcome: Callable[[Outcome], None] = lambda _: None
) -> Iterator[tuple[int, JudgeResult]]:
    """Send all requests at once and yield each result, with its index, as it is complete.

    Every request gets exactly one result, also from a judge that yields none or too many.

    Args:
        judge: The judge.
        requests: Any number; the judge gets them together.
        on_outcome: Called with every outcome, those of second requests included.
    """
    first_replies: dict[int, JudgeReply] = {}
    for index, outcome in _outcomes(judge, [checked.request for checked in requests]):
        on_outcome(outcome)
        if isinstance(outcome, JudgeError):
            yield index, JudgeResult(failure=unscored(outcome))
        elif outcome.finish == "stop" and requests[index].is_impossible(outcome.text):
            first_replies[index] = outcome
        else:
            yield index, JudgeResult(reply=outcome)
    indices = list(first_replies)
    for position, outcome in _outcomes(judge, [replace(requests[index].request, attempt=1) for index in indices]):
        on_outcome(outcome)
        index = indices[position]
        second_reply = outcome if isinstance(outcome, JudgeReply) else None
        yield index, JudgeResult(reply=first_replies[index], second_reply=second_reply)


def _outcomes(judge: Judge, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
    """The judge's outcomes, one per request; a request without an outcome is unavailable."""
    missing = dict.fromkeys(range(len(requests)))
    if requests:
        for index, outcome in judge.ask(requests):
            if index in missing:
                del missing[index]
                yield index, outcome
    for index in missing:
        yield index, JudgeUnavailable("the judge returned neither a reply nor an error")


def unscored(error: JudgeError) -> Unscored:
    """The verdict for an error of a judge: its reason, and the first line of its message."""
    reasons = (reason for kind, reason in _REASONS.items() if isinstance(error, kind))
    return Unscored(next(reasons, "unavailable"), str(error).partition("\n")[0])
