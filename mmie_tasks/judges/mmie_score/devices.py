"""Where the judge runs: device, dtype and attention by its options, free memory, and how much fits into it.

Nothing here starts CUDA in this process, except `choose_dtype`, `choose_attention` and `free_bytes`
on a GPU, which are called when the weights are loaded.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from loguru import logger
from pydantic import ByteSize, TypeAdapter, ValidationError

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
    from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig
    from mmie_tasks.judges.mmie_score.engine.attention import Attention

DtypeOption: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]
AttentionOption: TypeAlias = Literal["auto", "flash", "triton", "sdpa"]

TWO_STEPS = (
    "judge in a second command, which has the memory to itself: run the model with `--predict_only --output_path "
    "OUT`, then score its answers with `--model predictions --model_args path=OUT` and the same `--tasks`"
)
"""Hint for a judge and a tested model that do not fit into memory together."""

_SDPA_COST = (
    "A decoding step takes 6 to 7 times as long as with a paged kernel, and a run 4 to 5 times (computed, not "
    "measured: 8.7 h against 1.9 h for 20,000 samples on one H200)."
)
_SDPA_HINT = "use torch 2.12 or newer, or install Triton (`pip install triton`)"

GIB = 2**30
CUDA_RESERVE_BYTES = 5 * GIB // 2  # cuBLAS, captured graphs, what the allocator cannot use
CPU_RESERVE_BYTES = GIB
MIN_CHUNK_TOKENS = 256
LONG_TOKENS = 16_384 + 1_024  # four photos, and the longest reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where and how the model is computed.

    Attributes:
        attention_reason: Why this attention, a clause without a full stop.
        max_memory_bytes: Upper limit; None is all that is free.
        max_rows: The most requests that are computed at once.
        graphs: Whether decoding steps are captured as CUDA graphs.
        fixed: Whether every step has the same shapes, whatever is to be computed: a GPU chooses kernels by shapes, and
            other kernels give other bits.
    """

    device: torch.device
    dtype: torch.dtype
    attention: Attention
    attention_reason: str
    max_memory_bytes: int | None
    max_rows: int
    graphs: bool
    fixed: bool

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    @property
    def dtype_name(self) -> str:
        """The dtype as users write it: ``bfloat16``."""
        return str(self.dtype).removeprefix("torch.")


def choose_device(option: str, environment: Mapping[str, str]) -> torch.device:
    """The device of this process.

    Args:
        option: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``cuda`` is the only GPU that this process sees, or of
            several the one with the process's number on the machine, so that each of several processes takes its own.
            ``auto`` is the same if there is a GPU, else the CPU.
        environment: With that number, ``LOCAL_RANK``, if a launcher has set it.

    Raises:
        JudgeMisconfigured: There is no such device.
    """
    import torch

    parsed = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", option, re.ASCII)
    if parsed is None:
        raise JudgeMisconfigured(
            f"`device={option}` is not a known device.",
            hint="write `device=auto`, `device=cpu`, `device=cuda` or `device=cuda:0`",
        )
    count = torch.cuda.device_count() if option != "cpu" and torch.cuda.is_available() else 0
    if option == "cpu" or (option == "auto" and not count):
        return torch.device("cpu")
    rank = (environment.get("LOCAL_RANK", "").strip() if count > 1 else "") or "0"
    if not parsed[1] and not (rank.isascii() and rank.isdecimal()):
        raise JudgeMisconfigured(
            f"The environment variable `LOCAL_RANK` is `{rank}`, not a number.",
            hint="`accelerate launch` and `torchrun` set it; unset it for a single process",
        )
    number = int(parsed[1] or rank)
    if number < count:
        return torch.device("cuda", number)
    if not count:
        raise JudgeMisconfigured(
            f"`device={option}` was requested, and torch finds no GPU it can use.",
            hint="use `device=cpu` (slow), or look at `nvidia-smi` and "
            '`python -c "import torch; print(torch.version.cuda)"`',
        )
    if parsed[1]:
        raise JudgeMisconfigured(
            f"`device={option}` was requested, and there are {count}: they count from 0.",
            hint="use a smaller number, or `device=cuda`; `CUDA_VISIBLE_DEVICES` hides GPUs",
        )
    raise JudgeMisconfigured(
        f"This is process {number} (from 0) on this machine, and it has {count} GPU(s): "
        "each process judges on its own.",
        hint=f"start at most {count} process(es), or put several on one GPU with `device=cuda:0` and `max_memory=`",
    )


