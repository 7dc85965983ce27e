"""Attention over pages: what a step needs of it, and the plain way that runs everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

Attend: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Queries (tokens, heads, head_dim), and keys and values of one layer (pages, page_tokens,
kv_heads, head_dim), to what the queries attend to, in the shape of the queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Whose queries a step holds, in order, and which keys each sees.

    The queries of a row are its last tokens: the last of them sees all keys, the one before all
    but the last key, and so on.

    Attributes:
        starts: Of each row its first query in the flat batch, and at the end their number.
        lengths: Keys of each row, those of this step included.
        tables: Pages of each row, in order.
    """

    starts: list[int]
    lengths: list[int]
    tables: list[list[int]]


class Attention(Protocol):
    """A way to compute attention over pages."""

    @property
    def name(self) -> str:
        """What it is called in a judge's signature."""
        ...

    @property
    def page_tokens(self) -> int:
        """Tokens of a page."""
        ...

    def plan(self, rows: Rows, device: torch.device) -> Attend:
        """What every layer of a step calls."""
        ...


@dataclass(frozen=True, slots=True)
class SdpaAttention:
    """Row by row through torch's ``scaled_dot_product_attention``: any device, any dtype.

    The keys of a row whose pages do not follow each other are gathered each time, so this is for
    the CPU, for fp32, and to compare others with.
    """

    page_tokens: int = 64
    name: str = "sdpa"

    def plan(self, rows: Rows, device: torch.device) -> Attend:
        """As `Attention.plan`."""
        views = [
            _RowView(
                queries=slice(start, stop),
                pages=_pages(table[: -(-length // self.page_tokens)], device),
                length=length,
                mask=_mask(stop - start, length, device),
                causal=1 < stop - start == length,
            )
            for start, stop, length, table in zip(
                rows.starts, rows.starts[1:], rows.lengths, rows.tables, strict=False
            )
        ]

        def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return torch.cat([view.attend(queries, keys, values) for view in views])

        return attend


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowView:
    """One row: its queries, its pages, and what each query may see.

    That is everything without a mask, or, where a whole prompt asks, all up to its own place.
    """

    queries: slice
    pages: slice | torch.Tensor
    length: int
    mask: torch.Tensor | None
    causal: bool

    def attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """(tokens of this row, heads, head_dim)."""
        asked = queries[self.queries].transpose(0, 1)[None]
        seen, held = self._gathered(keys), self._gathered(values)
        gqa = keys.shape[2] != queries.shape[1]
        found = scaled_dot_product_attention(
            asked, seen, held, attn_mask=self.mask, is_causal=self.causal, enable_gqa=gqa
        )
        return found[0].transpose(0, 1)

    def _gathered(self, pages: torch.Tensor) -> torch.Tensor:
        """(1, kv_heads, length, head_dim)."""
        flat = pages[self.pages].flatten(0, 1)
        return flat[: self.length].transpose(0, 1)[None]


def _pages(table: list[int], device: torch.device) -> slice | torch.Tensor:
    """Which pages: a slice, where they follow each other, because it copies nothing."""
    if table == list(range(table[0], table[0] + len(table))):
        return slice(table[0], table[0] + len(table))
    return torch.tensor(table, device=device)


def _mask(queries: int, length: int, device: torch.device) -> torch.Tensor | None:
    """Lower right triangle, (queries, length): the last query sees every key."""
    if queries in (1, length):
        return None
    every = torch.ones(queries, length, dtype=torch.bool, device=device)
    return every.tril(length - queries)


# LongRoPE as the official model has it, one token at a time.
#
# Source: ``Phi3SuScaledRotaryEmbedding`` of InternVL's ``modeling_phi3.py``. It looks at the highest
# position of a call: above 4,096 tokens (``original_max_position_embeddings``) every token of that
# call gets the long factors, else the short ones. Keys in the cache stay as they were rotated. For
# one sample a call that means: a token of the prompt follows the prompt's length, a generated token
# its own position. Said of each token, it holds whoever else is in the batch.


class Rotary:
    """Cosine and sine of positions. All in fp32; rounded to the model's dtype at the very end.

    Args:
        config: Of the text model, with ``rope_parameters``.
        device: Where the frequencies are kept.
    """

    def __init__(self, config: PretrainedConfig, device: torch.device) -> None:
        parameters = config.rope_parameters
        self.long_after: int = parameters["original_max_position_embeddings"]
        frequencies = ROPE_INIT_FUNCTIONS["longrope"]
        self._short, self._scale = frequencies(config, device)
        self._long, _ = frequencies(config, device, seq_len=self.long_after + 1)

    def __call__(
        self, positions: torch.Tensor, is_long: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each (tokens, 1, head_dim).

        Args:
            positions: Of the tokens, from 0, (tokens,).
            is_long: Whether a token has the long factors, (tokens,).
            dtype: Of what is returned.
        """
        frequencies = torch.where(is_long[:, None], self._long, self._short)
        angles = positions.to(torch.float32)[:, None] * frequencies
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return (angles.cos() * self._scale).to(dtype), (angles.sin() * self._scale).to(dtype)


def rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Queries or keys, (tokens, heads, head_dim), turned to their positions."""
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin


def prompt_is_long(ids: Sequence[int], long_after: int) -> bool:
    """Whether the tokens of a prompt have the long factors."""
    return len(ids) > long_after


def generated_is_long(position: int, long_after: int) -> bool:
    """Whether a generated token at this position, from 0, has the long factors."""
    return position + 1 > long_after
