"""Precedence of tasks with one name: built-in < ours < the user's ``--include_path``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.runner import Workplace, write
from support.sketch import sketched, write_users

ASK_THE_INDEX = """
import json, os, sys
import lmms_eval.models
from lmms_eval.tasks import TaskManager

users = sys.argv[1]

def look(override, **asked):
    os.environ["MMIE_TASKS_OVERRIDE"] = override
    index = TaskManager(**asked).task_index
    paths = {name: index[name]["yaml_path"] for name in ("mme", "sketch", "mine") if name in index}
    return {**paths, "tag": index.get("sketches", {}).get("task")}

print(json.dumps({
    "default": look("1"),
    "off": look("0"),
    "users": look("1", include_path=users),
    "users, off": look("0", include_path=[users]),
}))
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return sketched(tmp_path_factory.mktemp("precedence"))


@pytest.fixture(scope="module")
def users(workplace: Workplace) -> Path:
    return write_users(workplace.folder / "users", mme="MME of a user", mine="A user's")


@pytest.fixture(scope="module")
def index(workplace: Workplace, users: Path) -> dict[str, dict[str, str]]:
    write(workplace.folder / "print_index.py", ASK_THE_INDEX)
    result = workplace.run("python", "print_index.py", str(users))
    entries: dict[str, dict[str, str]] = json.loads(result.output.splitlines()[-1])
    return entries


@pytest.mark.parametrize(
    ("case", "owner"),
    [
        pytest.param("default", "mmie_tasks/task_yamls/sketch", id="ours-beats-the-built-in"),
        pytest.param("off", "lmms_eval/tasks/mme", id="the-built-in-when-switched-off"),
        pytest.param("users", "users", id="the-users-beats-ours-and-the-built-in"),
        pytest.param("users, off", "lmms_eval/tasks/mme", id="the-runners-own-rule-when-off"),
    ],
)
def test_a_name_with_several_tasks_means_that_of(
    index: dict[str, dict[str, str]], case: str, owner: str
) -> None:
    assert Path(index[case]["mme"]).parent.as_posix().endswith(owner)


def test_a_tag_has_the_users_members_and_ours(index: dict[str, dict[str, str]]) -> None:
    assert set(index["users"]["tag"]) == {"mme", "mine", "sketch"}


def test_an_evaluation_uses_the_users_task_and_reports_no_override_of_it(
    workplace: Workplace, users: Path
) -> None:
    result = workplace.run(
        *("lmms-eval", "--model", "stub", "--tasks", "mme", "--include_path", str(users))
    )
    assert result.values == {("MME of a user", "local_acc"): "0.5"}, result.output
    assert "mmie-tasks: mia_bench, mmie: ours instead of the built-in" in result.output  # not mme
