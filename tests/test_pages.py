"""Pages and their tables, their links, and the reference agree with the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import record_page
from page_links import page_of_file, with_links_to_pages
from page_tables import TABLES, PageTable

from mmie_tasks import extend

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("table", TABLES, ids=[table.page.parent.name for table in TABLES])
def test_a_page_has_its_table(table: PageTable) -> None:
    """When this fails: ``make pages`` writes the tables."""
    text = table.page.read_text(encoding="utf-8")
    assert table.in_page(text) == text


def test_the_page_of_the_record_has_its_fields() -> None:
    """When this fails: ``make pages`` writes the page."""
    assert record_page.PAGE.read_text(encoding="utf-8") == record_page.page()


def test_every_page_of_a_folder_is_in_the_docs() -> None:
    pages = {ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    pages |= set((ROOT / "mmie_tasks").rglob("README.md"))
    assert pages <= page_of_file(ROOT / "docs").keys()


def test_every_public_name_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "extend.md").read_text(encoding="utf-8")
    directive = r"^\.\. (?:auto\w+|py:data):: (?:mmie_tasks\.record\.)?(\w+)$"
    described = re.findall(directive, reference, re.MULTILINE)
    assert sorted(described) == sorted(name for name in vars(extend) if not name.startswith("_"))


@pytest.mark.parametrize(
    ("text", "on_page"),
    [
        pytest.param("[Saved](../a/README.md#saved)", "[Saved](/a.md#saved)", id="page"),
        pytest.param("[two\nlines](../a/README.md)", "[two\nlines](/a.md)", id="two lines"),
        pytest.param("[`a b`](../a/README.md)", "[`a b`](/a.md)", id="text is code"),
        pytest.param("[rules](rules.py)", "`rules`", id="source file"),
        pytest.param("![Chart](chart.png)", "![Chart](../b/chart.png)", id="picture"),
        pytest.param("[here](#saved)", "[here](#saved)", id="same page"),
        pytest.param("[x](https://a.b/c.md)", "[x](https://a.b/c.md)", id="another site"),
        pytest.param("[x](gone.md)", "[x](gone.md)", id="no such file"),
        pytest.param("``[x](rules.py) ` ``", "``[x](rules.py) ` ``", id="in code"),
        pytest.param("```\n[x](rules.py)\n```\n", "```\n[x](rules.py)\n```\n", id="in a block"),
    ],
)
def test_links_between_files_become_links_between_pages(
    tmp_path: Path, text: str, on_page: str
) -> None:
    for name in ("docs", "a", "b"):
        (tmp_path / name).mkdir()
    for name in ("a/README.md", "b/README.md", "b/rules.py", "b/chart.png"):
        (tmp_path / name).touch()
    docs = tmp_path / "docs"
    (docs / "a.md").write_text("```{include} ../a/README.md\n```\n", encoding="utf-8")
    source = tmp_path / "b" / "README.md"
    assert with_links_to_pages(text, source, docs, page_of_file(docs)) == on_page
