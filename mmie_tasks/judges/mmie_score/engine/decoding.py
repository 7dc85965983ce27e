"""Decoding steps on GPUs: the next token of every row whose prompt is complete.

`StaticDecoder` computes every step on the same tensors, so that it can be captured once in a CUDA
graph and replayed. A step is hundreds of small kernels, which take longer to launch one by one than
to compute; a graph launches all of them at once. It computes the same number of rows in every step,
absent ones on a page that belongs to no row. The shapes of matrices then never change, so a row
does not depend on how many rows are alive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import torch
from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention
from mmie_tasks.judges.mmie_score.engine.model import TextModel, token_columns
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk, LiveRow

Compute: TypeAlias = Callable[[], torch.Tensor]
Capture: TypeAlias = Callable[[Compute], Compute]
"""Records a function and returns one that repeats it on the same tensors."""

_WARM_UP_RUNS = 2  # libraries choose kernels and set up on the first runs, outside the graph


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


class StaticDecoder:
    """Computes a fixed number of rows, on a GPU as a CUDA graph.

    The first step is computed as it is, captured, and replayed if that gives the same; from then on
    steps are replayed. Its inputs are in tensors at fixed addresses.

    Args:
        text: The language model. Absent rows read and write its last page, which belongs to no row.
        max_tokens: Of the longest row.
        capture: Captures a step; None never captures.

    Attributes:
        longs: See `token_columns`, (4, rows), int64.
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
        attend = attention.plan_decoding(self.lengths, self.table)

        def compute() -> torch.Tensor:
            ids, positions, slots, is_long = self.longs
            hidden = text.forward(text.embed(ids), positions, is_long.bool(), slots, attend)
            return text.logits(hidden)

        self.compute: Compute = compute
        self._capture = capture
        self._replay: Compute | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed."""
        return self._replay is not None

    def write(self, chunks: Sequence[Chunk]) -> None:
        """Write the last tokens of some rows; the others are absent. ValueError if the tensors do
        not hold them.
        """
        count, width = self.table.shape
        longs = np.zeros((4, count), dtype=np.int64)
        longs[2] = self._scratch_slot
        lengths = np.ones(count, dtype=np.int32)
        table = np.full((count, width), self._scratch_page, dtype=np.int32)
        longs[:, : len(chunks)] = token_columns(chunks, self._page_tokens, self._long_after)
        lengths[: len(chunks)] = [chunk.stop for chunk in chunks]
        for index, chunk in enumerate(chunks):
            used = chunk.row.pages[: -(-chunk.stop // self._page_tokens)]
            table[index, : len(used)] = used
        self.longs.copy_(torch.from_numpy(longs))
        self.lengths.copy_(torch.from_numpy(lengths))
        self.table.copy_(torch.from_numpy(table))

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk]) -> torch.Tensor:
        """Logits after the last tokens of some rows, (rows, vocabulary); no other step writes to
        the memory of the result.
        """
        self.write(chunks)
        if self._replay is None:
            output = self.compute()[: len(chunks)]
            if self._capture is not None:
                self._try_capture(self._capture, output)
            if self._replay is None:
                return output
        return self._replay()[: len(chunks)].clone()

    def _try_capture(self, capture: Capture, expected: torch.Tensor) -> None:
        """Capture a step, once, and compare its replay on the current inputs.

        Computing the step again is harmless: it stores the same keys in the same slots.
        """
        self._capture = None
        try:
            replay = capture(self.compute)
            is_equal = torch.equal(replay()[: len(expected)], expected)
            problem = "" if is_equal else "its results are not those of the captured step"
        except RuntimeError as error:
            problem = f"capturing failed: {first_line(error)}"
        if problem:
            logger.warning(
                "MMIE-Score decodes without a CUDA graph, which is slower and changes no reply; "
                f"{problem}"
            )
        else:
            self._replay = replay


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
