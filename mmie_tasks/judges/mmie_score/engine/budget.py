"""How much fits into memory: sizes of steps and the number of pages, from the model's sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import Config
from mmie_tasks.judges.mmie_score.devices import GIB, TWO_STEPS, DeviceFull
from mmie_tasks.judges.mmie_score.engine.attention import Attention

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
        fixed: Whether every step has the same shapes, whatever is to be computed: a GPU chooses
            kernels by shapes, and other kernels give other bits.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
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

    def capacity(self, max_positions: int) -> str:
        """How many requests are computed at once, for messages; no prompt has more positions."""
        tokens = min(LONG_TOKENS, max_positions)
        long_rows = min(self.rows, self.pages // -(-tokens // self.page_tokens))
        return f"{self.rows} requests at once, or {long_rows} long ones of {tokens:,} tokens"

    @property
    def step(self) -> str:
        """The size of a step, for messages."""
        return f"{self.chunk_tokens:,} tokens and {self.vision_tiles} tiles"


def kv_token_bytes(config: Config, dtype_bytes: int) -> int:
    """Bytes of key and value of one token, in all layers."""
    text = config.llm_config
    return 2 * text.num_hidden_layers * text.kv_heads * text.head_dim * dtype_bytes


def text_step_bytes(
    config: Config, dtype_bytes: int, *, chunk_tokens: int, longest_tokens: int, plain: bool
) -> int:
    """Bytes of a step at its peak, in feed-forward; `plain` attention, without pages, gathers and
    masks keys.
    """
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
    checkpoint: Checkpoint,
    placement: Placement,
    *,
    rows: int,
    tokens: int,
    free_bytes: int,
    device_bytes: int,
) -> MemoryPlan:
    """The budget with the largest steps that leave memory for one request.

    If steps are fixed, their size follows the memory of the whole device, so that it is the same in
    every run on such a device; they are smaller only if what is free does not hold one request.
    Pages take all that is left. On a CPU, whose memory other programs use too, they take half of
    it, or what one request needs.

    Args:
        checkpoint: The model.
        placement: Where and how it is computed.
        rows: The most sequences at once, at least 1.
        tokens: Of the longest request that has to fit, with its reply.
        free_bytes: Of the device, before the weights are loaded.
        device_bytes: Of the device in all, or as much as may be used.

    Raises:
        DeviceFull: Not even one request fits; the message says how much it needs.
    """
    candidates = _candidates(checkpoint, placement, rows, tokens, free_bytes)
    usual = candidates[0]
    if placement.fixed:
        long_tokens = min(LONG_TOKENS, checkpoint.config.llm_config.max_position_embeddings)
        on_device = _candidates(checkpoint, placement, rows, long_tokens, device_bytes)
        number = next(
            (number for number, budget in enumerate(on_device) if budget.longest_rows),
            len(on_device) - 1,
        )
        candidates, usual = candidates[number:], on_device[number]
    best = next((budget for budget in candidates if budget.longest_rows), None)
    if best is None:
        raise _too_little(candidates[-1], free_bytes, tokens, placement.device)
    if placement.fixed and best.step != usual.step:
        logger.warning(
            f"MMIE-Score computes in smaller steps than usual on `{placement.device}` ({best.step} "
            "instead of "
            f"{usual.step}), because {readable_size(free_bytes)} are free. In "
            f"{placement.dtype_name} single tokens of "
            "replies may differ from those of other runs."
        )
    return best


def _candidates(
    checkpoint: Checkpoint, placement: Placement, rows: int, tokens: int, free_bytes: int
) -> Sequence[MemoryPlan]:
    """Budgets from the largest steps to the smallest, not of fewer rows, with as many pages as fit
    and can be used.
    """
    config, dtype_bytes = checkpoint.config, placement.dtype.itemsize
    page_tokens = placement.attention.page_tokens
    most_tokens = (
        max(tokens, config.llm_config.max_position_embeddings) if placement.fixed else tokens
    )
    stored_dtype_bytes = 4 if checkpoint.dtype == "float32" else 2
    budget: MemoryPlan | None = MemoryPlan(
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
    candidates: list[MemoryPlan] = []
    while budget is not None:
        plain = placement.attention.name == "sdpa"
        text = text_step_bytes(
            config,
            dtype_bytes,
            chunk_tokens=budget.chunk_tokens,
            longest_tokens=tokens,
            plain=plain,
        )
        step_bytes = text + vision_bytes(config, dtype_bytes, tiles=budget.vision_tiles) + reserve
        fitting = (
            free_bytes - budget.weight_bytes - step_bytes
        ) // budget.page_bytes - 1  # 1 for padding
        if not placement.fixed:
            fitting = max(fitting // 2, min(fitting, budget.longest_pages))
        pages = max(0, min(fitting, budget.pages))
        candidates.append(
            replace(
                budget, step_bytes=step_bytes, pages=pages, rows=max(1, min(budget.rows, pages))
            )
        )
        budget = shrink(budget, min_rows=rows)
    return candidates


def shrink(budget: MemoryPlan, min_rows: int = 1) -> MemoryPlan | None:
    """The next smaller budget, after memory ran out all the same; None if there is none.

    Chunks of prompts and vision batches are halved first, then rows, down to `min_rows`. Pages are
    allocated and stay.
    """
    chunk = max(budget.chunk_tokens // 2, min(budget.chunk_tokens, MIN_CHUNK_TOKENS))
    tiles = max(budget.vision_tiles // 2, 1)
    if (chunk, tiles) != (budget.chunk_tokens, budget.vision_tiles):
        return replace(budget, chunk_tokens=chunk, vision_tiles=tiles)
    return replace(budget, rows=budget.rows // 2) if budget.rows > min_rows else None


def _too_little(
    smallest: MemoryPlan, free_bytes: int, longest_tokens: int, device: torch.device
) -> DeviceFull:
    pages = (smallest.longest_pages + 1) * smallest.page_bytes
    work = smallest.step_bytes
    return DeviceFull(
        f"MMIE-Score needs {readable_size(smallest.weight_bytes + pages + work)} free on "
        f"`{device}` for its weights "
        f"({readable_size(smallest.weight_bytes)}), one request of {longest_tokens:,} tokens "
        f"({readable_size(pages)}) and its work "
        f"({readable_size(work)}), and {readable_size(free_bytes)} are free.",
        hint=f"{TWO_STEPS}; or choose another device with `device=`; or, where `max_memory=` "
        "says less than the device has, allow more",
    )
