"""The page of the report: its template and scripts, filled with the payload."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmie_tasks.core.tables import NO_VALUE, percent_cell, signed_cell
from mmie_tasks.results.page import inert_json, rendered
from mmie_tasks.results.page_data import Json

_ASSETS = Path(__file__).resolve().parent / "assets"
_SCRIPTS = (  # joined in this order; they share one scope
    *("details.js", "index.js", "search.js", "sample.js"),
    *("controls.js", "browser.js", "shapes.js", "charts.js", "start.js"),
)
# The keys of a task that the scripts read.
_SCRIPT_KEYS = ("task", "full_marks", "whole", "present", "signatures", "charts", "samples")


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


_FILTERS: Mapping[str, Callable[..., object]] = {
    "percent": percent_cell,
    "interval": interval,
    "count": "{:,}".format,
    "dollars": dollars,
    "signed": signed_cell,
}


def render(payload: Json) -> str:
    """The page, to be written as UTF-8.

    Args:
        payload: ``{"title", "made", "package", "method", "corrected_only", "judge_error", "judges",
            "runs", "tasks", "pictures"}``, without lone surrogates. Percentages are of full marks,
            points on the benchmark's own scale.
    """
    library = get_plotlyjs()
    run_names = [{"name": run["name"]} for run in payload["runs"]]
    task_data = [{key: task[key] for key in _SCRIPT_KEYS} for task in payload["tasks"]]
    values = {
        **payload,
        "library": _packed_library(),
        "data": [inert_json(block) for block in (run_names, *task_data)],
        # base64, which is not escaped
        "pictures": list(map(Markup, payload["pictures"])),
        "chunks": [list(map(Markup, task["chunks"])) for task in payload["tasks"]],
    }
    return rendered(_ASSETS, _SCRIPTS, values, library=library, filters=_FILTERS)


@cache
def _packed_library() -> str:
    return packed_text(get_plotlyjs().encode(), level=9)


def packed_text(data: bytes, level: int = 6) -> str:
    """Base64 of gzip; higher levels are slower and save little."""
    return base64.b64encode(gzip.compress(data, level, mtime=0)).decode()
