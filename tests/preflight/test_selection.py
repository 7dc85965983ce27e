"""Names of benchmarks, tasks and judges; the Hub is never contacted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from support.golden import GOLDEN

from mmie_tasks.benchmarks.milebench.data import datasets_of
from mmie_tasks.benchmarks.milebench.sample import DATASETS, datasets_in
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entry_of_task
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.choice import JudgeChoices, parse_flags
from mmie_tasks.preflight.needed import judges_of, select_tasks
from mmie_tasks.preflight.prefetch import run

TINY = GOLDEN / "internvl" / "checkpoint"

SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(autouse=True)
def unmuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`prefetch` sets up the logs of its process, which is that of all tests here."""
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)


@pytest.fixture
def local_data(tmp_path: Path) -> dict[str, str]:
    """All data named by variables, so that nothing is looked for anywhere else."""
    names = ("MMIE_DATA", "MILEBENCH_DATA", "MIA_BENCH_DATA")
    return {name: str(tmp_path) for name in names} | {"MMIE_TASKS_CACHE": str(tmp_path / "cache")}


def entry(name: str) -> BenchmarkEntry:
    benchmark = entry_of_task(name)
    assert benchmark is not None
    return benchmark


def test_the_tasks_of_a_benchmark_are_selected_once_each() -> None:
    selection = select_tasks(["milebench_TextNeedleInAHaystack", "mmie", "mmie_sa", "mmie"])
    assert {benchmark.name: tasks for benchmark, tasks in selection.items()} == {
        "milebench": ("milebench_TextNeedleInAHaystack",),
        "mmie": ("mmie", "mmie_sa"),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("DocVQA", "there is `milebench_DocVQA`", id="a-dataset"),
        pytest.param("mmie_xyz", "no task `mmie_xyz`", id="no-task"),
    ],
)
def test_an_unknown_name_is_an_error_with_similar_names(name: str, text: str) -> None:
    with pytest.raises(SettingWrong, match=text):
        select_tasks(["mmie", name])


def test_without_a_name_the_error_lists_the_benchmarks() -> None:
    with pytest.raises(SettingWrong, match="there are mia_bench, milebench, mmie"):
        run([], {})


@pytest.mark.parametrize(
    ("tasks", "datasets"),
    [
        pytest.param(["milebench"], set(DATASETS), id="all"),
        pytest.param(["milebench_adv", "milebench_TQA"], set(datasets_in("adv")), id="all-adv"),
        pytest.param(["milebench_OCR-VQA"], {"OCR-VQA"}, id="dataset"),
    ],
)
def test_a_task_of_milebench_reads_these_datasets(tasks: list[str], datasets: set[str]) -> None:
    assert set(datasets_of(tasks)) == datasets


def test_the_task_files_of_milebench_read_known_datasets() -> None:
    files = (entry("milebench").task_dir()).glob("*.yaml")
    read = datasets_of(path.stem for path in files)
    assert set(read) == set(DATASETS)


def judge_assets(
    requested: JudgeChoices, benchmarks: Sequence[BenchmarkEntry], environment: Mapping[str, str]
) -> list[Asset]:
    judges = judges_of(benchmarks, requested, environment)
    return [asset for one in judges for asset in registry.create(one, environment).assets()]


def checkpoints(assets: Sequence[Asset]) -> list[Asset]:
    return [asset for asset in assets if asset.name == "mmie_score: checkpoint"]


def test_a_named_judge_is_fetched_even_if_no_benchmark_needs_one() -> None:
    requested = parse_flags([f"mmie_score:{TINY}"], ())
    (checkpoint,) = checkpoints(judge_assets(requested, [entry("milebench")], {}))
    assert (checkpoint.name, checkpoint.is_here()) == ("mmie_score: checkpoint", True)


def test_the_environment_may_choose_the_judge() -> None:
    judge = {"MMIE_TASKS_JUDGE": f"mmie_score:{TINY}"}
    (checkpoint,) = checkpoints(judge_assets({}, [entry("mmie")], judge))
    assert checkpoint.folder == TINY
    assert judge_assets({}, [entry("mmie")], {"MMIE_TASKS_JUDGE": "openai:gpt-4o"}) == []


def test_a_judge_that_two_benchmarks_use_is_fetched_once() -> None:
    judge = f"mmie_score:{TINY}"
    requested = parse_flags([f"mia_bench={judge}"], ())
    benchmarks = [entry("mmie"), entry("mia_bench")]
    assets = judge_assets(requested, benchmarks, {"MMIE_TASKS_JUDGE": judge})
    assert len(checkpoints(assets)) == 1


@pytest.mark.parametrize("benchmark", ["mmie", "milebench"])
def test_every_judge_of_a_panel_is_fetched(benchmark: str) -> None:
    explicit = parse_flags(
        ["openai:gpt-4o", f"mmie_score:{TINY}", f"mmie_score:{TINY},dtype=float32"], ()
    )
    assert len(checkpoints(judge_assets(explicit, [entry(benchmark)], {}))) == 2


def test_a_checkpoint_in_a_folder_is_a_local_asset(local_data: dict[str, str]) -> None:
    text = run(["milebench", "--judge", f"mmie_score:{TINY}"], local_data | os.environ)
    assert f"export MMIE_SCORE_MODEL={TINY}" in text


@pytest.mark.parametrize(
    ("judge", "error", "text"),
    [
        pytest.param("nobody", SettingWrong, "no judge `nobody`", id="judge"),
        pytest.param("openai:token=secret", SettingWrong, "takes no `token=`", id="secret"),
        pytest.param("mmie_score:/nowhere", JudgeMisconfigured, "neither a folder", id="folder"),
    ],
)
def test_an_impossible_judge_is_an_error(
    local_data: dict[str, str], judge: str, error: type[MmieTasksError], text: str
) -> None:
    with pytest.raises(error, match=text) as raised:
        run(["mmie", "--judge", judge], local_data)
    assert "secret" not in str(raised.value)


def test_a_benchmark_of_another_package_may_have_no_assets(
    local_data: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package = tmp_path / "guest_bench"
    (package / "task_yamls").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    source = (SUPPORT / "sketch_task.py").read_text(encoding="utf-8")
    (package / "benchmark.py").write_text(source.replace('name = "sketch"', 'name = "guest"'))
    info = tmp_path / "guest_bench-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest-bench\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[mmie_tasks.benchmarks]\nguest = guest_bench.benchmark:BENCHMARK\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run(["guest", "mia_bench", "--dry_run"], local_data)
    assert capsys.readouterr().out.startswith("mia_bench: data: ")
