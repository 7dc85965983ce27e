"""Judges for tests that need no server."""

from collections.abc import Mapping

from mmie_tasks.extend import Judge, JudgeOptions, JudgeReply, JudgeRequest, Usage

SIGNATURE = {"judge": "scripted", "model": "drawn-1"}


def text_of(request):
    return "".join(part for part in request.parts if isinstance(part, str))


def reply(text, **fields):
    return JudgeReply(text=text, model="m", usage=Usage(input_tokens=3, output_tokens=2), **fields)


class FunctionJudge(Judge):
    """Replies with a function of each request, and records its calls."""

    signature: Mapping[str, object] = {"judge": "function", "model": "m"}

    def __init__(self, reply_to):
        self.reply_to = reply_to
        self.calls = []

    def ask(self, requests):
        self.calls.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, self.reply_to(requests[index])


def echo(request):
    return reply(text_of(request))


def class_of(judge):
    """A class, as the registry returns it, that opens this judge."""

    class Registered(FunctionJudge):
        in_process = judge.in_process

        @classmethod
        def open(cls, options, environment):  # noqa: ARG003
            return judge

    return Registered


class WordJudge(FunctionJudge):
    """Has options, and reads the environment."""

    class Options(JudgeOptions):
        word: str
        times: int = 1
        loud: bool = False

    @classmethod
    def open(cls, options, environment):
        text = options.word.upper() if options.loud else options.word
        return cls(lambda _: reply(text * options.times + environment.get("ENDING", "")))


def scripted_request(*parts, max_tokens=64, attempt=0):
    return JudgeRequest(parts=parts, max_tokens=max_tokens, attempt=attempt)


def scripted_reply(text, *, cached=False, model="drawn-1"):
    usage = Usage(input_tokens=7, output_tokens=3, reasoning_tokens=1, cost_usd=0.25)
    return JudgeReply(text=text, model=model, usage=usage, cached=cached)


class ScriptedJudge(Judge):
    """Replies ``re: `` and the request's first text, or as scripted; records its calls.

    Attributes:
        calls: The first text of each request, call by call.
        closed: How many calls have ended.
    """

    signature: Mapping[str, object] = SIGNATURE

    def __init__(self, script=None, **more):
        self.signature = {**SIGNATURE, **more}
        self.script = script or {}
        self.calls = []
        self.closed = 0

    def ask(self, requests):
        texts = [next((p for p in r.parts if isinstance(p, str)), "") for r in requests]
        self.calls.append(texts)
        try:
            for index, text in enumerate(texts):
                yield index, self.script.get(text) or scripted_reply(f"re: {text}")
        finally:
            self.closed += 1
