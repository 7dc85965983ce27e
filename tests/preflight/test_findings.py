"""Findings on folders and assets; without any Hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.preflight.doctor import Finding, check_assets, folder_finding


def asset(
    name: str,
    *checks: Check,
    is_here: bool = True,
    file_bytes: tuple[int | None, ...] = (3 * 2**20,),
    folder: Path = Path("/"),
) -> Asset:
    plan = DownloadPlan(source="MMIE", file_bytes=file_bytes)
    return Asset(
        name=name,
        source="MMIE",
        folder=folder,
        is_here=lambda: is_here,
        plan=lambda: plan,
        fetch=lambda: "is here",
        checks=checks,
    )


def fails() -> str:
    raise DataMissing("Two images are missing.", hint="download them")


def refused() -> DownloadPlan:
    raise DataMissing("The Hub refuses.", hint="log in")


def test_a_folder_that_does_not_exist_yet_is_judged_by_its_disk(tmp_path: Path) -> None:
    finding = folder_finding("cache", tmp_path / "a" / "b", "set X")
    assert finding.status in ("ok", "warning")
    assert "free for" in finding.message
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_of_a_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    finding = folder_finding("cache", tmp_path / "a" / "b", "set X")
    assert (finding.status, finding.hint) == ("problem", "set X")


@pytest.mark.parametrize(
    ("sizes", "status", "text"),
    [
        pytest.param((3 * 2**20,), "ok", "3.0 MiB, which", id="known"),
        pytest.param((3 * 2**20, None), "ok", "3.0 MiB or more, which", id="one-unknown"),
        pytest.param((None,), "ok", "size unknown, which", id="unknown"),
        pytest.param((0,), "ok", "in the Hub's cache", id="cached"),
        pytest.param((2**60,), "problem", "1073741824.0 GiB", id="no-space"),
    ],
)
def test_a_missing_asset_is_reported_with_its_size(
    tmp_path: Path, sizes: tuple[int | None, ...], status: str, text: str
) -> None:
    missing = asset("data", is_here=False, file_bytes=sizes, folder=tmp_path)
    (finding,) = check_assets([missing])
    assert finding.status == status
    assert text in finding.message


def test_archives_of_one_dataset_are_one_finding_with_the_sum_of_their_sizes() -> None:
    check = Check(subject="data", describe=fails)
    parts = [asset(f"data, part {part}", check, is_here=part == 1) for part in range(4)]
    missing, present = check_assets(parts)
    assert (missing.subject, present.subject) == ("data", "data, part 1")
    assert (
        missing.message
        == "MMIE and 2 more: accessible, not downloaded yet: 9.0 MiB, which the first run fetches"
    )


def test_archives_that_cannot_be_downloaded_are_one_problem() -> None:
    check = Check(subject="data", describe=fails)
    parts = [
        replace(asset(f"data, part {part}", check, is_here=False), plan=refused)
        for part in range(3)
    ]
    assert list(check_assets(parts)) == [Finding("problem", "data", "The Hub refuses", "log in")]


def test_a_source_that_was_not_asked_is_not_called_accessible(tmp_path: Path) -> None:
    plan = DownloadPlan(source="MMIE", file_bytes=(2**20,), is_confirmed=False)
    (finding,) = check_assets(
        [replace(asset("data", is_here=False, folder=tmp_path), plan=lambda: plan)]
    )
    assert (
        finding.message
        == "MMIE: not downloaded yet (access was not checked): 1.0 MiB, which the first run fetches"
    )


def test_a_shared_check_runs_once() -> None:
    check = Check(subject="data", describe=lambda: "2 samples.")
    assert list(check_assets([asset("data, part 0", check), asset("data, part 1", check)])) == [
        Finding("ok", "data", "2 samples")
    ]


def test_a_shared_check_does_not_run_while_an_asset_of_it_is_missing() -> None:
    check = Check(subject="data", describe=fails)
    present, missing = check_assets(
        [asset("data, part 0", check), asset("data, part 1", check, is_here=False)]
    )
    assert (present.subject, present.status) == ("data, part 0", "ok")
    assert "not downloaded yet" in missing.message


def test_the_checks_of_an_asset_end_with_the_first_problem() -> None:
    checks = [Check(subject=name, describe=fails) for name in ("files", "memory")]
    assert list(check_assets([asset("checkpoint", *checks)])) == [
        Finding("problem", "files", "Two images are missing", "download them")
    ]
