"""A judge on an OpenAI-compatible loopback server, with a script of faults.

    with judge_server("Score: 5", delay_s=0.1, at_most=20) as server:
        server.fails(503, times=2)          # the next two requests; then "Score: 5" again
        server.hangs()                      # the next one gets no response
        server.says(lambda body: "seen")    # from now on, by the request's body
        ...                                 # ask at server.url
    server.asked      # bodies of all chat requests, as dicts, in order of arrival
    server.headers    # their headers, names in lower case; also server.paths and server.times
    server.checks     # the number of checks before a run, which are not in `asked`
    server.statuses   # the number of responses by status; 0 counts missing responses

The faults of the script are used up in order, one per request, without a delay. Without a fault,
and with the right key and free capacity, a request gets the reply of `says` after `delay_s`. A
check before a run gets `server.check` and uses up no fault; with None it is like any request.
The server runs in one thread and handles some hundred requests per second. As a program:
``python -m support.judge_server``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A response.

    After `cut_after` bytes the server hangs up; with `drip_s` it sends one byte per interval.
    """

    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    hang: bool = False
    drip_s: float = 0.0


HANG = Sent(hang=True)
HANG_UP = Sent(cut_after=0)


def error(status: int, *, code: str | None = None, message: str = "no", **more: Any) -> Sent:
    """An error as OpenAI words it; optional: `param=` and `headers=`."""
    headers = more.pop("headers", {})
    said = {"message": message, "type": "some_error", "param": None, "code": code, **more}
    return Sent(content=json.dumps({"error": said}).encode(), status=status, headers=headers)


def completion(text: str | None, **more: Any) -> Body:
    """A chat completion; `finish_reason=`, `refusal=`, `model=` and `usage=` are optional."""
    message = {"role": "assistant", "content": text, "refusal": more.pop("refusal", None)}
    finish = more.pop("finish_reason", "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "judge-model",
        "choices": [choice],
        "usage": usage,
        **more,
    }


CHECK = b'"Which colours do the pictures have'
ALL_COLOURS = "Yes: red, green, blue, yellow, black, white."
PASSED = Sent(content=json.dumps(completion(ALL_COLOURS)).encode())

Says = str | Body | Sent | Callable[[Body], "str | Body | Sent"]


