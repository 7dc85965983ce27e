"""Decoding steps: the next token of every row whose prompt is complete.

`PlainDecoder` computes as many tokens as there are rows. `StaticDecoder`, for GPUs, always computes
the same number of rows, so that the step can be captured once in a CUDA graph and replayed. A step
is hundreds of small kernels, which take longer to launch one by one than to compute; a graph
launches all of them at once. Absent rows are computed on a page that belongs to no row. The shapes
of matrices never change, so a row does not depend on how many rows are alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import torch
from loguru import logger

from mmie_tasks.judges.mmie_score.engine.attention import (
    Attention,
    BatchLayout,
    generated_is_long,
)
from mmie_tasks.judges.mmie_score.engine.schedule import Row
from mmie_tasks.judges.mmie_score.engine.text_model import TextModel

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.engine.flash import FlashAttention

Compute: TypeAlias = Callable[[], torch.Tensor]
Capture: TypeAlias = Callable[[Compute], Compute]
"""Records a function and returns one that repeats it on the same tensors."""

_WARM_UP_RUNS = 2  # libraries choose kernels and set up on the first runs, outside the graph
_MAX_GAP = 2e-2  # of the largest logit: newly chosen kernels may round differently, not more


class Decoder(Protocol):
    """A way to compute a decoding step."""

    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """Logits (rows, vocabulary) behind the last token of each row."""
        ...


def position(row: Row) -> int:
    """Position of the row's last token, which the step computes."""
    return len(row.prompt.ids) + len(row.output) - 1


