"""The installed lmms-eval has every name that we change, and the parameters that we read."""

from __future__ import annotations

import ast
import inspect

import lmms_eval.__main__
import pytest
from lmms_eval.cli import dispatch

from mmie_tasks.judges.choice import split_eval_arguments
from mmie_tasks.runner.plugin import CHANGES, named

PARAMETERS = {
    "initialize_tasks": "include_path include_defaults",
    "simple_evaluate": "model model_args tasks predict_only launcher_args task_manager "
    "evaluation_tracker log_samples datetime_str cli_args",
    "evaluate": "lm task_dict limit offset cli_args eval_server_launcher",
}


@pytest.mark.parametrize("name", CHANGES)
def test_lmms_eval_has_the_name(name: str) -> None:
    changed = named(name)
    if callable(changed):
        parameters = PARAMETERS.get(name.rpartition(":")[2].rpartition(".")[2], "")
        assert inspect.signature(changed).parameters.keys() >= {*parameters.split()}


def test_lmms_eval_lists_its_launchers_and_commands() -> None:
    assert isinstance(named("lmms_eval.llm_judge.launcher:AVAILABLE_LAUNCHERS"), dict)
    assert "eval" in dispatch._SUBCOMMANDS


def test_no_option_of_the_runner_is_taken_for_a_misspelt_one() -> None:
    code = inspect.getsource(lmms_eval.__main__)
    options = [
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and str(node.value).startswith("--")
    ]
    assert len(options) > 40
    assert split_eval_arguments(options).for_runner == options
