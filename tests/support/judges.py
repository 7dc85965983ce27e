"""Judges for tests that need no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from mmie_tasks.extend import Judge, JudgeOptions, JudgeReply, JudgeRequest, Outcome, Usage

SIGNATURE = {"judge": "scripted", "model": "drawn-1"}


def text_of(request: JudgeRequest) -> str:
    return "".join(part for part in request.parts if isinstance(part, str))


def reply(text: str, **fields: object) -> JudgeReply:
    return JudgeReply(text=text, model="m", usage=Usage(input_tokens=3, output_tokens=2), **fields)


class FunctionJudge(Judge):
    """Replies with a function of each request, and records its calls."""

    signature: Mapping[str, object] = {"judge": "function", "model": "m"}

    def __init__(self, reply_to: Callable[[JudgeRequest], Outcome]) -> None:
        self.reply_to = reply_to
        self.calls: list[list[JudgeRequest]] = []

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        self.calls.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, self.reply_to(requests[index])


def echo(request: JudgeRequest) -> Outcome:
    return reply(text_of(request))


def class_of(judge: Judge) -> type[Judge]:
    """A class, as the registry returns it, that opens this judge."""

    class Registered(FunctionJudge):
        in_process = judge.in_process

        @classmethod
        def open(cls, options: JudgeOptions, environment: Mapping[str, str]) -> Judge:  # noqa: ARG003
            return judge

    return Registered


class WordJudge(FunctionJudge):
    """Has options, and reads the environment."""

    class Options(JudgeOptions):
        word: str
        times: int = 1
        loud: bool = False

    @classmethod
    def open(cls, options: Options, environment: Mapping[str, str]) -> Judge:
        text = options.word.upper() if options.loud else options.word
        return cls(lambda _: reply(text * options.times + environment.get("ENDING", "")))


def scripted_request(*parts: str | Path, max_tokens: int = 64, attempt: int = 0) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=max_tokens, attempt=attempt)


def scripted_reply(text: str, *, cached: bool = False, model: str = "drawn-1") -> JudgeReply:
    usage = Usage(input_tokens=7, output_tokens=3, reasoning_tokens=1, cost_usd=0.25)
    return JudgeReply(text=text, model=model, usage=usage, cached=cached)


class ScriptedJudge(Judge):
    """Replies ``re: `` and the request's first text, or as scripted; records its calls.

    Attributes:
        calls: The first text of each request, call by call.
        closed: How many calls have ended.
    """

    signature: Mapping[str, object] = SIGNATURE

    def __init__(self, script: Mapping[str, Outcome] | None = None, **more: object) -> None:
        self.signature = {**SIGNATURE, **more}
        self.script = script or {}
        self.calls: list[list[str]] = []
        self.closed = 0

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        texts = [next((p for p in r.parts if isinstance(p, str)), "") for r in requests]
        self.calls.append(texts)
        try:
            for index, text in enumerate(texts):
                yield index, self.script.get(text) or scripted_reply(f"re: {text}")
        finally:
            self.closed += 1
