"""The program of ``make gpu`` on a CPU: the whole of it with tiny models, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gpu import check, drills, parts, steps
from gpu.check import PARTS, Row, completed, parsed, run, table
from support.internvl_golden import CHECKPOINT
from support.paged_kernel import paged_kernel
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention

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


def test_it_runs_with_torch_and_transformers_and_without_our_other_dependencies(
    out: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK_IMPORTS)
    arguments = ["--device", "cpu", "--tiny", "--out", str(out), "--parts", "kernel,recorded"]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    printed = (out / "table.md").read_text()
    assert printed in result.stdout
    assert f"torch {torch.__version__}" in printed
    assert "| attention in Triton, float16, 32 heads of 96 | passed |" in printed
    assert "| one request a call | passed | 3 of 3 texts" in printed
    assert "| the judge | not run | left out |" in printed


@pytest.mark.parametrize("name", ["steps", "bits", "speed", "drills"])
def test_a_part_with_tiny_models_gives_a_row_for_each_of_its_checks(name: str, tmp_path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = list(parts.PARTS[name](cpu_context(tmp_path)))
    torch.set_num_threads(threads)
    assert [row.check for row in rows] == list(PARTS[name].checks)
    outcomes = {row.check: row.outcome for row in rows}
    if name == "drills":
        assert set(outcomes.values()) == {"passed"}, rows
    else:
        assert set(outcomes.values()) <= {"measured", "not run"}
        assert list(outcomes.values()).count("not run") == (name == "steps")
    if name == "speed":
        assert "rows in a decoding step" in rows[1].detail
        assert "2 of 2 texts equal" in rows[3].detail


@pytest.mark.parametrize(
    ("check", "first_logit", "outcome"),
    [
        ("order", 1.0, "passed"),
        ("order", 1.5, "failed"),
        ("graphs", 1.5, "failed"),
        ("half", None, "failed"),
        ("rows", 1.5, "measured"),
        ("sdpa", 1.5, "measured"),
    ],
)
def test_another_order_or_number_of_requests_or_no_graphs_must_give_the_same_bits(
    tmp_path: Path, check, first_logit, outcome
) -> None:
    expected = {(0, 0): torch.tensor([1.0]), (1, 3): torch.tensor([2.0])}
    found = expected | {(0, 0): torch.tensor([first_logit or 0.0])}
    if first_logit is None:
        del found[0, 0]
    context = replace(cpu_context(tmp_path), device=torch.device("cuda", 0))
    row = parts.same_logits_row(context, check, found, expected)
    assert row.outcome == outcome
    assert ("token 0" in row.detail) == (first_logit != 1.0)


def test_a_row_that_has_other_bits_elsewhere_is_named(monkeypatch) -> None:
    linear = torch.nn.functional.linear

    def by_position(rows, weight):
        product = linear(rows, weight)
        product[2047:] += 1
        return product

    where = (torch.device("cpu"), torch.float64, (8, 16))
    assert steps.differing_positions(*where) == []
    monkeypatch.setattr(torch.nn.functional, "linear", by_position)
    assert steps.differing_positions(*where) == [2047, 4095]


def test_a_drill_names_what_goes_wrong(monkeypatch) -> None:
    monkeypatch.setattr(drills, "FORK_PROGRAM", "print('Cannot re-initialize CUDA'); exit(1)")
    problem = drills.fork_problem(CHECKPOINT, torch.device("cpu"))
    assert problem == "Cannot re-initialize CUDA"
    judge = SimpleNamespace(
        ask=lambda requests: [(0, JudgeUnavailable("no"))] * len(requests),
        close=lambda: None,
        local=SimpleNamespace(device=lambda: torch.device("cpu"), captured=True),
    )
    assert drills.memory_problem(judge, [None]) == "1 requests without a reply"
    assert drills.capture_problem(judge, [None]) == "1 requests without a reply; captured: True"


def cpu_context(tmp_path: Path) -> parts.Context:
    return parts.Context(
        device=torch.device("cpu"),
        tiny=True,
        work=tmp_path,
        ends_at=time.monotonic() + 100,
        tflops=989,
        tb_s=4.8,
    )


@pytest.mark.parametrize(("scale", "outcome"), [(1, "passed"), (1.1, "failed")])
def test_a_wrong_kernel_is_a_failed_row(tmp_path: Path, scale: float, outcome: str) -> None:
    def kernel(queries, keys, values, rows):
        return paged_kernel(queries, keys, values, rows) * scale

    row = parts.self_check_row(
        cpu_context(tmp_path), "x", PagedAttention(kernel=kernel), torch.float16
    )
    assert row.outcome == outcome
    assert ("differ from sdpa" in row.detail) == (outcome == "failed")


def test_the_times_of_all_kernels_of_a_machine_are_in_one_row(tmp_path: Path) -> None:
    attentions = {
        "a": PagedAttention(kernel=paged_kernel),
        "b": "not here",
        "c": PagedAttention(kernel=paged_kernel),
    }
    for key, queries in (("prefill_time", 64), ("decoding_time", 2)):
        row = parts.times_row(cpu_context(tmp_path), key, attentions)
        assert row.outcome == "measured"
        assert re.fullmatch(
            rf"a \S+ ms, c \S+ ms a layer, {queries} queries in 2 rows, .*", row.detail
        )
    assert (
        parts.times_row(cpu_context(tmp_path), "prefill_time", {"b": "not here"}).outcome
        == "not run"
    )


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put another program in the place of the parts."""
    path = tmp_path / "parts.py"
    head = "import sys, time, pathlib\n"
    rows = "rows = pathlib.Path(sys.argv[sys.argv.index('--rows') + 1])\n"
    path.write_text(head + rows + body)
    monkeypatch.setattr(check, "PARTS_PROGRAM", path)
    facts = tmp_path / "facts.py"
    facts.write_text("print('a GPU')")
    monkeypatch.setattr(check, "MACHINE_PROGRAM", facts)


