"""JSONL export of cached replies.

A line is a JSON object with the judge's ``signature``, ``request`` (the `content_key`), ``text``,
``model``, ``finish``, ``usage`` and ``time``. Other keys are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.judges.cache_store import SQLITE_HEADER, CachedReply, CacheFile, named_errors
from mmie_tasks.record.reply import JudgeReply, Usage

_READ_HINT = "name another file"
MAX_COUNT = 10**11
_Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_COUNT)]  # seconds: up to the year 5138


def read_recording(path: Path, signature: str | None = None) -> Iterator[CachedReply]:
    """The replies in a cache file or an export: one judge's, or all.

    The file's first bytes, not its name, decide between cache and export.

    Raises:
        DataBroken: The file is neither, or damaged.
        SettingWrong: The file cannot be read.
    """
    with named_errors(path, _READ_HINT):
        with path.open("rb") as file:
            is_database = file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
        if is_database:
            with CacheFile(path, hint=_READ_HINT).open() as replies:
                yield from replies.read_all(signature)
        else:
            yield from (
                reply for reply in read_export(path) if signature in (None, reply.signature)
            )


def export_line(cached: CachedReply) -> str:
    """A line of an export, with its newline; ASCII, so that any text survives."""
    reply = asdict(cached.reply)
    fields = {"signature": cached.signature, "request": cached.request_key}
    fields |= {name: reply[name] for name in ("text", "model", "finish", "usage")} | {
        "time": cached.time_s
    }
    return json.dumps(fields) + "\n"


def read_export(path: Path) -> Iterator[CachedReply]:
    """The replies in an export, read line by line; blank lines are skipped.

    Raises:
        DataBroken: A line is not a reply; the message names the line and its problem.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                exported = _ExportedReply.model_validate(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise DataBroken(
                    f"{path}, line {number}: {_problem_of(error)}.",
                    hint="repair that line, or export the replies again",
                ) from error
            fields = exported.model_dump(include={"text", "model", "finish"})
            reply = JudgeReply(**fields, usage=Usage(**exported.usage.model_dump()))
            yield CachedReply(exported.signature, exported.request, reply, exported.time)


def _problem_of(error: ValueError | RecursionError) -> str:
    """The first problem of a line."""
    if not isinstance(error, ValidationError):
        return str(error) or "it is nested too deeply"
    detail = error.errors(include_url=False)[0]
    names = [name for name in detail["loc"] if isinstance(name, str)]  # without list indices
    field_name = f"`{names[-1]}`" if names else "it"
    if detail["type"] == "missing":
        return f"{field_name} is missing"
    return f"{field_name} is {repr(detail['input'])[:80]} ({detail['msg']})"


class _ExportedUsage(BaseModel):
    model_config = ConfigDict(strict=True)

    input_tokens: _Count
    output_tokens: _Count
    reasoning_tokens: _Count
    cost_usd: Annotated[float, Field(ge=0, le=MAX_COUNT)] | None = None


class _ExportedReply(BaseModel):
    """A line of an export. `InstanceOf` accepts lone surrogates, as plain ``str`` does not."""

    model_config = ConfigDict(strict=True)

    signature: InstanceOf[str]
    request: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # SHA-256 of the content, in hex
    text: InstanceOf[str]
    model: InstanceOf[str]
    finish: Literal["stop", "length"]
    usage: _ExportedUsage
    time: _Count
