"""The parts of ``make gpu``: each is run by `check.py` in a process of its own."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch
from gpu import drills
from gpu.check import Outcome, Row, write_row
from gpu.steps import LayerStack, differing_positions
from support import internvl_golden as golden
from support.judge_workload import SIZES, Size, requests
from support.random_checkpoint import REAL_WIDTH, write

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.devices import choose_device
from mmie_tasks.judges.mmie_score.engine.attention import Attend, BatchLayout, PagedAttention
from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
from mmie_tasks.judges.mmie_score.engine.kernels import KERNELS, KernelName, unsupported
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk
from mmie_tasks.judges.mmie_score.engine.self_check import self_check
from mmie_tasks.judges.mmie_score.exact import exact_arithmetic
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.record.reply import JudgeReply

if TYPE_CHECKING:
    from bench.mmie_score_speed import Measurement, Setup

PEAKS = {  # TFLOP/s in bfloat16 and terabytes/s of memory, as the maker names them
    "B200": (2250.0, 8.0),
    "H200": (989.0, 4.8),
    "H100 PCIe": (756.0, 2.0),
    "H100": (989.0, 3.35),
    "A100-SXM4-80GB": (312.0, 2.04),
    "A100-SXM4-40GB": (312.0, 1.56),
    "RTX 4090": (165.0, 1.01),
    "L40S": (362.0, 0.86),
    "L4": (121.0, 0.3),
}
REAL_HEADS = {"heads": 32, "kv_heads": 32, "head_dim": 96}
REAL_WIDTH_SIZE = Size(shape=REAL_WIDTH, samples=24, alone=0, rows=24, prompts_by=1, replies_by=4)
FEW_HEADS = {"heads": 2, "kv_heads": 1, "head_dim": 96}  # Triton's interpreter is slow
PAGE_TOKENS = 256
PREFILL_TOKENS, LONG_PROMPT, DECODING_ROWS = 4096, 4900, 64  # of steps on the real data
TIMED_RUNS = 20


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where and how large a part runs.

    Attributes:
        device: A GPU, or the CPU for a trial of this program.
        tiny: Tiny models.
        work: An empty folder.
        ends_at: ``time.monotonic()`` at which the process is stopped.
        tflops: Of the device, as its maker names them.
        tb_s: Terabytes a second of its memory.
    """

    device: torch.device
    tiny: bool
    work: Path
    ends_at: float
    tflops: float
    tb_s: float

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def left_s(self) -> float:
        return self.ends_at - time.monotonic()

    @property
    def heads(self) -> Mapping[str, int]:
        """Number and size of the heads that kernels are tried with."""
        return REAL_HEADS if self.on_gpu else FEW_HEADS

    @property
    def half_dtype(self) -> torch.dtype:
        """The dtype of the parts in bfloat16; on a CPU float32, which is exact in any order."""
        return torch.bfloat16 if self.on_gpu else torch.float32


def kernel(context: Context) -> Iterator[Row]:
    """The judge's own check of each kernel, and the time that one layer takes."""
    flash, triton = (kernel_attention(context, name) for name in KERNELS)
    yield self_check_row(context, "torch_bfloat16", flash, torch.bfloat16)
    yield self_check_row(context, "triton_bfloat16", triton, torch.bfloat16)
    yield self_check_row(context, "triton_float16", triton, torch.float16)
    attentions = {"torch's own": flash, "Triton": triton}
    for check in ("prefill_time", "decoding_time"):
        yield times_row(context, check, attentions)
    yield row_position_row(context)


def row_position_row(context: Context) -> Row:
    """Whether a row of a product has the same bits wherever it is, for all weights of a layer."""
    hidden, inner = (3072, 8192) if context.on_gpu else (64, 128)
    tower, tower_inner = (1024, 4096) if context.on_gpu else (32, 64)
    shapes = {
        "qkv_proj": (3 * hidden, hidden),
        "o_proj": (hidden, hidden),
        "gate_up_proj": (2 * inner, hidden),
        "down_proj": (hidden, inner),
        "vision qkv": (3 * tower, tower),
        "vision fc1": (tower_inner, tower),
        "vision fc2": (tower, tower_inner),
    }
    dtype = context.half_dtype if context.on_gpu else torch.float64  # which a CPU hardly rounds
    texts = {
        name: positions
        for name, shape in shapes.items()
        if (positions := differing_positions(context.device, dtype, shape))
    }
    if not context.on_gpu:  # a CPU's products do differ
        return Row(check="row_position", outcome="measured", detail=f"{len(texts)} differ")
    detail = "; ".join(f"{name} differs at {positions}" for name, positions in texts.items())
    return Row(
        check="row_position",
        outcome="failed" if texts else "passed",
        detail=detail or f"{', '.join(shapes)}: positions 0, 63, 64, 2047, 4095",
    )


