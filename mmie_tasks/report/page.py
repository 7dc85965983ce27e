"""The report's page: one HTML file that opens offline and asks nothing of the network.

What models and judges said is hostile text. It reaches the page as JSON in which no tag can begin,
or through the template's own escaping; the scripts put it into text nodes only. A policy in the
page's head allows these scripts by their hash, and no other script, request or form.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmie_tasks.report.wording import FILTERS

_ASSETS = Path(__file__).resolve().parent / "assets"
_SCRIPTS = (  # joined in this order; they share one scope
    "making.js",
    "details.js",
    "index.js",
    "search.js",
    "sample.js",
    "controls.js",
    "browser.js",
    "shapes.js",
    "charts.js",
    "start.js",
)
_CHUNK = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_FOR_SCRIPTS = (
    "task",
    "full_marks",
    "whole",
    "present",
    "signatures",
    "charts",
    "samples",
)


def render(payload: Mapping[str, object]) -> str:
    """The whole page, to be written as UTF-8.

    Args:
        payload: ``{"title", "made", "package", "method", "runs", "tasks"}``; its texts
            hold no lone surrogates. Percent are of full marks, points on the benchmark's own
            scale.

    Raises:
        ValueError: A chunk is not base64, or a number is NaN or infinite.
    """
    environment = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    script, library = _script(), get_plotlyjs()
    return environment.get_template("page.html.j2").render(
        payload,
        policy=_policy(script, library),
        style=Markup((_ASSETS / "page.css").read_text(encoding="utf-8")),  # noqa: S704  # ours
        script=Markup(script),  # noqa: S704  # ours
        library=base64.b64encode(gzip.compress(library.encode(), 9, mtime=0)).decode(),
        data=_data(payload),
        chunks=[_chunks(task) for task in _sequence(payload["tasks"])],
    )


def _script() -> str:
    parts = [(_ASSETS / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _policy(*scripts: str) -> str:
    """What the page may do: run these scripts, and show pictures that are in it.

    Styles may stand in attributes, which the charts need; they too can fetch nothing.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _data(payload: Mapping[str, object]) -> list[Markup]:
    """What the scripts need: the names of the runs, then each task."""
    runs = [{"name": run["name"]} for run in _mappings(payload["runs"])]
    tasks = [{key: task[key] for key in _FOR_SCRIPTS} for task in _mappings(payload["tasks"])]
    return [_inert(each) for each in (runs, *tasks)]


def _inert(value: object) -> Markup:
    r"""JSON in which neither a tag nor a comment can begin, inside a ``script`` element.

    >>> print(_inert("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # see above


def _chunks(task: object) -> list[Markup]:
    found = [str(chunk) for chunk in _sequence(_mapping(task)["chunks"])]
    if not all(map(_CHUNK.fullmatch, found)):
        raise ValueError("a chunk of samples is not base64")
    return [Markup(chunk) for chunk in found]  # noqa: S704  # no character of it needs escaping


def _sequence(value: object) -> Sequence[object]:
    if isinstance(value, Sequence):
        return value
    raise TypeError(f"a list was expected, not {type(value).__name__}")


def _mapping(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise TypeError(f"an object was expected, not {type(value).__name__}")


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [_mapping(each) for each in _sequence(value)]
