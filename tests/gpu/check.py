"""Checks the judge MMIE-Score on a GPU and prints a table: ``make gpu``.

Needs a GPU, torch, transformers and the small packages that `NEEDED` lists; neither the network nor
an installed package of ours. The server of vLLM is checked where vLLM is installed. Rows are
printed and saved as they are known, so that a crash or the end of the time costs only later ones.
``--device cpu --tiny`` goes through the same code with tiny models, to see that it works; its
figures mean nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
    from mmie_tasks.judges.mmie_score.inputs import JudgePrompt
    from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("torch", "transformers", "accelerate", "loguru", "pydantic", "safetensors", "numpy")
NEEDED += ("sentencepiece", "PIL")  # PIL is in the package pillow
ALONE = 8  # requests of the speed part that are also computed one by one
PARTS = ("float32", "bfloat16", "speed", "server")
"""The recorded cases in this process by dtype, the speed of the real size, and vLLM's server."""


class Row(NamedTuple):
    """What came of one check; a ``measured`` figure is neither right nor wrong."""

    check: str
    outcome: str
    detail: str


def machine(device: str) -> str:
    """The device and the versions, in one line; ends the program if something is missing."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        sys.exit(f"Nothing was checked: {', '.join(missing)} not installed.")
    import torch
    import transformers

    name = platform.processor() or "a CPU"
    if device != "cpu":
        if not torch.cuda.is_available():
            sys.exit("Nothing was checked: torch finds no GPU.\n\nhint: look at `nvidia-smi`")
        gpu = torch.cuda.get_device_properties(torch.device(device))
        name = f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    return f"{name}, torch {torch.__version__}, transformers {transformers.__version__}"


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


def recorded_rows(dtype: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """The recorded cases of the official code, on a tiny checkpoint; in float32 they must agree."""
    from support import internvl_golden as golden
    from support import wide_heads
    from support.judge_engines import golden_prompts, open_folder

    folder = wide_heads.write(golden.CHECKPOINT, work / dtype)  # as for the server
    prompts, expected = golden_prompts(), [[*case.output_ids] for case in golden.cases()]
    with started(open_folder(folder), chosen.device, dtype) as (running, start_s):
        alone, together = alone_and_together(running, prompts, prompts)
    official = sum(together[key] == ids for key, ids in enumerate(expected))
    equal = sum(together[key] == ids for key, ids in alone.items())
    for check, count in (("official replies", official), ("equal alone and in a batch", equal)):
        outcome = "passed" if count == len(prompts) else "failed"
        detail = f"{count} of {len(prompts)}; started in {start_s:.0f} s"
        yield Row(check, outcome if dtype == "float32" else "measured", detail)


def server_rows(_part: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """The recorded cases on a server that the judge starts, in float32."""
    from support import internvl_golden as golden
    from support import wide_heads

    from mmie_tasks.judges.base import JudgeRequest
    from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge, MmieScoreOptions

    folder = wide_heads.write(golden.CHECKPOINT, work / "server")  # vLLM has no heads of 16
    options = MmieScoreOptions(model=str(folder), device=chosen.device, dtype="float32")
    judge, cases = MmieScoreJudge(options, os.environ), golden.cases()
    if not judge.way.program:
        yield Row("all", "not run", judge.way.reason)
        return
    requests = [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases]
    began = time.perf_counter()
    with closing(judge):
        texts = {index: getattr(reply, "text", "") for index, reply in judge.ask(requests)}
    seconds = time.perf_counter() - began
    official = sum(  # vLLM drops an unfinished character at the end
        texts[index] == case.response.rstrip("\ufffd").strip() for index, case in enumerate(cases)
    )
    outcome = "passed" if official == len(cases) else "failed"
    yield Row("official replies", outcome, f"{official} of {len(cases)}; {seconds:.0f} s in all")


def made_up(chosen: argparse.Namespace, work: Path) -> tuple[Checkpoint, list[JudgePrompt]]:
    """A checkpoint with random weights of the real size, and prompts for it."""
    from support.judge_engines import open_folder
    from support.judge_workload import SIZES, requests
    from support.random_checkpoint import write

    from mmie_tasks.judges.mmie_score.inputs import prompt_of

    size, count = SIZES["tiny" if chosen.tiny else "real"], 8 if chosen.tiny else 128
    folder = write(work / "speed", size.shape, seed=1, ends=False, device=chosen.device)
    checkpoint = open_folder(folder)
    return checkpoint, [
        prompt_of(request.parts, checkpoint, key=key, max_new_tokens=request.max_tokens)
        for key, request in enumerate(requests(size, count, 1, work, compress_level=0))
    ]


def speed_rows(_part: str, chosen: argparse.Namespace, work: Path) -> Iterator[Row]:
    """Speed, memory and equal replies, in bfloat16."""
    import torch
    from support.judge_engines import outputs

    checkpoint, prompts = made_up(chosen, work)
    with started(checkpoint, chosen.device, "bfloat16") as (running, start_s):
        yield Row("start", "measured", f"{start_s:.0f} s")
        outputs(running, prompts[:1])
        began = time.perf_counter()
        together = outputs(running, prompts)
        seconds = time.perf_counter() - began
        tokens, read = sum(map(len, together.values())), sum(len(one.ids) for one in prompts)
        per_second = f"{tokens / seconds:.0f} generated and {read / seconds:.0f} prompt tokens/s"
        yield Row("speed", "measured", f"{len(prompts) / seconds:.2f} samples/s, {per_second}")
        if chosen.device != "cpu":
            free, total = torch.cuda.mem_get_info(torch.device(chosen.device))
            used = f"{(total - free) / 2**30:.1f} of {total / 2**30:.1f} GiB in use"
            yield Row("memory", "measured", used)
        alone, again = alone_and_together(running, prompts[:: len(prompts) // ALONE], prompts)
        equal = sum(again[key] == ids for key, ids in alone.items())
        yield Row("equal alone and in a batch", "measured", f"{equal} of {len(alone)}")
        equal = sum(together[key] == ids for key, ids in again.items())
        yield Row("equal in another order", "measured", f"{equal} of {len(again)}")


def run(chosen: argparse.Namespace) -> int:
    """Print the table, and save it as ``table.md``; 1 if a check failed, else 0."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    chosen.out.mkdir(parents=True, exist_ok=True)
    failed = False
    with (chosen.out / "table.md").open("w", encoding="utf-8") as file:

        def show(line: str) -> None:
            print(line, flush=True)
            print(line, file=file, flush=True)

        tiny = " Tiny models: the figures mean nothing." if chosen.tiny else ""
        show(f"{machine(chosen.device)}.{tiny}\n")
        show("| part | check | outcome | |\n| --- | --- | --- | --- |")
        with tempfile.TemporaryDirectory() as work:
            for part in chosen.parts:
                rows_of = {"speed": speed_rows, "server": server_rows}.get(part, recorded_rows)
                for row in rows_of(part, chosen, Path(work)):
                    failed |= row.outcome == "failed"
                    show(f"| {part} | {row.check} | {row.outcome} | {row.detail} |")
    return int(failed)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="check.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu (with --tiny)")
    parser.add_argument("--tiny", action="store_true", help="tiny models; only to try the program")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="for the table")
    chosen = parser.parse_args(arguments)
    if chosen.device == "cpu" and not chosen.tiny:
        parser.error("on a CPU only --tiny can be run: the real sizes would take days")
    return chosen


if __name__ == "__main__":
    sys.exit(run(parsed()))
