from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from loguru import logger

from mmie_tasks.errors import SettingWrong
from mmie_tasks.paths import task_dir
from mmie_tasks.runner.loading import check_before_requests
from mmie_tasks.runner.registration import (
    Index,
    add_tasks,
    read_settings,
    register_tasks,
)


def task(owner: str) -> dict[str, Any]:
    return {"type": "task", "yaml_path": owner}


def tag(*members: str) -> dict[str, Any]:
    return {"type": "tag", "task": list(members), "yaml_path": -1}


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message)), level="INFO", format="{message}")
    yield lines
    logger.remove(sink)


@pytest.mark.parametrize(
    ("there", "users", "override", "owner"),
    [
        pytest.param(None, None, True, "ours", id="only-ours"),
        pytest.param(None, None, False, "ours", id="only-ours-switched-off"),
        pytest.param("built-in", None, True, "ours", id="built-in"),
        pytest.param("built-in", None, False, "built-in", id="built-in-switched-off"),
        pytest.param("users", "users", True, "users", id="users"),
        pytest.param("built-in", "users", True, "users", id="built-in-and-users"),
        pytest.param("built-in", "users", False, "built-in", id="built-in-and-users-switched-off"),
    ],
)
def test_the_owner_of_a_name_is(
    there: str | None, users: str | None, override: bool, owner: str
) -> None:
    index = {"a": task(there)} if there else {}
    theirs = {"a": task(users)} if users else {}
    overridden = add_tasks(index, {"a": task("ours")}, theirs, override=override)
    assert index["a"]["yaml_path"] == owner
    assert overridden == (("a",) if (there, owner) == ("built-in", "ours") else ())


@pytest.mark.parametrize("override", [True, False])
def test_a_tag_loses_no_member_and_is_no_override(override: bool) -> None:
    index: Index = {"t": tag("theirs", "both")}
    assert add_tasks(index, {"t": tag("both", "ours")}, {}, override=override) == ()
    assert index["t"]["task"] == ["theirs", "both", "ours"]


def test_a_task_of_ours_takes_the_name_of_a_built_in_tag() -> None:
    index: Index = {"a": tag("x")}
    assert add_tasks(index, {"a": task("ours")}, {}, override=True) == ("a",)
    assert index["a"]["type"] == "task"


def test_overridden_names_are_sorted_and_the_others_are_left_alone() -> None:
    index: Index = {name: task("built-in") for name in "cab"}
    assert add_tasks(index, {"c": task("ours"), "a": task("ours")}, {}, override=True) == ("a", "c")
    assert index["b"] == task("built-in")


@pytest.mark.parametrize(
    ("variables", "override", "speaks"),
    [
        pytest.param({}, True, True, id="nothing-set"),
        pytest.param({"MMIE_TASKS_OVERRIDE": "", "RANK": "0"}, True, True, id="empty"),
        pytest.param({"MMIE_TASKS_OVERRIDE": "1", "RANK": "3"}, True, False, id="rank-3"),
        pytest.param({"MMIE_TASKS_OVERRIDE": "0"}, False, True, id="off"),
    ],
)
def test_the_environment_says(variables: dict[str, str], override: bool, speaks: bool) -> None:
    settings = read_settings(variables)
    assert (settings.override, settings.speaks) == (override, speaks)


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(SettingWrong, match=r"`MMIE_TASKS_OVERRIDE` is 'flase'"):
        read_settings({"MMIE_TASKS_OVERRIDE": "flase"})


def manager(indexed: list[object]) -> type:
    """A class like the runner's TaskManager; keeps the folders it was asked for."""

    class TaskManager:
        def initialize_tasks(
            self, include_path: Any = None, include_defaults: bool = True
        ) -> Index:
            indexed.append(include_path)
            index = {"mmie": task("built-in")} if include_defaults else {}
            return {"mmie": task("ours"), **index} if include_path == str(task_dir()) else index

        def load_task_or_group(self, _names: object) -> dict[Any, Any]:
            return {}

        def load_config(self, _config: object) -> dict[Any, Any]:
            return {}

    return TaskManager


def test_registering_twice_is_registering_once(log: list[str]) -> None:
    indexed: list[object] = []
    tasks = SimpleNamespace(TaskManager=manager(indexed))
    for _ in range(2):
        register_tasks(tasks)
    assert tasks.TaskManager().initialize_tasks("x") == {"mmie": task("ours")}
    assert indexed == ["x", "x", str(task_dir())]
    assert len(log) == 1
    assert "mmie: ours instead of the built-in" in log[0]


def without(name: str) -> Callable[[type], None]:
    return lambda cls: delattr(cls, name)


def renamed_parameter(cls: type) -> None:
    cls.initialize_tasks = lambda _self, _folders: {}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(without("initialize_tasks"), id="no-index"),
        pytest.param(without("load_task_or_group"), id="no-loading"),
        pytest.param(without("load_config"), id="no-loading-of-a-config"),
        pytest.param(renamed_parameter, id="another-parameter"),
    ],
)
def test_a_runner_we_do_not_know_is_left_alone_with_a_hint(
    change: Callable[[type], None], log: list[str]
) -> None:
    cls = manager([])
    change(cls)
    before = dict(vars(cls))
    register_tasks(SimpleNamespace(TaskManager=cls))
    assert dict(vars(cls)) == before
    assert len(log) == 1
    assert "--include_path $(mmie-tasks path)" in log[0]


def test_a_runner_without_task_manager_is_left_alone_with_a_hint(log: list[str]) -> None:
    register_tasks(ModuleType("tasks"))
    assert "--include_path $(mmie-tasks path)" in log[0]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(None, id="no-config"),
        pytest.param(SimpleNamespace(process_docs=None), id="no-functions"),
        pytest.param(SimpleNamespace(process_docs=SimpleNamespace), id="not-ours"),
        pytest.param(SimpleNamespace(process_results=read_settings), id="ours-without-a-look"),
    ],
)
def test_a_task_that_has_nothing_to_look_at_is_left_as_it_is(config: object) -> None:
    built = object()
    task = SimpleNamespace(config=config, build_all_requests=built)
    check_before_requests(task)
    assert task.build_all_requests is built
