"""Checks the judge MMIE-Score on a GPU and prints a table: ``make gpu``.

Needs a GPU, torch, transformers and the small packages that `machine.NEEDED` lists; neither the
network nor an installed package of ours. Each
part runs in a process of its own, so that a crash or the end of the time costs that part only.
Rows, tables and logs stay in a folder (``--out``). ``--device cpu --tiny`` goes through the same
code with tiny models, to see that it works; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["passed", "failed", "measured", "not run"]

ROOT = Path(__file__).resolve().parents[2]
PARTS_PROGRAM = Path(__file__).with_name("parts.py")
MACHINE_PROGRAM = Path(__file__).with_name("machine.py")
DEFAULT_SECONDS = 570
MACHINE_SECONDS = 300  # to import torch from a slow disk and start CUDA


@dataclass(frozen=True, kw_only=True)
class Part:
    """Checks that run in one process.

    Attributes:
        title: In the table.
        checks: The text of each check in the table, by its key.
        least_s: The part is not started with fewer seconds left.
    """

    title: str
    checks: Mapping[str, str]
    least_s: float


PARTS: Mapping[str, Part] = {
    "kernel": Part(
        title="single kernels",
        checks={
            "torch_bfloat16": "torch's own attention, bfloat16, 32 heads of 96",
            "triton_bfloat16": "attention in Triton, bfloat16, 32 heads of 96",
            "triton_float16": "attention in Triton, float16, 32 heads of 96",
            "prefill_time": "time of attention in a prefill step of 4,096 tokens",
            "decoding_time": "time of attention in a decoding step of 64 rows, some alive",
            "row_position": "a row of a matrix product has the same bits at every position",
        },
        least_s=15,
    ),
    "steps": Part(
        title="steps, bfloat16, 4 layers of real width",
        checks={
            "chosen": "attention that the judge chooses",
            "captured": "the decoding step is captured, and its replay has the same bits",
            "decode": "decoding step with 1, 29 and 56 rows alive",
            "prefill": "prefill step of 4,096 tokens",
            "vision": "vision batch of 64 tiles",
            "gap": "time between decoding steps on the host",
            "profile": "kernels of a decoding and a prefill step: shares, and the longest",
        },
        least_s=30,
    ),
    "speed": Part(
        title="speed, bfloat16, 4.15 B, prompts of about 4.9k tokens",
        checks={
            "judge": "the judge",
            "parts": "time by part, and hours for 20,000 samples",
            "memory": "peak memory, and what was free then",
            "single": "`generate()`, one request a call",
        },
        least_s=40,
    ),
    "bits": Part(
        title="same logits, bfloat16, real width",
        checks={
            "order": "requests in another order, so that prompts are cut elsewhere",
            "graphs": "without CUDA graphs",
            "half": "each half of the requests, as two engines or a resumed run have them",
            "rows": "half as many rows",
            "sdpa": "sdpa in place of the paged kernel",
        },
        least_s=25,
    ),
    "drills": Part(
        title="drills",
        checks={
            "fork": "a process that is forked after the judge's check can use CUDA",
            "capture": "a capture that fails inside: decoding goes on, memory can be returned",
            "memory": "memory that runs out: steps get smaller, and every request has a reply",
        },
        least_s=20,
    ),
    "recorded": Part(
        title="recorded cases, float32",
        checks={"single": "one request a call", "together": "all in one call, in random order"},
        least_s=15,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of one check.

    Attributes:
        check: Its key in `Part.checks`.
        outcome: ``measured`` is a figure that is neither right nor wrong.
        detail: Figures, or the reason.
    """

    check: str
    outcome: Outcome
    detail: str


def table(rows: Mapping[str, Sequence[Row]], caption: str, reason: str = "") -> str:
    """The Markdown table, under a caption.

    Args:
        rows: By part. A check without a row is "not run".
        caption: The paragraph above the table.
        reason: Why checks without a row were not run.
    """
    lines = [caption, "", "| part | check | outcome | |", "| --- | --- | --- | --- |"]
    for name, part in PARTS.items():
        by_check = {row.check: row for row in rows.get(name, ())}
        for key, text in part.checks.items():
            row = by_check.get(key) or Row(check=key, outcome="not run", detail=reason)
            detail = " ".join(row.detail.split()).replace("|", "\\|")
            lines.append(f"| {part.title} | {text} | {row.outcome} | {detail} |".replace("  ", " "))
    return "\n".join(lines)


def completed(part: Part, rows: Sequence[Row], *, log: str, cut_s: float | None) -> list[Row]:
    """The rows of a part, with one for each check that its process left out.

    Args:
        part: What was to be checked.
        rows: What the process wrote.
        log: What it printed.
        cut_s: Seconds after which it was stopped; None: it ended by itself.
    """
    written = {row.check for row in rows}
    missing = [check for check in part.checks if check not in written]
    if cut_s is not None:
        rest = [
            Row(check=key, outcome="not run", detail=f"stopped at {cut_s:.0f} s") for key in missing
        ]
        return [*rows, *rest]
    failed = [Row(check=key, outcome="failed", detail=error_line(log)) for key in missing[:1]]
    rest = [
        Row(check=key, outcome="not run", detail="the check before it failed")
        for key in missing[1:]
    ]
    return [*rows, *failed, *rest]


