"""What a start of the runner, and the help of a command, import; `tests/bench/import_cost.py`
measures both in ms.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mmie_tasks.cli import COMMANDS

HELP = """
import mmie_tasks.cli as cli
sys.argv[1:] = ["{}", "--help"]
try:
    cli.main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
"""
TYPO = """
import mmie_tasks.cli as cli
sys.argv[1:] = ["table", "--colums", "all", "out"]
try:
    cli.main()
except SystemExit as stop:
    assert stop.code == 2, stop.code
"""
LOADED = """
import json, sys
{start}
print(json.dumps([*{{name.partition(".")[0] for name in sys.modules}}]))
"""


@pytest.mark.parametrize(
    "start",
    [
        pytest.param("import mmie_tasks", id="the-package"),
        pytest.param(
            "from mmie_tasks.runner.plugin import install_hooks; install_hooks()", id="the-hooks"
        ),
        pytest.param(
            "sys.argv[1:] = ['path']; import mmie_tasks.cli as cli; cli.main()", id="path"
        ),
        *(pytest.param(HELP.format(name), id=f"{name}-help") for name in COMMANDS),
        pytest.param(TYPO, id="usage-error"),
    ],
)
def test_nothing_heavy_is_imported(start: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED.format(start=start)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(ended.stdout.splitlines()[-1]))
    assert "mmie_tasks" in loaded
    assert not loaded & {
        *("torch", "transformers", "accelerate", "datasets", "numpy", "PIL", "pandas", "openai"),
        *("huggingface_hub", "yaml", "lmms_eval", "pydantic", "scipy", "plotly"),
    }
