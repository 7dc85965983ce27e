"""The table: rows that were not run, known and other differences, and folders of sources."""

from pathlib import Path

import pytest

from parity.__main__ import CHECKS, main, run
from parity.comparison import Check, Comparison, compared
from parity.page import page, text_table
from parity.sources import SOURCES


def check(*needs: str, comparison: Comparison | None = None) -> Check:
    return Check("Made up", "cells", needs, lambda _: comparison)


def cells(text: str) -> list[str]:
    """The row of `check` in a table."""
    (line,) = [line for line in text.splitlines() if "Made up" in line]
    return [cell.strip() for cell in line.strip("|").replace("   ", "|").split("|") if cell.strip()]


def test_a_row_without_its_source_is_not_run() -> None:
    rows = list(run([check("MMIE_FOLDER", comparison=compared([("a", 1, 1)]))], {}))
    assert "not run" in text_table(rows)
    assert cells(page(rows)) == ["Made up", "cells", "not run"]


def test_a_row_counts_equal_and_different_cases() -> None:
    comparison = compared([("a", 1, 1), ("b", 1, 2), ("c", 1, 3)], known={"b": "why", "a": "why"})
    assert (comparison.total, comparison.different) == (3, 2)
    assert comparison.known == {"b": "why"}
    assert [difference.split(":")[0] for difference in comparison.differences] == ["c"]
    assert cells(page([(check(), comparison)])) == ["Made up", "cells (1)", "3", "1", "2"]


@pytest.mark.parametrize(("known", "status"), [({"a": "why"}, 0), ({}, 1)])
def test_only_a_difference_without_a_reason_is_a_failure(
    known: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    comparison = compared([("a", 1, 2)], known=known)
    monkeypatch.setattr("parity.__main__.CHECKS", (check(comparison=comparison),))
    assert main(["--page", str(tmp_path / "page.md")]) == status
    assert "Made up" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_every_check_needs_known_sources_and_every_source_is_needed() -> None:
    needed = {variable for check in CHECKS for variable in check.needs}
    assert needed == {source.variable for source in SOURCES}


def test_a_folder_must_have_the_files_of_its_commit(tmp_path: Path) -> None:
    source = next(source for source in SOURCES if source.variable == "MILEBENCH_FOLDER")
    with pytest.raises(SystemExit, match=r"has no `evaluate\.py`"):
        source.check(tmp_path)
    (tmp_path / "evaluate.py").write_bytes(b"2")
    with pytest.raises(SystemExit, match=source.commit):
        source.check(tmp_path)
