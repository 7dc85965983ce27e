"""Request and result files of the Batch API, in JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loguru import logger

from mmie_tasks.judges.base import JudgeRequest, RequestBroken

ENDPOINT: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider accepts in one file: 50,000 requests, and 200 MB less a margin of 5 %."""

    requests: int = 50_000
    size_bytes: int = 190_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFile:
    """The content keys of the requests in a file, and errors by key for requests left out."""

    keys: tuple[str, ...]
    broken: Mapping[str, RequestBroken]


def write_requests(
    path: Path,
    requests: Mapping[str, JudgeRequest],
    body_of: Callable[[JudgeRequest], Mapping[str, object]],
    limits: Limits,
) -> RequestFile:
    """Write as many requests as fit into a file, with one request in memory at a time.

    The content keys of the requests are their ``custom_id`` in the batch. `body_of` may raise
    `RequestBroken`. An older file is overwritten.

    Raises:
        OSError: The file cannot be written.
    """
    keys: list[str] = []
    broken: dict[str, RequestBroken] = {}
    with path.open("wb") as file:
        for key, request in requests.items():
            if len(keys) == limits.requests:
                break
            try:
                body = body_of(request)
            except RequestBroken as error:
                broken[key] = error
                continue
            # ASCII only: some readers break lines at other characters, too.
            fields = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            line = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
            if len(line) > limits.size_bytes:
                broken[key] = RequestBroken(
                    f"the request is too large for a batch: {len(line) / 1e6:.0f} MB"
                )
                continue
            if file.tell() + len(line) > limits.size_bytes:
                break
            file.write(line)
            keys.append(key)
    return RequestFile(keys=tuple(keys), broken=broken)


def read_result_lines(
    contents: Sequence[bytes], keys: Collection[str]
) -> dict[str, Mapping[str, object]]:
    """The first line of every request in a batch's output and error files, by content key.

    A line holds a ``response`` with ``status_code`` and ``body``, or an ``error`` if the request
    was never run. Unreadable, repeated and unknown lines are counted in the log.
    """
    lines: dict[str, Mapping[str, object]] = {}
    ignored = 0
    for text in filter(bytes.strip, b"\n".join(contents).split(b"\n")):
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        match fields:
            case {"custom_id": str(key), "response": {"status_code": int()}} | {
                "custom_id": str(key),
                "error": dict() | list() | str(),
            } if key in keys and key not in lines:
                lines[key] = fields
            case _:
                ignored += 1
    if ignored:
        logger.warning(
            f"mmie-tasks: {ignored} lines of a batch's files were ignored: unreadable, repeated, "
            "or of no request in it"
        )
    return lines
