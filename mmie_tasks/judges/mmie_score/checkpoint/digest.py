"""Which checkpoint it is, by content: replies are remembered under this."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from mmie_tasks.judges.mmie_score.checkpoint.complaints import unusable
from mmie_tasks.judges.mmie_score.checkpoint.headers import header_bytes

BLOCKS = 64
BLOCK_BYTES = 64 * 1024
DIGITS = 12


def digest_of(small: Iterable[Path], shards: Iterable[Path]) -> str:
    """12 hex digits that are the same for the same content, in whatever folder it lies.

    Of the small files every byte counts. Of a shard its name, size and header count, and 64 blocks
    of 64 KiB, spread evenly from the first bytes of data to the last: some 4 MB, read in
    milliseconds. A shard below that size is read whole. Another fine-tune changes all weights and
    is noticed; a byte changed between two blocks is not.

    Raises:
        JudgeMisconfigured: A file cannot be read.
    """
    found = hashlib.sha256(b"mmie-tasks checkpoint 1\n")
    for path in (*small, *shards):
        for part in _parts(path):
            found.update(b"%d\n" % len(part))  # so that "ab", "c" is not "a", "bc"
            found.update(part)
    return found.hexdigest()[:DIGITS]


def _parts(path: Path) -> Iterator[bytes]:
    yield path.name.encode(errors="surrogateescape")
    try:
        if path.suffix == ".safetensors":
            yield from _sampled(path)
        else:
            yield path.read_bytes()
    except OSError as error:
        raise unusable(f"`{path}` cannot be read: {error.strerror}.") from error


def _sampled(path: Path) -> Iterator[bytes]:
    header = header_bytes(path)
    yield header
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        yield str(size).encode()
        for start in _starts(len(header), size):
            file.seek(start)
            yield file.read(BLOCK_BYTES)


def _starts(first: int, size: int) -> list[int]:
    """Where the blocks of a file begin; together they cover it where it is small enough."""
    last = size - BLOCK_BYTES
    if size - first <= BLOCKS * BLOCK_BYTES:
        return list(range(first, size, BLOCK_BYTES))
    return [first + (last - first) * block // (BLOCKS - 1) for block in range(BLOCKS)]
