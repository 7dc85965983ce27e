"""Single steps of the judge's engine, on four layers of the real width: durations, bandwidth, the
capture, kernels.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from mmie_tasks.judges.mmie_score.engine.budget import Placement, kv_token_bytes
from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk, LiveRow
from mmie_tasks.judges.mmie_score.exact import exact_arithmetic
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from mmie_tasks.judges.mmie_score.loading import load_engine
from mmie_tasks.judges.mmie_score.local import LocalJudge
from mmie_tasks.judges.mmie_score.memory import release_memory

ALIVE = (1, 29, 56)  # of 64 rows
REPEATS = 10
_KERNELS = {  # by words of their names
    "attention": r"attend|attention|flash|fmha|softmax",
    "products": r"gemm|cutlass|cublas|matmul|::b?mm\b|addmm|splitk|nvjet",
}


@dataclass(kw_only=True)
class CaptureFacts:
    """What capturing the decoding step took.

    Attributes:
        captured: Whether steps are replayed from then on.
        is_equal: Whether the replay has the same bits as the step itself.
    """

    captured: bool = False
    is_equal: bool = False
    seconds: float = 0.0
    taken_bytes: int = 0


class LayerStack:
    """The engine of a judge, with rows of `keys` keys each, whose content is random."""

    def __init__(self, local: LocalJudge, placement: Placement, *, keys: int, rows: int) -> None:
        self.device, self.keys, self.rows = placement.device, keys, rows
        self.engine: PagedEngine = load_engine(local.checkpoint, placement)
        self.config = local.checkpoint.config
        self.capture = CaptureFacts()
        self._dtype_bytes = placement.dtype.itemsize
        text: Any = self.engine.flat.text
        for states in (text.keys, text.values):
            states.normal_(generator=torch.Generator(self.device).manual_seed(1))

    def close(self) -> None:
        """Release all memory."""
        self.engine = None  # type: ignore[assignment]
        release_memory()

    def alive(self, count: int) -> list[Chunk]:
        """The last tokens of so many rows whose prompts are stored; as many as pages allow."""
        size = self.engine.budget.page_tokens
        pages = -(-(self.keys + 32) // size)
        prompt = JudgePrompt(key=0, ids=[3] * self.keys, max_new_tokens=32)
        count = min(count, self.engine.budget.pages // pages)
        return [
            LiveRow(
                prompt=prompt,
                pages=list(range(number * pages, (number + 1) * pages)),
                stored=self.keys,
                output=[7],
            ).last_token()
            for number in range(count)
        ]

    def first_step(self) -> None:
        """Compute the first decoding step, which is captured, and record how that went."""
        decoder, facts = self.engine.decoder, self.capture
        if decoder is None:
            self.engine._decoded(self.alive(2))
            return
        step = decoder._try_capture

        def timed(capture: Any, expected: torch.Tensor) -> None:
            began, free = time.perf_counter(), self._free_bytes()
            step(capture, expected)
            facts.seconds, facts.taken_bytes = self._elapsed(began), free - self._free_bytes()
            if decoder.captured:
                assert decoder._replay is not None
                facts.is_equal = torch.equal(decoder._replay()[: len(expected)], expected)

        decoder._try_capture = timed  # type: ignore[method-assign]
        with exact_arithmetic():
            decoder.step(self.alive(2))
        facts.captured = decoder.captured

    def decode_text(self) -> str:
        """Duration of a decoding step and the bandwidth at which keys and weights are read."""
        texts = []
        layers = self.config.llm_config.num_hidden_layers
        text: Any = self.engine.flat.text
        weight_bytes = sum(weight.nbytes for weight in text._text.layers.parameters())
        for count in ALIVE:
            rows = self.alive(count)
            seconds = self.seconds(lambda rows=rows: self.engine._decoded(rows))  # type: ignore[misc]
            read = weight_bytes + len(rows) * self.keys * kv_token_bytes(
                self.config, self._dtype_bytes
            )
            texts.append(
                f"{len(rows)} alive {1e3 * seconds:.2f} ms, {read / seconds / 1e9:,.0f} GB/s"
            )
        return f"{'; '.join(texts)} ({layers} layers, {self.keys:,} keys a row)"

    def prefill_step(self) -> Callable[[], torch.Tensor]:
        """A prefill step of the full size: the end of one prompt and the beginning of another."""
        tokens = self.engine.budget.chunk_tokens
        half = min(tokens // 2, self.keys)
        rows = [chunk.row for chunk in self.alive(2)]
        chunks = [
            Chunk(row=rows[0], start=self.keys - half, stop=self.keys),
            Chunk(row=rows[-1], start=0, stop=half),
        ]
        return lambda: self.engine.flat.step(chunks, tokens)

    def prefill_text(self) -> str:
        """Duration and arithmetic of a prefill step."""
        seconds, tokens = self.seconds(self.prefill_step()), self.engine.budget.chunk_tokens
        sizes = self.config.llm_config
        heads = 2 * sizes.num_attention_heads + 2 * sizes.kv_heads
        layer = sizes.hidden_size * (sizes.head_dim * heads + 3 * sizes.intermediate_size)
        flops = 2 * tokens * layer * sizes.num_hidden_layers
        return (
            f"{1e3 * seconds:.1f} ms, {flops / seconds / 1e12:,.0f} TFLOP/s without attention "
            f"({tokens:,} tokens, {sizes.num_hidden_layers} layers)"
        )

    def vision_text(self) -> str:
        """Duration of a batch of the vision tower."""
        tiles, side = self.engine.budget.vision_tiles, self.config.vision_config.image_size
        batch = np.random.default_rng(2).integers(0, 256, (tiles, side, side, 3), dtype=np.uint8)
        seconds = self.seconds(lambda: self.engine.vision._forward(batch, tiles))
        layers = self.config.vision_config.num_hidden_layers
        return f"{1e3 * seconds:.1f} ms ({tiles} tiles, {layers} layers)"

    def gap_text(self) -> str:
        """How long a decoding step takes beyond its kernels."""
        rows = self.alive(ALIVE[-1])
        wall = self.seconds(lambda: self.engine._decoded(rows))
        with self._profiled() as profiled:
            self.engine._decoded(rows)
            self._synchronize()
        busy = sum(_device_us(event) for event in profiled.key_averages()) / 1e6
        return f"{1e3 * (wall - busy):.2f} ms of {1e3 * wall:.2f} ms"

    def profile_texts(self) -> Iterator[str]:
        """The shares of attention, products and the rest in a decoding and a prefill step, and its
        ten longest kernels.
        """
        rows = self.alive(ALIVE[-1])
        steps = {"decoding": lambda: self.engine._decoded(rows), "prefill": self.prefill_step()}
        for name, step in steps.items():
            with exact_arithmetic(), self._profiled() as profiled:
                step()
                self._synchronize()
            events = sorted(profiled.key_averages(), key=_device_us, reverse=True)
            total = sum(map(_device_us, events)) or 1.0
            kinds: Counter[str] = Counter()
            for event in events:
                kinds[_kind(event.key)] += _device_us(event) / total
            shares = ", ".join(f"{kind} {kinds[kind]:.0%}" for kind in (*_KERNELS, "elementwise"))
            longest = ", ".join(
                f"{event.key[:60]} {_device_us(event) / total:.0%}" for event in events[:10]
            )
            yield f"{name}: {shares}; {longest}"

    def seconds(self, step: Callable[[], object]) -> float:
        """The median duration of a step, after one that warms up."""
        with exact_arithmetic(), torch.inference_mode():
            step()
            return median(self._timed(step) for _ in range(REPEATS if self._on_gpu else 2))

    def _timed(self, step: Callable[[], object]) -> float:
        self._synchronize()
        began = time.perf_counter()
        step()
        return self._elapsed(began)

    def _elapsed(self, began: float) -> float:
        self._synchronize()
        return time.perf_counter() - began

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def _synchronize(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize(self.device)

    def _free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self._on_gpu else 0

    def _profiled(self) -> profile:
        activity = ProfilerActivity.CUDA if self._on_gpu else ProfilerActivity.CPU
        return profile(activities=[activity])


def _kind(kernel: str) -> str:
    """What a kernel computes, by its name."""
    matching = (kind for kind, words in _KERNELS.items() if re.search(words, kernel.lower()))
    return next(matching, "elementwise")


def _device_us(event: Any) -> float:
    """Microseconds of a kernel: on a CPU, of an operation by itself."""
    on_device: float = getattr(event, "self_device_time_total", 0.0)
    return on_device or float(event.self_cpu_time_total)


def differing_positions(
    device: torch.device, dtype: torch.dtype, shape: tuple[int, int]
) -> list[int]:
    """Positions of a 4,096-row matrix at which a row has other bits in a product than at the first.

    Args:
        device: Where it is computed.
        dtype: Of the numbers.
        shape: Of the weight, (outputs, inputs).
    """
    random = torch.Generator(device).manual_seed(5)
    weight, rows, row = (
        torch.randn(size, generator=random, device=device, dtype=dtype)
        for size in (shape, (4096, shape[1]), (1, shape[1]))
    )
    results = []
    with exact_arithmetic():
        for position in (0, 63, 64, 2047, 4095):
            matrix = rows.clone()
            matrix[position] = row[0]
            product = torch.nn.functional.linear(matrix, weight)[position]
            results.append((position, product.clone()))
    first = results[0][1]
    return [position for position, product in results if not torch.equal(product, first)]
