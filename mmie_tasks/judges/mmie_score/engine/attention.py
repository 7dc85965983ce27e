"""Attention over pages, with an implementation for any device, and the rotary positions.

Rotary positions follow ``Phi3SuScaledRotaryEmbedding`` of InternVL's ``modeling_phi3.py``, one token at a time. The
official code looks at the highest position of a call: above 4,096 tokens (``original_max_position_embeddings``) every
token of that call gets the long factors, else the short ones, and keys in the cache stay as they were rotated. For one
sample a call that means: a prompt token follows the length of the prompt, a generated token its own position. Applied
to each token, the rule holds whatever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Attend: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes queries (tokens, heads, head_dim), and keys and values of one layer (pages, page_tokens,
kv_heads, head_dim); returns the attention output in the shape of the queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLayout:
    """The rows of a step: where their queries are, and which keys these see.

    The queries of a row are its last tokens: the last query sees all keys of the row, the one
    before all but the last key, and so on.

    Attributes:
        starts: Index of each row's first query in the flat batch, and at the end the number of queries.
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
        """As it stands in the judge's signature."""
        ...

    @property
    def page_tokens(self) -> int:
        """Tokens of a page."""
        ...

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """The function that every layer of a step calls."""
        ...


@dataclass(frozen=True, slots=True)
class SdpaAttention:
    """Row by row through torch's ``scaled_dot_product_attention``: any device, any dtype.

    The keys of a row are gathered in every layer unless its pages are consecutive, so this is for
    CPUs, for fp32, and as the reference for other kernels.
    """

    page_tokens: int = 64
    name: str = "sdpa"

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """See `Attention.plan`."""
        rows: list[tuple[int, slice | torch.Tensor, torch.Tensor | None]] = []
        counts = [stop - start for start, stop in pairwise(layout.starts)]
        for count, length, table in zip(counts, layout.lengths, layout.tables, strict=True):
            pages = table[: -(-length // self.page_tokens)]
            stretch = range(pages[0], pages[0] + len(pages))
            is_stretch = pages == list(stretch)  # a slice copies nothing
            index = slice(stretch.start, stretch.stop) if is_stretch else torch.tensor(pages, device=device)
            mask = None
            if count not in (1, length):  # the last query sees every key
                mask = torch.ones(count, length, dtype=torch.bool, device=device).tril(length - count)
            rows.append((length, index, mask))

        def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            outputs = []
            for own, (length, index, mask) in zip(torch.split(queries, counts), rows, strict=True):
                own_keys, own_values = (
                    states[index].flatten(0, 1)[:length].transpose(0, 1)[None] for states in (keys, values)
                )
                output = scaled_dot_product_attention(
                    own.transpose(0, 1)[None],
                    own_keys,
                    own_values,
                    attn_mask=mask,
                    is_causal=1 < len(own) == length,
                    enable_gqa=keys.shape[2] != queries.shape[1],
                )
                outputs.append(output[0].transpose(0, 1))
            return torch.cat(outputs)

        return attend


class Rotary:
    """Cosine and sine of positions, computed in fp32 and rounded to the model's dtype at the end.

    Args:
        config: Of the text model, with ``rope_parameters``.
        device: Device of the frequencies.
    """

    def __init__(self, config: PretrainedConfig, device: torch.device) -> None:
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        parameters = config.rope_parameters
        self.long_after: int = parameters["original_max_position_embeddings"]
        frequencies = ROPE_INIT_FUNCTIONS["longrope"]
        self._short, self._scale = frequencies(config, device)
        self._long, _ = frequencies(config, device, seq_len=self.long_after + 1)

    def __call__(
        self, positions: torch.Tensor, is_long: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, both (tokens, 1, head_dim).

        Args:
            positions: Of the tokens, from 0, (tokens,).
            is_long: Whether a token has the long factors, (tokens,).
            dtype: Of the result.
        """
        angles = positions.to(torch.float32)[:, None] * torch.where(is_long[:, None], self._long, self._short)
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return (angles.cos() * self._scale).to(dtype), (angles.sin() * self._scale).to(dtype)


def rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Queries or keys, (tokens, heads, head_dim), rotated to their positions."""
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin


def takes_long_factors(tokens: int, long_after: int) -> bool:
    """Whether all of a prompt of so many tokens, or the last generated one, has long factors."""
    return tokens > long_after
