"""The benchmarks whose judges are checked before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.registry import BenchmarkEntry
from mmie_tasks.core.files import task_dir
from mmie_tasks.runner import loaded_tasks

MMIE = "mmie_tasks.benchmarks.mmie.task"
THEIRS = BenchmarkEntry(name="theirs", target="their_package.benchmark:BENCHMARK")


def indexed(path: Path) -> dict[str, object]:
    return {"type": "task", "yaml_path": str(path)}


@pytest.fixture
def their_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task file of another package's benchmark; an included file names its functions."""
    package = tmp_path / "their_package"
    (package / "task_yamls").mkdir(parents=True)
    (package / "__init__.py").touch()
    path = package / "task_yamls" / "theirs.yaml"
    path.write_text("include: _shared\ntask: theirs\n")
    shared = "process_docs: !function their_package.task.docs\nx: !function somebody.task.docs\n"
    path.with_name("_shared").write_text(shared)
    monkeypatch.syspath_prepend(str(tmp_path))
    ours = BenchmarkEntry(name="mmie", target="mmie_tasks.benchmarks.mmie.benchmark:BENCHMARK")
    broken = BenchmarkEntry(name="broken", target="not_there.benchmark:BENCHMARK")
    monkeypatch.setattr(loaded_tasks, "entries", lambda: (ours, broken, THEIRS))
    return path


def test_a_judged_benchmark_of_another_package_is_checked_too(their_task: Path) -> None:
    index = {"theirs": indexed(their_task), "mmie": indexed(task_dir() / "mmie" / "mmie.yaml")}
    names = {
        entry.name
        for entry, _ in loaded_tasks.benchmarks_of_tasks(["theirs", "mmie", "unknown"], index)
    }
    assert names == {"theirs", "mmie"}


def test_groups_are_expanded_and_files_outside_a_benchmarks_folder_do_not_count(
    their_task: Path, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.yaml"
    stranger.write_text(f"process_docs: !function {MMIE}.docs\n")
    index = {
        "both": {"type": "tag", "task": ["theirs", "stranger"]},
        "theirs": indexed(their_task),
        "stranger": indexed(stranger),
    }
    assert [*loaded_tasks.benchmarks_of_tasks(["both"], index)] == [(THEIRS, their_task)]
