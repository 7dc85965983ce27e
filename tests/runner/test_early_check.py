"""Which judges are looked at before a model is loaded: those of the tasks that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.registry import BenchmarkEntry
from mmie_tasks.core.paths import task_dir
from mmie_tasks.runner import hooks as early_check

MMIE = "mmie_tasks.benchmarks.mmie.task"


def entry(path: Path) -> dict[str, object]:
    return {"type": "task", "yaml_path": str(path)}


@pytest.fixture
def their_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task file of another package's benchmark, which names a room in a file it includes."""
    package = tmp_path / "their_room"
    (package / "task_yamls").mkdir(parents=True)
    (package / "__init__.py").touch()
    path = package / "task_yamls" / "theirs.yaml"
    path.write_text("include: _shared\ntask: theirs\n")
    shared = "process_docs: !function their_room.task.docs\nx: !function somebody.task.docs\n"
    path.with_name("_shared").write_text(shared)
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = BenchmarkEntry(name="theirs", package="their_room")
    ours = BenchmarkEntry(name="mmie", package="mmie_tasks.benchmarks.mmie")
    broken = BenchmarkEntry(name="broken", package="not_there")
    monkeypatch.setattr(early_check, "rooms", lambda: (ours, broken, theirs))
    return path


def test_a_judged_benchmark_of_another_package_is_looked_at_too(their_task: Path) -> None:
    index = {"theirs": entry(their_task), "mmie": entry(task_dir() / "mmie" / "mmie.yaml")}
    found = set(early_check._rooms(["theirs", "mmie", "unknown"], index))
    assert found == {"their_room.task", MMIE}


def test_groups_are_looked_into_and_strangers_files_are_not_read(
    their_task: Path, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.yaml"
    stranger.write_text(f"process_docs: !function {MMIE}.docs\n")
    index = {
        "both": {"type": "tag", "task": ["theirs", "stranger"]},
        "theirs": entry(their_task),
        "stranger": entry(stranger),
    }
    assert set(early_check._rooms(["both"], index)) == {"their_room.task"}
