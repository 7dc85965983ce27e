"""Findings on assets and task files; without any Hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.task_files import read_task_files
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.preflight.checks import Finding, asset_findings, checked, task_file_result


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


def test_an_error_that_is_not_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        list(checked("data", lambda: str(1 // 0)))


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        pytest.param(3 * 2**20, "to fetch: 3.0 MiB, by", id="known"),
        pytest.param(None, "to fetch: unknown, by", id="unknown"),
        pytest.param(0, "in the Hub's cache", id="cached"),
    ],
)
def test_a_missing_asset_is_reported_with_its_size(size_bytes: int | None, text: str) -> None:
    (finding,) = asset_findings([asset("data", is_here=False, size_bytes=size_bytes)])
    assert not finding.is_problem
    assert text in finding.text


def test_a_shared_check_runs_once_and_only_if_all_its_assets_are_here() -> None:
    check = Check(subject="data", describe=lambda: "2 samples.")
    one, other = asset("data, part 0", check), asset("data, part 1", check)
    assert list(asset_findings([one, other])) == [Finding("data", "2 samples")]
    missing = asset("data, part 1", check, is_here=False)
    here, finding = asset_findings([one, missing])
    assert here == Finding("data, part 0", "MMIE is here")
    assert "to fetch" in finding.text


def test_the_checks_of_an_asset_end_with_the_first_problem() -> None:
    checks = [Check(subject=name, describe=fails) for name in ("files", "memory")]
    assert list(asset_findings([asset("checkpoint", *checks)])) == [
        Finding("files", "Two images are missing", "download them", is_problem=True)
    ]


TASK = """
task: sketch
process_results: !function {function}
metric_list:
  - metric: {metric}
"""


@pytest.mark.parametrize(
    ("function", "metric", "named"),
    [
        pytest.param("mmie_tasks.benchmarks.mmie.benchmark.percent", "robust", "", id="right"),
        pytest.param("own.score", "robust", "", id="a-file-next-to-it"),
        pytest.param(
            "mmie_tasks.benchmarks.mmie.benchmark.pct", "official", "`mmie_tasks.", id="name"
        ),
        pytest.param("no.such.module.percent", "official", "ModuleNotFoundError", id="module"),
        pytest.param("broken.score", "official", "ZeroDivisionError", id="broken-file"),
        pytest.param("own.score", "official_speed", "`official_speed`", id="metric"),
    ],
)
def test_a_task_file_that_cannot_run_is_named(
    tmp_path: Path, function: str, metric: str, named: str
) -> None:
    (tmp_path / "own.py").write_text("def score(): ...", encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    text = TASK.format(function=function, metric=metric)
    (tmp_path / "_shared").write_text(text, encoding="utf-8")
    (tmp_path / "sketch.yaml").write_text("include: _shared\ntask: sketch", encoding="utf-8")
    file = read_task_files(tmp_path)["sketch"]
    findings = list(checked("sketch", lambda: task_file_result(file, BENCHMARK)))
    assert [finding.is_problem for finding in findings] == [True] * bool(named)
    assert all(named in finding.message for finding in findings)
