"""Decoding steps: the next token of every row whose prompt is complete.

`PlainDecoder` is for attention that is planned anew for each step. `StaticDecoder` computes every
step on the same tensors, so that it can be captured once in a CUDA graph and replayed. A step is
hundreds of small kernels, which take longer to launch one by one than to compute; a graph launches
all of them at once. On GPUs both compute the same number of rows in every step, absent ones on a
page that belongs to no row. The shapes of matrices then never change, so a row does not depend on
how many rows are alive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from loguru import logger
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.devices import first_line
from mmie_tasks.judges.mmie_score.engine.attention import (
    Attend,
    Attention,
    BatchLayout,
    PagedAttention,
)
from mmie_tasks.judges.mmie_score.engine.model import TextModel, padded_attend
from mmie_tasks.judges.mmie_score.engine.schedule import LiveRow, takes_long_factors

Compute: TypeAlias = Callable[[], torch.Tensor]
Capture: TypeAlias = Callable[[Compute], Compute]
"""Records a function and returns one that repeats it on the same tensors."""

_WARM_UP_RUNS = 2  # libraries choose kernels and set up on the first runs, outside the graph
_MAX_GAP = 2e-2  # of the largest logit: newly chosen kernels may round differently, not more


class DigitRecorder:
    """Records the probabilities of the digits 0 to 9 where one is generated, summed over tokens
    that spell it.
    """

    def __init__(self, ids: Sequence[Sequence[int]], device: torch.device) -> None:
        self._ids = frozenset(token for spellings in ids for token in spellings)
        width = max(map(len, ids))
        columns = [[*spellings, *[0] * (width - len(spellings))] for spellings in ids]
        padding = [
            [0.0] * len(spellings) + [-math.inf] * (width - len(spellings)) for spellings in ids
        ]
        self._columns = torch.tensor(columns, dtype=torch.long, device=device)  # (10, spellings)
        self._padding = torch.tensor(padding, device=device)

    @torch.inference_mode()
    def record(self, rows: Sequence[LiveRow], logits: torch.Tensor, tokens: Sequence[int]) -> None:
        """Record log-probabilities in the rows whose next token is a digit, before the token is
        appended.

        Logits are those of the next tokens, (rows, vocabulary); they are copied to the host for
        digits only.
        """
        numbers = [number for number, token in enumerate(tokens) if token in self._ids]
        if not numbers:
            return
        of_tokens = logits[numbers].log_softmax(-1, dtype=torch.float32)
        of_digits = (of_tokens[:, self._columns] + self._padding).logsumexp(-1)
        for number, logprobs in zip(numbers, of_digits.tolist(), strict=True):
            rounded = (  # + 0.0 makes 0.0 of -0.0
                round(logprob, 4) + 0.0 if logprob > -math.inf else None for logprob in logprobs
            )
            rows[number].digits[len(rows[number].output)] = tuple(rounded)


def slot(row: LiveRow, position: int, page_tokens: int) -> int:
    """Where the keys of the row's token at a position are stored."""
    return row.pages[position // page_tokens] * page_tokens + position % page_tokens


def _last_tokens(rows: Sequence[LiveRow], page_tokens: int, long_after: int) -> NDArray[np.int64]:
    """Id, position, slot and long factors of each row's last token, (4, rows)."""
    positions = [len(row.prompt.ids) + len(row.output) - 1 for row in rows]
    columns = [
        (
            row.output[-1],
            position,
            slot(row, position, page_tokens),
            takes_long_factors(position + 1, long_after),
        )
        for row, position in zip(rows, positions, strict=True)
    ]
    tokens: NDArray[np.int64] = np.array(columns, dtype=np.int64).reshape(-1, 4).T
    return tokens


def _logits(text: TextModel, tokens: torch.Tensor, attend: Attend) -> torch.Tensor:
    """Logits behind the last tokens, (rows, vocabulary)."""
    ids, positions, slots, is_long = tokens
    return text.logits(text.forward(text.embed(ids), positions, is_long.bool(), slots, attend))


@dataclass(frozen=True, slots=True)
class PlainDecoder:
    """Computes rows one by one in attention, else together; with `fixed_rows` so many, absent ones
    included.
    """

    text: TextModel
    attention: Attention
    fixed_rows: int | None = None

    @torch.inference_mode()
    def step(self, rows: Sequence[LiveRow]) -> torch.Tensor:
        """Logits (rows, vocabulary) behind the last token of each row."""
        text, count = self.text, len(rows)
        tokens = _last_tokens(rows, self.attention.page_tokens, text.rotary.long_after)
        layout = BatchLayout(
            starts=list(range(count + 1)),
            lengths=(tokens[1] + 1).tolist(),
            tables=[row.pages for row in rows],
        )
        padding = max(0, (self.fixed_rows or 0) - count)
        absent = np.repeat([[0], [0], [text.scratch_slot], [0]], padding, axis=1)
        columns = torch.from_numpy(np.concatenate([tokens, absent], axis=1)).to(text.device)
        attend = padded_attend(self.attention.plan(layout, text.device), count, padding)
        return _logits(text, columns, attend)[:count]


class StaticDecoder:
    """Computes a fixed number of rows, on a GPU as a CUDA graph.

    The first step is computed as it is, captured, and replayed if that gives the same; from then on
    steps are replayed. Its inputs are in tensors at fixed addresses; at first all rows are absent.

    Args:
        text: The language model. Absent rows read and write its last page, which belongs to no row.
        max_tokens: Of the longest row.
        capture: Captures a step; None never captures.

    Attributes:
        longs: Token ids, positions, slots, and whether tokens have the long rotary factors, (4,
            rows), int64.
        lengths: Keys that each row sees, (rows,), int32.
        table: Pages of each row, (rows, pages of the longest row), int32.
        compute: Computes a step from them, (rows, vocabulary).
    """

    def __init__(
        self,
        text: TextModel,
        attention: PagedAttention,
        *,
        rows: int,
        max_tokens: int,
        capture: Capture | None,
    ) -> None:
        pages, self._page_tokens = text.keys.shape[1:3]
        self._scratch_page, self._scratch_slot = pages - 1, text.scratch_slot
        self._long_after = text.rotary.long_after
        width = -(-max_tokens // self._page_tokens)
        self.longs = torch.zeros(4, rows, dtype=torch.int64, device=text.device)
        self.lengths = torch.zeros(rows, dtype=torch.int32, device=text.device)
        self.table = torch.zeros(rows, width, dtype=torch.int32, device=text.device)
        self.write([])
        attend = attention.plan_decoding(self.lengths, self.table)
        self.compute: Compute = lambda: _logits(text, self.longs, attend)
        self._capture = capture
        self._replay: Compute | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed."""
        return self._replay is not None

    def write(self, rows: Sequence[LiveRow]) -> None:
        """Write the last tokens of some rows; the others are absent. ValueError if the tensors do
        not hold them.
        """
        count, width = self.table.shape
        tokens = _last_tokens(rows, self._page_tokens, self._long_after)
        longs = np.zeros((4, count), dtype=np.int64)
        longs[2] = self._scratch_slot
        lengths = np.ones(count, dtype=np.int32)
        table = np.full((count, width), self._scratch_page, dtype=np.int32)
        longs[:, : len(rows)] = tokens
        lengths[: len(rows)] += tokens[1].astype(np.int32)
        for index, (row, position) in enumerate(zip(rows, tokens[1], strict=True)):
            used = row.pages[: position // self._page_tokens + 1]
            table[index, : len(used)] = used
        self.longs.copy_(torch.from_numpy(longs))
        self.lengths.copy_(torch.from_numpy(lengths))
        self.table.copy_(torch.from_numpy(table))

    @torch.inference_mode()
    def step(self, rows: Sequence[LiveRow]) -> torch.Tensor:
        """As `PlainDecoder.step`; no other step writes to the memory of the result."""
        self.write(rows)
        if self._replay is None:
            output = self.compute()[: len(rows)]
            if self._capture is not None:
                self._try_capture(self._capture, output)
            if self._replay is None:
                return output
        return self._replay()[: len(rows)].clone()

    def _try_capture(self, capture: Capture, expected: torch.Tensor) -> None:
        """Capture a step, once, and compare its replay on the current inputs.

        Computing the step again is harmless: it stores the same keys in the same slots.
        """
        self._capture = None
        try:
            replay = capture(self.compute)
            output = replay()[: len(expected)]
            difference = (output.double() - expected.double()).abs().max()
            share = (difference / expected.double().abs().max()).nan_to_num(nan=float("inf"))
            gap = 0.0 if torch.equal(output, expected) else float(share)
        except RuntimeError as error:
            logger.warning(
                "MMIE-Score decodes without a CUDA graph, which is slower and changes no reply; "
                f"capturing failed: {first_line(error)}"
            )
            return
        if gap > _MAX_GAP:
            logger.warning(
                "MMIE-Score decodes without a CUDA graph: its results differ from those of the "
                f"captured step, by {gap:.2g} of the largest."
            )
            return
        self._replay = replay
        if gap:
            logger.warning(
                "MMIE-Score's CUDA graph gives other bits than the step it was captured from: they "
                f"differ by {gap:.2g} of the largest. Single tokens of replies may differ from "
                "those of a run with `graphs=false`."
            )


Decoder: TypeAlias = PlainDecoder | StaticDecoder


def cuda_capture(device: torch.device) -> Capture:
    """Captures on a GPU.

    Other threads may allocate memory meanwhile: only this thread is captured. The capture raises
    RuntimeError if an operation cannot be captured or memory is short; the stream is then the one
    before, and memory can be allocated as before.
    """

    def capture(compute: Compute) -> Compute:
        with torch.cuda.device(device):
            before = torch.cuda.current_stream()
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP_RUNS):
                    compute()
            torch.cuda.current_stream().wait_stream(stream)
            graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
            try:
                with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
                    output = compute()
            except RuntimeError:
                torch.cuda.set_stream(before)
                _end_allocation(stream.device_index, pool)
                raise

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay

    return capture


def _end_allocation(device_index: int, pool: object) -> None:
    """Have the allocator forget a capture that failed; torch before 2.13 leaves it open.

    Memory could neither be returned nor found again then. Where torch has ended it, or it had not
    begun, the call raises and changes nothing.
    """
    for name in ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"):
        if (end := getattr(torch._C, name, None)) is not None:
            with suppress(RuntimeError):
                end(device_index, pool)
