"""The files of the Batch API: requests on their way there, outcomes on their way back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from mmie_tasks.judges.base import JudgeRequest, RequestBroken

ENDPOINT: Final = "/v1/chat/completions"

Body: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider takes in one file: 50,000 requests and 200 MB, less a margin of 5 %."""

    requests: int = 50_000
    size_bytes: int = 190_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What went into one file.

    Attributes:
        keys: The requests in it, in order.
        broken: The requests that cannot be sent, and why.
    """

    keys: tuple[str, ...] = ()
    broken: Mapping[str, RequestBroken] = field(default_factory=dict)


def write_part(
    path: Path,
    requests: Mapping[str, JudgeRequest],
    body_of: Callable[[JudgeRequest], Body],
    limits: Limits,
) -> Part:
    """Write as many of the requests into a file as it may hold, one image in memory at a time.

    Args:
        path: Its access rights stay as they are.
        requests: By content key, which becomes their name.
        body_of: Makes the body; it may raise `RequestBroken`.
        limits: What the file may hold.

    Raises:
        OSError: The disk is full, or not ours.
    """
    written: list[str] = []
    broken: dict[str, RequestBroken] = {}
    room = limits.size_bytes
    with path.open("wb") as file:
        for key, request in requests.items():
            if len(written) == limits.requests:
                break
            try:
                line = request_line(key, body_of(request), limits)
            except RequestBroken as error:
                broken[key] = error
                continue
            if len(line) > room:
                break
            room -= file.write(line)
            written.append(key)
    return Part(keys=tuple(written), broken=broken)


def request_line(key: str, body: Body, limits: Limits) -> bytes:
    """One request as a line, ASCII only: some readers break lines at other characters, too.

    Raises:
        RequestBroken: It is larger than a whole file may be.
    """
    asked = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
    line = json.dumps(asked, separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > limits.size_bytes:
        size = f"{len(line) / 1e6:.0f} MB, and a batch takes {limits.size_bytes / 1e6:.0f} MB"
        raise RequestBroken(f"the request is too large for a batch: {size}")
    return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of an output or error file.

    Attributes:
        key: Which request it belongs to.
        status: HTTP status; None where the request was never run.
        body: What the server answered; of a request that was never run, why.
    """

    key: str
    status: int | None
    body: object


def read_lines(content: bytes) -> Iterator[Line | None]:
    """The lines of an output or error file; None for each that is broken."""
    for line in content.split(b"\n"):
        if line.strip():
            yield _line(line)


def _line(text: bytes) -> Line | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"custom_id": str(key), "response": {"status_code": int(status), "body": body}}:
            return Line(key=key, status=status, body=body)
        case {"custom_id": str(key), "error": dict() as error}:
            return Line(key=key, status=None, body={"error": error})
        case _:
            return None
