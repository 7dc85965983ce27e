"""The Batch API of a `JudgeServer`: files, batches, and how batches end.

As at a provider, a batch fails if its file has a `custom_id` twice or a request to another address.
"""

import json
import math
from collections import Counter
from email.parser import BytesParser
from email.policy import HTTP

from support.loopback import Sent, sends


class BatchApi:
    """Files and batches; `reply` is the server's to the body of a request.

    Attributes:
        polls: How often a batch is polled before it is over.
        tamper: Changes the lines of a result.
    """

    def __init__(self, reply):
        self.reply = reply
        self.polls = 1
        self.tamper = lambda lines: lines
        self.files = {}
        self.batches = {}
        self._polled = Counter()
        self._endings = []

    def ends(self, status, **how):
        """Set the ending of the next batch that has none yet: see `_end`."""
        self._endings.append({"status": status, **how})

    def lines(self):
        """The requests of all batches, in order."""
        return [json.loads(line) for batch in self.batches.values() for line in self._lines(batch)]

    def answer(self, request):
        """The response; None if there is nothing at this address."""
        match request.route:
            case "upload":
                return sends({"id": self._keep(_uploaded(request)), "object": "file"})
            case "create":
                made = {"id": f"batch_{len(self.batches) + 1}", "status": "in_progress"}
                self.batches[made["id"]] = {**json.loads(request.body), **made}
                return sends(self.batches[made["id"]])
            case "retrieve" if batch := self.batches.get(request.filename):
                return sends(self._poll(batch))
            case "content" if content := self.files.get(request.path.split("/")[-2]):
                return Sent(content)
        return None

    def _poll(self, batch):
        self._polled[batch["id"]] += 1
        if batch["status"] == "in_progress" and self._polled[batch["id"]] > self.polls:
            ending = self._endings.pop(0) if self._endings else {}
            wrong = self._wrong(batch)
            self._end(batch, **({"status": "failed", "code": wrong} if wrong else ending))
        return batch

    def _wrong(self, batch):
        requests = [json.loads(line) for line in self._lines(batch)]
        if len({request["custom_id"] for request in requests}) != len(requests):
            return "duplicate_custom_id"
        if {request["url"] for request in requests} != {batch["endpoint"]}:
            return "mismatched_endpoint"
        return ""

    def _end(self, batch, status="completed", finished=math.inf, code="", message=""):
        """End a batch with so many of its requests finished, or with none because it failed."""
        batch["status"] = status
        if status == "failed":
            error = {"code": code, "message": message, "line": None}
            batch["errors"] = {"object": "list", "data": [error]}
            return
        good, bad = [], []
        for number, line in enumerate(self._lines(batch)):
            result = self._result(json.loads(line), status if number >= finished else "")
            (good if b'"status_code": 200' in result else bad).append(result)
        for name, results in (("output_file_id", self.tamper(good)), ("error_file_id", bad)):
            if results:
                batch[name] = self._keep(b"\n".join(results) + b"\n")

    def _result(self, request, left):
        response, error = None, None
        if left:
            error = {"code": f"batch_{left}", "message": f"the batch was {left}"}
        else:
            sent = self.reply(request["body"])
            response = {"status_code": sent.status, "body": json.loads(sent.content)}
        line = {"custom_id": request["custom_id"], "response": response, "error": error}
        return json.dumps(line, ensure_ascii=False).encode()

    def _lines(self, batch):
        return self.files[batch["input_file_id"]].splitlines()

    def _keep(self, content):
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name


def _uploaded(request):
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + request.body)
    parts = {
        part.get_param("name", header="content-disposition"): part for part in message.iter_parts()
    }
    assert parts["purpose"].get_content().strip() == "batch"
    return bytes(parts["file"].get_payload(decode=True))