class JudgeServer:
    """See the module's docstring. All settings may be changed while it runs."""

    def __init__(
        self,
        says: Says = "5",
        *,
        port: int = 0,
        delay_s: float = 0.0,
        at_most: float = math.inf,
        retry_after: str | None = None,
        key: str | None = None,
        models: Sequence[str] | Sent | None = ("judge-model",),
        check: Sent | None = PASSED,
        route: str = "/chat/completions",
    ) -> None:
        self.port = port
        self.delay_s = delay_s
        self.at_most = at_most
        self.retry_after = retry_after
        self.key = key
        self.models = models
        self.check = check
        self.route = route
        self.ready: Callable[[], bool] = lambda: True  # nothing is answered while it is not
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.queries: list[str] = []
        self.checks = 0
        self.times: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.at_once = 0
        self.most_at_once = 0
        self._says: Says = says
        self._raw: list[bytes] = []
        self._faults: deque[list[Any]] = deque()
        self._thread: threading.Thread | None = None

    # The script.

    def says(self, says: Says) -> None:
        """From now on: a text, a whole body, a response, or a function of the request's body."""
        self._says = says

    def then(self, sent: Sent, times: float = 1) -> None:
        """Add a fault: the next `times` chat requests get this response."""
        self._faults.append([sent, times])

    def fails(self, status: int, times: float = 1, **more: Any) -> None:
        """Respond with this status; `code=`, `message=`, `param=` and `headers=` as for `error`."""
        self.then(error(status, **more), times)

    def hangs(self, times: float = 1) -> None:
        """Accept the request and never respond."""
        self.then(HANG, times)

    # The requests.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[Body]:
        return [json.loads(raw) for raw in self._raw]

    def __len__(self) -> int:
        return len(self._raw)

    # Start and stop, repeatedly; the port stays the same.

    def start(self) -> None:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)))
        self._thread.start()
        assert started.wait(60)

    def stop(self) -> None:
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()
            self._thread = None

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        talks: set[asyncio.Task[None]] = set()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            talks.add(task)
            try:
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await self._talk(reader, writer)
            finally:
                talks.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(talk, "127.0.0.1", self.port, backlog=1000, limit=2**20)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._ended.wait()
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(
            10
        ):  # connections accepted just now start their task, which can then be cancelled
            await asyncio.sleep(0)
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = lines[0].split(" ", 2)
            pairs = (line.partition(":") for line in lines[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            content = await reader.readexactly(int(headers.get("content-length", 0)))
            sent = await self._answer(method, path, headers, content)
            self.statuses[0 if sent.hang or sent.cut_after is not None else sent.status] += 1
            if sent.hang:
                await self._ended.wait()
            for piece in _pieces(sent):
                writer.write(piece)
                await writer.drain()
                if sent.drip_s:
                    await asyncio.sleep(sent.drip_s)
            if sent.cut_after is not None:
                return

    async def _answer(
        self, method: str, path: str, headers: dict[str, str], content: bytes
    ) -> Sent:
        given = headers.get("authorization", "").removeprefix("Bearer ") or headers.get("api-key")
        allowed = self.key is None or given == self.key
        route, _, query = path.partition("?")
        if method == "GET" and route.endswith("/models") and self.models is not None:
            if isinstance(self.models, Sent):
                return self.models
            listed = [{"id": model, "object": "model"} for model in self.models]
            page = json.dumps({"object": "list", "data": listed}).encode()
            return Sent(content=page) if allowed else _wrong(given)
        if method != "POST" or not route.endswith(self.route):
            return error(404, message=f"no route {method} {path}")
        if self.check is not None and CHECK in content:
            self.checks += 1
            return self.check if allowed else _wrong(given)
        self.headers.append(headers)
        self.paths.append(route)
        self.queries.append(query)
        self.times.append(time.monotonic())
        self._raw.append(content)
        return await self._judge(content) if allowed else _wrong(given)

    async def _judge(self, content: bytes) -> Sent:
        if self.at_once >= self.at_most:
            wait = {"retry-after": self.retry_after} if self.retry_after is not None else {}
            return error(429, code="rate_limit_exceeded", message="too many", headers=wait)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            while not self.ready():
                await asyncio.sleep(0.002)
            fault = self._next_fault()
            if self.delay_s and fault is None:
                await asyncio.sleep(self.delay_s)
            return fault or self._said(content)
        finally:
            self.at_once -= 1

    def _next_fault(self) -> Sent | None:
        while self._faults:
            sent, times = self._faults[0]
            if times > 0:
                self._faults[0][1] -= 1
                return sent
            self._faults.popleft()
        return None

    def _said(self, content: bytes) -> Sent:
        said = self._says(json.loads(content)) if callable(self._says) else self._says
        if isinstance(said, str):
            named = re.search(rb'"model"\s*:\s*"([^"\\]+)"', content)
            said = completion(said, model=named[1].decode() if named else "judge-model")
        return said if isinstance(said, Sent) else Sent(content=json.dumps(said).encode())


def _wrong(given: str | None) -> Sent:
    return error(401, code="invalid_api_key", message=f"Incorrect API key provided: {given}.")


def _bytes(sent: Sent) -> bytes:
    kind = "text/html" if sent.content.startswith(b"<") else "application/json"
    lines = {"content-type": kind, "content-length": len(sent.content), **sent.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    start = f"HTTP/1.1 {sent.status} X\r\n{head}\r\n".encode("latin-1")
    if sent.cut_after is None:
        return start + sent.content
    return (start + sent.content[: sent.cut_after]) if sent.cut_after else b""


def _pieces(sent: Sent) -> list[bytes]:
    whole = _bytes(sent)
    if not sent.drip_s:
        return [whole]
    start = len(whole) - len(sent.content)
    return [whole[:start], *(whole[at : at + 1] for at in range(start, len(whole)))]


@contextmanager
def judge_server(says: Says = "5", **settings: Any) -> Iterator[JudgeServer]:
    """Start a server, stop it at the end."""
    server = JudgeServer(says, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8377)
    parser.add_argument("--says", default="5")
    parser.add_argument("--delay_s", type=float, default=0.0)
    parser.add_argument("--at_most", type=float, default=math.inf)
    parser.add_argument("--retry_after")
    parser.add_argument("--key")
    settings = vars(parser.parse_args())
    with judge_server(**settings) as server, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
