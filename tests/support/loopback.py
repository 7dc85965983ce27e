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

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

NEVER = threading.Event()


@dataclass(frozen=True)
class Request:
    """A request; the names of its headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    route: str

    @property
    def filename(self):
        return self.path.rpartition("/")[2]

    @property
    def token(self):
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
    def breaks_off(self):
        return self.status == 0 or self.cut_after is not None

    def pieces(self, *, with_body):
        if self.status == 0:
            return []
        kind = "text/html" if self.content.startswith(b"<") else "application/json"
        lines = {"content-type": kind, "content-length": len(self.content), **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        start = f"HTTP/1.1 {self.status} X\r\n{head}\r\n".encode("latin-1")
        body = self.content[: self.cut_after] if with_body else b""
        return [start, *(bytes([byte]) for byte in body)] if self.drip_s else [start + body]


HANG = Sent(status=0, until=NEVER)
HANG_UP = Sent(status=0)


def sends(document, status=200, headers=None):
    return Sent(json.dumps(document).encode(), status, headers or {})


def error(status, *, code=None, message="no", **more):
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

    def __init__(self, files=None, *, port=0):
        self.files = dict(files or {})
        self.port = port
        self.log = []
        self.statuses = Counter()
        self.faults = []
        self.before = {}
        self._thread = None

    # For subclasses.

    faulty: Collection[str] | None = None
    """The routes of faults that name none; None for all."""

    def route(self, method, path, body):
        """The name of a request's route."""
        return method

    def answer(self, request):
        content = self.files.get(request.path)
        return error(404) if content is None else Sent(content)

    async def respond(self, request):
        fault = self.next_fault(request.route)
        return fault.change(lambda: self.answer(request)) if fault else self.answer(request)

    # The script.

    def then(self, sent, times=1, *routes):
        """The next `times` requests of these routes, or of all, get this response."""
        self._add(lambda _: sent, times, routes)

    def fails(self, status, times=1, *routes, **more):
        """Respond with this status; `code=`, `message=`, `param=` and `headers=` as for `error`."""
        self.then(error(status, **more), times, *routes)

    def loses(self, times=1, *routes):
        """Carry out the request, and close the connection instead of responding."""
        self._add(lambda run: replace(run(), status=0), times, routes)

    def cuts_off(self, after, times=1, *routes, until=None):
        """Hang up `after` bytes into a response, once `until` is set."""
        self._add(lambda run: replace(run(), cut_after=after, until=until), times, routes)

    def holds(self, *routes, done=False):
        """Respond to one request never; carry it out before if `done`."""
        return self._add(
            lambda run: replace(run(), status=0, until=NEVER) if done else HANG, 1, routes
        )

    def _add(self, change, times, routes):
        self.faults.append(Fault(routes=routes or self.faulty, times=times, change=change))
        return self.faults[-1]

    def next_fault(self, route):
        for fault in self.faults:
            if fault.times > 0 and (fault.routes is None or route in fault.routes):
                fault.times -= 1
                fault.reached.set()
                return fault
        return None

    # The requests.

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def calls(self, route=None):
        return [one for one in self.log if route is None or one.route == route]

    def count(self, route):
        return len(self.calls(route))

    # Start and stop, repeatedly; the port stays the same.

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        listening = socket.create_server(("127.0.0.1", self.port), backlog=1000)
        self.port = listening.getsockname()[1]
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(listening, started)))
        self._thread.start()
        assert started.wait(60)

    def stop(self):
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()
            self._thread = None

    async def _serve(self, listening, started):
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._talk, sock=listening, limit=2**20)
        started.set()
        await self._ended.wait()
        self._loop.remove_reader(listening.fileno())
        for _ in range(10):  # new connections start their tasks, which `asyncio.run` cancels
            await asyncio.sleep(0)
        server.close()

    async def _talk(self, reader, writer):
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._respond(await self._read(reader), writer):
                    pass
        finally:
            writer.transport.abort()

    async def _respond(self, request, writer):
        """Send the response; whether the connection stays open."""
        if hook := self.before.get(request.route):
            await asyncio.to_thread(hook)
        sent = await self.respond(request)
        self.statuses[0 if sent.breaks_off else sent.status] += 1
        for piece in sent.pieces(with_body=request.method != "HEAD"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(sent.drip_s)
        while sent.until and not sent.until.is_set():
            await asyncio.sleep(0.005)
        if sent.breaks_off and sent.status:
            writer.close()  # what was written still goes out
            await writer.wait_closed()
        return not sent.breaks_off

    async def _read(self, reader):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        pairs = (line.partition(":") for line in lines[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        path, _, query = target.partition("?")
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        route = self.route(method, path, body)
        self.log.append(Request(method, path, query, headers, body, route))
        return self.log[-1]