def kernel_attention(context: Context, name: KernelName) -> PagedAttention | str:
    """Attention with a kernel, or why this machine does not have it. Triton's runs on a CPU too."""
    if context.on_gpu:
        return (
            unsupported(context.device, torch.bfloat16, context.heads["head_dim"])
            or KERNELS[name]()
        )
    return "it needs a GPU" if name == "flash" else KERNELS[name]()


def self_check_row(
    context: Context, check: str, attention: PagedAttention | str, dtype: torch.dtype
) -> Row:
    """The outcome of `self_check`; "not run" with the reason if this machine does not have the
    kernel.
    """
    if not context.on_gpu and dtype == torch.bfloat16 and not isinstance(attention, str):
        attention = "Triton's interpreter has no bfloat16"
    if isinstance(attention, str):
        return Row(check=check, outcome="not run", detail=attention)
    with exact_arithmetic():
        problem = self_check(attention, context.device, dtype, **context.heads)
    if problem is not None:
        return Row(check=check, outcome="failed", detail=problem)
    right = (
        "equal to sdpa in fp32, in prefill and decoding; a row's bits do not depend on its "
        "neighbours, nor on where its prompt is cut"
    )
    return Row(check=check, outcome="passed", detail=right)


def times_row(context: Context, check: str, attentions: Mapping[str, PagedAttention | str]) -> Row:
    """How long one layer's attention of a step takes with each kernel that this machine has."""
    step = Step(context, decoding=check == "decoding_time")
    times = [
        f"{name} {step.milliseconds(attention):.2f} ms"
        for name, attention in attentions.items()
        if isinstance(attention, PagedAttention)
    ]
    if not times:
        return Row(check=check, outcome="not run", detail="this machine has no kernel")
    return Row(
        check=check, outcome="measured", detail=f"{', '.join(times)} a layer, {step.description}"
    )


