"""Details in pieces that a browser unpacks when they are looked at."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass

from mmie_tasks.report.plain import Json

CHUNK_BYTES = 300_000
"""Of the JSON of one chunk, before it is packed; a single sample may be larger."""

_LEVEL = 6  # of gzip: from here on it gets slower and hardly smaller


@dataclass(frozen=True, slots=True)
class Chunks:
    """Details, in order.

    Attributes:
        starts: Of each chunk, the place of its first sample.
        packed: Base64 of gzip of a JSON list of details.
    """

    starts: tuple[int, ...]
    packed: tuple[str, ...]


def pack(details: Iterable[Json]) -> Chunks:
    """Pack details as they come; no more than a chunk of them is held at once.

    Raises:
        ValueError: A detail holds what JSON in UTF-8 cannot: see `plain`.
    """
    starts: list[int] = []
    packed: list[str] = []
    held: list[bytes] = []
    held_bytes = 0
    for place, detail in enumerate(details):
        text = json.dumps(detail, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        written = text.encode()
        if held and held_bytes + len(written) > CHUNK_BYTES:
            packed.append(_packed(held))
            held, held_bytes = [], 0
        if not held:
            starts.append(place)
        held.append(written)
        held_bytes += len(written)
    if held:
        packed.append(_packed(held))
    return Chunks(tuple(starts), tuple(packed))


def _packed(details: list[bytes]) -> str:
    listed = b"[" + b",".join(details) + b"]"
    return base64.b64encode(gzip.compress(listed, _LEVEL, mtime=0)).decode()
