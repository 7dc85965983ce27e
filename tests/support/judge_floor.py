"""The least time in which requests can be judged: arithmetic and memory at their peaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from mmie_tasks.judges.mmie_score.checkpoint.config import Config
from mmie_tasks.judges.mmie_score.engine.budget import kv_token_bytes
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from support.random_checkpoint import Shape


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Operations and bytes per second of a device."""

    flops: float
    bytes_s: float


def measured_peaks(shape: Shape) -> Peaks:
    """Peaks of this CPU: a product of the model's shapes, and a copy larger than any cache."""
    hidden, inner = shape.text.hidden_size, 2 * shape.text.intermediate_size
    left, right = torch.randn(1024, hidden), torch.randn(inner, hidden)
    source, target = torch.randn(2**26), torch.empty(2**26)
    product = _best(lambda: torch.nn.functional.linear(left, right))
    copy = _best(lambda: target.copy_(source))
    return Peaks(flops=2 * 1024 * hidden * inner / product, bytes_s=2 * source.nbytes / copy)


def _best(call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(40):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The least seconds for the requests, by part."""

    vision: float
    prefill: float
    decode: float

    @property
    def seconds(self) -> float:
        return self.vision + self.prefill + self.decode


def floor(
    config: Config, dtype_bytes: int, prompts: Sequence[JudgePrompt], rows: int, peaks: Peaks
) -> Floor:
    """Computed from the model's sizes.

    Args:
        config: Sizes of the model.
        dtype_bytes: Of a number.
        prompts: Of all requests.
        rows: How many are computed at once.
        peaks: Of the device.
    """
    sizes = config.llm_config
    heads = 2 * sizes.num_attention_heads + 2 * sizes.kv_heads
    layer = sizes.hidden_size * (sizes.head_dim * heads + 3 * sizes.intermediate_size)
    text = sizes.num_hidden_layers * layer
    head = sizes.vocab_size * sizes.hidden_size
    pair_flops = 4 * sizes.hidden_size * sizes.num_hidden_layers  # of a query and a key
    count, lengths = len(prompts), [len(prompt.ids) for prompt in prompts]
    tokens = sum(lengths)
    pairs = sum(length**2 for length in lengths) / 2
    replies = [prompt.max_new_tokens for prompt in prompts]
    generated = sum(replies) - count  # the first token of a reply comes with its prompt
    keys_read = sum(
        length * (reply - 1) + reply**2 / 2 for length, reply in zip(lengths, replies, strict=True)
    )
    steps = max(generated / rows, max(replies) - 1)
    bytes_moved = steps * (text + head) * dtype_bytes + keys_read * kv_token_bytes(
        config, dtype_bytes
    )
    decode_flops = 2 * generated * (text + head) + pair_flops * keys_read
    tiles = sum(len(prompt.tiles) for prompt in prompts if prompt.tiles is not None)
    return Floor(
        vision=tiles * tile_flops(config) / peaks.flops,
        prefill=(2 * tokens * text + pair_flops * pairs) / peaks.flops,
        decode=max(bytes_moved / peaks.bytes_s, decode_flops / peaks.flops),
    )


def tile_flops(config: Config) -> float:
    """Operations of vision tower and projector for a tile."""
    vision, text_hidden = config.vision_config, config.llm_config.hidden_size
    hidden, inner = vision.hidden_size, vision.intermediate_size
    patches = 4 * config.tokens_per_tile + 1
    layer = 2 * patches * (4 * hidden**2 + 2 * hidden * inner) + 4 * patches**2 * hidden
    projector = 2 * config.tokens_per_tile * text_hidden * (4 * hidden + text_hidden)
    return vision.num_hidden_layers * layer + projector
