"""A judge's reply, and the result of one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mmie_tasks.core.verdict import Unscored, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of replies, and their cost in US dollars; None if it is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0  # the part of the output tokens that is not in the text
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A judge's reply.

    Equality ignores `request_key` and `request_characters`.

    Attributes:
        text: The whole text.
        model: The model as the server names it: ``gpt-4o-2024-11-20``.
        usage: Tokens and cost, from the original request if the reply is cached.
        finish: ``length`` if the reply reached ``max_tokens`` and is incomplete.
        cached: Whether the reply comes from a cache or recording.
        request_key: The request's `content_key`, the key in a cache; empty without a cache.
        request_characters: Length of the request's texts; 0 if unknown.
    """

    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    finish: Literal["stop", "length"] = "stop"
    cached: bool = False
    request_key: str = field(default="", compare=False)
    request_characters: int = field(default=0, compare=False)


ReplyReader: TypeAlias = Callable[[str], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeResult:
    """The replies to a request, or the reason there is none.

    Attributes:
        reply: The first reply; None if there is none.
        second_reply: The reply after the request was sent a second time.
        failure: Why there is no reply.
    """

    reply: JudgeReply | None = None
    second_reply: JudgeReply | None = None
    failure: Unscored | None = None

    @property
    def replies(self) -> tuple[JudgeReply, ...]:
        """Up to two replies, in order."""
        return tuple(reply for reply in (self.reply, self.second_reply) if reply is not None)

    @property
    def last_text(self) -> str:
        """The text of the last reply; empty without a reply."""
        return self.replies[-1].text if self.replies else ""

    def first_verdict(self, read: ReplyReader, *, read_cut_off: bool = False) -> Verdict:
        """The verdict of the first reply, for official scripts that send each request once.

        Args:
            read: Reads the verdict from a reply's text.
            read_cut_off: Whether to read a reply that reached its token limit, for official scripts
                that ignore the finish reason.
        """
        if read_cut_off and self.reply is not None:
            return read(self.reply.text)
        return _verdict(self.reply, self.failure, read)

    def verdict(self, read: ReplyReader) -> Verdict:
        """The verdict of the second reply if there is one, else of the first."""
        return _verdict(self.second_reply or self.reply, self.failure, read)


def _verdict(reply: JudgeReply | None, failure: Unscored | None, read: ReplyReader) -> Verdict:
    if reply is None:
        return failure or Unscored("unavailable", "no request was sent to the judge")
    if reply.finish == "length":
        return Unscored("cut_off", "the reply reached its token limit")
    return read(reply.text)
