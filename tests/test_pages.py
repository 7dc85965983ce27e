"""Every page of a folder is in the docs, and every public name in the reference."""

from __future__ import annotations

import re
from pathlib import Path

from mmie_tasks import extend

ROOT = Path(__file__).resolve().parents[1]


def test_every_page_of_a_folder_is_in_the_docs() -> None:
    pages = {ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    pages |= set((ROOT / "mmie_tasks").rglob("README.md"))
    included = {
        (page.parent / name).resolve()
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"^`{3}\{include\} (\S+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert pages <= included


def test_every_public_name_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "extend.md").read_text(encoding="utf-8")
    directive = r"^\.\. (?:auto\w+|py:data):: (?:mmie_tasks\.record\.)?(\w+)$"
    described = re.findall(directive, reference, re.MULTILINE)
    assert sorted(described) == sorted(name for name in vars(extend) if not name.startswith("_"))
