"""Requests to a judge, with checks and readers of the replies.

Only `unscored` turns a judge's failure into `Unscored`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.verdict import Unscored, UnscoredReason, Verdicts
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestBroken,
    RequestUnfit,
    close_judge,
    outcomes_of,
)
from mmie_tasks.record.reply import JudgeReply, JudgeResult

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
    """A request, and a check of its reply.

    Attributes:
        request: The request.
        is_impossible: Whether a reply's text has an impossible verdict, such as more points than
            the scale has. The request is then sent once more.
    """

    request: JudgeRequest
    is_impossible: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRequest(CheckedRequest):
    """A request, and the benchmark's readers of its replies.

    Attributes:
        grade: Reads all verdicts, on the benchmark's own scale.
    """

    grade: Callable[[JudgeResult], Verdicts]


def judge_all(
    judge: Judge,
    requests: Sequence[CheckedRequest],
    on_outcome: Callable[[int, Outcome], None] = lambda _index, _outcome: None,
) -> Iterator[tuple[int, JudgeResult]]:
    """Sends all requests at once and yields each index with its result when it is complete.

    Args:
        judge: The judge. A panel has one result per judge and request, with the indices of
            `Judge.ask`.
        requests: The requests.
        on_outcome: Called with every index and outcome, including those of second requests.
    """
    first_replies: dict[int, JudgeReply] = {}
    for index, outcome in outcomes_of(judge, [checked.request for checked in requests]):
        request = requests[index % len(requests)]
        outcome = _with_length(outcome, request.request)
        on_outcome(index, outcome)
        if isinstance(outcome, JudgeError):
            yield index, JudgeResult(failure=unscored(outcome))
        elif outcome.finish == "stop" and request.is_impossible(outcome.text):
            first_replies[index] = outcome
        else:
            yield index, JudgeResult(reply=outcome)
    for position, member in enumerate(judge.members):
        indices = [index for index in first_replies if index // len(requests) == position]
        again = [replace(requests[index % len(requests)].request, attempt=1) for index in indices]
        for number, outcome in outcomes_of(member, again, judge.title(position)):
            index, outcome = indices[number], _with_length(outcome, again[number])
            on_outcome(index, outcome)
            second_reply = outcome if isinstance(outcome, JudgeReply) else None
            yield index, JudgeResult(reply=first_replies[index], second_reply=second_reply)
        if again and member.in_process and len(judge.members) > 1:
            close_judge(member)  # the next model needs the memory


def _with_length(outcome: Outcome, request: JudgeRequest) -> Outcome:
    if isinstance(outcome, JudgeError):
        return outcome
    texts = (part for part in (request.system, *request.parts) if isinstance(part, str))
    return replace(outcome, request_characters=sum(map(len, texts)))


def unscored(error: JudgeError) -> Unscored:
    """The verdict for a judge's error: the reason, and the first line of the message."""
    reasons = (reason for kind, reason in _REASONS.items() if isinstance(error, kind))
    return Unscored(next(reasons, "unavailable"), first_line(error))
