"""The runner takes no thinking out of answers: one rule of ours does, in every benchmark."""

from pathlib import Path

import pytest

from mmie_tasks.core.files import task_dir

FILES = sorted(
    path
    for path in task_dir().rglob("*")
    if path.is_file() and "generation_kwargs" in path.read_text(encoding="utf-8")
)


def test_each_benchmark_has_one_file_with_its_settings() -> None:
    assert [path.parent.name for path in FILES] == ["mia_bench", "milebench", "mmie", "opening"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_the_runner_leaves_answers_as_they_are(path: Path) -> None:
    assert "\nreasoning_tags: none " in path.read_text(encoding="utf-8")