def choose_dtype(option: DtypeOption, device: torch.device) -> torch.dtype:
    """The dtype; ``auto`` is bfloat16, as in the official code, on a GPU that supports it, else float32."""
    import torch

    if option == "auto":
        modern = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
        option = "bfloat16" if modern else "float32"
    dtype: torch.dtype = getattr(torch, option)
    return dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionChoice:
    """Attention over pages, and why this one: a clause without a full stop."""

    attention: Attention
    reason: str


def choose_attention(
    option: AttentionOption, *, device: torch.device, dtype: torch.dtype, config: TextConfig
) -> AttentionChoice:
    """The attention implementation, with the reasons against those that would be preferred.

    It is ``flash`` (torch's own kernel), ``triton`` (ours), ``sdpa``, or with ``auto`` the first of them that is
    available and passes its self-check on this device. On a GPU a log line says so if it is sdpa.

    Raises:
        JudgeMisconfigured: The kernel that the option names cannot be used here.
    """
    from mmie_tasks.judges.mmie_score.engine import attention as kernels

    if option == "sdpa":
        return AttentionChoice(attention=kernels.SdpaAttention(), reason="`attention=sdpa` was requested")
    sizes = {"heads": config.num_attention_heads, "kv_heads": config.kv_heads, "head_dim": config.head_dim}
    unsupported = kernels.unsupported(device, dtype, config.head_dim)
    reasons = [unsupported] if unsupported else []
    names = kernels.KERNELS if option == "auto" else (option,)
    with exact_fp32():  # the results that kernels are compared with
        for name in () if unsupported else names:
            attention = kernels.checked_attention(name, device, dtype, **sizes)
            if not isinstance(attention, str):
                passed = f"{attention.title} passed its check on {device}"
                return AttentionChoice(attention=attention, reason="; ".join([passed, *reasons]))
            reasons.append(attention)
    reason = "; ".join(reasons)
    if option != "auto":
        raise JudgeMisconfigured(f"`attention={option}` cannot be used: {reason}.", hint="use `attention=auto`")
    if device.type == "cuda":
        row_by_row = f"MMIE-Score computes attention row by row (sdpa): {reason}."
        if dtype.itemsize > 2:
            logger.info(row_by_row)
        else:
            logger.warning(f"{row_by_row} {_SDPA_COST}" + ("" if unsupported else f"\n\nhint: {_SDPA_HINT}"))
    return AttentionChoice(attention=kernels.SdpaAttention(), reason=reason)


@contextmanager
def exact_fp32() -> Iterator[None]:
    """Compute matrix products, convolutions and recurrent layers of fp32 numbers in fp32, on every device.

    By default cuDNN rounds the factors to TF32, 10 bits, and a tested model may have allowed more. The switches belong
    to the whole process. From 2.9 on torch has two sets of them, and raises an error when an old one is read that a
    new one contradicts. Inside, the two agree. Afterwards all switches are as before, so a reading that raised before
    raises again.
    """
    import torch

    backends: Any = torch.backends
    cuda, cudnn, mkldnn = backends.cuda, backends.cudnn, backends.mkldnn
    new_switches: list[tuple[Any, str]] = []
    if hasattr(backends, "fp32_precision"):  # torch 2.9 and later
        operations = (cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)
        # The first two are inherited. With `none` there, a reading of the others shows their own values.
        new_switches = [(backends, "none"), (cudnn, "none"), *((operation, "ieee") for operation in operations)]
    with ExitStack() as restore:  # in reverse order: an old switch sets new ones too
        for switch, exact in new_switches:
            restore.callback(setattr, switch, "fp32_precision", switch.fp32_precision)
            switch.fp32_precision = exact
        try:
            cudnn_tf32 = cudnn.allow_tf32
        except RuntimeError:  # it contradicts the new ones, which do not allow TF32
            cudnn_tf32 = True
        restore.callback(setattr, cudnn, "allow_tf32", cudnn_tf32)
        restore.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield


def free_bytes(device: torch.device) -> int:
    """Bytes that this process may take now. On a GPU, starts CUDA, and torch first returns what it keeps unused."""
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # type: ignore[import-untyped]

    available: int = psutil.virtual_memory().available
    return available