def error_line(log: str) -> str:
    """The message of the last traceback in a log, or its last line.

    >>> error_line("Traceback (most recent call last):\\n  File ...\\nValueError: no\\nhint: yes")
    'ValueError: no'
    """
    _, is_traceback, end = log.rpartition("Traceback (most recent call last):")
    messages = [line for line in end.splitlines() if line.strip() and not line.startswith(" ")]
    return messages[0 if is_traceback else -1] if messages else "it ended without a message"


def read_rows(path: Path) -> list[Row]:
    """The rows that a part wrote so far."""
    if not path.exists():
        return []
    return [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def write_row(path: Path, row: Row) -> None:
    """Append a row to a part's file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def run_part(name: str, chosen: argparse.Namespace, left_s: float) -> list[Row]:
    """Run a part in its own process, for as long as there is time."""
    part = PARTS[name]
    if left_s < part.least_s:
        reason = f"{max(left_s, 0):.0f} s were left, and it needs {part.least_s:.0f} s"
        return [Row(check=key, outcome="not run", detail=reason) for key in part.checks]
    rows_path, log_path = chosen.out / f"{name}.jsonl", chosen.out / f"{name}.log"
    rows_path.unlink(missing_ok=True)
    cut_s = None
    with tempfile.TemporaryDirectory() as work, log_path.open("w", encoding="utf-8") as log:
        more = ["--rows", str(rows_path), "--work", work, "--seconds", str(left_s)]
        try:
            subprocess.run(
                command(name, chosen, more),
                stdout=log,
                stderr=log,
                env=environment(chosen),
                timeout=left_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            cut_s = left_s
    log_text = log_path.read_text(encoding="utf-8", errors="replace")
    return completed(part, read_rows(rows_path), log=log_text, cut_s=cut_s)


def command(name: str, chosen: argparse.Namespace, more: Sequence[str] = ()) -> list[str]:
    """What starts the process of a part."""
    tiny = ["--tiny"] if chosen.tiny else []
    peaks = ["--tflops", str(chosen.tflops), "--tb-s", str(chosen.tb_s)]
    program = [sys.executable, "-W", "ignore", str(PARTS_PROGRAM), name]
    return [*program, "--device", chosen.device, *tiny, *peaks, *more]


def environment(chosen: argparse.Namespace) -> dict[str, str]:
    """The environment of a part: our modules, which are not installed, and Triton's switch."""
    folders = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, folders))
    interpret = {"TRITON_INTERPRET": "1"} if chosen.device == "cpu" else {}
    return {**os.environ, "PYTHONPATH": path, **interpret}


def machine_facts(chosen: argparse.Namespace, show: Callable[[str], None]) -> str:
    """Device and versions in one line; empty if nothing can be checked, after the reason was
    shown.
    """
    try:
        machine = subprocess.run(
            [sys.executable, "-W", "ignore", str(MACHINE_PROGRAM), chosen.device],
            env=environment(chosen),
            capture_output=True,
            text=True,
            timeout=MACHINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        show(f"Nothing was checked: torch did not start the GPU within {MACHINE_SECONDS} s.")
        return ""
    if machine.returncode:
        show(f"Nothing was checked: {error_line(machine.stderr)}")
        return ""
    show(machine.stdout.strip())
    return machine.stdout.strip()


def run(chosen: argparse.Namespace, show: Callable[[str], None] = print) -> int:
    """Run the parts in order and print the table.

    Returns:
        The exit status: 1 if a check failed or there is no such device, else 0.
    """
    began = time.monotonic()
    chosen.out.mkdir(parents=True, exist_ok=True)
    machine = machine_facts(chosen, show)
    if not machine:
        return 1
    rows: dict[str, list[Row]] = {}
    for name in chosen.parts:
        rows[name] = run_part(name, chosen, chosen.seconds - (time.monotonic() - began))
        for row in rows[name]:
            show(f"{name} {row.check}: {row.outcome}. {row.detail}")
    seconds = time.monotonic() - began
    today = datetime.now(timezone.utc).date()
    tiny = " Tiny models: the figures mean nothing." if chosen.tiny else ""
    caption = f"Run on {today} in {seconds:.0f} s: {machine}.{tiny}"
    result = table(rows, caption, reason="left out")
    (chosen.out / "table.md").write_text(result + "\n", encoding="utf-8")
    show(f"\n{result}")
    outcomes = {row.outcome for part_rows in rows.values() for row in part_rows}
    return int("failed" in outcomes)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="check.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="for everything")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (with --tiny)")
    parser.add_argument("--tiny", action="store_true", help="tiny models; only to try the program")
    parser.add_argument(
        "--parts", type=lambda text: text.split(","), default=list(PARTS), help="joined by commas"
    )
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="for tables and logs")
    parser.add_argument("--tflops", type=float, default=0, help="of the GPU; default: by its name")
    parser.add_argument("--tb-s", type=float, default=0, help="memory bandwidth, terabytes/s")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    if chosen.seconds <= 0:
        parser.error("--seconds must be above 0")
    if chosen.device == "cpu" and not chosen.tiny:
        parser.error("on a CPU only --tiny can be run: the real sizes would take days")
    return chosen


if __name__ == "__main__":
    sys.exit(run(parsed()))
