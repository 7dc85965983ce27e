from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mmie_tasks.benchmarks.registry import BenchmarkEntry
from mmie_tasks.core.files import task_dir
from mmie_tasks.runner import registration
from mmie_tasks.runner.registration import Index, add_tasks, index_all_tasks


def task(owner: str) -> dict[str, Any]:
    return {"type": "task", "yaml_path": owner}


def tag(*members: str) -> dict[str, Any]:
    return {"type": "tag", "task": list(members), "yaml_path": -1}


@pytest.mark.parametrize("override", [True, False])
def test_a_tag_keeps_all_members_and_is_not_an_override(override: bool) -> None:
    index: Index = {"t": tag("theirs", "both")}
    assert add_tasks(index, {"t": tag("both", "ours")}, {}, override=override) == ()
    assert index["t"]["task"] == ["theirs", "both", "ours"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Creates a package with a folder of task files, and registers its benchmark."""
    registered: list[BenchmarkEntry] = [
        BenchmarkEntry(name="mmie", target="mmie_tasks.benchmarks.mmie.benchmark:BENCHMARK")
    ]
    monkeypatch.setattr(registration, "entries", lambda: tuple(registered))
    monkeypatch.syspath_prepend(str(tmp_path))

    def create(name: str, tasks: bool = True) -> Path:
        folder = tmp_path / name / "task_yamls"
        (folder if tasks else folder.parent).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
        registered.append(BenchmarkEntry(name=name, target=f"{name}.benchmark:BENCHMARK"))
        return folder

    return create


def indexed_with(folders: dict[str, Index | Exception], **built_in: dict[str, Any]) -> Index:
    """The runner's index after registration; folders hold these entries, or raise an error."""

    class TaskManager:
        def initialize_tasks(
            self, include_path: Any = None, include_defaults: bool = True
        ) -> Index:
            index = folders.get(str(include_path), {})
            if isinstance(index, Exception):
                raise index
            return {**index, **(built_in if include_defaults else {})}

    return index_all_tasks(TaskManager.initialize_tasks)(TaskManager(), "users")


def test_our_tasks_and_other_packages_rank_between_the_built_in_and_the_users(
    package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, logs: list[str]
) -> None:
    theirs = {name: task("other") for name in ("new", "mme", "mine")}
    folders: dict[str, Index | Exception] = {str(package("other")): theirs}
    folders["users"] = {name: task("users") for name in ("mine", "theirs")}

    def owners() -> dict[str, str]:
        index = indexed_with(folders, mme=task("built-in"), mine=task("built-in"))
        return {name: entry["yaml_path"] for name, entry in index.items()}

    default = {"new": "other", "mme": "other", "mine": "users", "theirs": "users"}
    assert owners() == default
    assert len(logs) == 1
    assert "mmie-tasks: mme: ours instead of the built-in" in logs[0]
    for value, switched in {"": {}, "1": {}, "0": {"mme": "built-in", "mine": "built-in"}}.items():
        monkeypatch.setenv("MMIE_TASKS_OVERRIDE", value)
        assert owners() == default | switched
    monkeypatch.setenv("MMIE_TASKS_OVERRIDE", "no")
    with pytest.raises(SystemExit, match="`MMIE_TASKS_OVERRIDE` is 'no'"):
        indexed_with(folders)


@pytest.mark.parametrize("error", [ValueError("bad"), yaml.YAMLError("bad"), AssertionError()])
def test_each_broken_package_is_left_out_with_one_warning(
    package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, logs: list[str], error: Exception
) -> None:
    package("bare", tasks=False)
    folders: dict[str, Index | Exception] = {
        str(package("broken")): error,
        str(package("whole")): {"new": task("whole")},
    }
    assert indexed_with(folders) == {"new": task("whole")}
    bare, broken = logs
    assert "the benchmark `bare` has no task in `" in bare
    assert "the benchmark `broken` is left out: " in broken
    logs.clear()
    monkeypatch.setenv("RANK", "1")
    indexed_with(folders)
    assert logs == []


def test_a_package_takes_no_name_of_ours_nor_of_another(
    package: Callable[..., Path], logs: list[str]
) -> None:
    folders: dict[str, Index | Exception] = {
        str(task_dir()): {"mmie": task("ours"), "ours": tag("mmie")},
        str(package("a")): {"mmie": task("a"), "ours": tag("free"), "free": task("a")},
        str(package("b")): {"free": task("b")},
    }
    index = indexed_with(folders)
    assert index == {"mmie": task("ours"), "ours": tag("mmie"), "free": task("a")}
    assert [line.strip() for line in logs] == [
        "mmie-tasks: `mmie`, `ours` of the benchmark `a` left out: name taken",
        "mmie-tasks: `free` of the benchmark `b` left out: name taken",
    ]
