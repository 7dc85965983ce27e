"""A tested model behind an OpenAI-compatible server on the loopback interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = Mapping[str, object]


class ChatServer:
    """Replies to every request with the same text, or with the message of a function, and records
    the requests.

    `usage` is that of every reply, if it has any.
    """

    def __init__(self, answer: str | Callable[[dict[str, Any]], Message]) -> None:
        self.answer = answer
        self.usage: Mapping[str, int] | None = None
        self.status = 200
        self.requests: list[dict[str, Any]] = []
        handler = type("Handler", (_Handler,), {"chat": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def chat_server(answer: str | Callable[[dict[str, Any]], Message]) -> Iterator[ChatServer]:
    chat = ChatServer(answer)
    thread = threading.Thread(target=chat.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield chat
    finally:
        chat.server.shutdown()
        chat.server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        self.chat.requests.append(request)
        answer = self.chat.answer
        message = {
            "role": "assistant",
            **({"content": answer} if isinstance(answer, str) else answer(request)),
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "usage": self.chat.usage,
        }
        data = json.dumps({**body, "choices": [choice]}).encode()
        self.send_response(self.chat.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""
