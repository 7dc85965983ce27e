"""What a step of decoding reads, in tensors that stay where they are, as a captured step needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from mmie_tasks.judges.mmie_score.engine.attention import Attend


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
