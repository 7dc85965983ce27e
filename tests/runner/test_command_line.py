"""Misspelt options, and what is left to the runner."""

from __future__ import annotations

import argparse
import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from mmie_tasks.judges.choice import split_eval_arguments
from mmie_tasks.runner.command_line import with_short_errors


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser("lmms-eval")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--num_fewshot")
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(["--limt", "3"], ["--limt", "did you mean `--limit`?"], id="option"),
        pytest.param(["--num_fewshots=3"], ["did you mean `--num_fewshot`?"], id="with-its-value"),
        pytest.param(["--jdge", "x"], ["did you mean `--judge`?"], id="ours"),
        pytest.param(["x", "--fully_unlike"], ["x --fully_unlike"], id="nothing-is-similar"),
        pytest.param(["--limit", "all"], ["--limit", "'all'"], id="value"),
    ],
)
def test_a_wrong_option_of_the_runner_is_named_without_the_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], names: list[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        with_short_errors(lambda: parse(*arguments))()
    message = capsys.readouterr().err
    assert stop.value.code == 2
    assert all(name in message for name in names)
    assert "usage" not in message
    assert "hint: " in message
    assert ("did you mean" in message) is any("did you mean" in name for name in names)


def test_no_option_of_the_runner_is_taken_for_a_misspelt_one() -> None:
    spec = find_spec("lmms_eval")
    assert spec is not None
    assert spec.origin is not None
    code = Path(spec.origin).with_name("__main__.py").read_text(encoding="utf-8")
    options = [
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and str(node.value).startswith("--")
    ]
    assert len(options) > 40
    assert split_eval_arguments(options).for_runner == options
