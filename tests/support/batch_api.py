"""The Batch API of a `JudgeServer`: files, batches, and how batches end.

As at a provider, a batch fails if its file has a `custom_id` twice or a request to another address.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from support.loopback import Request, Sent, sends

Batch = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a batch ends: some of its requests finished, or none because it failed at once."""

    status: str = "completed"
    finished: int | None = None
    code: str = ""
    message: str = ""


class BatchApi:
    """Files and batches; `reply` is the server's to the body of a request.

    Attributes:
        polls: How often a batch is polled before it is over.
        tamper: Changes the lines of a result.
    """

    def __init__(self, reply: Callable[[dict[str, Any]], Sent]) -> None:
        self.reply = reply
        self.polls = 1
        self.tamper: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self._polled: Counter[str] = Counter()
        self._endings: list[Ending] = []

    def ends(self, status: str, **how: Any) -> None:
        """Set the ending of the next batch that has none yet."""
        self._endings.append(Ending(status=status, **how))

    def lines(self) -> list[dict[str, Any]]:
        """The requests of all batches, in order."""
        return [json.loads(line) for batch in self.batches.values() for line in self._lines(batch)]

    def answer(self, request: Request) -> Sent | None:
        """The response; None if there is nothing at this address."""
        match request.route:
            case "upload":
                return sends({"id": self._keep(_uploaded(request)), "object": "file"})
            case "create":
                return sends(self._create(json.loads(request.body)))
            case "retrieve" if batch := self.batches.get(request.filename):
                return sends(self._poll(batch))
            case "content" if content := self.files.get(request.path.split("/")[-2]):
                return Sent(content)
        return None

    def _create(self, request: dict[str, Any]) -> Batch:
        batch = {**request, "id": f"batch_{len(self.batches) + 1}", "status": "in_progress"}
        self.batches[batch["id"]] = batch
        return batch

    def _poll(self, batch: Batch) -> Batch:
        self._polled[batch["id"]] += 1
        if batch["status"] == "in_progress" and self._polled[batch["id"]] > self.polls:
            ending = self._endings.pop(0) if self._endings else Ending()
            if wrong := self._wrong(batch):
                ending = Ending(status="failed", code=wrong)
            self._end(batch, ending)
        return batch

    def _wrong(self, batch: Batch) -> str:
        requests = [json.loads(line) for line in self._lines(batch)]
        if len({request["custom_id"] for request in requests}) != len(requests):
            return "duplicate_custom_id"
        if {request["url"] for request in requests} != {batch["endpoint"]}:
            return "mismatched_endpoint"
        return ""

    def _end(self, batch: Batch, ending: Ending) -> None:
        batch["status"] = ending.status
        if ending.status == "failed":
            error = {"code": ending.code, "message": ending.message, "line": None}
            batch["errors"] = {"object": "list", "data": [error]}
            return
        good, bad = [], []
        for number, line in enumerate(self._lines(batch)):
            is_left = ending.finished is not None and number >= ending.finished
            result = self._result(json.loads(line), ending.status if is_left else "")
            (good if b'"status_code": 200' in result else bad).append(result)
        for name, results in (("output_file_id", self.tamper(good)), ("error_file_id", bad)):
            if results:
                batch[name] = self._keep(b"\n".join(results) + b"\n")

    def _result(self, request: dict[str, Any], left: str) -> bytes:
        response, error = None, None
        if left:
            error = {"code": f"batch_{left}", "message": f"the batch was {left}"}
        else:
            sent = self.reply(request["body"])
            response = {"status_code": sent.status, "body": json.loads(sent.content)}
        line = {"custom_id": request["custom_id"], "response": response, "error": error}
        return json.dumps(line, ensure_ascii=False).encode()

    def _lines(self, batch: Batch) -> list[bytes]:
        return self.files[batch["input_file_id"]].splitlines()

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name


def _uploaded(request: Request) -> bytes:
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + request.body)
    parts = {
        part.get_param("name", header="content-disposition"): part for part in message.iter_parts()
    }
    assert parts["purpose"].get_content().strip() == "batch"
    return bytes(parts["file"].get_payload(decode=True))
