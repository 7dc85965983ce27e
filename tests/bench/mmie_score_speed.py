"""How fast MMIE-Score judges: ``python -W ignore tests/bench/mmie_score_speed.py``.

The real architecture with random weights, and requests made up by us in the proportions of MMIE's:
a rubric that all begin with, a question, an answer, 1 to 4 pictures, replies around 300 tokens and
a few that run to 1,024. Random weights never end a reply, so its length is its limit.

One by one through transformers' own ``generate()``, as the official code goes, against the judge,
in one run. Beside them the computed floor: arithmetic at the peak, and bytes at the bandwidth, of
a GPU as its maker names them, of a CPU as measured here. ``--size reduced`` (without a GPU) has a
small model and small pictures; ``--size real`` writes 8.3 GB to a temporary folder.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from loguru import logger

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.judge_floor import Floor, Peaks, floor, measured_peaks
from support.judge_workload import REAL_TILE_TOKENS, SIZES, Size, requests
from support.random_checkpoint import write
from support.stock_internvl import generate

from mmie_tasks.judges.base import JudgeReply, JudgeRequest
from mmie_tasks.judges.mmie_score import prompt
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, Located, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.devices import choose_device, choose_dtype, exact_fp32
from mmie_tasks.judges.mmie_score.engine.attention import Attention
from mmie_tasks.judges.mmie_score.engine.graphs import StaticDecoder
from mmie_tasks.judges.mmie_score.engine.model import Vision, Work
from mmie_tasks.judges.mmie_score.engine.steps import PlainDecoder, Prefill
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.judges.mmie_score.pixels import normalized
from mmie_tasks.judges.mmie_score.preparing import Inputs
from mmie_tasks.judges.mmie_score.settings import read_settings


@dataclass(kw_only=True)
class Measured:
    """One way to judge, and what it took."""

    seconds: float = 0.0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    peak_bytes: int = 0
    replies: dict[int, tuple[str, int]] = field(default_factory=dict)
    """By request: the text, and its tokens."""
    parts: dict[str, float] = field(default_factory=dict)
    """Seconds by part of the engine."""
    steps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Setup:
    checkpoint: Checkpoint
    device: torch.device
    dtype: torch.dtype

    @property
    def inputs(self) -> Inputs:
        return Inputs(facts=self.checkpoint.facts, tokenizer=self.checkpoint.tokenizer)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def one_by_one(setup: Setup, asked: Sequence[tuple[int, JudgeRequest]]) -> Measured:
    """As the official code: prepare a sample, generate, decode; then the next."""
    facts = setup.checkpoint.facts
    model = load_model(setup.checkpoint, device=setup.device, dtype=setup.dtype)

    def said(key: int, request: JudgeRequest) -> tuple[Work, list[int]]:
        work = setup.inputs.work(key, request)
        tiles = None
        if work.tiles is not None:
            tiles = normalized(torch.from_numpy(work.tiles).to(setup.device), setup.dtype)
        limit = work.max_new_tokens
        (ids,) = generate(model, [(work.ids, tiles)], max_new_tokens=limit, facts=facts)
        return work, ids

    said(0, JudgeRequest(parts=asked[0][1].parts, max_tokens=2))  # whatever is done once
    found = Measured()
    forget_peak(setup.device)
    began = time.perf_counter()
    with exact_fp32():
        for key, request in asked:
            work, ids = said(key, request)
            text = prompt.finish(setup.checkpoint.tokenizer.decode(ids))
            found.replies[key] = (text, len(ids))
            found.prompt_tokens += len(work.ids)
            found.reply_tokens += len(ids)
    found.seconds = time.perf_counter() - began
    found.peak_bytes = peak(setup.device)
    return found


def together(
    setup: Setup,
    asked: Sequence[JudgeRequest],
    *,
    attention: Attention | None = None,
    attention_option: str = "auto",
    max_rows: int,
    graphs: bool = True,
) -> Measured:
    """The judge itself, its weights loaded before.

    Args:
        setup: Model and device.
        asked: All requests, in one call.
        attention: Replaces the one that the judge would choose.
        attention_option: What it chooses from.
        max_rows: At once, at most.
        graphs: Whether decoding is captured in a CUDA graph.
    """
    settings = read_settings(
        model=str(setup.checkpoint.located.folder),
        max_memory=None,
        max_rows=min(max_rows, len(asked)),
        environment={},
        default_model="",
        device=str(setup.device),
        dtype=str(setup.dtype).removeprefix("torch."),
        attention=attention_option,
        graphs=graphs,
    )
    judge = MmieScoreJudge(settings, {}, attention=attention)
    for _ in judge.ask([JudgeRequest(parts=asked[0].parts, max_tokens=2)]):
        pass
    found = Measured()
    forget_peak(setup.device)
    with watched(found, setup):
        began = time.perf_counter()
        for key, reply in judge.ask(asked):
            if not isinstance(reply, JudgeReply):
                raise reply
            found.replies[key] = (reply.text, reply.usage.output_tokens)
            found.prompt_tokens += reply.usage.input_tokens
            found.reply_tokens += reply.usage.output_tokens
        found.seconds = time.perf_counter() - began
    found.peak_bytes = peak(setup.device)
    judge.close()
    return found


@contextmanager
def watched(found: Measured, setup: Setup) -> Iterator[None]:
    """Add up the time in the parts of the engine. It waits for the device after each anyway."""
    parts = {
        "vision": (Vision, "features"),
        "prefill": (Prefill, "step"),
        "decode": (PlainDecoder, "step"),
        "decode, captured": (StaticDecoder, "step"),
    }
    originals = {name: getattr(kind, method) for name, (kind, method) in parts.items()}

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            returned = call(*arguments, **named)
            setup.wait()
            spent = time.perf_counter() - began
            found.parts[name] = found.parts.get(name, 0.0) + spent
            found.steps[name] = found.steps.get(name, 0) + 1
            return returned

        return timed

    for name, (kind, method) in parts.items():
        setattr(kind, method, wrapped(name, originals[name]))
    try:
        yield
    finally:
        for name, (kind, method) in parts.items():
            setattr(kind, method, originals[name])


def forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        Path("/proc/self/clear_refs").write_text("5")


def peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(peak_kib)


def report(name: str, found: Measured, count: int) -> None:
    seconds = found.seconds
    print(
        f"  {name:<12}{seconds:9.1f} s {count / seconds:9.3f} samples/s "
        f"{found.prompt_tokens / seconds:9.0f} prompt and {found.reply_tokens / seconds:7.0f} "
        f"generated tokens/s, peak {found.peak_bytes / 2**30:.2f} GiB"
    )


def compare(setup: Setup, alone: Measured, ours: Measured) -> None:
    work = ours.reply_tokens / alone.reply_tokens  # one by one, decoding is nearly everything
    of = "" if work == 1 else f", of {len(alone.replies)} samples, by the tokens generated"
    print(f"  ratio       {alone.seconds * work / ours.seconds:9.1f} x{of}")
    same = sum(ours.replies[key] == said for key, said in alone.replies.items())
    why = "" if setup.dtype == torch.float32 else "; equal is expected in fp32 only"
    print(f"  same texts  {same:9} of {len(alone.replies)}{why}")


def some_alone(setup: Setup, asked: Sequence[JudgeRequest], few: int) -> Measured:
    """One by one as many as said, of all lengths."""
    if not (few := min(few, len(asked))):
        return Measured()
    step = len(asked) // few
    by_length = sorted(enumerate(asked), key=lambda pair: pair[1].max_tokens)
    found = one_by_one(setup, by_length[step // 2 :: step][:few])
    report("one by one", found, len(found.replies))
    torch.cuda.empty_cache()
    return found


def prepared(
    size: Size,
    root: Path,
    *,
    device: torch.device,
    dtype: torch.dtype,
    samples: int,
    seed: int = 1,
) -> tuple[Setup, list[JudgeRequest]]:
    """A checkpoint with random weights below a folder, and requests for it."""
    folder = write(root / "checkpoint", size.shape, seed=seed, ends=False)
    checkpoint = open_checkpoint(Located(folder=folder, name="random weights"))
    setup = Setup(checkpoint=checkpoint, device=device, dtype=dtype)
    return setup, requests(size, samples, seed, root)


def measure(chosen: argparse.Namespace, size: Size, root: Path) -> None:
    device = choose_device(chosen.device, {})
    dtype = choose_dtype(chosen.dtype, device)
    began = time.perf_counter()
    setup, asked = prepared(
        size,
        root,
        device=device,
        dtype=dtype,
        samples=chosen.samples or size.samples,
        seed=chosen.seed,
    )
    works = [setup.inputs.work(key, request) for key, request in enumerate(asked)]
    tell(setup, size, works, time.perf_counter() - began)
    rows = min(chosen.rows or size.rows, len(asked))
    alone = some_alone(setup, asked, size.alone if chosen.alone is None else chosen.alone)
    ours = together(setup, asked, max_rows=rows, graphs=not chosen.no_graphs)
    report("the judge", ours, len(asked))
    if alone.replies:
        compare(setup, alone, ours)
    if device.type == "cuda":
        peaks = Peaks(flops=chosen.tflops * 1e12, bytes_s=chosen.tb_s * 1e12)
    else:
        peaks = measured_peaks(size.shape)
    finish(
        ours, floor(setup.checkpoint.facts, setup.dtype.itemsize, works, rows, peaks), rows, peaks
    )


def tell(setup: Setup, size: Size, works: Sequence[Work], seconds: float) -> None:
    facts = setup.checkpoint.facts
    lengths = [len(work.ids) for work in works]
    replies = [work.max_new_tokens for work in works]
    tiles = sum(len(work.tiles) for work in works if work.tiles is not None)
    name = torch.cuda.get_device_name(setup.device) if setup.device.type == "cuda" else "CPU"
    print(
        f"MMIE-Score with random weights, {facts.weight_bytes / 2e9:.2f} B of them, as "
        f"{setup.dtype} on {name}, {torch.get_num_threads()} threads"
    )
    print(
        f"{len(works)} requests: prompts of {min(lengths):,} to {max(lengths):,} tokens, "
        f"{sum(lengths) / len(works):,.0f} on average, {tiles / len(works):.1f} tiles each; "
        f"replies of {min(replies)} to {max(replies)}, {sum(replies) / len(works):.0f} on average"
    )
    if size.prompts_by > 1:
        print(
            f"Scaled down: prompts by {size.prompts_by}, replies by {size.replies_by}, and a "
            f"model of {REAL_TILE_TOKENS // size.prompts_by} tokens a tile."
        )
    print(f"(made in {seconds:.0f} s)", flush=True)


def finish(ours: Measured, least: Floor, rows: int, peaks: Peaks) -> None:
    generated = ours.reply_tokens - len(ours.replies)
    decoding = [name for name in ours.steps if name.startswith("decode")]
    steps = sum(ours.steps[name] for name in decoding)
    print(
        f"  floor       {least.seconds:9.1f} s  vision {least.vision:.2f}, prefill "
        f"{least.prefill:.2f}, decode {least.decode:.2f}; {rows} rows at once, "
        f"{peaks.flops / 1e9:,.0f} GFLOP/s, {peaks.bytes_s / 1e9:,.0f} GB/s"
    )
    print(f"  reached     {least.seconds / ours.seconds:9.0%}")
    shares = ", ".join(f"{name} {spent / ours.seconds:.0%}" for name, spent in ours.parts.items())
    print(f"  time        {shares}")
    print(
        f"  steps       {ours.steps.get('prefill', 0)} of prompts, {steps} of decoding with "
        f"{generated / max(steps, 1):.1f} rows on average"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, help="by default real on a GPU, else reduced")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--alone", type=int, help="samples that are also judged one by one")
    parser.add_argument("--rows", type=int, help="at once, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--tflops", type=float, default=989, help="of the GPU, by default an H200")
    parser.add_argument("--tb-s", type=float, default=4.8, help="terabytes a second, of the same")
    parser.add_argument("--threads", type=int, help="of a CPU")
    chosen = parser.parse_args()
    logger.remove()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    on_gpu = choose_device(chosen.device, {}).type == "cuda"
    size = SIZES[chosen.size or ("real" if on_gpu else "reduced")]
    with tempfile.TemporaryDirectory() as folder:
        measure(chosen, size, Path(folder))


if __name__ == "__main__":
    main()
