"""Which names behind ``--tasks`` are refused, and what is left to the runner."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.runner.command_line import refuse_unknown_tasks

INDEX = ["sketch", "sketches"]


def match(names: list[str]) -> list[str]:
    """The runner's own search, for names and patterns."""
    return [name for name in INDEX if any(name == one or Path(name).match(one) for one in names)]


def search(names: str) -> list[str]:
    manager = SimpleNamespace(all_tasks=INDEX)
    return refuse_unknown_tasks(lambda _manager, names: match(names))(manager, names.split(","))


@pytest.mark.parametrize(
    ("names", "unknown", "nearest"),
    [
        pytest.param("skech", "skech", "`sketch`", id="task"),
        pytest.param("sketch,SKETCHES", "SKETCHES", "`sketches`", id="tag-in-another-case"),
        pytest.param("skech*", "skech*", "`sketch`", id="pattern-without-a-match"),
        pytest.param("nowhere/task.yaml", "nowhere/task.yaml", "tasks list", id="file"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    names: str, unknown: str, nearest: str
) -> None:
    with pytest.raises(SettingWrong) as error:
        search(names)
    assert f"`{unknown}`" in error.value.message
    assert nearest in error.value.hint


def test_patterns_tags_and_files_are_left_to_the_runner(tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    file.touch()
    assert search("sket*,nothing*") == INDEX
    assert search("sketches") == ["sketches"]
    assert search(str(file)) == []
