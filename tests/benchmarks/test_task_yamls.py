"""The task files of all benchmarks."""

import pytest

from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.files import task_dir
from task_yamls import files


@pytest.mark.parametrize(("path", "text"), files().items(), ids=files())
def test_a_task_file_agrees_with_the_tables_of_the_code(path, text):
    assert (task_dir() / path).read_text(encoding="utf-8") == text, "tools/task_yamls.py"


def test_there_are_40_tasks_and_no_file_of_another():
    tasks = {name for entry in entries() if entry.is_ours for name in entry.task_names()}
    assert {path.stem for path in task_dir().rglob("*.yaml")} == tasks
    assert len(tasks) == 40


@pytest.mark.parametrize("entry", [e for e in entries() if e.is_ours], ids=lambda e: e.name)
def test_task_files_and_code_have_one_version(entry):
    versions = {file.content["metadata"]["version"] for file in entry.task_files().values()}
    assert versions == {entry.load().version}


def test_the_runner_leaves_thinking_to_one_rule_of_ours_in_every_benchmark():
    paths = [path for path in task_dir().rglob("*") if path.is_file()]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    assert [name for name, text in texts.items() if "reasoning_tags" in text] == ["_shared"]
    assert "\nreasoning_tags: none " in texts["_shared"]
    including = {name for name, text in texts.items() if "include: ../_shared\n" in text}
    assert including == {"mia_bench.yaml", "_milebench_shared", "_mmie_shared", "opening.yaml"}