FIRST_ROW = """rows.write_text('{"check": "single", "outcome": "passed", "detail": "12"}\\n')\n"""


def test_a_part_that_raises_is_failed_with_its_message_and_so_is_the_run(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, FIRST_ROW + "raise RuntimeError('CUDA error: no\\nmore')")
    printed: list[str] = []
    assert run(options(out, "--parts", "recorded"), printed.append) == 1
    text = "\n".join(printed)
    assert "| one request a call | passed | 12 |" in text
    assert "| all in one call, in random order | failed | RuntimeError: CUDA error: no |" in text
    assert "Traceback" in (out / "recorded.log").read_text()


def test_a_part_that_takes_too_long_is_stopped_and_not_run(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, FIRST_ROW + "time.sleep(60)")
    monkeypatch.setattr(
        check, "PARTS", {**PARTS, "recorded": replace(PARTS["recorded"], least_s=1)}
    )
    printed: list[str] = []
    began = time.monotonic()
    chosen = options(out, "--parts", "recorded,speed", "--seconds", "4")
    assert run(chosen, printed.append) == 0
    assert time.monotonic() - began < 20
    text = "\n".join(printed)
    assert re.search(r"\| one request a call \| passed \| 12 \|", text)
    assert re.search(r"\| all in one call, in random order \| not run \| stopped at \d s \|", text)
    assert re.search(r"\| the judge \| not run \| \d s were left, and it needs 40 s \|", text)


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="a GPU is here")
def test_without_a_gpu_nothing_is_checked_and_the_reason_is_printed(out: Path) -> None:
    printed: list[str] = []
    assert run(parsed(["--out", str(out)]), printed.append) == 1
    (line,) = printed
    assert "Nothing was checked" in line
    assert "torch finds no GPU" in line


def test_a_table_has_every_check_and_breaks_at_no_character_of_a_detail() -> None:
    rows = {"recorded": [Row(check="single", outcome="failed", detail="a | b\nc")]}
    printed = table(rows, "Run on a GPU.", reason="left out")
    assert printed.startswith("Run on a GPU.\n\n| part | check |")
    assert "| one request a call | failed | a \\| b c |" in printed
    assert printed.count("| not run | left out |") == sum(len(p.checks) for p in PARTS.values()) - 1


def test_checks_behind_a_failed_one_are_not_run() -> None:
    rows = completed(PARTS["speed"], [], log="killed", cut_s=None)
    assert [row.outcome for row in rows] == ["failed", *["not run"] * 3]