class Step:
    """Random queries, keys and values of a step of usual size.

    A prefill step holds the end of one prompt and the beginning of another, as steps of a fixed
    number of tokens do.
    """

    def __init__(self, context: Context, *, decoding: bool) -> None:
        keys, rows = (LONG_PROMPT, DECODING_ROWS) if context.on_gpu else (300, 2)
        tokens = PREFILL_TOKENS if context.on_gpu else 64
        counts = [1] * rows if decoding else [tokens // 2] * 2
        self._lengths = [keys] * rows if decoding else [keys, tokens // 2]
        self._starts = list(accumulate(counts, initial=0))
        pages = [-(-length // PAGE_TOKENS) for length in self._lengths]
        order = iter(random.Random(4).sample(range(sum(pages)), sum(pages)))  # noqa: S311 - an order
        self._tables = [[next(order) for _ in range(count)] for count in pages]
        sizes, dtype = context.heads, torch.bfloat16 if context.on_gpu else torch.float16
        pool = (sum(pages), PAGE_TOKENS, sizes["kv_heads"], sizes["head_dim"])
        shapes = [(sum(counts), sizes["heads"], sizes["head_dim"]), pool, pool]
        self._states = [torch.randn(shape, device=context.device, dtype=dtype) for shape in shapes]
        self._context, self._decoding = context, decoding
        self.description = (
            f"{sum(counts):,} queries in {len(counts)} rows, {keys:,} keys in the longest"
        )

    def milliseconds(self, attention: PagedAttention) -> float:
        """The median of several runs, after one that compiles."""
        device = self._context.device
        if self._decoding:
            lengths, table = (
                torch.tensor(numbers).int().to(device) for numbers in (self._lengths, self._tables)
            )
            attend = attention.plan_decoding(lengths, table)
        else:
            layout = BatchLayout(starts=self._starts, lengths=self._lengths, tables=self._tables)
            attend = attention.plan(layout, device)
        attend(*self._states)
        return 1e3 * median(
            self._seconds(attend) for _ in range(TIMED_RUNS if self._context.on_gpu else 1)
        )

    def _seconds(self, attend: Attend) -> float:
        self._synchronize()
        began = time.perf_counter()
        attend(*self._states)
        self._synchronize()
        return time.perf_counter() - began

    def _synchronize(self) -> None:
        if self._context.on_gpu:
            torch.cuda.synchronize(self._context.device)


def judge(
    context: Context,
    model: Path,
    dtype: torch.dtype,
    *,
    attention: str = "auto",
    max_rows: int = 64,
    graphs: bool = True,
) -> MmieScoreJudge:
    """The judge on this device."""
    return MmieScoreJudge(
        model=str(model),
        max_rows=max_rows,
        device=str(context.device),
        dtype=str(dtype).removeprefix("torch."),  # type: ignore[arg-type]
        attention=attention,  # type: ignore[arg-type]
        graphs=graphs,
        environment={},
    )


def recorded(context: Context) -> Iterator[Row]:
    """The replies that the official code gave, in fp32 on this device."""
    cases = golden.cases()[: 3 if context.tiny else None]
    all_requests = [
        JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases
    ]
    shuffled = random.Random(1).sample(range(len(cases)), len(cases))  # noqa: S311 - an order
    calls = {"single": [[number] for number in range(len(cases))], "together": [shuffled]}
    reference = judge(context, golden.CHECKPOINT, torch.float32)
    for check, groups in calls.items():
        replies = {}
        for group in groups:
            replies |= replies_of(reference, all_requests, group)
        same = sum(replies[number] == case.response for number, case in enumerate(cases))
        yield Row(
            check=check,
            outcome="passed" if same == len(cases) else "failed",
            detail=f"{same} of {len(cases)} texts are those of the official code",
        )
    reference.close()


def replies_of(
    compared: MmieScoreJudge, all_requests: Sequence[JudgeRequest], order: Sequence[int]
) -> dict[int, str]:
    """Texts by the number of the request; of a failure its error."""
    outcomes = compared.ask([all_requests[number] for number in order])
    return {
        order[index]: outcome.text if isinstance(outcome, JudgeReply) else repr(outcome)
        for index, outcome in outcomes
    }


def steps(context: Context) -> Iterator[Row]:
    """Steps of four layers at the real width, with 64 rows of 5,000 keys."""
    shape = replace(
        REAL_WIDTH,
        vision=replace(REAL_WIDTH.vision, layers=4),
        text=replace(REAL_WIDTH.text, layers=4),
    )
    shape = SIZES["tiny"].shape if context.tiny else shape
    model = write(context.work / "checkpoint", shape, seed=3, device=context.device.type)
    local = judge(context, model, context.half_dtype).local
    placement = local.start()
    yield Row(
        check="chosen",
        outcome="measured",
        detail=f"{placement.attention.name}: {placement.attention_reason}",
    )
    placement = replace(placement, fixed=True)
    stack = LayerStack(local, placement, keys=5000 if context.on_gpu else 200, rows=64)
    stack.first_step()
    facts = stack.capture
    if stack.engine.decoder is not None:
        size, mib = f"{facts.seconds:.1f} s", facts.taken_bytes / 2**20
        yield Row(
            check="captured",
            outcome="passed" if facts.captured and facts.is_equal else "failed",
            detail=f"captured: {facts.captured}; same bits: {facts.is_equal}; {size}, "
            f"{mib:.0f} MiB",
        )
    else:
        yield Row(check="captured", outcome="not run", detail="it needs a paged kernel")
    measures = {
        "decode": stack.decode_text,
        "prefill": stack.prefill_text,
        "vision": stack.vision_text,
        "gap": stack.gap_text,
        "profile": lambda: "; ".join(stack.profile_texts()),
    }
    for check, measure in measures.items():
        yield Row(check=check, outcome="measured", detail=measure())
    stack.close()


def bits(context: Context) -> Iterator[Row]:
    """The logits of every step do not depend on order and number of requests or on CUDA graphs."""
    size = SIZES["tiny"] if context.tiny else REAL_WIDTH_SIZE
    count = size.samples
    model = write(context.work / "checkpoint", size.shape, seed=3, device=context.device.type)
    all_requests = requests(size, count, 7, context.work, compress_level=0)
    in_order = list(range(count))
    shuffled = random.Random(2).sample(in_order, count)  # noqa: S311 - an order

    def logits(*orders: Sequence[int], **options: object) -> dict[tuple[int, int], torch.Tensor]:
        """Of one or more calls, by the number of the request and of the token."""
        options = {"max_rows": count, **options}
        compared = judge(context, model, context.half_dtype, **options)  # type: ignore[arg-type]
        found: dict[tuple[int, int], torch.Tensor] = {}
        for order in orders:
            with recorded_logits() as by_key:
                drills.unanswered(compared, [all_requests[number] for number in order])
            found |= {(order[key], step): row for (key, step), row in by_key.items()}
        compared.close()
        return found

    expected = logits(in_order)
    variants: dict[str, tuple[list[Sequence[int]], dict[str, object]]] = {
        "order": ([shuffled], {}),
        "graphs": ([in_order], {"graphs": False}),
        "half": ([in_order[::2], in_order[1::2]], {}),
        "rows": ([in_order], {"max_rows": count // 2}),
        "sdpa": ([in_order], {"attention": "sdpa"}),
    }
    for check, (orders, options) in variants.items():
        found = logits(*orders, **options)
        yield same_logits_row(context, check, found, expected)


@contextmanager
def recorded_logits() -> Iterator[dict[tuple[int, int], torch.Tensor]]:
    """Logits of every step meanwhile, by the key of the prompt and the number of the token."""
    found: dict[tuple[int, int], torch.Tensor] = {}

    def recording(step: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def recorded_step(self: object, chunks: Sequence[Chunk]) -> torch.Tensor:
            logits = step(self, chunks)
            rows = [chunk.row for chunk in chunks if chunk.ends_row]
            for row, own in zip(rows, logits, strict=True):
                found[row.prompt.key, len(row.output)] = own.to("cpu", copy=True)
            return logits

        return recorded_step

    with ExitStack() as stack:
        for name in ("_prefilled", "_decoded"):
            step = recording(getattr(PagedEngine, name))
            stack.enter_context(drills.replaced(PagedEngine, name, step))
        yield found


def same_logits_row(
    context: Context,
    check: str,
    found: Mapping[tuple[int, int], torch.Tensor],
    expected: Mapping[tuple[int, int], torch.Tensor],
) -> Row:
    """Another number of rows and another kernel round differently; nothing else may."""
    same = {key for key in expected.keys() & found.keys() if torch.equal(found[key], expected[key])}
    first = min((key[1] for key in expected if key not in same), default=None)
    detail = f"{len(same)} of {len(expected)} steps have the same bits"
    if first is not None:
        detail += f"; the first that differs is token {first} of a reply"
    if check in ("rows", "sdpa") or not context.on_gpu:  # a CPU rounds by the position of a row
        return Row(check=check, outcome="measured", detail=detail)
    outcome: Outcome = "passed" if len(same) == len(expected) == len(found) else "failed"
    return Row(check=check, outcome=outcome, detail=detail)


def drill(context: Context) -> Iterator[Row]:
    """A fork after the check, a capture that fails, memory that runs out."""
    size = SIZES["tiny"] if context.tiny else REAL_WIDTH_SIZE
    model = write(context.work / "checkpoint", size.shape, seed=3, device=context.device.type)
    asked = requests(size, 8, 7, context.work, compress_level=0)
    problems = {
        "fork": lambda: drills.fork_problem(model, context.device),
        "capture": lambda: drills.capture_problem(judge(context, model, context.half_dtype), asked),
        "memory": lambda: drills.memory_problem(judge(context, model, context.half_dtype), asked),
    }
    for check, problem_of in problems.items():
        problem = problem_of()
        outcome: Outcome = "failed" if problem else "passed"
        yield Row(check=check, outcome=outcome, detail=problem or "")


def attention_name(compared: MmieScoreJudge) -> str:
    """As it stands in the judge's signature."""
    return compared.signature.partition("|attention:")[2].partition("|")[0]


def speed(context: Context) -> Iterator[Row]:
    """Throughput, with the share of the floor, and against ``generate()`` of one request a call."""
    from bench.mmie_score_speed import measure_some, prepared, together  # imports transformers

    size, samples, alone = speed_size(context)
    setup, all_requests = prepared(
        size, context.work, device=context.device, dtype=context.half_dtype, samples=samples
    )
    model = setup.checkpoint.location.folder
    compared = judge(context, model, setup.dtype, max_rows=min(size.rows, samples))
    memory: list[str] = []
    judged = together(
        setup, compared, all_requests, lambda: memory.append(memory_text(context, compared))
    )
    share = share_of_floor(context, setup, all_requests, judged, size.rows)
    yield Row(
        check="judge",
        outcome="measured",
        detail=f"{figures(judged)}, {attention_name(compared)}{share}",
    )
    yield Row(check="parts", outcome="measured", detail=parts_text(judged))
    peak = f"peak {judged.peak_bytes / 2**30:.1f} GiB; {memory[0]}"
    yield Row(check="memory", outcome="measured", detail=peak)
    single = measure_some(setup, all_requests, alone)
    per_token = single.seconds / single.reply_tokens
    ratio = per_token * judged.reply_tokens / judged.seconds
    same = sum(judged.replies[key] == reply for key, reply in single.replies.items())
    yield Row(
        check="single",
        outcome="measured",
        detail=f"{figures(single)}; the judge is {ratio:.1f} times as fast by generated tokens; "
        f"{same} of {len(single.replies)} texts equal",
    )


def speed_size(context: Context) -> tuple[Size, int, int]:
    """The model, the number of samples, and how many of them are also measured alone."""
    tiny = SIZES["tiny"]
    return (tiny, tiny.samples, tiny.alone) if context.tiny else (SIZES["real"], 192, 4)


def memory_text(context: Context, compared: MmieScoreJudge) -> str:
    """What pages take, and what is free now."""
    assert compared.local._engine is not None
    text = compared.local._engine.flat.text
    planned = f"{(text.keys.nbytes + text.values.nbytes) / 2**30:.1f} GiB of pages"
    if not context.on_gpu:
        return planned
    free = torch.cuda.mem_get_info(context.device)[0]
    peak = torch.cuda.max_memory_reserved(context.device)
    least = free + torch.cuda.memory_reserved(context.device) - peak
    return f"{planned}; peak {peak / 2**30:.1f} GiB, then {least / 2**30:.2f} GiB were free"


def parts_text(judged: Measurement) -> str:
    """Seconds and steps by part, rows of a decoding step, and hours for 20,000 samples."""
    spent = ", ".join(
        f"{name} {seconds:.1f} s in {judged.steps[name]} steps"
        for name, seconds in judged.part_s.items()
    )
    steps = sum(count for name, count in judged.steps.items() if name.startswith("decode"))
    rows = (judged.reply_tokens - len(judged.replies)) / max(steps, 1)
    hours = judged.seconds / len(judged.replies) * 20_000 / 3600
    return f"{spent}; {rows:.1f} rows in a decoding step; {hours:.1f} h"


def share_of_floor(
    context: Context,
    setup: Setup,
    all_requests: Sequence[JudgeRequest],
    judged: Measurement,
    rows: int,
) -> str:
    """The share of the computed floor, by the lengths of the requests; empty without peaks."""
    from support.judge_floor import Peaks, floor

    if not context.tflops:
        return ""
    peaks = Peaks(flops=context.tflops * 1e12, bytes_s=context.tb_s * 1e12)
    prompts = []
    for key, request in enumerate(all_requests):
        length, tiles = setup.builder.length(request), sum(setup.builder.tile_counts(request))
        blank = np.zeros((tiles, 0, 0, 3), dtype=np.uint8)
        prompts.append(
            JudgePrompt(key=key, ids=[0] * length, tiles=blank, max_new_tokens=request.max_tokens)
        )
    least = floor(
        setup.checkpoint.config, setup.dtype.itemsize, prompts, min(rows, len(prompts)), peaks
    )
    return (
        f"; {least.seconds / judged.seconds:.0%} of the floor at {context.tflops:,.0f} TFLOP/s and "
        f"{context.tb_s:.1f} TB/s"
    )


def figures(result: Measurement) -> str:
    """Throughput and peak memory."""
    count, seconds = len(result.replies), result.seconds
    return (
        f"{count} samples, {count / seconds:.2f} samples/s, "
        f"{result.reply_tokens / seconds:,.0f} generated tokens/s, "
        f"peak {result.peak_bytes / 2**30:.1f} GiB"
    )


PARTS = {
    "kernel": kernel,
    "steps": steps,
    "speed": speed,
    "bits": bits,
    "drills": drill,
    "recorded": recorded,
}


def peaks_of(device: torch.device, tflops: float, tb_s: float) -> tuple[float, float]:
    """TFLOP/s and terabytes/s: as given, else by the name of the GPU; zeros if it is not known."""
    if tflops and tb_s:
        return tflops, tb_s
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((peaks for known, peaks in PEAKS.items() if known in name), (0.0, 0.0))


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--tflops", type=float, default=0)
    parser.add_argument("--tb-s", type=float, default=0)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--seconds", type=float, default=0)
    chosen = parser.parse_args()
    device = choose_device(chosen.device, {})
    if chosen.tiny:
        torch.set_num_threads(1)  # more only wait for each other
    tflops, tb_s = peaks_of(device, chosen.tflops, chosen.tb_s)
    context = Context(
        device=device,
        tiny=chosen.tiny,
        work=chosen.work,
        ends_at=began + chosen.seconds,
        tflops=tflops,
        tb_s=tb_s,
    )
    for row in PARTS[chosen.part](context):
        write_row(chosen.rows, row)


if __name__ == "__main__":
    main()
