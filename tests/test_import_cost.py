"""What a start of the runner, and the help of a command, import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PATH = """
import mmie_tasks.cli as cli
sys.argv[1:] = ["path"]
cli.main()
"""
HELP = """
sys.argv[1:] = ["{}", "--help"]
try:
    cli.main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
"""
HEAVY = {
    *("torch", "transformers", "accelerate", "datasets", "numpy", "scipy", "PIL", "pandas"),
    *("openai", "huggingface_hub", "lmms_eval"),
}
LOADED = """
import json, sys
{start}
print(json.dumps([*{{name.partition(".")[0] for name in sys.modules}}]))
"""
FUNCTIONS_OF_TASKS = """
import mmie_tasks.benchmarks.mmie.benchmark, mmie_tasks.benchmarks.milebench.benchmark
import mmie_tasks.benchmarks.mia_bench.benchmark, mmie_tasks.benchmarks.opening.benchmark
"""
PROMPT_IN_THE_RUNNER = """
from mmie_tasks.benchmarks.mia_bench.prompts import runner_prompt
runner_prompt()
"""
JUDGE = """
from mmie_tasks.judges.choice import open_judge, parse_choice
open_judge(parse_choice("openai:m", "here"), {})
"""
SCORE = """
import mmie_tasks.cli as cli
sys.argv[1:] = ["score", "{0}/answers.json", "--tasks", "mmie", "--judge", "replay"]
import os
os.environ["MMIE_DATA"] = "{1}"
try:
    cli.main()
except SystemExit as stop:
    assert "No answer" in str(stop.code), stop.code
"""


def loaded_by(start: str) -> set[str]:
    """The packages that a new interpreter has imported after these lines."""
    ended = subprocess.run(
        [sys.executable, "-c", LOADED.format(start=start)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(ended.stdout.splitlines()[-1]))


def test_the_package_its_path_and_the_help_of_a_command_import_nothing_heavy() -> None:
    loaded = loaded_by(PATH + HELP.format("score") + HELP.format("report"))
    assert "mmie_tasks" in loaded
    assert not loaded & {*HEAVY, "yaml", "pydantic", "plotly"}


def test_saved_answers_are_checked_before_lmms_eval_is_imported(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"SA-1": "A fox."}', encoding="utf-8")
    data = Path(__file__).resolve().parents[1] / "examples" / "mmie" / "data"
    loaded = loaded_by(SCORE.format(tmp_path, data))
    assert "datasets" in loaded
    assert not loaded & {"lmms_eval", "torch", "transformers"}


def test_tasks_the_prompt_of_mia_bench_and_an_open_judge_import_nothing_heavy() -> None:
    loaded = loaded_by(FUNCTIONS_OF_TASKS + PROMPT_IN_THE_RUNNER + JUDGE)
    assert "mmie_tasks" in loaded
    assert not loaded & HEAVY
