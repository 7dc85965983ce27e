"""The parts of ``make gpu``: each is run by `check.py` in a process of its own."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch
from gpu.check import Row, write_row
from support import internvl_golden as golden
from support.judge_workload import SIZES, Size, requests
from support.random_checkpoint import REAL_WIDTH, write

from mmie_tasks.judges.base import JudgeReply, JudgeRequest
from mmie_tasks.judges.mmie_score.devices import choose_device
from mmie_tasks.judges.mmie_score.engine.attention import (
    KERNELS,
    Attend,
    BatchLayout,
    KernelName,
    PagedAttention,
    self_check,
    unsupported,
)
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge

if TYPE_CHECKING:
    from bench.mmie_score_speed import Measurement, Setup

    from mmie_tasks.judges.mmie_score.engine.schedule import Prompt

LEAST_VARIANT_S = 60
REAL_HEADS = {"heads": 32, "kv_heads": 32, "head_dim": 96}
REAL_WIDTH_SIZE = Size(shape=REAL_WIDTH, samples=24, alone=0, rows=24, prompts_by=1, replies_by=4)
FEW_HEADS = {"heads": 2, "kv_heads": 1, "head_dim": 96}  # Triton's interpreter is slow
PAGE_TOKENS = 256
PREFILL_TOKENS, LONG_PROMPT, DECODING_ROWS = 4096, 4900, 58  # of steps on the real data
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
    unpaged = flash if isinstance(flash, str) else replace(flash, unpaged_prefill=True)
    flash = flash if isinstance(flash, str) else replace(flash, unpaged_prefill=False)
    yield self_check_row(context, "torch_bfloat16", flash, torch.bfloat16)
    yield self_check_row(context, "torch_unpaged", unpaged, torch.bfloat16)
    yield self_check_row(context, "triton_bfloat16", triton, torch.bfloat16)
    yield self_check_row(context, "triton_float16", triton, torch.float16)
    attentions = {"torch's own": flash, "torch's own without pages": unpaged, "Triton": triton}
    yield times_row(context, "prefill_time", attentions)
    yield times_row(context, "decoding_time", {name: attentions[name] for name in ("torch's own", "Triton")})


def kernel_attention(context: Context, name: KernelName) -> PagedAttention | str:
    """Attention with a kernel, or why this machine does not have it. Triton's runs on a CPU too."""
    if context.on_gpu:
        return unsupported(context.device, torch.bfloat16, context.heads["head_dim"]) or KERNELS[name](context.device)
    return "it needs a GPU" if name == "flash" else KERNELS[name](context.device)


def self_check_row(context: Context, check: str, attention: PagedAttention | str, dtype: torch.dtype) -> Row:
    """The outcome of `self_check`; "not run" with the reason if this machine does not have the kernel."""
    if not context.on_gpu and dtype == torch.bfloat16 and not isinstance(attention, str):
        attention = "Triton's interpreter has no bfloat16"
    if isinstance(attention, str):
        return Row(check=check, outcome="not run", detail=attention)
    problem = self_check(attention, context.device, dtype, **context.heads)
    if problem is not None:
        return Row(check=check, outcome="failed", detail=problem)
    right = "equal to sdpa in fp32, in prefill and decoding; a row's bits do not depend on its neighbours"
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
    return Row(check=check, outcome="measured", detail=f"{', '.join(times)} a layer, {step.description}")


