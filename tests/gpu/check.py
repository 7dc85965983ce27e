"""Checks the judge MMIE-Score on a GPU and prints a table: ``make gpu``.

Needs a GPU, torch, transformers and the small packages that `machine.NEEDED` lists; neither the
network nor an installed package of ours. The server of vLLM is checked where vLLM is installed.
Each part runs in a process of its own, so that a crash or the end of the time costs that part only.
``--device cpu --tiny`` goes through the same code with tiny models, to see that it works; its
figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
    from mmie_tasks.judges.mmie_score.inputs import JudgePrompt
    from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

Outcome: TypeAlias = Literal["passed", "failed", "measured", "not run"]

ROOT = Path(__file__).resolve().parents[2]
MACHINE_PROGRAM = Path(__file__).with_name("machine.py")
DEFAULT_SECONDS = 570
MACHINE_SECONDS = 300  # to import torch from a slow disk and start CUDA
ALONE = 8  # requests of the speed part that are also computed one by one
PARTS = ("float32", "bfloat16", "speed", "server")
"""The recorded cases in this process by dtype, the speed of the real size, and vLLM's server."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of one check.

    Attributes:
        outcome: ``measured`` is a figure that is neither right nor wrong.
        detail: Figures, or the reason.
    """

    part: str
    check: str
    outcome: Outcome
    detail: str


def table(rows: Sequence[Row], caption: str) -> str:
    """The Markdown table, under a caption."""
    lines = [caption, "", "| part | check | outcome | |", "| --- | --- | --- | --- |"]
    for row in rows:
        detail = " ".join(row.detail.split()).replace("|", "\\|")
        lines.append(f"| {row.part} | {row.check} | {row.outcome} | {detail} |")
    return "\n".join(lines)


@contextmanager
def started(
    checkpoint: Checkpoint, device: str, dtype: str
) -> Iterator[tuple[TransformersEngine, float]]:
    """The engine of this process, and the seconds that it took to start."""
    import torch

    from mmie_tasks.judges.mmie_score.exact import exact_arithmetic
    from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

    began = time.perf_counter()
    engine = TransformersEngine.start(
        checkpoint, device=torch.device(device), dtype=getattr(torch, dtype)
    )
    with exact_arithmetic(), closing(engine):
        yield engine, time.perf_counter() - began


def alone_and_together(
    engine: TransformersEngine, prompts: Sequence[JudgePrompt], batch: Sequence[JudgePrompt]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Replies to prompts one a call, and those of a call with all of a batch in random order."""
    from support.judge_engines import outputs

    alone: dict[int, list[int]] = {}
    for prompt in prompts:
        alone |= outputs(engine, [prompt])
    return alone, outputs(engine, Random(0).sample(batch, len(batch)))  # noqa: S311


