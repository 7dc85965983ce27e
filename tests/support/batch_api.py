"""The Batch API of a `JudgeServer`: files, batches, and how batches end.

It is as strict as a provider: a file with a broken line, two equal `custom_id`s, another address or
too many requests makes a batch that fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from support.loopback import Request, Sent, sends


@dataclass
class Ending:
    """How a batch ends: some of its requests finished, or none because it failed at once."""

    status: str = "completed"
    finished: int | None = None
    code: str = ""
    message: str = ""


class BatchApi:
    """Files and batches; `reply` is the server's to the body of a request."""

    def __init__(self, reply: Callable[[dict[str, Any]], Sent]) -> None:
        self.reply = reply
        self.polls = 1  # polls before a batch is over
        self.max_requests, self.max_bytes = 50_000, 200_000_000
        self.tamper: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.endings: list[Ending] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    def ends(
        self, status: str, finished: int | None = None, code: str = "", message: str = ""
    ) -> None:
        """Set the ending of the next batch that has none yet."""
        self.endings.append(Ending(status, finished, code, message))

    def lines(self) -> list[dict[str, Any]]:
        """The requests of all batches, in order."""
        contents = [self.files[batch["input_file_id"]] for batch in self.batches.values()]
        return [json.loads(line) for content in contents for line in content.splitlines()]

    def answer(self, request: Request) -> Sent | None:
        """The response; None if there is nothing at this address."""
        match request.route:
            case "upload":
                return sends(self._upload(_uploaded(request)))
            case "create":
                return sends(self._create(json.loads(request.body)))
            case "retrieve":
                batch = self.batches.get(request.filename)
                return None if batch is None else sends(self._poll(batch))
            case "content":
                content = self.files.get(request.path.split("/")[-2])
                return None if content is None else Sent(content)
        return None

    def _upload(self, content: bytes) -> dict[str, Any]:
        file = {"id": self._keep(content), "object": "file", "bytes": len(content)}
        more = {"created_at": 1, "filename": "x.jsonl", "status": "processed"}
        return {**file, "purpose": "batch", **more}

    def _create(self, request: dict[str, Any]) -> dict[str, Any]:
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
            "_polls": self.polls,
            "_ending": ending,
        }
        self.batches[str(batch["id"])] = batch
        return shown(batch)

    def _poll(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch; its state advances with every poll."""
        batch["_polls"] -= 1
        if batch["status"] in {"validating", "in_progress"}:
            batch["status"] = "in_progress"
            if batch["_polls"] < 0 or batch["_ending"].status == "failed":
                self._end(batch, batch["_ending"])
        return shown(batch)

    def _wrong(self, batch_request: dict[str, Any], lines: list[bytes]) -> str:
        requests = [json.loads(line) for line in lines]
        if len({request["custom_id"] for request in requests}) != len(requests):
            return "duplicate_custom_id"
        if len(lines) > self.max_requests or sum(map(len, lines)) > self.max_bytes or not lines:
            return "invalid_file_size"
        if {request["url"] for request in requests} != {batch_request["endpoint"]}:
            return "mismatched_endpoint"
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
        response, error = None, None
        if left:
            error = {"code": f"batch_{left}", "message": f"the batch was {left}"}
        else:
            sent = self.reply(request["body"])
            body = json.loads(sent.content)
            response = {"status_code": sent.status, "request_id": "q", "body": body}
        line = {"id": "r", "custom_id": request["custom_id"], "response": response, "error": error}
        return json.dumps(line, ensure_ascii=False).encode()

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name


def shown(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch without the fields that only the server uses."""
    return {name: value for name, value in batch.items() if not name.startswith("_")}


def _uploaded(request: Request) -> bytes:
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + request.body)
    parts = {
        part.get_param("name", header="content-disposition"): part for part in message.iter_parts()
    }
    assert parts["purpose"].get_content().strip() == "batch"
    return bytes(parts["file"].get_payload(decode=True))
