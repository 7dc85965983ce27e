"""Speed of MMIE-Score: ``python -W ignore tests/bench/mmie_score_speed.py``.

The real architecture with random weights, and made-up requests in MMIE's proportions: a common
rubric, a question, an answer, 1 to 4 images, replies around 300 tokens and a few of 1,024. With
random weights no reply ends by itself, so its length is its limit.

Compared in one run: transformers' own ``generate()``, one request a call as in the official code,
and the judge. Beside them the computed floor: arithmetic at the peak and bytes at the bandwidth, of
a GPU as its maker names them, of a CPU as measured here. ``--size reduced`` (without a GPU) has a
small model and small images; ``--size real`` writes 8.3 GB to a temporary folder.
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
from support.stock_internvl import generate, load

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.devices import choose_device, choose_dtype
from mmie_tasks.judges.mmie_score.engine.decoding import DigitRecorder
from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
from mmie_tasks.judges.mmie_score.engine.model import Vision, normalized
from mmie_tasks.judges.mmie_score.exact import exact_arithmetic
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, reply_text
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.record.reply import JudgeReply


@dataclass(kw_only=True)
class Measurement:
    """Duration and results of one way to judge.

    Attributes:
        replies: Text and number of tokens, by request.
        part_s: Seconds by part of the engine.
        steps: Number of steps by part of the engine.
    """

    seconds: float = 0.0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    peak_bytes: int = 0
    replies: dict[int, tuple[str, int]] = field(default_factory=dict)
    part_s: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Setup:
    checkpoint: Checkpoint
    device: torch.device
    dtype: torch.dtype

    @property
    def builder(self) -> InputBuilder:
        return InputBuilder(self.checkpoint)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def one_by_one(setup: Setup, numbered: Sequence[tuple[int, JudgeRequest]]) -> Measurement:
    """As the official code: prepare a request, generate, decode; then the next."""
    model = load(setup.checkpoint, device=setup.device, dtype=setup.dtype)

    def generated(key: int, request: JudgeRequest) -> tuple[JudgePrompt, list[int]]:
        prompt = setup.builder.prompt(key, request)
        tiles = None
        if prompt.tiles is not None:
            tiles = normalized(torch.from_numpy(prompt.tiles).to(setup.device), setup.dtype)
        limit = prompt.max_new_tokens
        (ids,) = generate(
            model, [(prompt.ids, tiles)], max_new_tokens=limit, checkpoint=setup.checkpoint
        )
        return prompt, ids

    generated(0, JudgeRequest(parts=numbered[0][1].parts, max_tokens=2))  # one-time set-up
    result = Measurement()
    reset_peak(setup.device)
    began = time.perf_counter()
    with exact_arithmetic():
        for key, request in numbered:
            prompt, ids = generated(key, request)
            result.replies[key] = (reply_text(setup.checkpoint.tokenizer.decode(ids)), len(ids))
            result.prompt_tokens += len(prompt.ids)
            result.reply_tokens += len(ids)
    result.seconds = time.perf_counter() - began
    result.peak_bytes = peak_bytes(setup.device)
    return result


def together(
    setup: Setup,
    judge: MmieScoreJudge,
    judge_requests: Sequence[JudgeRequest],
    before_close: Callable[[], object] = lambda: None,
) -> Measurement:
    """All requests in one call of the judge, which has loaded its weights before; closes it."""
    for _ in judge.ask([JudgeRequest(parts=judge_requests[0].parts, max_tokens=2)]):
        pass
    result = Measurement()
    reset_peak(setup.device)
    with timed_parts(result, setup):
        began = time.perf_counter()
        for key, reply in judge.ask(judge_requests):
            if not isinstance(reply, JudgeReply):
                raise reply
            result.replies[key] = (reply.text, reply.usage.output_tokens)
            result.prompt_tokens += reply.usage.input_tokens
            result.reply_tokens += reply.usage.output_tokens
        result.seconds = time.perf_counter() - began
    result.peak_bytes = peak_bytes(setup.device)
    before_close()
    judge.close()
    return result


@contextmanager
def timed_parts(result: Measurement, setup: Setup) -> Iterator[None]:
    """Measure the time in each part of the engine, which waits for the device after it anyway."""
    parts = {
        "vision": (Vision, "features"),
        "prefill, with vision": (PagedEngine, "_prefilled"),
        "decode": (PagedEngine, "_decoded"),
        "digits": (DigitRecorder, "record"),
    }
    originals = {name: getattr(kind, method) for name, (kind, method) in parts.items()}

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed_call(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            returned = call(*arguments, **options)
            setup.synchronize()
            seconds = time.perf_counter() - began
            result.part_s[name] = result.part_s.get(name, 0.0) + seconds
            result.steps[name] = result.steps.get(name, 0) + 1
            return returned

        return timed_call

    for name, (kind, method) in parts.items():
        setattr(kind, method, timed(name, originals[name]))
    try:
        yield
    finally:
        for name, (kind, method) in parts.items():
            setattr(kind, method, originals[name])


def reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(peak_kib)


def print_speed(name: str, result: Measurement) -> None:
    seconds, count = result.seconds, len(result.replies)
    print(
        f"  {name:<12}{seconds:9.1f} s {count / seconds:9.3f} samples/s "
        f"{result.prompt_tokens / seconds:9.0f} prompt and {result.reply_tokens / seconds:7.0f} "
        f"generated tokens/s, peak {result.peak_bytes / 2**30:.2f} GiB"
    )


def print_comparison(setup: Setup, single: Measurement, judged: Measurement) -> None:
    scale = judged.reply_tokens / single.reply_tokens  # one by one, decoding is nearly all the time
    of = "" if scale == 1 else f", of {len(single.replies)} samples, by the tokens generated"
    print(f"  ratio       {single.seconds * scale / judged.seconds:9.1f} x{of}")
    same = sum(judged.replies[key] == reply for key, reply in single.replies.items())
    note = "" if setup.dtype == torch.float32 else "; equal is expected in fp32 only"
    print(f"  same texts  {same:9} of {len(single.replies)}{note}")


def measure_some(setup: Setup, all_requests: Sequence[JudgeRequest], count: int) -> Measurement:
    """One by one for some of the requests, of all lengths."""
    if not (count := min(count, len(all_requests))):
        return Measurement()
    step = len(all_requests) // count
    by_length = sorted(enumerate(all_requests), key=lambda pair: pair[1].max_tokens)
    result = one_by_one(setup, by_length[step // 2 :: step][:count])
    torch.cuda.empty_cache()
    return result


def prepared(
    size: Size, root: Path, *, device: torch.device, dtype: torch.dtype, samples: int, seed: int = 1
) -> tuple[Setup, list[JudgeRequest]]:
    """A checkpoint with random weights below a folder, and requests for it."""
    folder = write(root / "checkpoint", size.shape, seed=seed, ends=False, device=device.type)
    checkpoint = open_checkpoint(CheckpointLocation(folder=folder, name="random weights"))
    setup = Setup(checkpoint=checkpoint, device=device, dtype=dtype)
    return setup, requests(size, samples, seed, root, compress_level=0)


def measure(chosen: argparse.Namespace, size: Size, root: Path) -> None:
    device = choose_device(chosen.device, {})
    dtype = choose_dtype(chosen.dtype, device)
    samples = chosen.samples or size.samples
    began = time.perf_counter()
    setup, all_requests = prepared(
        size, root, device=device, dtype=dtype, samples=samples, seed=chosen.seed
    )
    prompts = [setup.builder.prompt(key, request) for key, request in enumerate(all_requests)]
    print_setup(setup, size, prompts, time.perf_counter() - began)
    rows = min(chosen.rows or size.rows, len(all_requests))
    count = size.alone if chosen.alone is None else chosen.alone
    single = measure_some(setup, all_requests, count)
    if single.replies:
        print_speed("one by one", single)
    judge = MmieScoreJudge(
        model=str(setup.checkpoint.location.folder),
        device=str(device),
        dtype=str(dtype).removeprefix("torch."),  # type: ignore[arg-type]
        max_rows=rows,
        graphs=not chosen.no_graphs,
        environment={},
    )
    judged = together(setup, judge, all_requests)
    print_speed("the judge", judged)
    if single.replies:
        print_comparison(setup, single, judged)
    if device.type == "cuda":
        peaks = Peaks(flops=chosen.tflops * 1e12, bytes_s=chosen.tb_s * 1e12)
    else:
        peaks = measured_peaks(size.shape)
    least = floor(setup.checkpoint.config, dtype.itemsize, prompts, rows, peaks)
    print_floor(judged, least, rows, peaks)


def print_setup(setup: Setup, size: Size, prompts: Sequence[JudgePrompt], seconds: float) -> None:
    lengths = [len(prompt.ids) for prompt in prompts]
    replies = [prompt.max_new_tokens for prompt in prompts]
    tiles = sum(len(prompt.tiles) for prompt in prompts if prompt.tiles is not None)
    name = torch.cuda.get_device_name(setup.device) if setup.device.type == "cuda" else "CPU"
    print(
        f"MMIE-Score with random weights, {setup.checkpoint.weight_bytes / 2e9:.2f} B of them, as "
        f"{setup.dtype} on {name}, {torch.get_num_threads()} threads"
    )
    print(
        f"{len(prompts)} requests: prompts of {min(lengths):,} to {max(lengths):,} tokens, "
        f"{sum(lengths) / len(lengths):,.0f} on average, {tiles / len(lengths):.1f} tiles each; "
        f"replies of {min(replies)} to {max(replies)}, {sum(replies) / len(replies):.0f} on average"
    )
    if size.prompts_by > 1:
        print(
            f"Scaled down: prompts by {size.prompts_by}, replies by {size.replies_by}, and a "
            f"model of {REAL_TILE_TOKENS // size.prompts_by} tokens per tile."
        )
    print(f"(prepared in {seconds:.0f} s)", flush=True)


def print_floor(judged: Measurement, least: Floor, rows: int, peaks: Peaks) -> None:
    generated = judged.reply_tokens - len(judged.replies)
    steps = sum(count for name, count in judged.steps.items() if name.startswith("decode"))
    print(
        f"  floor       {least.seconds:9.1f} s  vision {least.vision:.2f}, prefill "
        f"{least.prefill:.2f}, decode {least.decode:.2f}; {rows} rows at once, "
        f"{peaks.flops / 1e9:,.0f} GFLOP/s, {peaks.bytes_s / 1e9:,.0f} GB/s"
    )
    print(f"  reached     {least.seconds / judged.seconds:9.0%}")
    shares = ", ".join(
        f"{name} {spent / judged.seconds:.1%}" for name, spent in judged.part_s.items()
    )
    print(f"  time        {shares}")
    print(
        f"  steps       {judged.steps.get('prefill', 0)} of prefill, {steps} of decoding with "
        f"{generated / max(steps, 1):.1f} rows on average"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, help="by default real on a GPU, else reduced")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--alone", type=int, help="samples that are also measured one by one")
    parser.add_argument("--rows", type=int, help="the most rows at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--tflops", type=float, default=989, help="of the GPU; default: an H200")
    parser.add_argument("--tb-s", type=float, default=4.8, help="memory bandwidth, terabytes/s")
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
