"""Reads data files of benchmarks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing
from mmie_tasks.core.files import json_problem

_Sample = TypeVar("_Sample")


def read_data_file(path: Path, hint: str) -> bytes:
    """The bytes of a data file; raises `DataMissing` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataMissing(f"`{path}` cannot be read: {error.strerror}.", hint=hint) from error


def digest_of(content: bytes) -> str:
    """The revision of a local file: ``sha256:`` and 12 hex digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A parsed data file, with its `digest_of`."""

    value: object
    digest: str


def read_json_file(path: Path, *, layout: str, repair: str) -> JsonFile:
    """Read a data file: JSON in UTF-8, which may begin with a byte order mark.

    Raises:
        DataMissing: The file cannot be read; the hint is `layout`.
        DataBroken: The file is not JSON; the hint is `repair`.
    """
    content = read_data_file(path, layout)
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise DataBroken(f"`{path}`: not JSON ({json_problem(error)}).", hint=repair) from error
    return JsonFile(value=value, digest=digest_of(content))


def read_samples(
    file: Path,
    rows: Iterable[object],
    read: Callable[[int, object], _Sample],
    id_of: Callable[[_Sample], str],
    *,
    repair: str,
) -> list[_Sample]:
    """The samples of a data file's rows. Ids must be unique: answers are matched by them.

    `read` turns position and row into a sample, and raises `BadSample` for an unusable row.

    Raises:
        DataBroken: A row cannot be used; names row and field, and the hint is `repair`.
    """
    samples: dict[str, _Sample] = {}
    positions: dict[str, int] = {}
    for position, row in enumerate(rows):
        try:
            sample = read(position, row)
        except BadSample as error:
            raise DataBroken(f"`{file}`: {error}.", hint=repair) from error
        id_ = id_of(sample)
        if (first := positions.setdefault(id_, position)) != position:
            problem = f"row {position}: the id {id_!r} is that of row {first}"
            raise DataBroken(f"`{file}`: {problem}.", hint=repair)
        samples[id_] = sample
    return list(samples.values())
