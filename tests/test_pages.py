"""Every page of the repository is in the menu of the site."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_menu() -> None:
    pages = {*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "examples" / "README.md"}
    pages |= set((ROOT / "mmie_tasks").rglob("README.md"))
    entries = re.findall(
        r"^(?:.+<)?(/?[\w/]+)>?$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    in_menu = {(ROOT if name[0] == "/" else DOCS) / f"{name.strip('/')}.md" for name in entries}
    assert pages - {DOCS / "index.md"} == in_menu
