"""Misspelt options, and what is left to the runner."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from mmie_tasks.judges.choice import split_eval_arguments


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
