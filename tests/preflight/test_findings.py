"""The report, and findings on assets; without any Hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.preflight.assets import check_assets
from mmie_tasks.preflight.findings import Finding, Report, run_check

LONG = "a sentence of many words " * 12


def as_text(*findings: Finding) -> str:
    return Report(findings=findings).text


def fails() -> str:
    raise DataMissing("Two images are missing.", hint="download them")


def asset(
    name: str, *checks: Check, is_here: bool = True, size_bytes: int | None = 3 * 2**20
) -> Asset:
    plan = DownloadPlan(source="MMIE", size_bytes=size_bytes)
    return Asset(
        name=name,
        source="MMIE",
        folder=Path("/"),
        is_here=lambda: is_here,
        plan=lambda: plan,
        fetch=lambda: "is here",
        checks=checks,
    )


def test_lines_are_aligned_and_followed_by_their_hints_and_a_summary() -> None:
    problem = Finding("problem", "mmie: data", "gone", "fetch it")
    assert as_text(Finding("ok", "GPU 0", "fine"), problem) == (
        "ok       GPU 0       fine\n"
        "problem  mmie: data  gone\n"
        "                     hint: fetch it\n"
        "\n"
        "Problems: 1. A run would fail."
    )
    assert as_text(Finding("ok", "a", "b")).endswith("\n\nA run can begin.")


def test_no_line_is_wider_than_a_terminal() -> None:
    lines = as_text(Finding("problem", "mmie: judge prompts", LONG, LONG)).splitlines()
    assert len(lines) > 8
    assert max(map(len, lines)) <= 100


def test_an_error_that_is_not_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_check(Check(subject="data", describe=lambda: str(1 // 0))))


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        pytest.param(3 * 2**20, "not downloaded yet: 3.0 MiB, which", id="known"),
        pytest.param(None, "not downloaded yet: unknown, which", id="unknown"),
        pytest.param(0, "in the Hub's cache", id="cached"),
    ],
)
def test_a_missing_asset_is_reported_with_its_size(size_bytes: int | None, text: str) -> None:
    (finding,) = check_assets([asset("data", is_here=False, size_bytes=size_bytes)])
    assert finding.status == "ok"
    assert text in finding.message


def test_a_shared_check_runs_once_and_only_if_all_its_assets_are_here() -> None:
    check = Check(subject="data", describe=lambda: "2 samples.")
    one, other = asset("data, part 0", check), asset("data, part 1", check)
    assert list(check_assets([one, other])) == [Finding("ok", "data", "2 samples")]
    missing = asset("data, part 1", check, is_here=False)
    here, finding = check_assets([one, missing])
    assert here == Finding("ok", "data, part 0", "MMIE is here")
    assert "not downloaded yet" in finding.message


def test_the_checks_of_an_asset_end_with_the_first_problem() -> None:
    checks = [Check(subject=name, describe=fails) for name in ("files", "memory")]
    assert list(check_assets([asset("checkpoint", *checks)])) == [
        Finding("problem", "files", "Two images are missing", "download them")
    ]
