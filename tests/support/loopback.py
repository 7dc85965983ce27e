"""An HTTP server on the loopback interface, with a script of faults.

    with LoopbackServer({"/p": b"content"}) as server:
        server.then(HANG_UP)                       # the next request
        server.fails(503, times=2)                 # the two after it
        server.loses()                             # one is carried out, and its response is lost
        held = server.holds()                      # one gets no response; `held.reached` is set
        server.before["GET"] = lambda: ...         # called when a request of a route arrives
        ...                                        # send requests to server.url
    server.log        # all requests, in order of arrival
    server.calls()    # those of one route
    server.statuses   # the number of responses by status; 0 counts missing and broken ones

Faults are used up in order, one per request. A route is the method here, and a name in
`JudgeServer` and `HubServer`, which also have more to serve. A server runs in one thread, can be
stopped and started again, and keeps its port.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

NEVER = threading.Event()


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request; the names of its headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    route: str

    @property
    def filename(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def token(self) -> str | None:
        return self.headers.get("authorization")


@dataclass(frozen=True)
class Sent:
    """A response.

    After `cut_after` bytes the server hangs up, once `until` is set; with `drip_s` it sends one
    byte per interval. Status 0 sends nothing.
    """

    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    until: threading.Event | None = None
    drip_s: float = 0.0

    @property
    def breaks_off(self) -> bool:
        return self.status == 0 or self.cut_after is not None

    def pieces(self, *, with_body: bool) -> list[bytes]:
        if self.status == 0:
            return []
        kind = "text/html" if self.content.startswith(b"<") else "application/json"
        lines = {"content-type": kind, "content-length": len(self.content), **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        start = f"HTTP/1.1 {self.status} X\r\n{head}\r\n".encode("latin-1")
        body = self.content[: self.cut_after] if with_body else b""
        return (
            [start, *(body[at : at + 1] for at in range(len(body)))]
            if self.drip_s
            else [start + body]
        )


HANG = Sent(status=0, until=NEVER)
HANG_UP = Sent(status=0)


def sends(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Sent:
    """A response with a JSON document."""
    return Sent(json.dumps(document).encode(), status, headers or {})


def error(status: int, *, code: str | None = None, message: str = "no", **more: Any) -> Sent:
    """An error as OpenAI words it; optional: `param=` and `headers=`."""
    headers = more.pop("headers", {})
    fields = {"message": message, "type": "some_error", "param": None, "code": code, **more}
    return sends({"error": fields}, status, headers)


@dataclass(kw_only=True)
class Fault:
    """What happens to the next requests of some routes, instead of the usual response.

    `change` gets a function that carries out the request and returns its response.
    """

    routes: Collection[str] | None
    times: float
    change: Callable[[Callable[[], Sent]], Sent]
    reached: threading.Event = field(default_factory=threading.Event)


class LoopbackServer:
    """See the module's docstring. All settings may be changed while it runs."""

    def __init__(self, files: Mapping[str, bytes] | None = None, *, port: int = 0) -> None:
        self.files: dict[Any, bytes] = dict(files or {})
        self.port = port
        self.log: list[Request] = []
        self.statuses: Counter[int] = Counter()
        self.faults: list[Fault] = []
        self.before: dict[str, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None

    # For subclasses.

    faulty: Collection[str] | None = None
    """The routes of faults that name none; None for all."""

    def route(self, method: str, path: str, body: bytes) -> str:
        """The name of a request's route."""
        return method

    def answer(self, request: Request) -> Sent:
        """The usual response."""
        content = self.files.get(request.path)
        return error(404) if content is None else Sent(content)

    async def respond(self, request: Request) -> Sent:
        """The response: that of the next fault, or the usual one."""
        fault = self.next_fault(request.route)
        return fault.change(lambda: self.answer(request)) if fault else self.answer(request)

    # The script.

    def then(self, sent: Sent, times: float = 1, *routes: str) -> None:
        """The next `times` requests of these routes, or of all, get this response."""
        self._add(lambda _: sent, times, routes)

    def fails(self, status: int, times: float = 1, *routes: str, **more: Any) -> None:
        """Respond with this status; `code=`, `message=`, `param=` and `headers=` as for `error`."""
        self.then(error(status, **more), times, *routes)

    def loses(self, times: float = 1, *routes: str) -> None:
        """Carry out the request, and close the connection instead of responding."""
        self._add(lambda run: replace(run(), status=0), times, routes)

    def cuts_off(self, after: int, times: float = 1, *routes: str, until: Any = None) -> None:
        """Hang up `after` bytes into a response, once `until` is set."""
        self._add(lambda run: replace(run(), cut_after=after, until=until), times, routes)

    def holds(self, *routes: str, done: bool = False) -> Fault:
        """Respond to one request never; carry it out before if `done`."""
        return self._add(
            lambda run: replace(run(), status=0, until=NEVER) if done else HANG, 1, routes
        )

    def _add(
        self, change: Callable[[Callable[[], Sent]], Sent], times: float, routes: Collection[str]
    ) -> Fault:
        self.faults.append(Fault(routes=routes or self.faulty, times=times, change=change))
        return self.faults[-1]

    def next_fault(self, route: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and (fault.routes is None or route in fault.routes):
                fault.times -= 1
                fault.reached.set()
                return fault
        return None

    # The requests.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calls(self, route: str | None = None) -> list[Request]:
        """The requests of a route or of all, in order."""
        return [one for one in self.log if route is None or one.route == route]

    def count(self, route: str) -> int:
        return len(self.calls(route))

    # Start and stop, repeatedly; the port stays the same.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", self.port), backlog=1000)
        self.port = listening.getsockname()[1]
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(listening, started)))
        self._thread.start()
        assert started.wait(60)

    def stop(self) -> None:
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()
            self._thread = None

    async def _serve(self, listening: socket.socket, started: threading.Event) -> None:
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

        server = await asyncio.start_server(talk, sock=listening, limit=2**20)
        started.set()
        await self._ended.wait()
        self._loop.remove_reader(listening.fileno())
        for _ in range(10):  # new connections start their tasks, which can then be cancelled
            await asyncio.sleep(0)
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_open = True
        while is_open:
            request = await self._read(reader)
            if hook := self.before.get(request.route):
                await asyncio.to_thread(hook)
            sent = await self.respond(request)
            self.statuses[0 if sent.breaks_off else sent.status] += 1
            for piece in sent.pieces(with_body=request.method != "HEAD"):
                writer.write(piece)
                await writer.drain()
                if sent.drip_s:
                    await asyncio.sleep(sent.drip_s)
            while sent.until and not sent.until.is_set():
                await asyncio.sleep(0.005)
            is_open = not sent.breaks_off
        if sent.status:
            writer.close()  # what was written still goes out
            await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        pairs = (line.partition(":") for line in lines[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        path, _, query = target.partition("?")
        body = await _body(reader, headers)
        request = Request(
            method=method,
            path=path,
            query=query,
            headers=headers,
            body=body,
            route=self.route(method, path, body),
        )
        self.log.append(request)
        return request


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    chunks = []
    while size := int(await reader.readline(), 16):
        chunks.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(chunks)
