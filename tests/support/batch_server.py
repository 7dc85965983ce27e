"""A loopback server with the Batch API of an OpenAI-compatible provider: files, batches, models.

    with batch_server() as server:
        server.says("Five points.")             # or a function from the body to a reply
        server.fails(503, "retrieve", times=2)  # upload create retrieve list content models
        server.loses("create")                  # it is done, and the answer never arrives
        server.ends("expired", finished=3)      # how the next batch ends
        ...
        server.lines()                          # what was asked in all batches
        server.count("create")                  # how often

It is as strict as a provider: a file with a broken line, two equal `custom_id`s, another address or
too many requests makes a batch that fails.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Said = str | tuple[int, dict[str, Any]]

ROUTES = {
    "upload": r"POST /v1/files",
    "create": r"POST /v1/batches",
    "retrieve": r"GET /v1/batches/([^/?]+)",
    "list": r"GET /v1/batches(?:\?(.*))?",
    "content": r"GET /v1/files/([^/?]+)/content",
    "models": r"GET /v1/models",
}


def completion(text: str | None, model: str = "gpt-4o-2024-11-20", **more: Any) -> dict[str, Any]:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": model} | {
        "choices": [choice],
        "usage": usage,
    }


def error(message: str, code: str = "") -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": "error", "code": code, "param": None}}


@dataclass
class Fault:
    """What goes wrong with a route, in how many requests yet."""

    route: str
    times: float
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False  # it is done all the same
    released: threading.Event | None = None
    reached: threading.Event = field(default_factory=threading.Event)


@dataclass
class Ending:
    """How a batch ends: some of its requests finished, or none because it failed at once."""

    status: str = "completed"
    finished: int | None = None
    code: str = ""
    message: str = ""


class BatchServer:
    """Files, batches, a script of faults, and the list of what was asked."""

    def __init__(self) -> None:
        self.say: Callable[[dict[str, Any]], Said] = lambda _: "fine"
        self.key = ""
        self.models = ["gpt-4o-2024-11-20"]
        self.looks = 1  # how often a batch is looked at before it is over
        self.max_requests, self.max_bytes = 50_000, 200_000_000
        self.enqueued_limit: int | None = None  # requests in all batches that are not over
        self.tamper: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.before: dict[str, Callable[[], object]] = {}  # called when a route is asked for
        self.callers: dict[str, set[int]] = {}  # the connections by which a route was asked for
        self.faults: list[Fault] = []
        self.endings: list[Ending] = []
        self.asked: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"batch": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def says(self, said: Said | Callable[[dict[str, Any]], Said]) -> None:
        """The reply, or the status and error body, to every request or to one with this body."""
        self.say = said if callable(said) else lambda _: said

    def fails(
        self,
        status: int,
        route: str,
        times: float = float("inf"),
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Answer with this status instead of doing it."""
        self.faults.append(Fault(route, times, status, body, headers or {}))

    def hangs_up(self, route: str, times: float = 1) -> None:
        """Close the connection instead of doing it."""
        self.faults.append(Fault(route, times))

    def loses(self, route: str, times: float = 1) -> None:
        """Do it, and close the connection instead of answering."""
        self.faults.append(Fault(route, times, done=True))

    def holds(self, route: str, done: bool = False) -> Fault:
        """Do it or not, and answer nothing before the test ends; `reached` says when."""
        fault = Fault(route, times=1, done=done, released=threading.Event())
        self.faults.append(fault)
        return fault

    def ends(
        self, status: str, finished: int | None = None, code: str = "", message: str = ""
    ) -> None:
        """How the next batch that has no ending yet ends."""
        self.endings.append(Ending(status, finished, code, message))

    def count(self, route: str) -> int:
        """How often something was asked for, faults included."""
        return sum(asked == route for asked, _ in self.asked)

    def lines(self) -> list[dict[str, Any]]:
        """The requests of all batches, in order."""
        contents = [self.files[batch["input_file_id"]] for batch in self.batches.values()]
        return [json.loads(line) for content in contents for line in content.splitlines()]

    def upload(self, content: bytes) -> dict[str, Any]:
        name = self._keep(content)
        return {"id": name, "object": "file", "bytes": len(content), "purpose": "batch"} | {
            "created_at": 1,
            "filename": "x.jsonl",
            "status": "processed",
        }

    def create(self, asked: dict[str, Any]) -> dict[str, Any]:
        lines = self.files[asked["input_file_id"]].splitlines()
        ending = self.endings.pop(0) if self.endings else Ending()
        if wrong := self._wrong(asked, lines):
            ending = Ending("failed", code=wrong, message=f"the file is wrong: {wrong}")
        batch = {
            "id": f"batch_{len(self.batches) + 1}",
            "object": "batch",
            "endpoint": asked["endpoint"],
            "completion_window": asked["completion_window"],
            "input_file_id": asked["input_file_id"],
            "metadata": asked.get("metadata"),
            "created_at": int(time.time()),
            "status": "validating",
            "request_counts": {"completed": 0, "failed": 0, "total": len(lines)},
        }
        self.batches[batch["id"]] = batch
        batch["_looks"], batch["_ending"] = self.looks, ending
        return shown(batch)

    def look(self, name: str) -> dict[str, Any] | None:
        """A batch; it moves on with every look."""
        batch = self.batches.get(name)
        if batch is None:
            return None
        batch["_looks"] -= 1
        if batch["status"] in {"validating", "in_progress"}:
            over = batch["_looks"] < 0
            batch["status"] = "in_progress"
            if over or batch["_ending"].status == "failed":
                self._end(batch, batch["_ending"])
        return shown(batch)

    def page(self, query: str) -> dict[str, Any]:
        """All batches, the newest first, a hundred at a time."""
        names = list(reversed(self.batches))
        if after := re.search(r"after=([^&]+)", query):
            names = names[names.index(after[1]) + 1 :]
        limit = re.search(r"limit=(\d+)", query)
        number = int(limit[1]) if limit else 20
        data = [shown(self.batches[name]) for name in names[:number]]
        return {"object": "list", "data": data, "has_more": len(names) > number}

    def next_fault(self, route: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.route == route:
                fault.times -= 1
                return fault
        return None

    def _wrong(self, asked: dict[str, Any], lines: list[bytes]) -> str:
        requests = [json.loads(line) for line in lines]
        running = [b for b in self.batches.values() if b["status"] in {"validating", "in_progress"}]
        enqueued = sum(b["request_counts"]["total"] for b in running) + len(lines)
        if len({request["custom_id"] for request in requests}) != len(requests):
            return "duplicate_custom_id"
        if len(lines) > self.max_requests or sum(map(len, lines)) > self.max_bytes or not lines:
            return "invalid_file_size"
        if {request["url"] for request in requests} != {asked["endpoint"]}:
            return "mismatched_endpoint"
        if self.enqueued_limit is not None and enqueued > self.enqueued_limit:
            return "token_limit_exceeded"
        return ""

    def _end(self, batch: dict[str, Any], ending: Ending) -> None:
        batch["status"] = ending.status
        if ending.status == "failed":
            error = {"code": ending.code, "message": ending.message, "line": None}
            batch["errors"] = {"object": "list", "data": [error]}
            return
        lines = self.files[batch["input_file_id"]].splitlines()
        finished = len(lines) if ending.finished is None else ending.finished
        good, bad = [], []
        for place, line in enumerate(lines):
            written = self._line(json.loads(line), ending.status if place >= finished else "")
            (good if b'"status_code": 200' in written else bad).append(written)
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
        for name, written in (("output_file_id", self.tamper(good)), ("error_file_id", bad)):
            if written:
                batch[name] = self._keep(b"\n".join(written) + b"\n")

    def _line(self, asked: dict[str, Any], left: str) -> bytes:
        line: dict[str, Any] = {"id": "r", "custom_id": asked["custom_id"]}
        if left:
            failure = {"code": f"batch_{left}", "message": f"the batch was {left}"}
            return json.dumps(line | {"response": None, "error": failure}).encode()
        said = self.say(asked["body"])
        status, body = said if isinstance(said, tuple) else (200, completion(said))
        response = {"status_code": status, "request_id": "q", "body": body}
        return json.dumps(line | {"response": response, "error": None}).encode()

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name


def shown(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch without what only the server knows."""
    return {name: value for name, value in batch.items() if not name.startswith("_")}


@contextmanager
def batch_server() -> Iterator[BatchServer]:
    batch = BatchServer()
    thread = threading.Thread(target=batch.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield batch
    finally:
        for fault in batch.faults:
            if fault.released:
                fault.released.set()
        batch.server.shutdown()
        batch.server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    batch: BatchServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self._body()
        asked = f"{self.command} {self.path}"
        matches = ((route, re.fullmatch(rule, asked)) for route, rule in ROUTES.items())
        route, match = next(((r, m) for r, m in matches if m), ("", None))
        with self.batch.lock:
            self.batch.asked.append((route, asked))
            self.batch.callers.setdefault(route, set()).add(self.client_address[1])
            fault = self.batch.next_fault(route)
        self.batch.before.get(route, int)()
        name = (match.groups() or ("",))[0] or "" if match else ""
        if fault is not None:
            self._fault(fault, route, name, body)
        elif self.batch.key and self.headers["Authorization"] != f"Bearer {self.batch.key}":
            said = f"Incorrect API key provided: {self.headers['Authorization']}."
            self._send(401, json.dumps(error(said, "invalid_api_key")).encode())
        else:
            self._send(*self._do(route, name, body))

    def _fault(self, fault: Fault, route: str, name: str, body: bytes) -> None:
        if fault.done:
            self._do(route, name, body)
        fault.reached.set()
        if fault.released:
            fault.released.wait(timeout=60)
        if fault.status:
            self._send(fault.status, fault.body, fault.headers)
        self.close_connection = not fault.status

    def _do(self, route: str, name: str, body: bytes) -> tuple[int, bytes]:
        with self.batch.lock:
            match route:
                case "upload":
                    answer: Any = self.batch.upload(self._uploaded(body))
                case "create":
                    answer = self.batch.create(json.loads(body))
                case "retrieve":
                    answer = self.batch.look(name)
                case "list":
                    answer = self.batch.page(name)
                case "models":
                    models = [{"id": model, "object": "model"} for model in self.batch.models]
                    answer = {"object": "list", "data": models}
                case "content" if name in self.batch.files:
                    return 200, self.batch.files[name]
                case _:
                    answer = None
        if answer is None:
            return 404, json.dumps(error(f"nothing at {self.path}", "not_found")).encode()
        return 200, json.dumps(answer).encode()

    def _uploaded(self, body: bytes) -> bytes:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        message = BytesParser(policy=HTTP).parsebytes(head + body)
        parts = {
            part.get_param("name", header="content-disposition"): part
            for part in message.iter_parts()
        }
        assert parts["purpose"].get_content().strip() == "batch"
        return bytes(parts["file"].get_payload(decode=True))

    def _body(self) -> bytes:
        if self.headers["Transfer-Encoding"] == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Type" not in (headers or {}):
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
