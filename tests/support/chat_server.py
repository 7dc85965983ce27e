"""A tested model behind an OpenAI-compatible server on the loopback interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from support.judge_server import Body, JudgeServer, Sent

Message = Mapping[str, object]


class ChatServer(JudgeServer):
    """Replies to every request with the same text, or with the message of a function.

    `usage` is that of every reply, if it has any.
    """

    def __init__(self, answer: str | Callable[[Body], Message]) -> None:
        super().__init__(self._completion, check=None)
        self.answer = answer
        self.usage: Mapping[str, int] | None = None

    def _completion(self, request: Body) -> Sent:
        answer = {"content": self.answer} if isinstance(self.answer, str) else self.answer(request)
        choice = {"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": "stop"}
        more = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        body = {**more, "usage": self.usage, "choices": [choice]}
        # The runner's models never close their clients, and would leave open connections behind.
        return Sent(content=json.dumps(body).encode(), headers={"connection": "close"})


@contextmanager
def chat_server(answer: str | Callable[[Body], Message]) -> Iterator[ChatServer]:
    chat = ChatServer(answer)
    chat.start()
    try:
        yield chat
    finally:
        chat.stop()
