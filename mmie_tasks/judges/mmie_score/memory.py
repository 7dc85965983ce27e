"""How much of the judge fits on a device: weights, pages of keys and values, and a step's work."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.checkpoint import Facts


# What to do where the judge and the tested model do not fit together.

TWO_STEPS = (
    "judge in a second command, which has the memory to itself: run the model with "
    "`--predict_only --output_path OUT`, then score its answers with `--model predictions "
    "--model_args path=OUT` and the same `--tasks`"
)


GIB = 2**30
CUDA_RESERVE_BYTES = 5 * GIB // 2  # cuBLAS, captured graphs, what the allocator cannot use
CPU_RESERVE_BYTES = GIB
MIN_CHUNK_TOKENS = 256
GOOD_ROWS = 8  # with fewer rows a larger part of a prompt a step is not worth its memory

_UNITS = {"": 1, "b": 1, "mb": 10**6, "mib": 2**20, "gb": 10**9, "gib": GIB}
_STORED_BYTES = {"float32": 4}  # bfloat16 and float16 have 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the engine may use.

    Attributes:
        pages: Of keys and values, without the one page that padding writes to.
        page_tokens: Tokens of a page.
        longest_pages: Pages of the longest request: `pages` holds at least one such.
        rows: Sequences at once, at most.
        chunk_tokens: Tokens of prompts in one step, at most.
        vision_tiles: Image tiles in one batch of the vision tower, at most.
        weight_bytes: Of the model, in the dtype it is computed in.
        page_bytes: Of one page, in all layers.
        step_bytes: What a step and a vision batch need beside that.
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
        """How many of the longest requests have room at once."""
        return self.pages // self.longest_pages


def parse_bytes(text: str | int) -> int:
    """A number of bytes, from a number or from words with GiB, GB, MiB or MB.

    Raises:
        JudgeMisconfigured: It is nothing of the kind, or nothing.

    >>> parse_bytes("20 GiB"), parse_bytes("1.5GB")
    (21474836480, 1500000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower(), re.ASCII)
    unit = _UNITS.get(found[2]) if found else None
    if found is None or unit is None or not (size := int(float(found[1]) * unit)):
        raise JudgeMisconfigured(
            f"`max_memory={text}` is not an amount of memory.",
            hint="write it like `max_memory=20GiB`; GiB, GB, MiB and MB are known",
        )
    return size


def kv_token_bytes(facts: Facts, dtype_bytes: int) -> int:
    """Key and value of one token, in all layers."""
    return 2 * facts.layers * facts.kv_heads * facts.head_dim * dtype_bytes


def weight_bytes(facts: Facts, dtype_bytes: int) -> int:
    """The weights in the dtype that is computed in."""
    return facts.weight_bytes * dtype_bytes // _STORED_BYTES.get(facts.dtype, 2)


def text_step_bytes(
    facts: Facts, dtype_bytes: int, *, chunk_tokens: int, longest_tokens: int, plain: bool
) -> int:
    """What one step holds at its widest, in the feed-forward part of a layer.

    Args:
        facts: Of the checkpoint.
        dtype_bytes: Of a number.
        chunk_tokens: Tokens in the step.
        longest_tokens: Of the longest sequence.
        plain: Attention without a kernel for pages: a row's keys are gathered and masked.
    """
    numbers = 4 * facts.hidden_size + 4 * facts.intermediate_size
    norm = 2 * 4 * facts.hidden_size  # computed in fp32
    needed = chunk_tokens * (numbers * dtype_bytes + norm)
    if plain:
        gathered = 2 * facts.heads * facts.head_dim * dtype_bytes
        needed += longest_tokens * (gathered + chunk_tokens * (1 + dtype_bytes))
    return needed


def vision_bytes(facts: Facts, dtype_bytes: int, *, tiles: int) -> int:
    """What the vision tower holds at its widest, pixels and the features it gives included."""
    seen = 4 * facts.tokens_per_tile + 1  # four patches become one token; one for the class
    numbers = seen * (2 * facts.vision_hidden_size + 2 * facts.vision_intermediate_size)
    features = 2 * facts.tokens_per_tile * facts.hidden_size
    pixels = 3 * facts.image_px**2
    return tiles * ((numbers + features) * dtype_bytes + pixels * (1 + 4 + dtype_bytes))


