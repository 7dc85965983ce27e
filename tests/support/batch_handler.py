"""HTTP for `batch_server`: routes, uploads, faults."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.batch_server import BatchServer

ROUTES = {
    "upload": r"POST /v1/files",
    "create": r"POST /v1/batches",
    "retrieve": r"GET /v1/batches/([^/?]+)",
    "list": r"GET /v1/batches(?:\?(.*))?",
    "content": r"GET /v1/files/([^/?]+)/content",
    "chat": r"POST /v1/chat/completions",
}


def error(message: str, code: str = "") -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": "error", "code": code, "param": None}}


@dataclass
class Fault:
    """A fault of a route, and for how many more requests."""

    route: str
    times: float
    status: int = 0
    body: bytes = b""
    done: bool = False  # the request is processed anyway
    released: threading.Event | None = None
    reached: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    batch: BatchServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _answer(self) -> None:
        body = self._body()
        path = re.sub(r"[?&]code=.*", "", self.path)
        request_line = f"{self.command} {path}"
        matches = ((route, re.fullmatch(rule, request_line)) for route, rule in ROUTES.items())
        route, match = next(((r, m) for r, m in matches if m), ("", None))
        with self.batch.lock:
            self.batch.calls.append((route, request_line))
            self.batch.codes.append(self.path[len(path) + 1 :])
            self.batch.callers.setdefault(route, set()).add(self.client_address[1])
            fault = self.batch.next_fault(route)
        self.batch.before.get(route, int)()
        name = (match.groups() or ("",))[0] or "" if match else ""
        if fault is not None:
            self._fault(fault, route, name, body)
        elif self.batch.key and self.headers["Authorization"] != f"Bearer {self.batch.key}":
            message = f"Incorrect API key provided: {self.headers['Authorization']}."
            self._send(401, json.dumps(error(message, "invalid_api_key")).encode())
        else:
            self._send(*self._do(route, name, body))

    def _fault(self, fault: Fault, route: str, name: str, body: bytes) -> None:
        if fault.done:
            self._do(route, name, body)
        fault.reached.set()
        if fault.released:
            fault.released.wait(timeout=300)
        if fault.status:
            self._send(fault.status, fault.body)
        self.close_connection = not fault.status

    def _do(self, route: str, name: str, body: bytes) -> tuple[int, bytes]:
        with self.batch.lock:
            match route:
                case "upload":
                    answer: Any = self.batch.upload(self._uploaded(body))
                case "create":
                    answer = self.batch.create(json.loads(body))
                case "retrieve":
                    answer = self.batch.poll(name)
                case "list":
                    answer = self.batch.page(name)
                case "chat":
                    answer = {"choices": [{"message": {"content": "Yes."}}]}
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

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