def slot(row: Row, position: int, page_tokens: int) -> int:
    """Where the keys of the row's token at a position are stored."""
    return row.pages[position // page_tokens] * page_tokens + position % page_tokens


class PlainDecoder:
    """Computes as many tokens as there are rows.

    Args:
        text: The language model.
        attention: Over its pages.
    """

    def __init__(self, text: TextModel, attention: Attention) -> None:
        self._text = text
        self._attention = attention

    @torch.inference_mode()
    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """See `Decoder.step`."""
        text, page_tokens = self._text, self._attention.page_tokens
        positions = [position(row) for row in rows]
        layout = BatchLayout(
            starts=list(range(len(rows) + 1)),
            lengths=[last + 1 for last in positions],
            tables=[row.pages for row in rows],
        )
        is_long = [generated_is_long(last, text.rotary.long_after) for last in positions]
        slots = [slot(row, position(row), page_tokens) for row in rows]
        hidden = text.forward(
            text.embed(torch.tensor([row.output[-1] for row in rows], device=text.device)),
            torch.tensor(positions, device=text.device),
            torch.tensor(is_long, device=text.device),
            torch.tensor(slots, device=text.device),
            self._attention.plan(layout, text.device),
        )
        return text.logits(hidden)


class DecodeInputs:
    """The inputs of a decoding step, in tensors at fixed addresses; at first all rows are absent.

    Args:
        rows: The most rows.
        width: The most pages of a row.
        page_tokens: Tokens of a page.
        scratch_page: The page that absent rows read and write.
        long_after: Tokens above which a generated token has the long rotary factors.
        device: Device of the tensors.

    Attributes:
        longs: Token ids, positions, slots, and whether tokens have the long rotary factors,
            (4, rows), int64.
        lengths: Keys that each row sees, (rows,), int32.
        table: Pages of each row, (rows, width), int32.
    """

    def __init__(
        self,
        *,
        rows: int,
        width: int,
        page_tokens: int,
        scratch_page: int,
        long_after: int,
        device: torch.device,
    ) -> None:
        self.longs = torch.zeros(4, rows, dtype=torch.int64, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.int32, device=device)
        self.table = torch.zeros(rows, width, dtype=torch.int32, device=device)
        self._page_tokens = page_tokens
        self._scratch_page = scratch_page
        self._long_after = long_after
        self.write([])

    def write(self, rows: Sequence[Row]) -> None:
        """Write the last tokens of some rows; the other rows are absent.

        Raises:
            ValueError: More rows, or longer rows, than the tensors hold.
        """
        count, width = self.table.shape
        positions = [position(row) for row in rows]
        pages = [last // self._page_tokens + 1 for last in positions]
        if len(rows) > count or max(pages, default=0) > width:
            raise ValueError(
                f"{len(rows)} rows of up to {max(pages)} pages, not {count} of {width}"
            )
        longs = np.zeros((4, count), dtype=np.int64)
        longs[2] = self._scratch_page * self._page_tokens
        lengths = np.ones(count, dtype=np.int32)
        table = np.full((count, width), self._scratch_page, dtype=np.int32)
        for index, (row, last, used) in enumerate(zip(rows, positions, pages, strict=True)):
            is_long = generated_is_long(last, self._long_after)
            longs[:, index] = row.output[-1], last, slot(row, last, self._page_tokens), is_long
            lengths[index] = last + 1
            table[index, :used] = row.pages[:used]
        self.longs.copy_(torch.from_numpy(longs))
        self.lengths.copy_(torch.from_numpy(lengths))
        self.table.copy_(torch.from_numpy(table))


class DecodeGraph:
    """A step on fixed tensors: computed as it is the first time, then replayed if that is equal.

    Args:
        step: Computes a step from the inputs: (rows, anything).
        inputs: The fixed tensors.
        capture: Captures a step; None never captures.
    """

    def __init__(
        self,
        step: Callable[[DecodeInputs], torch.Tensor],
        inputs: DecodeInputs,
        *,
        capture: Capture | None,
    ) -> None:
        self.inputs = inputs
        self._step = step
        self._capture = capture
        self._replay: Compute | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed."""
        return self._replay is not None

    def run(self, rows: Sequence[Row]) -> torch.Tensor:
        """Compute a step.

        Returns:
            (rows, anything), in memory that no other step writes to.

        Raises:
            ValueError: See `DecodeInputs.write`.
        """
        self.inputs.write(rows)
        if self._replay is not None:
            return self._replay()[: len(rows)].clone()
        output = self._step(self.inputs)[: len(rows)]
        if self._capture is not None:
            self._try_capture(self._capture, output)
        return output

    def _try_capture(self, capture: Capture, expected: torch.Tensor) -> None:
        """Capture a step, once, and compare its replay on the current inputs.

        Computing the step again is harmless: it stores the same keys in the same slots.
        """
        self._capture = None
        try:
            replay = capture(lambda: self._step(self.inputs))
            gap = _relative_gap(replay()[: len(expected)], expected)
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            logger.warning(f"MMIE-Score decodes without a CUDA graph; capturing failed: {reason}")
            return
        if gap <= _MAX_GAP:
            self._replay = replay
        else:
            logger.warning(
                "MMIE-Score decodes without a CUDA graph: its results differ from those of the "
                f"captured step, by {gap:.2g} of the largest."
            )


class StaticDecoder:
    """Computes a fixed number of rows, on a GPU as a CUDA graph.

    Args:
        text: The language model. Its last page belongs to no row.
        attention: Over its pages.
        rows: The most rows.
        max_tokens: The longest row.
        capture: See `DecodeGraph`.
    """

    def __init__(
        self,
        text: TextModel,
        attention: FlashAttention,
        *,
        rows: int,
        max_tokens: int,
        capture: Capture | None,
    ) -> None:
        self._text = text
        inputs = DecodeInputs(
            rows=rows,
            width=-(-max_tokens // attention.page_tokens),
            page_tokens=attention.page_tokens,
            scratch_page=text.keys.shape[1] - 1,
            long_after=text.rotary.long_after,
            device=text.device,
        )
        self._attend = attention.plan_decoding(inputs)
        self.graph = DecodeGraph(self._computed, inputs, capture=capture)

    @torch.inference_mode()
    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """See `Decoder.step`."""
        return self.graph.run(rows)

    def _computed(self, inputs: DecodeInputs) -> torch.Tensor:
        ids, positions, slots, is_long = inputs.longs
        text = self._text
        hidden = text.forward(text.embed(ids), positions, is_long.bool(), slots, self._attend)
        return text.logits(hidden)


def cuda_capture(device: torch.device) -> Capture:
    """Captures on a GPU.

    Other threads may allocate memory meanwhile: only this thread is captured. The capture raises
    RuntimeError if an operation cannot be captured or memory is short.
    """

    def capture(compute: Compute) -> Compute:
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP_RUNS):
                    compute()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                output = compute()

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay

    return capture


def _relative_gap(output: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference as a share of the largest number; infinite if one is NaN."""
    if torch.equal(output, expected):
        return 0.0
    difference = (output.double() - expected.double()).abs().max()
    gap = float(difference / expected.double().abs().max())
    return gap if gap == gap else float("inf")
