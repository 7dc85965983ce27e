"""The time below which requests cannot be judged: arithmetic and memory at their peaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from mmie_tasks.judges.mmie_score.checkpoint import Facts
from mmie_tasks.judges.mmie_score.engine.model import Work
from mmie_tasks.judges.mmie_score.memory import kv_token_bytes
from support.random_checkpoint import Shape


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Of the device: operations and bytes a second."""

    flops: float
    bytes_s: float


def measured_peaks(shape: Shape) -> Peaks:
    """Of this CPU: a product of the model's shapes, and a copy that fits into no cache."""
    hidden, inner = shape.text.hidden_size, 2 * shape.text.intermediate_size
    left, right = torch.randn(1024, hidden), torch.randn(inner, hidden)
    from_, to = torch.randn(2**26), torch.empty(2**26)
    product = _best(lambda: torch.nn.functional.linear(left, right))
    copy = _best(lambda: to.copy_(from_))
    return Peaks(flops=2 * 1024 * hidden * inner / product, bytes_s=2 * from_.nbytes / copy)


def _best(call: Callable[[], object]) -> float:
    spent = []
    for _ in range(40):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return min(spent)


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Seconds below which the requests cannot be judged, rows at once."""

    vision: float
    prefill: float
    decode: float

    @property
    def seconds(self) -> float:
        return self.vision + self.prefill + self.decode


def floor(facts: Facts, item: int, works: Sequence[Work], rows: int, peaks: Peaks) -> Floor:
    """From the model's sizes alone. What all prompts begin with is computed once.

    Args:
        facts: Sizes of the model.
        item: Bytes of a number.
        works: All requests.
        rows: How many are computed at once.
        peaks: Of the device.
    """
    layer = facts.hidden_size * (
        facts.head_dim * (2 * facts.heads + 2 * facts.kv_heads) + 3 * facts.intermediate_size
    )
    text = facts.layers * layer
    head = facts.vocab_size * facts.hidden_size
    pair = 4 * facts.heads * facts.head_dim * facts.layers  # operations for a query and a key
    by_place = zip(*(work.ids for work in works), strict=False)
    shared = next((n for n, ids in enumerate(by_place) if len(set(ids)) > 1), 0)
    tokens = sum(len(work.ids) for work in works) - (len(works) - 1) * shared
    pairs = sum(len(work.ids) ** 2 for work in works) / 2 - (len(works) - 1) * shared**2 / 2
    replies = [work.max_new_tokens for work in works]
    generated = sum(replies) - len(works)  # each first token comes with its prompt
    seen = sum(
        len(work.ids) * (work.max_new_tokens - 1) + work.max_new_tokens**2 / 2 for work in works
    )
    steps = max(generated / rows, max(replies) - 1)
    moved = steps * (text + head) * item + seen * kv_token_bytes(facts, item)
    worked = 2 * generated * (text + head) + pair * seen
    tiles = sum(len(work.tiles) for work in works if work.tiles is not None)
    return Floor(
        vision=tiles * tile_flops(facts) / peaks.flops,
        prefill=(2 * tokens * text + pair * pairs) / peaks.flops,
        decode=max(moved / peaks.bytes_s, worked / peaks.flops),
    )


def tile_flops(facts: Facts) -> float:
    """Vision tower and projector."""
    hidden, inner = facts.vision_hidden_size, facts.vision_intermediate_size
    seen = 4 * facts.tokens_per_tile + 1
    layer = 2 * seen * (4 * hidden**2 + 2 * hidden * inner) + 4 * seen**2 * hidden
    projector = 2 * facts.tokens_per_tile * facts.hidden_size * (4 * hidden + facts.hidden_size)
    return facts.vision_layers * layer + projector
