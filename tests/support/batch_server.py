"""A loopback server with the Batch API of an OpenAI-compatible provider: files, batches, chat.

    with batch_server() as server:
        server.reply_with("Five points.")       # or a function from the body to a reply
        server.fails(503, "retrieve", times=2)  # upload create retrieve list content chat
        server.loses("create")                  # the request is executed, but its response is lost
        server.ends("expired", finished=3)      # how the next batch ends
        ...
        server.lines()                          # the requests of all batches
        server.count("create")                  # the number of calls

It is as strict as a provider: a file with a broken line, two equal `custom_id`s, another address or
too many requests makes a batch that fails.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

from support.batch_handler import Fault, Handler

Reply = str | tuple[int, dict[str, Any]]


def completion(text: str | None, model: str = "gpt-4o-2024-11-20", **more: Any) -> dict[str, Any]:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": model} | {
        "choices": [choice],
        "usage": usage,
    }


@dataclass
class Ending:
    """How a batch ends: some of its requests finished, or none because it failed at once."""

    status: str = "completed"
    finished: int | None = None
    code: str = ""
    message: str = ""


class BatchServer:
    """Files, batches, a script of faults, and the list of calls."""

    def __init__(self) -> None:
        self.reply: Callable[[dict[str, Any]], Reply] = lambda _: "fine"
        self.key = ""
        self.polls = 1  # polls before a batch is over
        self.max_requests, self.max_bytes = 50_000, 200_000_000
        self.enqueued_limit: int | None = None  # requests in all batches that are not over
        self.tamper: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.before: dict[str, Callable[[], object]] = {}  # called when a route is requested
        self.callers: dict[str, set[int]] = {}  # the connections that requested a route
        self.faults: list[Fault] = []
        self.endings: list[Ending] = []
        self.calls: list[tuple[str, str]] = []
        self.codes: list[str] = []  # queries `code=` of the requested addresses
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.lock = threading.RLock()
        handler = type("Handler", (Handler,), {"batch": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def reply_with(self, reply: Reply | Callable[[dict[str, Any]], Reply]) -> None:
        """The reply, or the status and error body, to every request or to one with this body."""
        self.reply = reply if callable(reply) else lambda _: reply

    def fails(
        self, status: int, route: str, times: float = float("inf"), body: bytes = b""
    ) -> None:
        """Respond with this status instead of executing the request."""
        self.faults.append(Fault(route, times, status, body))

    def hangs_up(self, route: str, times: float = 1) -> None:
        """Close the connection instead of executing the request."""
        self.faults.append(Fault(route, times))

    def loses(self, route: str, times: float = 1) -> None:
        """Execute the request, and close the connection instead of responding."""
        self.faults.append(Fault(route, times, done=True))

    def holds(self, route: str, done: bool = False) -> Fault:
        """Respond only when the test ends; execute the request before if `done`."""
        fault = Fault(route, times=1, done=done, released=threading.Event())
        self.faults.append(fault)
        return fault

    def ends(
        self, status: str, finished: int | None = None, code: str = "", message: str = ""
    ) -> None:
        """Set the ending of the next batch that has none yet."""
        self.endings.append(Ending(status, finished, code, message))

    def count(self, route: str) -> int:
        """The number of requests to a route, faults included."""
        return sum(called == route for called, _ in self.calls)

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

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        lines = self.files[request["input_file_id"]].splitlines()
        ending = self.endings.pop(0) if self.endings else Ending()
        if wrong := self._wrong(request, lines):
            ending = Ending("failed", code=wrong, message=f"the file is wrong: {wrong}")
        batch = {
            "id": f"batch_{len(self.batches) + 1}",
            "object": "batch",
            "endpoint": request["endpoint"],
            "completion_window": request["completion_window"],
            "input_file_id": request["input_file_id"],
            "metadata": request.get("metadata"),
            "created_at": int(time.time()),
            "status": "validating",
            "request_counts": {"completed": 0, "failed": 0, "total": len(lines)},
        }
        self.batches[batch["id"]] = batch
        batch["_polls"], batch["_ending"] = self.polls, ending
        return shown(batch)

    def poll(self, name: str) -> dict[str, Any] | None:
        """A batch; its state advances with every poll."""
        batch = self.batches.get(name)
        if batch is None:
            return None
        batch["_polls"] -= 1
        if batch["status"] in {"validating", "in_progress"}:
            over = batch["_polls"] < 0
            batch["status"] = "in_progress"
            if over or batch["_ending"].status == "failed":
                self._end(batch, batch["_ending"])
        return shown(batch)

    def page(self, query: str) -> dict[str, Any]:
        """The newest batches, as many as the query says."""
        number = int(query.removeprefix("limit=") or 20)
        names = list(reversed(self.batches))[:number]
        return {"object": "list", "data": [shown(self.batches[name]) for name in names]}

    def next_fault(self, route: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.route == route:
                fault.times -= 1
                return fault
        return None

    def _wrong(self, batch_request: dict[str, Any], lines: list[bytes]) -> str:
        requests = [json.loads(line) for line in lines]
        running = [b for b in self.batches.values() if b["status"] in {"validating", "in_progress"}]
        enqueued = sum(b["request_counts"]["total"] for b in running) + len(lines)
        if len({request["custom_id"] for request in requests}) != len(requests):
            return "duplicate_custom_id"
        if len(lines) > self.max_requests or sum(map(len, lines)) > self.max_bytes or not lines:
            return "invalid_file_size"
        if {request["url"] for request in requests} != {batch_request["endpoint"]}:
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
        for number, line in enumerate(lines):
            written = self._line(json.loads(line), ending.status if number >= finished else "")
            (good if b'"status_code": 200' in written else bad).append(written)
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
        for name, written in (("output_file_id", self.tamper(good)), ("error_file_id", bad)):
            if written:
                batch[name] = self._keep(b"\n".join(written) + b"\n")

    def _line(self, request: dict[str, Any], left: str) -> bytes:
        line: dict[str, Any] = {"id": "r", "custom_id": request["custom_id"]}
        if left:
            failure = {"code": f"batch_{left}", "message": f"the batch was {left}"}
            return json.dumps(line | {"response": None, "error": failure}).encode()
        reply = self.reply(request["body"])
        status, body = reply if isinstance(reply, tuple) else (200, completion(reply))
        response = {"status_code": status, "request_id": "q", "body": body}
        done = line | {"response": response, "error": None}
        return json.dumps(done, ensure_ascii=False).encode()

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name


def shown(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch without the fields that only the server uses."""
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
