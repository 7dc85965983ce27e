"""Judges for tests that need no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mmie_tasks.judges.base import JudgeReply, JudgeRequest, Outcome, Usage


def text_of(request: JudgeRequest) -> str:
    return "".join(part for part in request.parts if isinstance(part, str))


def reply(text: str, **fields: object) -> JudgeReply:
    return JudgeReply(text=text, model="m", usage=Usage(input_tokens=3, output_tokens=2), **fields)


class FunctionJudge:
    """Replies with a function of each request, and records its calls."""

    signature = "judge:function|model:m"

    def __init__(self, reply_to: Callable[[JudgeRequest], Outcome]) -> None:
        self.reply_to = reply_to
        self.calls: list[list[JudgeRequest]] = []

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        self.calls.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, self.reply_to(requests[index])


def echo(request: JudgeRequest) -> Outcome:
    return reply(text_of(request))


def open_word_judge(
    *, environment: Mapping[str, str], word: str, times: int = 1, loud: bool = False
) -> FunctionJudge:
    """A factory with options."""
    text = word.upper() if loud else word
    return FunctionJudge(lambda _: reply(text * times + environment.get("ENDING", "")))
