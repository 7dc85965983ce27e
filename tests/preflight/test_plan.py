"""The order of fetching; without any Hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Asset, DownloadPlan, local_asset
from mmie_tasks.preflight import prefetch


def run(monkeypatch: pytest.MonkeyPatch, *assets: Asset) -> str:
    """Prefetch these assets in place of a benchmark's."""
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)
    monkeypatch.setattr(
        "mmie_tasks.benchmarks.mmie.benchmark.Mmie.assets", lambda *_arguments: assets
    )
    return prefetch.run(["mmie"], {})


def missing(name: str, error: Exception | None = None) -> Asset:
    def fetch() -> str:
        if error:
            raise error
        return "was fetched"

    plan = DownloadPlan(source="owner/a@" + "c0ffee" * 6 + "c0ff", size_bytes=2**30)
    return Asset(
        name=name,
        source="owner/a",
        folder=Path("/"),
        is_here=lambda: False,
        plan=lambda: plan,
        fetch=fetch,
    )


def test_after_a_failure_the_next_asset_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = missing("a", DataMissing("Gone.", hint="look"))
    with pytest.raises(DataMissing, match=r"1 of 2[\s\S]*look"):
        run(monkeypatch, broken, missing("b"))
    printed = capsys.readouterr().out
    assert "a: owner/a@c0ffeec0ffee: to fetch: 1.0 GiB, in /" in printed
    assert "b: was fetched" in printed


def test_an_error_that_is_not_ours_is_not_a_failed_download(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyError):
        run(monkeypatch, missing("a", KeyError("b")))


def test_a_path_to_copy_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    local = local_asset("a", "A", tmp_path / "a b")
    assert local is not None
    assert f"export A='{tmp_path}/a b'" in run(monkeypatch, local)
