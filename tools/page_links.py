"""Links between Markdown files of the repository, for the built pages.

Files link each other by their paths, so that a link works where the repository is read, and pages
include such files. On a page, a link to a file that is on a page becomes a link to that page, a
picture is found from `docs/`, and of a link to a source file only its text remains.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from pathlib import Path

_INCLUDE = re.compile(r"^`{3,}\{include\} (\S+)", re.MULTILINE)
_BLOCK = r"^(?P<bar>`{3,}).*?^(?P=bar)"
_SPAN = r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
_LINK = r"(?P<sign>!?)\[(?P<text>[^\[\]]*)\]\((?P<path>[^()\s#:]+)(?P<anchor>#[^()\s]*)?\)"
_CODE_OR_LINK = re.compile(f"{_BLOCK}|{_SPAN}|{_LINK}", re.MULTILINE | re.DOTALL)


def page_of_file(docs: Path) -> dict[Path, str]:
    """Every Markdown file that is on a page to that page, such as ``/judges.md``.

    A file of which several pages include parts is on the first of them.

    Args:
        docs: The folder of the pages.
    """
    page_of: dict[Path, str] = {}
    for path in sorted(docs.rglob("*.md")):
        page = f"/{path.relative_to(docs).as_posix()}"
        page_of[path.resolve()] = page
        for included in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            page_of.setdefault((path.parent / included).resolve(), page)
    return page_of


def with_links_to_pages(text: str, source: Path, docs: Path, page_of: Mapping[Path, str]) -> str:
    """Markdown with links that work on a page. Links to nothing stay; Sphinx names them.

    Args:
        text: Markdown.
        source: The file that it is from; its links are relative to it.
        docs: The folder of the pages.
        page_of: As `page_of_file` returns it.
    """

    def replaced(match: re.Match[str]) -> str:
        words = match["text"]
        target = (source.parent / (match["path"] or "")).resolve()
        if not match["path"] or not target.exists():
            return match[0]
        if match["sign"]:
            return f"![{words}]({Path(os.path.relpath(target, docs.resolve())).as_posix()})"
        if target in page_of:
            return f"[{words}]({page_of[target]}{match['anchor'] or ''})"
        return words if "`" in words else f"`{words}`"

    return _CODE_OR_LINK.sub(replaced, text)
