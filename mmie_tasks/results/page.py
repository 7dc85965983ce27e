"""Self-contained HTML pages of results, rendered from templates and our own scripts.

The texts of models, datasets and people are untrusted: templates escape them, and no tag can begin
in the JSON. A policy in the page's head allows our scripts by their hash, and no other script,
request or form.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mmie_tasks.core.tables import percent_cell
from mmie_tasks.results.page_data import Json, plain

_ASSETS = Path(__file__).resolve().parent / "assets"


def rendered(folder: Path, values: Json, library: str) -> str:
    """The page of a folder's template ``page.html.j2``, to be written as UTF-8.

    The content security policy allows its script ``page.js``, the library and embedded images. It
    also allows style attributes, which the charts need and which cannot load anything. A missing
    value is an error.
    """
    code = (folder / "page.js").read_text(encoding="utf-8")
    script = Markup(f'"use strict";\n(() => {{\n{code}}})();\n')  # noqa: S704  # ours
    style = Markup(  # noqa: S704  # ours
        "\n".join(
            path.read_text(encoding="utf-8") for path in (_ASSETS / "base.css", folder / "page.css")
        )
    )
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, library)]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    template = _environment(folder).get_template("page.html.j2")
    return plain(template.render(values, policy=policy, style=style, script=script))


@cache
def _environment(folder: Path) -> Environment:
    """The environment with the templates of a folder and the shared ones."""
    opened = Environment(
        loader=FileSystemLoader([folder, _ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    opened.filters |= {"percent": percent_cell, "count": "{:,}".format}
    return opened


@cache
def macro(template: str, name: str, folder: Path = _ASSETS) -> Callable[..., Markup]:
    """A macro of a folder's template, or of a shared one; its output is escaped."""
    module = _environment(folder).get_template(template).module
    function: Callable[..., Markup] = getattr(module, name)
    return function


def inert_json(value: object) -> Markup:
    r"""JSON for a ``script`` element: neither a tag nor a comment can begin in it.

    >>> print(inert_json("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # see above
