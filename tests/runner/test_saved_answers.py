"""Command lines that score saved answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lmms_eval.__main__ import parse_eval_args

from mmie_tasks.runner.saved_answers import scoring_lines

WORDS = [
    "--model",
    "stub",
    "--tasks",
    "mmie,mia_bench",
    "--predict_only",
    "--output_path",
    "my out",
]
SCORED = (
    "mmie-tasks eval --model predictions --model_args 'path=my out/stub' --tasks mmie,mia_bench"
)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        pytest.param([], "", id="defaults"),
        pytest.param(["--limit", "8"], " --limit 8", id="limit"),
        pytest.param(
            ["--reasoning_tags", "none", "--offset", "2"],
            " --offset 2 --reasoning_tags none",
            id="reading",
        ),
    ],
)
def test_a_predict_only_run_ends_with_the_command_for_its_samples(
    monkeypatch: pytest.MonkeyPatch, words: list[str], options: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["lmms-eval", *WORDS, *words])
    _, command_line = parse_eval_args()
    lines = scoring_lines("stub", Path("my out/stub"), command_line).splitlines()
    assert lines[-1] == f"{SCORED}{options} --output_path 'my out' --log_samples"