class Step:
    """Random queries, keys and values of a step of usual size.

    A prefill step holds the end of one prompt and the beginning of another, as steps of a fixed number of tokens do.
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
        self.description = f"{sum(counts):,} queries in {len(counts)} rows, {keys:,} keys in the longest"

    def milliseconds(self, attention: PagedAttention) -> float:
        """The median of several runs, after one that compiles."""
        device = self._context.device
        if self._decoding:
            lengths, table = (torch.tensor(numbers).int().to(device) for numbers in (self._lengths, self._tables))
            attend = attention.plan_decoding(lengths, table)
        else:
            layout = BatchLayout(starts=self._starts, lengths=self._lengths, tables=self._tables)
            attend = attention.plan(layout, device)
        attend(*self._states)
        return 1e3 * median(self._seconds(attend) for _ in range(TIMED_RUNS if self._context.on_gpu else 1))

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
    all_requests = [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases]
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


def replies_of(compared: MmieScoreJudge, all_requests: Sequence[JudgeRequest], order: Sequence[int]) -> dict[int, str]:
    """Texts by the number of the request; of a failure its error."""
    outcomes = compared.ask([all_requests[number] for number in order])
    return {
        order[index]: outcome.text if isinstance(outcome, JudgeReply) else repr(outcome) for index, outcome in outcomes
    }


def invariance(context: Context) -> Iterator[Row]:
    """Texts in bf16 do not depend on order and number of requests or on CUDA graphs."""
    size = SIZES["tiny"] if context.tiny else REAL_WIDTH_SIZE
    count = size.samples
    model = write(context.work / "checkpoint", size.shape, seed=3)
    all_requests = requests(size, count, 7, context.work)
    in_order = list(range(count))
    shuffled = random.Random(2).sample(in_order, count)  # noqa: S311 - an order

    def texts(*orders: Sequence[int], **options: object) -> tuple[dict[int, str], Row]:
        """Replies to one or more calls."""
        options = {"max_rows": count, **options}
        compared = judge(context, model, context.half_dtype, **options)  # type: ignore[arg-type]
        replies = {}
        for order in orders:
            replies |= replies_of(compared, all_requests, order)
        row = captured_row(context, compared)
        compared.close()
        return replies, row

    expected, row = texts(in_order)
    yield row
    variants = {
        "order": ([shuffled], {}),
        "graphs": ([in_order], {"graphs": False}),
        "half": ([in_order[::2], in_order[1::2]], {}),
        "rows": ([in_order], {"max_rows": count // 2}),
        "sdpa": ([in_order], {"attention": "sdpa"}),
    }
    for check, (orders, options) in variants.items():
        replies, _ = texts(*orders, **options)
        yield same_texts_row(check, replies, expected)


def captured_row(context: Context, compared: MmieScoreJudge) -> Row:
    if not context.on_gpu:
        return Row(check="captured", outcome="not run", detail="it needs a GPU")
    return Row(
        check="captured",
        outcome="passed" if compared.captured else "failed",
        detail=f"{'yes' if compared.captured else 'no'}, with {attention_name(compared)}",
    )


def attention_name(compared: MmieScoreJudge) -> str:
    """As it stands in the judge's signature."""
    return compared.signature.partition("|attention:")[2].partition("|")[0]


def same_texts_row(check: str, replies: Mapping[int, str], expected: Mapping[int, str]) -> Row:
    """Another number of rows and another kernel round differently; nothing else may."""
    same = sum(text == expected[number] for number, text in replies.items())
    detail = f"{same} of {len(replies)}"
    if check in ("rows", "sdpa"):
        return Row(check=check, outcome="measured", detail=detail)
    outcome = "passed" if same == len(replies) else "failed"
    return Row(check=check, outcome=outcome, detail=detail)


