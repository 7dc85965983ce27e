"""An OpenAI-compatible server: a judge, a drawer, a model that writes; batches of requests, too.

    with JudgeServer("Score: 5", key="secret") as server:
        server.at_most = 20                 # more at once get HTTP 429; `delay_s`, `retry_after`
        server.fails(503, times=2)          # the next two requests; then "Score: 5" again
        server.then(HANG)                   # the next one gets no response
        server.says(lambda body: "seen")    # from now on, by the request's body
        server.draws(without("seed"))       # the same for pictures (`support.pictures`)
        server.loses(1, "create")           # a fault of another route: see `ROUTES`
        server.batch.ends("expired")        # see `support.batch_api`
        ...                                 # ask at server.url
    server.asked      # bodies of all requests for a reply or a picture, as dicts
    server.headers    # their headers, names in lower case
    server.checks     # the number of checks before a run, which are not in `asked`
    server.statuses   # the number of responses by status; 0 counts missing and broken ones

Faults that name no route are those of requests for a reply or a picture, and need no time. Without
a fault, and with the right key and free capacity, a request gets its reply after `delay_s`. A check
before a run gets `server.check` and uses up no fault; with None it is like any request.
``python -m support.judge_server`` prints its address.
"""

import argparse
import asyncio
import json
import math
import re
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

from support.batch_api import BatchApi
from support.loopback import LoopbackServer, Sent, error, sends
from support.pictures import drawn

Body = dict[str, Any]

ROUTES = {
    "chat": r"POST .*/chat/completions",
    "images": r"POST .*/images/generations",
    "models": r"GET .*/models",
    "upload": r"POST .*/files",
    "create": r"POST .*/batches",
    "retrieve": r"GET .*/batches/[^/]+",
    "content": r"GET .*/files/[^/]+/content",
}
"""The routes; a check before a run is the route ``check``."""


def completion(message, **more):
    """A chat completion; `finish_reason=`, `refusal=`, `model=` and `usage=` are optional."""
    message = message if isinstance(message, dict) else {"content": message}
    message = {"role": "assistant", "refusal": more.pop("refusal", None), **message}
    finish = more.pop("finish_reason", "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "judge-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        **more,
    }


CHECK = b'"Which colours do the pictures have'
ALL_COLOURS = "Yes: red, green, blue, yellow, black, white."
PASSED = sends(completion(ALL_COLOURS))


class JudgeServer(LoopbackServer):
    faulty = ("chat", "images")

    def __init__(self, says="5", *, key=None, models=("judge-model",), check=PASSED, closes=False):
        super().__init__()
        self.key, self.models, self.check = key, models, check
        self.closes = closes  # the connection after a reply: the runner's models never do
        self.delay_s, self.at_most, self.retry_after = 0.0, math.inf, None
        self.ready = lambda: True  # nothing is answered while it is not
        self.at_once = 0
        self.batch = BatchApi(lambda body: self._said(self._says, json.dumps(body).encode()))
        self._says, self._draws = says, drawn

    def says(self, says):
        """From now on: a text, a whole body, a response, or a function of the request's body."""
        self._says = says

    def draws(self, draws):
        self._draws = draws

    # The requests.

    @property
    def url(self):
        return f"{super().url}/v1"

    @property
    def asked(self):
        return [json.loads(request.body) for request in self._requests]

    @property
    def headers(self):
        return [dict(request.headers) for request in self._requests]

    @property
    def checks(self):
        return self.count("check")

    def __len__(self):
        return len(self._requests)

    @property
    def _requests(self):
        return [request for request in self.log if request.route in self.faulty]

    # The responses.

    def route(self, method, path, body):
        if self.check is not None and CHECK in body and path.endswith("/chat/completions"):
            return "check"
        call = f"{method} {path}"
        return next((name for name, rule in ROUTES.items() if re.fullmatch(rule, call)), "")

    async def respond(self, request):
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = given or request.headers.get("api-key", "")
        if self.key is not None and given != self.key:
            message = f"Incorrect API key provided: {given}."
            return error(401, code="invalid_api_key", message=message)
        if request.route not in self.faulty:
            return await super().respond(request)
        if self.at_once >= self.at_most:
            wait = {"retry-after": self.retry_after} if self.retry_after is not None else {}
            return error(429, code="rate_limit_exceeded", message="too many", headers=wait)
        self.at_once += 1
        try:
            while not self.ready():
                await asyncio.sleep(0.002)
            fault = self.next_fault(request.route)
            if self.delay_s and fault is None:
                await asyncio.sleep(self.delay_s)
            return fault.change(lambda: self.answer(request)) if fault else self.answer(request)
        finally:
            self.at_once -= 1

    def answer(self, request):
        match request.route:
            case "chat":
                return self._said(self._says, request.body)
            case "images":
                return self._said(self._draws, request.body)
            case "check" if self.check is not None:
                return self.check
            case "models" if isinstance(self.models, Sent):
                return self.models
            case "models" if self.models is not None:
                data = [{"id": model, "object": "model"} for model in self.models]
                return sends({"object": "list", "data": data})
            case _:
                message = f"no route {request.method} {request.path}"
                return self.batch.answer(request) or error(404, code="not_found", message=message)

    def _said(self, says, body):
        said = says(json.loads(body)) if callable(says) else says
        if isinstance(said, str):
            named = re.search(rb'"model"\s*:\s*"([^"\\]+)"', body)
            said = completion(said, model=named[1].decode() if named else "judge-model")
        sent = said if isinstance(said, Sent) else sends(said)
        closing = {"connection": "close"} if self.closes else {}
        return replace(sent, headers={**sent.headers, **closing})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay_s", type=float, default=0.0)
    parser.add_argument("--at_most", type=float, default=math.inf, help="more get HTTP 429")
    parser.add_argument("--retry_after")
    with JudgeServer() as server, suppress(KeyboardInterrupt):
        parser.parse_args(namespace=server)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
