"""The installed lmms-eval has every name that we change or read."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from lmms_eval import __main__ as command_line
from lmms_eval import evaluator
from lmms_eval.api.model import lmms
from lmms_eval.cli import dispatch
from lmms_eval.evaluator_utils import TaskOutput
from lmms_eval.llm_judge import launcher
from lmms_eval.tasks import TaskManager


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        pytest.param(TaskManager.initialize_tasks, "include_path include_defaults", id="index"),
        pytest.param(TaskManager.load_task_or_group, "", id="load"),
        pytest.param(TaskManager.load_config, "", id="load-config"),
        pytest.param(
            evaluator.simple_evaluate,
            "model model_args tasks predict_only launcher_args task_manager evaluation_tracker "
            "log_samples datetime_str cli_args",
            id="simple-evaluate",
        ),
        pytest.param(evaluator.evaluate, "lm task_dict eval_server_launcher", id="evaluate"),
        pytest.param(TaskOutput.calculate_aggregate_metric, "", id="aggregate"),
        pytest.param(lmms.generate_until, "", id="generate"),
        pytest.param(lmms.clean, "", id="clean"),
        pytest.param(command_line.parse_eval_args, "", id="options"),
        pytest.param(command_line.cli_evaluate_single, "", id="evaluation-of-a-command-line"),
        pytest.param(command_line.eval_logger.add, "", id="log"),
    ],
)
def test_lmms_eval_has_the_function(function: Callable[..., object], parameters: str) -> None:
    assert inspect.signature(function).parameters.keys() >= {*parameters.split()}


def test_lmms_eval_lists_its_launchers_and_commands() -> None:
    assert isinstance(launcher.AVAILABLE_LAUNCHERS, dict)
    assert "eval" in dispatch._SUBCOMMANDS