def recorded_rows(part: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """The recorded cases of the official code, on a tiny checkpoint; `part` is the dtype."""
    from support import internvl_golden as golden
    from support import wide_heads
    from support.judge_engines import golden_prompts, open_folder

    folder = wide_heads.write(golden.CHECKPOINT, work / "wide")  # as for the server
    prompts, expected = golden_prompts(), [[*case.output_ids] for case in golden.cases()]
    with started(open_folder(folder), chosen.device, part) as (running, start_s):
        alone, together = alone_and_together(running, prompts, prompts)
    official = sum(together[key] == ids for key, ids in enumerate(expected))
    equal = sum(together[key] == ids for key, ids in alone.items())
    for check, count in (("official replies", official), ("equal alone and in a batch", equal)):
        is_right = "passed" if count == len(prompts) else "failed"
        yield Row(
            part=part,
            check=check,
            outcome=is_right if part == "float32" else "measured",
            detail=f"{count} of {len(prompts)}; started in {start_s:.0f} s",
        )


def server_rows(part: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """The recorded cases on a server that the judge starts, in float32."""
    from support import internvl_golden as golden
    from support import wide_heads

    from mmie_tasks.judges.base import JudgeRequest
    from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge, MmieScoreOptions

    folder = wide_heads.write(golden.CHECKPOINT, work / "wide")  # vLLM has no heads of 16
    options = MmieScoreOptions(model=str(folder), device=chosen.device, dtype="float32")
    judge, cases = MmieScoreJudge(options, os.environ), golden.cases()
    if not judge.way.program:
        yield Row(part=part, check="all", outcome="not run", detail=judge.way.reason)
        return
    requests = [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases]
    began = time.perf_counter()
    with closing(judge):
        texts = {index: getattr(reply, "text", "") for index, reply in judge.ask(requests)}
    seconds = time.perf_counter() - began
    official = sum(  # vLLM drops an unfinished character at the end
        texts[index] == case.response.rstrip("\ufffd").strip() for index, case in enumerate(cases)
    )
    yield Row(
        part=part,
        check="official replies",
        outcome="passed" if official == len(cases) else "failed",
        detail=f"{official} of {len(cases)}; {seconds:.0f} s with the start",
    )


def made_up(chosen: argparse.Namespace, work: Path) -> tuple[Checkpoint, list[JudgePrompt]]:
    """A checkpoint with random weights of the real size, and prompts for it."""
    from support.judge_engines import open_folder
    from support.judge_workload import SIZES, requests
    from support.random_checkpoint import write

    from mmie_tasks.judges.mmie_score.inputs import prompt_of

    size, count = SIZES["tiny" if chosen.tiny else "real"], 8 if chosen.tiny else 128
    folder = write(work / "checkpoint", size.shape, seed=1, ends=False, device=chosen.device)
    checkpoint = open_folder(folder)
    prompts = [
        prompt_of(request.parts, checkpoint, key=key, max_new_tokens=request.max_tokens)
        for key, request in enumerate(requests(size, count, 1, work, compress_level=0))
    ]
    return checkpoint, sorted(prompts, key=lambda prompt: -len(prompt.ids))


def speed_rows(part: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """Speed, memory and equal replies, in bfloat16."""
    from support.judge_engines import outputs

    def measured(check: str, detail: str) -> Row:
        return Row(part=part, check=check, outcome="measured", detail=detail)

    checkpoint, prompts = made_up(chosen, work)
    with started(checkpoint, chosen.device, "bfloat16") as (running, start_s):
        yield measured("start", f"{start_s:.0f} s")
        outputs(running, prompts[:1])
        began = time.perf_counter()
        together = outputs(running, prompts)
        seconds = time.perf_counter() - began
        tokens, read = sum(map(len, together.values())), sum(len(one.ids) for one in prompts)
        yield measured(
            "speed",
            f"{len(prompts) / seconds:.2f} samples/s, {tokens / seconds:.0f} generated and "
            f"{read / seconds:.0f} prompt tokens/s",
        )
        yield measured("memory", memory_used(chosen.device))
        alone, again = alone_and_together(running, prompts[:: len(prompts) // ALONE], prompts)
        equal = sum(again[key] == ids for key, ids in alone.items())
        yield measured("equal alone and in a batch", f"{equal} of {len(alone)}")
        equal = sum(together[key] == ids for key, ids in again.items())
        yield measured("equal in another order", f"{equal} of {len(again)}")


def memory_used(device: str) -> str:
    """The memory in use by all processes."""
    import torch

    if device == "cpu":
        return "not measured on a CPU"
    free, total = torch.cuda.mem_get_info(torch.device(device))
    return f"{(total - free) / 2**30:.1f} of {total / 2**30:.1f} GiB in use"


def part_rows(part: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """The rows of a part, in its own process."""
    rows_of = {"speed": speed_rows, "server": server_rows}
    yield from rows_of.get(part, recorded_rows)(part, chosen, work)


def error_line(log: str) -> str:
    """The message of the last traceback in a log, or its last line.

    >>> error_line("Traceback (most recent call last):\\n  File ...\\nValueError: no\\nhint: yes")
    'ValueError: no'
    """
    _, is_traceback, end = log.rpartition("Traceback (most recent call last):")
    messages = [line for line in end.splitlines() if line.strip() and not line.startswith(" ")]
    return messages[0 if is_traceback else -1] if messages else "it ended without a message"


def run_part(part: str, chosen: argparse.Namespace, left_s: float) -> list[Row]:
    """Run a part in its own process, for as long as there is time."""
    log_path = chosen.out / f"{part}.log"
    problem: Row | None = None
    with tempfile.TemporaryDirectory() as work, log_path.open("w", encoding="utf-8") as log:
        rows_path = Path(work) / "rows.jsonl"
        rows_path.touch()
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--rows"]
        command += [str(rows_path), "--parts", part, "--device", chosen.device]
        try:
            process = subprocess.run(
                [*command, *(["--tiny"] if chosen.tiny else [])],
                stdout=log,
                stderr=log,
                env=environment(),
                timeout=max(left_s, 0.1),
                check=False,
            )
        except subprocess.TimeoutExpired:
            detail = f"stopped after {max(left_s, 0):.0f} s"
            problem = Row(part=part, check="the rest", outcome="not run", detail=detail)
        else:
            if process.returncode:
                detail = error_line(log_path.read_text(encoding="utf-8", errors="replace"))
                problem = Row(part=part, check="the rest", outcome="failed", detail=detail)
        lines = rows_path.read_text(encoding="utf-8").splitlines()
    rows = [Row(**json.loads(line)) for line in lines]
    return [*rows, problem] if problem else rows


def environment() -> dict[str, str]:
    """The environment of a part: our modules, which are not installed."""
    folders = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def machine_facts(chosen: argparse.Namespace, show: Callable[[str], None]) -> str:
    """Device and versions in one line; empty if nothing can be checked, after the reason was
    shown.
    """
    try:
        machine = subprocess.run(
            [sys.executable, "-W", "ignore", str(MACHINE_PROGRAM), chosen.device],
            env=environment(),
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
    rows: list[Row] = []
    for part in chosen.parts:
        for row in run_part(part, chosen, chosen.seconds - (time.monotonic() - began)):
            show(f"{part} {row.check}: {row.outcome}. {row.detail}")
            rows.append(row)
    seconds = time.monotonic() - began
    tiny = " Tiny models: the figures mean nothing." if chosen.tiny else ""
    today = datetime.now(timezone.utc).date()
    result = table(rows, f"Run on {today} in {seconds:.0f} s: {machine}.{tiny}")
    (chosen.out / "table.md").write_text(result + "\n", encoding="utf-8")
    show(f"\n{result}")
    return int(any(row.outcome == "failed" for row in rows))


def write_rows(chosen: argparse.Namespace) -> None:
    """Append the rows of the chosen parts to a file, each when it is known."""
    with tempfile.TemporaryDirectory() as work:
        for part in chosen.parts:
            for row in part_rows(part, chosen, Path(work)):
                with chosen.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="check.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="for everything")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu (with --tiny)")
    parser.add_argument("--tiny", action="store_true", help="tiny models; only to try the program")
    parser.add_argument(
        "--parts", type=lambda text: text.split(","), default=[*PARTS], help="joined by commas"
    )
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="for tables and logs")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # of a part's own process
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    if chosen.seconds <= 0:
        parser.error("--seconds must be above 0")
    if chosen.device == "cpu" and not chosen.tiny:
        parser.error("on a CPU only --tiny can be run: the real sizes would take days")
    return chosen


if __name__ == "__main__":
    options = parsed()
    if options.rows is None:
        sys.exit(run(options))
    write_rows(options)
