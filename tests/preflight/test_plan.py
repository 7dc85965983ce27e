"""Sizes, disk space and the order of fetching; without any Hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Asset, DownloadPlan, local_asset
from mmie_tasks.preflight.assets import PlannedAsset, check_disk_space, plan_asset
from mmie_tasks.preflight.prefetch import copy_text, fetch_all, fetch_error, overview_text

FOLDER = Path("/").absolute()
SIZES = st.lists(st.integers(0, 2**40), min_size=1, max_size=6)


def planned(
    size_bytes: int | None = 2**30,
    *,
    name: str = "a: data",
    is_here: bool = False,
    folder: Path = FOLDER,
    fetch: Callable[[], str] = lambda: "is here",
) -> PlannedAsset:
    plan = DownloadPlan(
        source="owner/a@" + "c0ffee" * 6 + "c0ff",
        file_bytes=(size_bytes,),
        disk_bytes={folder: size_bytes or 0},
    )
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


def test_a_commit_is_shortened_and_a_note_follows_the_table() -> None:
    text = overview_text([planned()], ["something"])
    assert "owner/a@c0ffeec0ffee |" in text
    assert text.endswith("\nNote: something")


@given(SIZES)
def test_sizes_add_up_and_the_disk_is_compared_to_the_byte(sizes: list[int]) -> None:
    missing = [planned(size) for size in sizes]
    needed = sum(sizes)
    assert check_disk_space(missing, lambda _: needed).startswith("Disk of `/`: ")
    if needed:
        with pytest.raises(DataMissing):
            check_disk_space(missing, lambda _: needed - 1)


def test_a_path_that_cannot_be_a_folder_is_reported_before_anything_is_fetched(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataMissing, match="cannot be written"):
        check_disk_space([planned(folder=file / "below")], lambda _: 2**60)


def test_after_a_failure_the_next_asset_is_fetched() -> None:
    fetched: list[str] = []

    def fetch() -> str:
        fetched.append("b")
        return "is here"

    first = failing("a", DataMissing("Gone.", hint="look"))
    (failure,) = fetch_all([first, planned(name="b", fetch=fetch)])
    assert (failure.asset.name, fetched) == ("a", ["b"])
    message = str(fetch_error([failure], 2))
    assert "1 of 2 could not be fetched:\n\na: Gone.\n  hint: look\n" in message


def test_an_error_that_is_not_ours_is_not_a_failed_download() -> None:
    with pytest.raises(KeyError):
        fetch_all([failing("a", KeyError("b"))])


def test_the_settings_of_assets_are_named_once_if_they_are_set(tmp_path: Path) -> None:
    local = local_asset("a", "A", tmp_path)
    assert local is not None
    assets = [replace(local, settings=settings) for settings in (("A", "B", "C"), ("C", "D"))]
    environment = {"A": "a", "C": "c", "D": "d", "E": "e", "MMIE_TASKS_JUDGE": "openai:m"}
    text = copy_text(assets, "mmie-tasks doctor", environment)
    assert "Also set there, as here: `C`, `D`, `MMIE_TASKS_JUDGE`." in text


def test_values_of_settings_and_keys_are_not_printed(tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": "http://user:secret@mirror", "HF_TOKEN": "hf_secret", "A": "b"}
    local = local_asset("a", "A", tmp_path / "a b")
    assert local is not None
    text = copy_text([local], "mmie-tasks doctor", environment)
    assert f"export A='{tmp_path}/a b'" in text
    assert "Also set there, as here: `HF_ENDPOINT`." in text
    assert "secret" not in text
