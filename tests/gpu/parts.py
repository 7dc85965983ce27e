"""The parts of ``make gpu``: each is run by `check.py` in a process of its own."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gpu.check import Row, write_row
from support import internvl_golden as golden
from support.judge_workload import SIZES, Size, requests
from support.random_checkpoint import REAL_WIDTH, write

from mmie_tasks.judges.base import JudgeReply, JudgeRequest
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.devices import Placement, choose_device
from mmie_tasks.judges.mmie_score.engine.paged import PagedAttention, available, self_check
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge

if TYPE_CHECKING:
    from bench.mmie_score_speed import Measurement, Setup

    from mmie_tasks.judges.mmie_score.engine.schedule import Prompt

LEAST_VARIANT_S = 60
REAL_HEADS = {"heads": 32, "kv_heads": 32, "head_dim": 96}
REAL_WIDTH_SIZE = Size(shape=REAL_WIDTH, samples=24, alone=0, rows=24, prompts_by=1, replies_by=4)
FEW_HEADS = {"heads": 2, "kv_heads": 1, "head_dim": 96}  # Triton's interpreter is slow


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
    def half_dtype(self) -> torch.dtype:
        """The dtype of the parts in bfloat16; on a CPU float32, which is exact in any order."""
        return torch.bfloat16 if self.on_gpu else torch.float32


def kernel(context: Context) -> Iterator[Row]:
    """The engine's own check of torch's kernel and of the Triton kernel."""
    yield torch_kernel_row(context)
    for key, dtype in (("triton_bfloat16", torch.bfloat16), ("triton_float16", torch.float16)):
        if not context.on_gpu and dtype == torch.bfloat16:
            reason = "Triton's interpreter has no bfloat16"
            yield Row(check=key, outcome="not run", detail=reason)
            continue
        sizes = REAL_HEADS if context.on_gpu else FEW_HEADS
        wrong = self_check(context.device, dtype, attention=triton_attention(), **sizes)
        yield self_check_row(key, wrong)


def torch_kernel_row(context: Context) -> Row:
    if reason := available(context.device, torch.bfloat16, REAL_HEADS["head_dim"]):
        return Row(check="torch_bfloat16", outcome="not run", detail=reason)
    wrong = self_check(context.device, torch.bfloat16, **REAL_HEADS)
    return self_check_row("torch_bfloat16", wrong)


def self_check_row(check: str, wrong: str | None) -> Row:
    if wrong is not None:
        return Row(check=check, outcome="failed", detail=wrong)
    right = "equal to sdpa in fp32; a row's bits do not depend on its neighbours"
    return Row(check=check, outcome="passed", detail=right)


def triton_attention() -> PagedAttention:
    """The kernel of this folder. Without a GPU it runs in Triton's interpreter."""
    from gpu.kernel import paged_attention

    return PagedAttention(name="triton", kernel=paged_attention)


def stand_in(context: Context) -> PagedAttention | None:
    """The Triton kernel where torch has none of its own; None: the judge chooses."""
    if not context.on_gpu:
        return None
    reason = available(context.device, torch.bfloat16, REAL_HEADS["head_dim"])
    return triton_attention() if reason else None


class _JudgeWithAttention(MmieScoreJudge):
    """The judge with another kernel, if one is given."""

    def __init__(self, *, replacement: PagedAttention | None, **options: Any) -> None:
        super().__init__(**options)
        self._replacement = replacement

    def placement(self, checkpoint: Checkpoint) -> Placement:
        placement = super().placement(checkpoint)
        return replace(placement, attention=self._replacement) if self._replacement else placement


