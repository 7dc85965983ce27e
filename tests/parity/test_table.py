"""The table: known and other differences, and sources."""

from pathlib import Path

import pytest

from parity.__main__ import CHECKS, main
from parity.comparison import Check, Comparison, compared
from parity.sources import SOURCES


def check(*needs: str, comparison: Comparison | None = None) -> Check:
    return Check("Made up", "cells", needs, lambda _: comparison)


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
