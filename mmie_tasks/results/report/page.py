"""The report's page: one HTML file that opens offline and makes no network requests."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmie_tasks.core.tables import NO_VALUE, percent_cell, signed_cell
from mmie_tasks.results.alignment import mixed_keys
from mmie_tasks.results.html import (
    ASSETS,
    Json,
    content_policy,
    inert_json,
    joined_script,
    joined_style,
    page_environment,
)
from mmie_tasks.runs.summary import signature_fields

CHUNK_BYTES = 300_000
"""Of the JSON of one chunk, before it is packed; a single sample may be larger."""

_ASSETS = Path(__file__).resolve().parent / "assets"
_SCRIPTS = (  # joined in this order; they share one scope
    *("details.js", "index.js", "search.js", "sample.js"),
    *("controls.js", "browser.js", "shapes.js", "charts.js", "start.js"),
)
# The keys of a task that the scripts read.
_SCRIPT_KEYS = ("task", "full_marks", "whole", "present", "signatures", "charts", "samples")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_GZIP_LEVEL = 6  # higher levels are slower and save little


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval in percent; empty for None.

    >>> interval(45, 51.234), interval(None, None)
    ('45.00 – 51.23', '')
    """
    return "" if low is None or high is None else f"{low:.2f} – {high:.2f}"


def dollars(value: float | None) -> str:
    """US dollars; four decimals below one dollar, since a judge's reply costs cents.

    >>> dollars(12.5), dollars(0.0312), dollars(None)
    ('$12.50', '$0.0312', 'n/a')
    """
    if value is None:
        return NO_VALUE
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def signature_rows(signatures: Sequence[str]) -> list[dict[str, object]]:
    """A row for each key of the signatures: its values, and whether they differ.

    >>> signature_rows(["judge:a|t:0", "judge:b|t:0"])[0]
    {'key': 'judge', 'values': ['a', 'b'], 'differs': True}
    """
    by_signature = [signature_fields(signature) for signature in signatures]
    keys = dict.fromkeys(key for fields in by_signature for key in fields)
    rows = {key: [fields.get(key, "") for fields in by_signature] for key in keys}
    return [{"key": key, "values": values, "differs": len(set(values)) > 1} for key, values in rows.items()]


FILTERS: Mapping[str, Callable[..., object]] = {
    "percent": percent_cell,
    "interval": interval,
    "count": "{:,}".format,
    "dollars": dollars,
    "signature_rows": signature_rows,
    "mixed_keys": mixed_keys,
    "signed": signed_cell,
}


def render(payload: Json) -> str:
    """The page, to be written as UTF-8.

    Args:
        payload: ``{"title", "made", "package", "method", "judge_error", "judges", "runs", "tasks"}``, without lone
            surrogates. Percentages are of full marks, points on the benchmark's own scale.

    Raises:
        ValueError: A chunk is not base64, or a number is NaN or infinite.
    """
    environment = page_environment(_ASSETS)
    environment.filters.update(FILTERS)
    script = joined_script(ASSETS / "elements.js", *(_ASSETS / name for name in _SCRIPTS))
    library = get_plotlyjs()
    run_names = [{"name": run["name"]} for run in payload["runs"]]
    task_data = [{key: task[key] for key in _SCRIPT_KEYS} for task in payload["tasks"]]
    chunks = [task["chunks"] for task in payload["tasks"]]
    if not all(_BASE64.fullmatch(chunk) for task_chunks in chunks for chunk in task_chunks):
        raise ValueError("a chunk of samples is not base64")
    return environment.get_template("page.html.j2").render(
        payload,
        policy=content_policy(script, library),
        style=joined_style(ASSETS / "base.css", _ASSETS / "page.css"),
        script=script,
        library=base64.b64encode(gzip.compress(library.encode(), 9, mtime=0)).decode(),
        data=[inert_json(block) for block in (run_names, *task_data)],
        chunks=[list(map(Markup, task_chunks)) for task_chunks in chunks],  # base64: not escaped
    )


@dataclass(frozen=True, slots=True)
class Chunks:
    """Details of samples, in order, in compressed chunks that the browser unpacks when needed.

    Attributes:
        starts: For each chunk, the index of its first sample.
        packed: Base64 of gzip of a JSON list of details.
    """

    starts: tuple[int, ...]
    packed: tuple[str, ...]


def pack(details: Iterable[Json]) -> Chunks:
    """Pack details; no more than one chunk of them is in memory at a time.

    Raises:
        ValueError: A detail holds what JSON in UTF-8 cannot hold: see `plain`.
    """
    starts: list[int] = []
    packed: list[str] = []
    chunk: list[bytes] = []
    chunk_bytes = 0
    for index, detail in enumerate(details):
        encoded = json.dumps(detail, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if chunk and chunk_bytes + len(encoded) > CHUNK_BYTES:
            packed.append(_packed(chunk))
            chunk, chunk_bytes = [], 0
        if not chunk:
            starts.append(index)
        chunk.append(encoded)
        chunk_bytes += len(encoded)
    if chunk:
        packed.append(_packed(chunk))
    return Chunks(tuple(starts), tuple(packed))


def _packed(details: list[bytes]) -> str:
    return base64.b64encode(gzip.compress(b"[" + b",".join(details) + b"]", _GZIP_LEVEL, mtime=0)).decode()