def judge(
    context: Context,
    model: Path,
    dtype: torch.dtype,
    *,
    attention: PagedAttention | None = None,
    attention_option: str = "auto",
    max_rows: int = 64,
    graphs: bool = True,
) -> MmieScoreJudge:
    """The judge on this device, with the attention of the option or a given one."""
    return _JudgeWithAttention(
        replacement=attention,
        model=str(model),
        max_rows=max_rows,
        device=str(context.device),
        dtype=str(dtype).removeprefix("torch."),  # type: ignore[arg-type]
        attention="sdpa" if attention else attention_option,
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
    """Texts in bf16 do not depend on the order of requests or on CUDA graphs."""
    size = SIZES["tiny"] if context.tiny else REAL_WIDTH_SIZE
    count = size.samples
    model = write(context.work / "checkpoint", size.shape, seed=3)
    all_requests = requests(size, count, 7, context.work)
    attention = stand_in(context)
    in_order = list(range(count))
    shuffled = random.Random(2).sample(in_order, count)  # noqa: S311 - an order
    usual = {"max_rows": count, "attention": attention}

    def texts(order: Sequence[int], **options: object) -> tuple[dict[int, str], bool]:
        compared = judge(context, model, context.half_dtype, **usual | options)  # type: ignore[arg-type]
        replies = replies_of(compared, all_requests, order)
        captured = compared.captured
        compared.close()
        return replies, captured

    expected, captured = texts(in_order)
    yield captured_row(context, captured, "the Triton kernel" if attention else "torch's kernel")
    variants = {
        "order": (shuffled, {}),
        "graphs": (in_order, {"graphs": False}),
        "half": (in_order[::2], {"max_rows": count // 2}),
        "sdpa": (in_order, {"attention": None, "attention_option": "sdpa"}),
    }
    for check, (order, options) in variants.items():
        replies, _ = texts(order, **options)
        yield same_texts_row(check, replies, expected)


def captured_row(context: Context, captured: bool, kernel_name: str) -> Row:
    if not context.on_gpu:
        return Row(check="captured", outcome="not run", detail="it needs a GPU")
    return Row(
        check="captured",
        outcome="passed" if captured else "failed",
        detail=f"{'yes' if captured else 'no'}, with {kernel_name}",
    )


def same_texts_row(check: str, replies: Mapping[int, str], expected: Mapping[int, str]) -> Row:
    """Other shapes and kernels round differently: only order and graphs must not matter."""
    same = sum(text == expected[number] for number, text in replies.items())
    detail = f"{same} of {len(replies)}"
    if check in ("half", "sdpa"):
        return Row(check=check, outcome="measured", detail=detail)
    outcome = "passed" if same == len(replies) else "failed"
    return Row(check=check, outcome=outcome, detail=detail)


def speed(context: Context) -> Iterator[Row]:
    """Throughput against ``generate()`` of one request a call, and the share of the floor."""
    from bench.mmie_score_speed import measure_some, prepared, together  # imports transformers

    size = SIZES["tiny"] if context.tiny else SIZES["real"]
    samples, alone = (size.samples, size.alone) if context.tiny else (192, 4)
    setup, all_requests = prepared(size, context.work, device=context.device, dtype=context.half_dtype, samples=samples)
    attention = stand_in(context)

    def measured(count: int, **options: object) -> Measurement:
        options = {"attention": attention, "max_rows": min(size.rows, count), **options}
        model = setup.checkpoint.location.folder
        compared = judge(context, model, setup.dtype, **options)  # type: ignore[arg-type]
        return together(setup, compared, all_requests[:count])

    single = measure_some(setup, all_requests, alone)
    yield Row(check="single", outcome="measured", detail=figures(single))
    judged = measured(samples)
    prompts = [setup.builder.prompt(key, request) for key, request in enumerate(all_requests)]
    comparison = compared_figures(context, setup, prompts, single, judged, size.rows)
    detail = f"{figures(judged)}{', Triton kernel' if attention else ''}; {comparison}"
    yield Row(check="judge", outcome="measured", detail=detail)
    sdpa = {"graphs": False, "attention": None, "attention_option": "sdpa"}
    for check, count, options in (("no_graphs", samples // 3, {"graphs": False}), ("sdpa", samples // 8, sdpa)):
        if not context.tiny and context.left_s < LEAST_VARIANT_S:
            reason = f"{context.left_s:.0f} s were left, and it needs {LEAST_VARIANT_S} s"
            yield Row(check=check, outcome="not run", detail=reason)
            continue
        yield Row(check=check, outcome="measured", detail=figures(measured(count, **options)))


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
