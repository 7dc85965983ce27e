"""The program of ``make gpu`` on a CPU: the whole of it with tiny models, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gpu import check
from gpu.check import PARTS, Row, parsed, run, table
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.mmie_score.serve import installed_vllm

pytestmark = needs_transformers_5

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "gpu" / "check.py"
ABSENT = ("lmms_eval", "openai", "plotly", "krippendorff")
BLOCK_IMPORTS = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def options(out: Path, *more: str):
    return parsed(["--device", "cpu", "--tiny", "--out", str(out), *more])


@pytest.mark.skipif(bool(installed_vllm()), reason="vLLM is here")
def test_it_runs_with_torch_and_transformers_and_without_our_other_dependencies(
    out: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK_IMPORTS)
    arguments = ["--device", "cpu", "--tiny", "--out", str(out)]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    printed = (out / "table.md").read_text()
    assert printed in result.stdout
    assert f"torch {torch.__version__}" in printed
    assert "| float32 | official replies | passed | 12 of 12" in printed
    assert "| float32 | equal alone and in a batch | passed | 12 of 12" in printed
    assert re.search(r"bfloat16 \| official replies \| measured \| \d+ of 12", printed)
    for what in ("start", "speed", "memory", "equal alone and in a batch"):
        assert f"| speed | {what} | measured |" in printed
    assert "| speed | equal in another order | measured |" in printed
    assert "| server | all | not run | `cpu` is not a GPU |" in printed


def test_another_reply_than_the_recorded_one_is_a_failure(monkeypatch, out, tmp_path) -> None:
    def replies(*arguments):
        keys = [prompt.key for prompt in arguments[-1]]
        return {key: [2] for key in keys}, {key: [1] for key in keys}

    monkeypatch.setattr(check, "alone_and_together", replies)
    rows = [*check.part_rows("float32", options(out), tmp_path)]
    assert [row.outcome for row in rows] == ["failed"] * 2
    assert rows[0].detail.startswith("0 of 12")


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put another program in the place of the parts' process."""
    path = tmp_path / "parts.py"
    head = "import sys, time, pathlib\n"
    rows = "rows = pathlib.Path(sys.argv[sys.argv.index('--rows') + 1])\n"
    row = '{"part": "speed", "check": "start", "outcome": "measured", "detail": "9 s"}'
    path.write_text(f"{head}{rows}rows.write_text({row + chr(10)!r})\n{body}")
    monkeypatch.setattr(check, "__file__", str(path))
    facts = tmp_path / "facts.py"
    facts.write_text("print('a GPU')")
    monkeypatch.setattr(check, "MACHINE_PROGRAM", facts)


def test_a_part_that_raises_is_failed_with_its_message_and_so_is_the_run(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "raise RuntimeError('CUDA error: no\\nmore')")
    printed: list[str] = []
    assert run(options(out, "--parts", "speed"), printed.append) == 1
    text = "\n".join(printed)
    assert "| speed | start | measured | 9 s |" in text
    assert "| speed | the rest | failed | RuntimeError: CUDA error: no |" in text
    assert "Traceback" in (out / "speed.log").read_text()


def test_a_part_that_takes_too_long_is_stopped_and_what_it_found_is_kept(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "time.sleep(60)")
    printed: list[str] = []
    chosen = options(out, "--parts", "speed,float32", "--seconds", "3")
    assert run(chosen, printed.append) == 0
    text = "\n".join(printed)
    assert "| speed | start | measured | 9 s |" in text
    assert re.search(r"\| speed \| the rest \| not run \| stopped after \d s \|", text)
    assert re.search(r"\| float32 \| the rest \| not run \| stopped after 0 s \|", text)


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="a GPU is here")
def test_without_a_gpu_nothing_is_checked_and_the_reason_is_printed(out: Path) -> None:
    printed: list[str] = []
    assert run(parsed(["--out", str(out)]), printed.append) == 1
    (line,) = printed
    assert "Nothing was checked" in line
    assert "torch finds no GPU" in line


def test_a_table_breaks_at_no_character_of_a_detail() -> None:
    rows = [Row(part=next(iter(PARTS)), check="start", outcome="failed", detail="a | b\nc")]
    printed = table(rows, "Run on a GPU.")
    assert printed.startswith("Run on a GPU.\n\n| part | check |")
    assert "| float32 | start | failed | a \\| b c |" in printed
