"""A judge without a transport, for tests of what stands between a judge and its user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmie_tasks.judges.base import JudgeReply, JudgeRequest, Outcome, Usage

SIGNATURE = "judge:telling|model:drawn-1"


def request(*parts, max_tokens=64, attempt=0) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=max_tokens, attempt=attempt)


def reply(text: str, *, cached=False, model="drawn-1", cost_usd: float | None = 0.25) -> JudgeReply:
    usage = Usage(input_tokens=7, output_tokens=3, reasoning_tokens=1, cost_usd=cost_usd)
    return JudgeReply(text=text, model=model, usage=usage, cached=cached)


class TellingJudge:
    """Says ``re: `` and the first text, or what it was told to; keeps what it was asked."""

    def __init__(self, signature: str = SIGNATURE, says: dict[str, Outcome] | None = None) -> None:
        self.signature = signature
        self.says = says or {}
        self.asked: list[list[str]] = []
        self.closed = 0

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        texts = [next((p for p in each.parts if isinstance(p, str)), "") for each in requests]
        self.asked.append(texts)
        try:
            for index, text in enumerate(texts):
                yield index, self.says.get(text) or reply(f"re: {text}")
        finally:
            self.closed += 1