def speed(context: Context) -> Iterator[Row]:
    """Throughput against ``generate()`` of one request a call, and the share of the floor."""
    from bench.mmie_score_speed import measure_some, prepared, together  # imports transformers

    size = SIZES["tiny"] if context.tiny else SIZES["real"]
    samples, alone = (size.samples, size.alone) if context.tiny else (192, 4)
    setup, all_requests = prepared(size, context.work, device=context.device, dtype=context.half_dtype, samples=samples)

    def measured(count: int, **options: object) -> tuple[Measurement, str]:
        """Some requests, and the name of the judge's attention."""
        options = {"max_rows": min(size.rows, count), **options}
        model = setup.checkpoint.location.folder
        compared = judge(context, model, setup.dtype, **options)  # type: ignore[arg-type]
        result = together(setup, compared, all_requests[:count])
        return result, attention_name(compared)

    single = measure_some(setup, all_requests, alone)
    yield Row(check="single", outcome="measured", detail=figures(single))
    judged, chosen = measured(samples)
    prompts = [setup.builder.prompt(key, request) for key, request in enumerate(all_requests)]
    comparison = compared_figures(context, setup, prompts, single, judged, size.rows)
    yield Row(check="judge", outcome="measured", detail=f"{figures(judged)}, {chosen}; {comparison}")
    variants: Mapping[str, tuple[int, Mapping[str, object]]] = {
        "no_graphs": (samples // 3, {"graphs": False}),
        "triton": (samples // 3, {"attention": "triton"}),
        "sdpa": (samples // 8, {"attention": "sdpa"}),
    }
    for check, (count, options) in variants.items():
        if reason := reason_against(context, check, chosen):
            yield Row(check=check, outcome="not run", detail=reason)
        else:
            yield Row(check=check, outcome="measured", detail=figures(measured(count, **options)[0]))


def reason_against(context: Context, check: str, chosen: str) -> str | None:
    """Why a variant of the judge is not measured, beside the one that it chose itself; None if it is."""
    triton = kernel_attention(context, "triton")
    if context.on_gpu and check == chosen:
        return "it is what the judge chose"
    if check == "triton" and (isinstance(triton, str) or not context.on_gpu):
        return triton if isinstance(triton, str) else "it needs a GPU"
    if not context.tiny and context.left_s < LEAST_VARIANT_S:
        return f"{context.left_s:.0f} s were left, and it needs {LEAST_VARIANT_S} s"
    return None


def figures(result: Measurement) -> str:
    """Throughput and peak memory."""
    count, seconds = len(result.replies), result.seconds
    return (
        f"{count} samples, {count / seconds:.2f} samples/s, "
        f"{result.reply_tokens / seconds:,.0f} generated tokens/s, "
        f"peak {result.peak_bytes / 2**30:.1f} GiB"
    )


def compared_figures(
    context: Context, setup: Setup, prompts: Sequence[Prompt], single: Measurement, judged: Measurement, rows: int
) -> str:
    """The ratio by generated tokens, equal texts, and the share of the computed floor."""
    from support.judge_floor import Peaks, floor

    peaks = Peaks(flops=context.tflops * 1e12, bytes_s=context.tb_s * 1e12)
    rows = min(rows, len(prompts))
    least = floor(setup.checkpoint.config, setup.dtype.itemsize, prompts, rows, peaks)
    per_token = single.seconds / single.reply_tokens
    ratio = per_token * judged.reply_tokens / judged.seconds
    same = sum(judged.replies[key] == reply for key, reply in single.replies.items())
    tokens = judged.prompt_tokens / len(prompts)
    return (
        f"{ratio:.1f} times `generate()` by generated tokens; {same} of {len(single.replies)} "
        f"texts equal to it; {least.seconds / judged.seconds:.0%} of the floor at "
        f"{context.tflops:,.0f} TFLOP/s and {context.tb_s:.1f} TB/s; "
        f"prompts of {tokens:,.0f} tokens on average"
    )


def machine(device: torch.device) -> str:
    """Device and versions, as they stand above the table."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    versions = [f"{package} {version(package)}" for package in ("triton", "transformers")]
    return f"{name}, torch {torch.__version__}, {', '.join(versions)}"


PARTS = {"kernel": kernel, "recorded": recorded, "invariance": invariance, "speed": speed}


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["machine", *PARTS])
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
    if chosen.part == "machine":
        print(machine(device))
        return
    context = Context(
        device=device,
        tiny=chosen.tiny,
        work=chosen.work,
        ends_at=began + chosen.seconds,
        tflops=chosen.tflops,
        tb_s=chosen.tb_s,
    )
    for row in PARTS[chosen.part](context):
        write_row(chosen.rows, row)


if __name__ == "__main__":
    main()