def device_bytes(device: torch.device) -> int:
    """Bytes of the device in all, used or not; starts CUDA like `free_bytes`."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[1]
    import psutil

    total: int = psutil.virtual_memory().total
    return total


def release_memory() -> None:
    """Return the memory that torch keeps for deleted tensors to the device, if CUDA was started."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the engine may use.

    Attributes:
        pages: Of keys and values, without the one that padding writes to.
        longest_pages: Pages of the longest request that has to fit.
        rows: The most sequences at once.
        chunk_tokens: The most prompt tokens in one step.
        vision_tiles: The most image tiles in one batch of the vision tower.
        weight_bytes: Of the model, in the dtype of the computation.
        page_bytes: Of one page, in all layers.
        step_bytes: What a step and a vision batch need beside that, and a reserve.
    """

    pages: int
    page_tokens: int
    longest_pages: int
    rows: int
    chunk_tokens: int
    vision_tiles: int
    weight_bytes: int
    page_bytes: int
    step_bytes: int

    @property
    def longest_rows(self) -> int:
        """How many of the longest requests fit at once."""
        return self.pages // self.longest_pages

    @property
    def step(self) -> str:
        """The size of a step, for messages."""
        return f"{self.chunk_tokens:,} tokens and {self.vision_tiles} tiles"


def parse_bytes(text: str) -> int:
    """A number of bytes, from a text with GiB, GB, MiB or MB; `JudgeMisconfigured` if it is none, or 0.

    >>> parse_bytes("20 GiB"), parse_bytes("1.5GB")
    (21474836480, 1500000000)
    """
    with suppress(ValidationError):
        if size := TypeAdapter(ByteSize).validate_python(text):
            return int(size)
    message = f"`max_memory={text}` is not an amount of memory."
    raise JudgeMisconfigured(message, hint="write it like `max_memory=20GiB`; GB, MiB and MB are known too")


def kv_token_bytes(config: Config, dtype_bytes: int) -> int:
    """Bytes of key and value of one token, in all layers."""
    text = config.llm_config
    return 2 * text.num_hidden_layers * text.kv_heads * text.head_dim * dtype_bytes


def text_step_bytes(config: Config, dtype_bytes: int, *, chunk_tokens: int, longest_tokens: int, plain: bool) -> int:
    """Bytes of a step at its peak, in feed-forward; `plain` attention, without pages, gathers and masks keys."""
    text = config.llm_config
    numbers = 4 * text.hidden_size + 4 * text.intermediate_size
    norm = 2 * 4 * text.hidden_size  # computed in fp32
    needed = chunk_tokens * (numbers * dtype_bytes + norm)
    if plain:
        gathered = 2 * text.hidden_size * dtype_bytes
        needed += longest_tokens * (gathered + chunk_tokens * (1 + dtype_bytes))
    return needed


def vision_bytes(config: Config, dtype_bytes: int, *, tiles: int) -> int:
    """Bytes that the vision tower needs at its peak, with pixels and features."""
    vision = config.vision_config
    patches = vision.side_patches**2 + 1  # one for the class
    numbers = patches * (2 * vision.hidden_size + 2 * vision.intermediate_size)
    features = 2 * config.tokens_per_tile * config.llm_config.hidden_size
    pixels = 3 * vision.image_size**2
    return tiles * ((numbers + features) * dtype_bytes + pixels * (1 + 4 + dtype_bytes))


def plan(
    checkpoint: Checkpoint, placement: Placement, *, rows: int, tokens: int, free_bytes: int, device_bytes: int
) -> Budget:
    """The budget with the largest steps that leave memory for one request.

    If steps are fixed, their size follows the memory of the whole device, so that it is the same in every run on such a
    device; they are smaller only if what is free does not hold one request. Pages take all that is left. On a CPU,
    whose memory other programs use too, they take half of it, or what one request needs.

    Args:
        checkpoint: The model.
        placement: Where and how it is computed.
        rows: The most sequences at once, at least 1.
        tokens: Of the longest request that has to fit, with its reply.
        free_bytes: Of the device, before the weights are loaded.
        device_bytes: Of the device in all, or as much as may be used.

    Raises:
        JudgeMisconfigured: Not even one request fits; the message says how much it needs.
    """
    candidates = _candidates(checkpoint, placement, rows, tokens, free_bytes)
    usual = candidates[0]
    if placement.fixed:
        long_tokens = min(LONG_TOKENS, checkpoint.config.llm_config.max_position_embeddings)
        on_device = _candidates(checkpoint, placement, rows, long_tokens, device_bytes)
        number = next((number for number, budget in enumerate(on_device) if budget.longest_rows), len(on_device) - 1)
        candidates, usual = candidates[number:], on_device[number]
    best = next((budget for budget in candidates if budget.longest_rows), None)
    if best is None:
        raise _too_little(candidates[-1], free_bytes, tokens, placement.device)
    if placement.fixed and best.step != usual.step:
        logger.warning(
            f"MMIE-Score computes in smaller steps than usual on `{placement.device}` ({best.step} instead of "
            f"{usual.step}), because {readable_size(free_bytes)} are free. In {placement.dtype_name} single tokens of "
            "replies may differ from those of other runs."
        )
    return best


def _candidates(
    checkpoint: Checkpoint, placement: Placement, rows: int, tokens: int, free_bytes: int
) -> Sequence[Budget]:
    """Budgets from the largest steps to the smallest, not of fewer rows, with as many pages as fit and can be used."""
    config, dtype_bytes = checkpoint.config, placement.dtype.itemsize
    page_tokens = placement.attention.page_tokens
    most_tokens = max(tokens, config.llm_config.max_position_embeddings) if placement.fixed else tokens
    stored_dtype_bytes = 4 if checkpoint.dtype == "float32" else 2
    budget: Budget | None = Budget(
        pages=rows * -(-most_tokens // page_tokens),
        page_tokens=page_tokens,
        longest_pages=-(-tokens // page_tokens),
        rows=rows,
        chunk_tokens=4096 if placement.fixed else 2048,  # a CPU gains nothing from more
        vision_tiles=64 if placement.fixed else 8,
        weight_bytes=checkpoint.weight_bytes * dtype_bytes // stored_dtype_bytes,
        page_bytes=page_tokens * kv_token_bytes(config, dtype_bytes),
        step_bytes=0,
    )
    reserve = CUDA_RESERVE_BYTES if placement.on_gpu else CPU_RESERVE_BYTES
    candidates: list[Budget] = []
    while budget is not None:
        plain = placement.attention.name == "sdpa"
        text = text_step_bytes(
            config, dtype_bytes, chunk_tokens=budget.chunk_tokens, longest_tokens=tokens, plain=plain
        )
        step_bytes = text + vision_bytes(config, dtype_bytes, tiles=budget.vision_tiles) + reserve
        fitting = (free_bytes - budget.weight_bytes - step_bytes) // budget.page_bytes - 1  # 1 for padding
        if not placement.fixed:
            fitting = max(fitting // 2, min(fitting, budget.longest_pages))
        pages = max(0, min(fitting, budget.pages))
        candidates.append(replace(budget, step_bytes=step_bytes, pages=pages, rows=max(1, min(budget.rows, pages))))
        budget = shrink(budget, min_rows=rows)
    return candidates


def shrink(budget: Budget, min_rows: int = 1) -> Budget | None:
    """The next smaller budget, after memory ran out all the same; None if there is none.

    Chunks of prompts and vision batches are halved first, then rows, down to `min_rows`. Pages are allocated and stay.
    """
    chunk = max(budget.chunk_tokens // 2, min(budget.chunk_tokens, MIN_CHUNK_TOKENS))
    tiles = max(budget.vision_tiles // 2, 1)
    if (chunk, tiles) != (budget.chunk_tokens, budget.vision_tiles):
        return replace(budget, chunk_tokens=chunk, vision_tiles=tiles)
    return replace(budget, rows=budget.rows // 2) if budget.rows > min_rows else None


def _too_little(smallest: Budget, free_bytes: int, longest_tokens: int, device: torch.device) -> JudgeMisconfigured:
    pages = (smallest.longest_pages + 1) * smallest.page_bytes
    work = smallest.step_bytes
    return JudgeMisconfigured(
        f"MMIE-Score needs {readable_size(smallest.weight_bytes + pages + work)} free on `{device}` for its weights "
        f"({readable_size(smallest.weight_bytes)}), one request of {longest_tokens:,} tokens ({readable_size(pages)}) "
        f"and its work ({readable_size(work)}), and {readable_size(free_bytes)} are free.",
        hint=f"{TWO_STEPS}; or choose another device with `device=`; or, where `max_memory=` "
        "says less than the device has, allow more",
    )
