"""Judges for tests: of our own protocol, and in need of no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mmie_tasks.judges.base import JudgeReply, JudgeRequest, Outcome, Usage


def text_of(request: JudgeRequest) -> str:
    return "".join(part for part in request.parts if isinstance(part, str))


def reply(text: str, **fields: object) -> JudgeReply:
    return JudgeReply(text=text, model="m", usage=Usage(input_tokens=3, output_tokens=2), **fields)


class SayingJudge:
    """Says what a function makes of each request, and keeps what it was asked, call by call."""

    signature = "judge:saying|model:m"

    def __init__(self, say: Callable[[JudgeRequest], Outcome]) -> None:
        self.say = say
        self.calls: list[list[JudgeRequest]] = []

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        self.calls.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, self.say(requests[index])


def echo(request: JudgeRequest) -> Outcome:
    return reply(text_of(request))


def open_saying(
    *, environment: Mapping[str, str], word: str, times: int = 1, loud: bool = False
) -> SayingJudge:
    """A kind of judge with options."""
    said = word.upper() if loud else word
    return SayingJudge(lambda _: reply(said * times + environment.get("ENDING", "")))
