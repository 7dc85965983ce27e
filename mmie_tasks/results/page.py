"""HTML pages of results: a template and scripts, in a page that runs no other script.

The texts of models, datasets and people are untrusted. They reach a page as JSON in which no tag
can begin, or through the template's escaping; the scripts put them into text nodes only. A policy
in the page's head allows these scripts by their hash, and no other script, request or form.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mmie_tasks.results.page_data import Json

_ASSETS = Path(__file__).resolve().parent / "assets"
"""Styles and scripts that all pages share."""


def rendered(
    folder: Path,
    scripts: Sequence[str],
    values: Json,
    *,
    library: str = "",
    filters: Mapping[str, Callable[..., object]] | None = None,
) -> str:
    """The page of a folder's template ``page.html.j2``, to be written as UTF-8.

    The scripts are joined in their order, after the shared one; they share one scope. A content
    security policy allows them, the library and embedded images only. Style attributes are allowed,
    which the charts need; they cannot load anything. Values are escaped, and a missing one is an
    error.
    """
    environment = _environment(folder)
    environment.filters.update(filters or {})
    parts = _joined(_ASSETS / "elements.js", *(folder / script for script in scripts))
    script = Markup(f'"use strict";\n(() => {{\n{parts}}})();\n')  # noqa: S704  # ours
    style = Markup(_joined(_ASSETS / "base.css", folder / "page.css"))  # noqa: S704  # ours
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, library) if text]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("page.html.j2").render(
        values, policy=policy, style=style, script=script
    )


@cache
def _environment(folder: Path) -> Environment:
    """Reads a folder's template once."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _joined(*files: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def inert_json(value: object) -> Markup:
    r"""JSON in which neither a tag nor a comment can begin, inside a ``script`` element.

    >>> print(inert_json("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # see above
