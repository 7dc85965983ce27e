"""Steps of decoding with a fixed number of rows, captured once in a CUDA graph and replayed.

A step of decoding is hundreds of small kernels; started one by one they take longer to start than
to compute. A graph starts them all at once. It is one for any number of rows: rows that are not
there are computed on a page that nobody reads. So the shapes of matrices never change, and what a
row becomes does not depend on how many are alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch
from loguru import logger

from mmie_tasks.judges.mmie_score.engine.attention import Attend, generated_is_long
from mmie_tasks.judges.mmie_score.engine.model import Row, TextModel
from mmie_tasks.judges.mmie_score.engine.steps import position, slot

# What a step of decoding reads, in tensors that stay where they are, as a captured step needs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The token of a row that is to be computed.

    Attributes:
        token: Its id.
        position: From 0, in its sequence.
        is_long: Whether it has the long rotary factors.
        slot: Where its key goes: page times tokens of a page plus place.
        pages: Of the row, in order; what is behind the last one needed is not looked at.
    """

    token: int
    position: int
    is_long: bool
    slot: int
    pages: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Static:
    """What a step of decoding reads, in tensors that stay where they are.

    Attributes:
        longs: Ids, positions, slots and regimes, (4, rows), int64.
        lengths: Keys that each row sees, (rows,), int32.
        table: Pages of each row, (rows, width), int32.
        page_tokens: Tokens of a page.
        scratch_page: Which page rows that are not there write to and read.
    """

    longs: torch.Tensor
    lengths: torch.Tensor
    table: torch.Tensor
    page_tokens: int
    scratch_page: int

    @classmethod
    def empty(
        cls, *, rows: int, width: int, page_tokens: int, scratch_page: int, device: torch.device
    ) -> Static:
        """For so many rows of so many pages at most; none of them is there."""
        made = cls(
            longs=torch.zeros(4, rows, dtype=torch.int64, device=device),
            lengths=torch.zeros(rows, dtype=torch.int32, device=device),
            table=torch.zeros(rows, width, dtype=torch.int32, device=device),
            page_tokens=page_tokens,
            scratch_page=scratch_page,
        )
        made.write([])
        return made

    @property
    def ids(self) -> torch.Tensor:
        """Of the tokens to be computed, (rows,)."""
        return self.longs[0]

    @property
    def positions(self) -> torch.Tensor:
        """Of these tokens, (rows,)."""
        return self.longs[1]

    @property
    def slots(self) -> torch.Tensor:
        """Where their keys go, (rows,)."""
        return self.longs[2]

    @property
    def is_long(self) -> torch.Tensor:
        """Whether they have the long rotary factors, (rows,); computed in each step."""
        return self.longs[3].bool()

    def write(self, rows: Sequence[Next]) -> None:
        """Fill in the rows of a step; the others are not there.

        Raises:
            ValueError: There are more rows, or longer ones, than there is room for.
        """
        count, width = self.table.shape
        pages = [row.position // self.page_tokens + 1 for row in rows]
        if len(rows) > count or max(pages, default=0) > width:
            raise ValueError(
                f"{len(rows)} rows of up to {max(pages)} pages, not {count} of {width}"
            )
        longs = np.zeros((4, count), dtype=np.int64)
        longs[2] = self.scratch_page * self.page_tokens
        lengths = np.ones(count, dtype=np.int32)
        table = np.full((count, width), self.scratch_page, dtype=np.int32)
        for index, (row, used) in enumerate(zip(rows, pages, strict=True)):
            longs[:, index] = row.token, row.position, row.slot, row.is_long
            lengths[index] = row.position + 1
            table[index, :used] = row.pages[:used]
        self.longs.copy_(torch.from_numpy(longs))
        self.lengths.copy_(torch.from_numpy(lengths))
        self.table.copy_(torch.from_numpy(table))


class StaticAttention(Protocol):
    """Attention that can be captured."""

    @property
    def page_tokens(self) -> int:
        """Tokens of a page."""
        ...

    def plan_static(self, static: Static) -> Attend:
        """What every layer calls in every step; what it reads stands in these tensors."""
        ...


Compute: TypeAlias = Callable[[], torch.Tensor]
Capture: TypeAlias = Callable[[Compute], Compute]
"""Records what a function does, and gives one that does it again, on the same tensors."""

_WARM_UPS = 2  # libraries choose kernels and set up on the first runs, which no graph may hold
_CLOSE = 2e-2  # of the largest logit: kernels chosen anew may round differently, not more


class DecodeGraph:
    """A step on static tensors: the first time as it is, then as a replay, if that does the same.

    Args:
        step: Computes a step from the static tensors: (rows, anything).
        static: These tensors.
        capture: How a step is captured; None: it is not.
    """

    def __init__(
        self,
        step: Callable[[Static], torch.Tensor],
        static: Static,
        *,
        capture: Capture | None,
    ) -> None:
        self.static = static
        self._step = step
        self._capture = capture
        self._replay: Compute | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed."""
        return self._replay is not None

    def run(self, rows: Sequence[Next]) -> torch.Tensor:
        """Compute a step.

        Returns:
            (rows given, anything), in memory that no other step writes to.

        Raises:
            ValueError: As `Static.write`.
        """
        self.static.write(rows)
        if self._replay is not None:
            return self._replay()[: len(rows)].clone()
        found = self._step(self.static)[: len(rows)]
        if self._capture is not None:
            self._try(self._capture, found)
        return found

    def _try(self, capture: Capture, expected: torch.Tensor) -> None:
        """Capture a step, once, and compare what its replay gives for the rows written now.

        To compute a step again is harmless: it stores the same keys at the same places.
        """
        self._capture = None
        try:
            replay = capture(lambda: self._step(self.static))
            gap = _gap(replay()[: len(expected)], expected)
        except RuntimeError as error:
            why = str(error).strip().partition("\n")[0]
            logger.warning(f"MMIE-Score decodes without a CUDA graph; capturing failed: {why}")
            return
        if gap <= _CLOSE:
            self._replay = replay
        else:
            logger.warning(
                "MMIE-Score decodes without a CUDA graph: its results differ from those of the "
                f"step it was made from, by {gap:.2g} of the largest."
            )


class StaticDecoder:
    """As `Decoder`, with a fixed number of rows: on a GPU as a CUDA graph.

    Args:
        text: The language model. The last of its pages belongs to no row.
        attention: Over its pages.
        rows: As many at once, at most.
        longest_tokens: Of a sequence, at most.
        capture: As of `DecodeGraph`.
    """

    def __init__(
        self,
        text: TextModel,
        attention: StaticAttention,
        *,
        rows: int,
        longest_tokens: int,
        capture: Capture | None,
    ) -> None:
        self._text = text
        static = Static.empty(
            rows=rows,
            width=-(-longest_tokens // attention.page_tokens),
            page_tokens=attention.page_tokens,
            scratch_page=text.keys.shape[1] - 1,
            device=text.device,
        )
        self._attend = attention.plan_static(static)
        self.graph = DecodeGraph(self._computed, static, capture=capture)

    @torch.inference_mode()
    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """As `Decoder.step`."""
        return self.graph.run([self._next(row) for row in rows])

    def _next(self, row: Row) -> Next:
        place = position(row)
        return Next(
            token=row.output[-1],
            position=place,
            is_long=generated_is_long(place, self._text.rotary.long_after),
            slot=slot(row, place, self.graph.static.page_tokens),
            pages=row.pages,
        )

    def _computed(self, static: Static) -> torch.Tensor:
        text = self._text
        embedded = text.embed(static.ids)
        placed = (static.positions, static.is_long, static.slots)
        return text.logits(text.forward(embedded, *placed, self._attend))


def cuda_capture(device: torch.device) -> Capture:
    """A way to capture what a function does on a GPU.

    Other threads may allocate memory meanwhile: only this thread's doings are looked at. The
    capture raises RuntimeError where something cannot be captured, or memory is short.
    """

    def capture(compute: Compute) -> Compute:
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
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


def _gap(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, as a share of the largest number; infinite where one is NaN."""
    if torch.equal(found, expected):
        return 0.0
    difference = (found.double() - expected.double()).abs().max()
    gap = float(difference / expected.double().abs().max())
    return gap if gap == gap else float("inf")
