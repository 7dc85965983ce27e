"""Settings of Sphinx for `make docs`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks import __version__

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

DOCS = Path(__file__).resolve().parent
_INCLUDE = re.compile(r"^`{3}\{include\} (\S+)", re.MULTILINE)
PAGE_OF = {  # each Markdown file to the first page that has it
    (page.parent / name).resolve(): f"/{page.relative_to(DOCS).as_posix()}"
    for page in sorted(DOCS.rglob("*.md"), reverse=True)
    for name in [page.name, *_INCLUDE.findall(page.read_text(encoding="utf-8"))]
}
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s#:]+)(#[^()\s]*)?\)")

project = "mmie-tasks"
author = "The mmie-tasks authors"
release = version = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"mmie-tasks {__version__}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False
highlight_language = "none"  # of blocks without a language: commands and what they print

myst_heading_anchors = 4  # the anchors that GitHub makes, so that a link works on both

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120  # seconds for a cell
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
nitpick_ignore_regex = [  # of other packages, a type variable, and classes that only we use
    ("py:.*", r"((collections|datetime|pathlib|pd|pydantic)\..*)|Path|(.*\.)?RecordT"),
    ("py:.*", r"Access|CacheFile|(.*\.)?SavedResults"),
]
default_role = "code"  # docstrings have names in single backticks


def _with_links_to_pages(text: str, source: Path) -> str:
    """Markdown whose links to files are links to their pages, or only text if there is no page."""

    def replaced(match: re.Match[str]) -> str:
        sign, words, path, anchor = match.groups(default="")
        target = (source.parent / path).resolve()
        if not target.exists():
            return match[0]
        if sign:
            return f"![{words}]({Path(os.path.relpath(target, DOCS)).as_posix()})"
        return f"[{words}]({PAGE_OF[target]}{anchor})" if target in PAGE_OF else words

    return _LINK.sub(replaced, text)


def _in_page(_: Sphinx, page: str, content: list[str]) -> None:
    content[0] = _with_links_to_pages(content[0], DOCS / f"{page}.md")


def _in_included(_: Sphinx, path: Path, __: str, content: list[str]) -> None:
    content[0] = _with_links_to_pages(content[0], DOCS / path)


def _unique_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """The target of a type that a signature has by its last word, or that is an alias."""
    name = node["reftarget"]
    domain = env.get_domain("py")
    names = {
        full
        for full, _, kind, *_, priority in domain.get_objects()
        if priority >= 0 and kind != "module" and f".{full}".endswith(f".{name.split('.')[-1]}")
    }
    if node.get("refdomain") != "py" or len(names) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", names.pop(), node, content)


def setup(app: Sphinx) -> None:
    """Connect the two places where Sphinx has read a text."""
    app.connect("source-read", _in_page)
    app.connect("include-read", _in_included)
    app.connect("missing-reference", _unique_name)
