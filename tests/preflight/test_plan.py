"""Sizes and the order of fetching; without any Hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Asset, DownloadPlan, local_asset
from mmie_tasks.preflight.assets import PlannedAsset, plan_asset
from mmie_tasks.preflight.prefetch import copy_text, fetch_all, overview_text

FOLDER = Path("/").absolute()


def planned(
    size_bytes: int | None = 2**30,
    *,
    name: str = "a: data",
    is_here: bool = False,
    folder: Path = FOLDER,
    fetch: Callable[[], str] = lambda: "is here",
) -> PlannedAsset:
    plan = DownloadPlan(source="owner/a@" + "c0ffee" * 6 + "c0ff", size_bytes=size_bytes)
    return plan_asset(
        Asset(
            name=name,
            source=plan.source,
            folder=folder,
            is_here=lambda: is_here,
            plan=lambda: plan,
            fetch=fetch,
        )
    )


def failing(name: str, error: Exception) -> PlannedAsset:
    def fetch() -> str:
        raise error

    return planned(name=name, fetch=fetch)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        pytest.param([planned(), planned()], "To fetch: 2.0 GiB.", id="added"),
        pytest.param(
            [planned(), planned(None)], "To fetch: 1.0 GiB, and 1 of unknown size.", id="some"
        ),
        pytest.param([planned(), planned(is_here=True)], "To fetch: 1.0 GiB.", id="one-is-here"),
        pytest.param([planned(is_here=True)], "Everything is here.", id="all-here"),
    ],
)
def test_the_sum_counts_the_missing_assets(entries: list[PlannedAsset], text: str) -> None:
    assert text in overview_text(entries).splitlines()


def test_a_commit_is_shortened() -> None:
    assert "owner/a@c0ffeec0ffee, in" in overview_text([planned()])


def test_after_a_failure_the_next_asset_is_fetched() -> None:
    fetched: list[str] = []

    def fetch() -> str:
        fetched.append("b")
        return "is here"

    first = failing("a", DataMissing("Gone.", hint="look"))
    (failure,) = fetch_all([first, planned(name="b", fetch=fetch)])
    assert (failure.hint, fetched) == ("look", ["b"])


def test_an_error_that_is_not_ours_is_not_a_failed_download() -> None:
    with pytest.raises(KeyError):
        fetch_all([failing("a", KeyError("b"))])


def test_a_path_to_copy_is_quoted(tmp_path: Path) -> None:
    local = local_asset("a", "A", tmp_path / "a b")
    assert local is not None
    assert f"export A='{tmp_path}/a b'" in copy_text([local])