def plan(
    facts: Facts,
    *,
    free_bytes: int,
    dtype_bytes: int,
    page_tokens: int,
    longest_tokens: int,
    max_rows: int,
    device: torch.device,
) -> Budget:
    """The best that fits.

    On a GPU the pages take what is left, as far as `max_rows` can use it. On a CPU, whose memory
    others use too, they take half of it, or what one request needs. Parts of prompts and vision
    batches get smaller before fewer than `GOOD_ROWS` of the longest requests fit.

    Args:
        facts: Of the checkpoint.
        free_bytes: Of the device, before the weights are loaded.
        dtype_bytes: Of a number: 2 or 4.
        page_tokens: Tokens of a page.
        longest_tokens: Of the longest request, with all it may generate.
        max_rows: Sequences at once that are wanted, at least 1.
        device: Where.

    Raises:
        JudgeMisconfigured: Not even one request fits; says how much is needed.
    """
    on_gpu = device.type == "cuda"
    wanted = Budget(
        pages=max_rows * -(-longest_tokens // page_tokens),
        page_tokens=page_tokens,
        longest_pages=-(-longest_tokens // page_tokens),
        rows=max_rows,
        chunk_tokens=4096 if on_gpu else 2048,  # a CPU gains nothing from more
        vision_tiles=64 if on_gpu else 8,
        weight_bytes=weight_bytes(facts, dtype_bytes),
        page_bytes=page_tokens * kv_token_bytes(facts, dtype_bytes),
        step_bytes=0,
    )
    fitting: list[Budget] = []
    size: Budget | None = wanted
    while size is not None:
        text = text_step_bytes(
            facts,
            dtype_bytes,
            chunk_tokens=size.chunk_tokens,
            longest_tokens=longest_tokens,
            plain=not on_gpu or dtype_bytes > 2,
        )
        vision = vision_bytes(facts, dtype_bytes, tiles=size.vision_tiles)
        fitting.append(_filled(replace(size, step_bytes=text + vision), free_bytes, device))
        size = _smaller_steps(size)
    best = next((each for each in fitting if each.longest_rows >= GOOD_ROWS), None)
    best = best or max(fitting, key=lambda each: each.longest_rows)
    if not best.longest_rows:
        raise _too_little(fitting[-1], free_bytes, longest_tokens, device)
    return best


def shrink(budget: Budget) -> Budget | None:
    """The next smaller one, after memory ran out all the same; None if there is none.

    First parts of prompts and vision batches are halved, then rows. The pages are there already,
    and stay.
    """
    if smaller := _smaller_steps(budget):
        return smaller
    return replace(budget, rows=budget.rows // 2) if budget.rows > 1 else None


def _smaller_steps(budget: Budget) -> Budget | None:
    chunk = max(budget.chunk_tokens // 2, min(budget.chunk_tokens, MIN_CHUNK_TOKENS))
    tiles = max(budget.vision_tiles // 2, 1)
    if (chunk, tiles) == (budget.chunk_tokens, budget.vision_tiles):
        return None
    return replace(budget, chunk_tokens=chunk, vision_tiles=tiles)


def _filled(budget: Budget, free_bytes: int, device: torch.device) -> Budget:
    """The same with as many pages as there is room for, and as there is use for."""
    room = max(0, (free_bytes - _fixed(budget, device)) // budget.page_bytes - 1)  # 1 for padding
    if device.type != "cuda":
        room = max(room // 2, min(room, budget.longest_pages))
    pages = min(room, budget.pages)
    return replace(budget, pages=pages, rows=max(1, min(budget.rows, pages)))


def _fixed(budget: Budget, device: torch.device) -> int:
    """What is needed whatever the number of pages."""
    reserve = CUDA_RESERVE_BYTES if device.type == "cuda" else CPU_RESERVE_BYTES
    return budget.weight_bytes + budget.step_bytes + reserve


def _too_little(
    smallest: Budget, free_bytes: int, longest_tokens: int, device: torch.device
) -> JudgeMisconfigured:
    pages = (smallest.longest_pages + 1) * smallest.page_bytes
    rest = _fixed(smallest, device) - smallest.weight_bytes
    needed = smallest.weight_bytes + pages + rest
    return JudgeMisconfigured(
        f"MMIE-Score needs {_gib(needed)} free on `{device}` for its weights "
        f"({_gib(smallest.weight_bytes)}), one request of {longest_tokens:,} tokens "
        f"({_gib(pages)}) and its work ({_gib(rest)}), and {_gib(free_bytes)} are free.",
        hint=f"{TWO_STEPS}; or choose another device with `device=`; or, where `max_memory=` "
        "says less than the device has, allow more",
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
