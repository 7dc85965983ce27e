"""The JSONL files of a batch: requests to upload, results to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from loguru import logger

from mmie_tasks.judges.base import JudgeRequest, RequestBroken

ENDPOINT: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider accepts in one file: 50,000 requests and 200 MB, less a margin of 5 %."""

    requests: int = 50_000
    size_bytes: int = 190_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFile:
    """The content of a request file.

    Attributes:
        keys: The requests in it, in order.
        broken: The requests that cannot be sent, and why.
    """

    keys: tuple[str, ...] = ()
    broken: Mapping[str, RequestBroken] = field(default_factory=dict)


def write_requests(
    path: Path,
    requests: Mapping[str, JudgeRequest],
    body_of: Callable[[JudgeRequest], Mapping[str, object]],
    limits: Limits,
) -> RequestFile:
    """Write as many requests as fit into a file, with one image in memory at a time.

    Args:
        path: Only its owner may read it.
        requests: By content key, which becomes the request's name in the batch.
        body_of: The body of a request; may raise `RequestBroken`.
        limits: Of the file.

    Raises:
        OSError: The disk is full, or the file cannot be written.
    """
    keys: list[str] = []
    broken: dict[str, RequestBroken] = {}
    free_bytes = limits.size_bytes
    path.touch(mode=0o600)
    with path.open("wb") as file:
        for key, request in requests.items():
            if len(keys) == limits.requests:
                break
            try:
                body = body_of(request)
            except RequestBroken as error:
                broken[key] = error
                continue
            # A line of ASCII: some readers break lines at other characters too.
            fields = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            line = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
            if len(line) > limits.size_bytes:
                size = (
                    f"{len(line) / 1e6:.0f} MB, and a batch takes {limits.size_bytes / 1e6:.0f} MB"
                )
                broken[key] = RequestBroken(f"the request is too large for a batch: {size}")
                continue
            if len(line) > free_bytes:
                break
            free_bytes -= file.write(line)
            keys.append(key)
    return RequestFile(keys=tuple(keys), broken=broken)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLine:
    """A line of an output or error file.

    Attributes:
        key: The content key of the request.
        status: HTTP status; None if the request was never run.
        body: The response; of a request that was never run, the error.
    """

    key: str
    status: int | None
    body: object


def read_results(contents: Sequence[bytes], keys: Iterable[str]) -> Iterator[ResultLine]:
    """The first line of every request in the output and error files of a batch.

    Unreadable, repeated and unknown lines are counted in the log.

    Args:
        contents: The output file, then the error file.
        keys: The content keys of the requests in the batch.
    """
    without_line = set(keys)
    ignored = 0
    for text in filter(bytes.strip, b"\n".join(contents).split(b"\n")):
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        match fields:
            case {
                "custom_id": str(key),
                "response": {"status_code": int(status), "body": body},
            } if key in without_line:
                line = ResultLine(key=key, status=status, body=body)
            case {"custom_id": str(key), "error": dict() as error} if key in without_line:
                line = ResultLine(key=key, status=None, body={"error": error})
            case _:
                ignored += 1
                continue
        without_line.remove(line.key)
        yield line
    if ignored:
        logger.warning(
            f"mmie-tasks: {ignored} lines of a batch's files were ignored: unreadable, repeated, "
            "or of no request in it"
        )
