"""How much fits into memory: sizes of steps and the number of pages, from the model's sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import Config
from mmie_tasks.judges.mmie_score.engine.attention import Attention
from mmie_tasks.judges.mmie_score.memory import GIB, TWO_STEPS, DeviceFull

CUDA_RESERVE_BYTES = 5 * GIB // 2  # cuBLAS, captured graphs, what the allocator cannot use
CPU_RESERVE_BYTES = GIB
MIN_CHUNK_TOKENS = 256
LEAST_TOKENS = 4096  # memory for fewer is not worth loading the weights
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
    def dtype_name(self) -> str:
        """The dtype as users write it: ``bfloat16``."""
        return str(self.dtype).removeprefix("torch.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What the engine may use.

    Attributes:
        pages: Of keys and values, without the one that padding writes to.
        rows: The most sequences at once.
        chunk_tokens: The most prompt tokens in one step.
        vision_tiles: The most image tiles in one batch of the vision tower.
    """

    pages: int
    page_tokens: int
    rows: int
    chunk_tokens: int
    vision_tiles: int

    def capacity(self, max_positions: int) -> str:
        """How many requests are computed at once, for messages; no prompt has more positions."""
        tokens = min(LONG_TOKENS, max_positions)
        long_rows = min(self.rows, self.pages // -(-tokens // self.page_tokens))
        return f"{self.rows} requests at once, or {long_rows} long ones of {tokens:,} tokens"

    @property
    def step(self) -> str:
        """The size of a step, for messages."""
        return f"{self.chunk_tokens:,} tokens and {self.vision_tiles} tiles"

    def smaller_step(self) -> MemoryPlan | None:
        """With half the tokens and tiles of a step; None if a step cannot be smaller."""
        chunk = max(self.chunk_tokens // 2, min(self.chunk_tokens, MIN_CHUNK_TOKENS))
        tiles = max(self.vision_tiles // 2, 1)
        if (chunk, tiles) == (self.chunk_tokens, self.vision_tiles):
            return None
        return replace(self, chunk_tokens=chunk, vision_tiles=tiles)

    def smaller(self) -> MemoryPlan | None:
        """The next smaller plan, after memory ran out all the same: of smaller steps, then of fewer
        rows. Pages are allocated and stay.
        """
        half_rows = replace(self, rows=self.rows // 2) if self.rows > 1 else None
        return self.smaller_step() or half_rows


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
    checkpoint: Checkpoint, placement: Placement, *, free_bytes: int, device_bytes: int
) -> MemoryPlan:
    """The plan with the largest steps that leave memory for one request of `LEAST_TOKENS`.

    If steps are fixed, their size follows the memory of the whole device, so that it is the same in
    every run on such a device; they are smaller only if what is free does not hold one request.
    Pages take all that is left. On a CPU, whose memory other programs use too, they take half of
    it, or what one request of `LONG_TOKENS` needs.

    Args:
        checkpoint: The model.
        placement: Where and how it is computed.
        free_bytes: Of the device, before the weights are loaded.
        device_bytes: Of the device in all, or as much as may be used.

    Raises:
        DeviceFull: Not even one request fits; the message says how much it needs.
    """
    config, dtype_bytes = checkpoint.config, placement.dtype.itemsize
    longest = config.llm_config.max_position_embeddings
    page_tokens = placement.attention.page_tokens
    page_bytes = page_tokens * kv_token_bytes(config, dtype_bytes)
    weight_bytes = checkpoint.weight_bytes * dtype_bytes
    weight_bytes //= 4 if checkpoint.dtype == "float32" else 2
    least, long, most = (
        -(-min(tokens, longest) // page_tokens) for tokens in (LEAST_TOKENS, LONG_TOKENS, longest)
    )

    def fitting(size: MemoryPlan, memory: int) -> int:
        work = weight_bytes + _work_bytes(config, placement, size)
        return (memory - work) // page_bytes - 1  # 1 for padding

    sizes = _step_sizes(placement)
    on_device = (size for size in sizes if fitting(size, device_bytes) >= long)
    usual = next(on_device, sizes[-1]) if placement.fixed else sizes[0]
    now = (size for size in sizes[sizes.index(usual) :] if fitting(size, free_bytes) >= least)
    best = next(now, None)
    if best is None:
        request = (least + 1) * page_bytes
        work = _work_bytes(config, placement, sizes[-1])
        raise _too_little(placement, free_bytes, weight_bytes, request, work)
    if placement.fixed and best is not usual:
        logger.warning(
            f"MMIE-Score computes in smaller steps than usual on `{placement.device}` "
            f"({best.step} instead of {usual.step}), because {readable_size(free_bytes)} are free. "
            f"In {placement.dtype_name} single tokens of replies may differ from those of other "
            "runs."
        )
    pages = fitting(best, free_bytes)
    pages = pages if placement.fixed else max(pages // 2, min(pages, long))
    pages = min(pages, placement.max_rows * most)
    return replace(best, pages=pages, rows=min(placement.max_rows, pages))


def _too_little(
    placement: Placement, free_bytes: int, weight_bytes: int, request_bytes: int, work_bytes: int
) -> DeviceFull:
    return DeviceFull(
        f"MMIE-Score needs {readable_size(weight_bytes + request_bytes + work_bytes)} free on "
        f"`{placement.device}` for its weights ({readable_size(weight_bytes)}), one request "
        f"({readable_size(request_bytes)}) and its work ({readable_size(work_bytes)}), and "
        f"{readable_size(free_bytes)} are free.",
        hint=f"{TWO_STEPS}; or choose another device with `device=`; or, where `max_memory=` "
        "says less than the device has, allow more",
    )


def _step_sizes(placement: Placement) -> list[MemoryPlan]:
    """Plans without pages, of the largest steps to the smallest."""
    size: MemoryPlan | None = MemoryPlan(
        pages=0,
        page_tokens=placement.attention.page_tokens,
        rows=placement.max_rows,
        chunk_tokens=4096 if placement.fixed else 2048,  # a CPU gains nothing from more
        vision_tiles=64 if placement.fixed else 8,
    )
    sizes = []
    while size is not None:
        sizes.append(size)
        size = size.smaller_step()
    return sizes


def _work_bytes(config: Config, placement: Placement, size: MemoryPlan) -> int:
    """What a step and a vision batch need, and a reserve."""
    dtype_bytes = placement.dtype.itemsize
    text = text_step_bytes(
        config,
        dtype_bytes,
        chunk_tokens=size.chunk_tokens,
        longest_tokens=min(LONG_TOKENS, config.llm_config.max_position_embeddings),
        plain=placement.attention.name == "sdpa",
    )
    reserve = CUDA_RESERVE_BYTES if placement.device.type == "cuda" else CPU_RESERVE_BYTES
    return text + vision_bytes(config, dtype_bytes, tiles=size.vision_tiles) + reserve
