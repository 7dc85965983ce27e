"""The judge's language model on one flat batch of tokens, with keys and values in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.engine.attention import (
    Attend,
    Attention,
    BatchLayout,
    Rotary,
    rotated,
    takes_long_factors,
)
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration


class TextModel:
    """Phi-3 layers as transformers loads them, with our attention and cache.

    Args:
        model: The judge's model; its parameters are used in place.
        pages: Pages of the cache, the scratch page included.
        page_tokens: Tokens of a page.

    Attributes:
        keys: (layers, pages, page_tokens, kv_heads, head_dim), rotated before they are stored.
        values: Same shape.
        scratch_slot: The first slot of the last page, which belongs to no row.
    """

    def __init__(self, model: InternVLForConditionalGeneration, *, pages: int, page_tokens: int) -> None:
        self._text, self._head = model.model.language_model, model.lm_head
        config = self._text.config
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.hidden_size // config.num_attention_heads
        weight = self._head.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.rotary = Rotary(config, self.device)
        shape = (config.num_hidden_layers, pages, page_tokens, self._kv_heads, self._head_dim)
        self.keys = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.values = torch.zeros_like(self.keys)
        self.scratch_slot = (pages - 1) * page_tokens

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) to (tokens, hidden)."""
        embedded: torch.Tensor = self._text.embed_tokens(ids)
        return embedded

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        is_long: torch.Tensor,
        slots: torch.Tensor,
        attend: Attend,
    ) -> torch.Tensor:
        """Compute all layers; keys and values of the tokens are stored.

        Args:
            embeddings: (tokens, hidden).
            positions: Of each token in its own sequence, from 0, (tokens,).
            is_long: Whether a token has the long rotary factors, (tokens,).
            slots: Where a token's keys are stored: page times page_tokens plus offset, (tokens,).
            attend: Reads the stored keys, those of this step included.

        Returns:
            (tokens, hidden), before the last norm.
        """
        hidden = embeddings
        cos, sin = self.rotary(positions, is_long, hidden.dtype)
        sizes = [count * self._head_dim for count in (self._heads, *[self._kv_heads] * 2)]
        for layer, keys, values in zip(self._text.layers, self.keys, self.values, strict=True):
            fused = layer.self_attn.qkv_proj(layer.input_layernorm(hidden))
            query, key, value = (states.unflatten(-1, (-1, self._head_dim)) for states in fused.split(sizes, dim=-1))
            keys.flatten(0, 1).index_copy_(0, slots, rotated(key, cos, sin))
            values.flatten(0, 1).index_copy_(0, slots, value)
            hidden = hidden + layer.self_attn.o_proj(attend(rotated(query, cos, sin), keys, values).flatten(1))
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(rows, hidden) to (rows, vocabulary), in the model's dtype, in which ties occur."""
        logits: torch.Tensor = self._head(self._text.norm(hidden))
        return logits


@dataclass(frozen=True, slots=True)
class Prefill:
    """Computes chunks of prompts, those of several rows in one step.

    Attributes:
        text: The language model.
        attention: Over its pages.
        image_token_id: Of ``<IMG_CONTEXT>``, which stands for an image feature.
        fixed_rows: Rows that go through the head in every step; None: as many as there are.
    """

    text: TextModel
    attention: Attention
    image_token_id: int
    fixed_rows: int | None = None

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk], fixed_tokens: int | None = None) -> torch.Tensor:
        """Compute chunks and the logits behind those that end a prompt.

        Args:
            chunks: At least one, of different rows.
            fixed_tokens: Tokens that go through every layer, padded behind the chunks; None: as many as there are.

        Returns:
            Logits (chunks that end a prompt, vocabulary).
        """
        text, device = self.text, self.text.device
        sizes = [chunk.size for chunk in chunks]
        tokens = sum(sizes)
        padding = max(0, (fixed_tokens or 0) - tokens)
        layout = BatchLayout(
            starts=np.cumsum([0, *sizes]).tolist(),
            lengths=[chunk.stop for chunk in chunks],
            tables=[chunk.row.pages for chunk in chunks],
        )
        positions, is_long, slots = self._token_columns(chunks, padding).to(device)
        hidden = text.forward(
            _pad_rows(torch.cat([self._embedded(chunk) for chunk in chunks]), padding),
            positions,
            is_long.bool(),
            slots,
            padded_attend(self.attention.plan(layout, device), tokens, padding),
        )
        ends = [stop - 1 for stop, chunk in zip(layout.starts[1:], chunks, strict=True) if chunk.ends_prompt]
        ending = hidden[torch.tensor(ends, dtype=torch.long, device=device)]
        head_padding = max(0, (self.fixed_rows or 0) - len(ends))
        return text.logits(_pad_rows(ending, head_padding))[: len(ends)]

    def _token_columns(self, chunks: Sequence[Chunk], padding: int) -> torch.Tensor:
        """Of each token its position, whether it has the long factors, and its slot; padded."""
        page_tokens = self.text.keys.shape[2]
        columns: list[NDArray[np.int64]] = []
        for chunk in chunks:
            row, positions = chunk.row, np.arange(chunk.start, chunk.stop, dtype=np.int64)
            slots = np.asarray(row.pages)[positions // page_tokens] * page_tokens
            flag = takes_long_factors(len(row.prompt.ids), self.text.rotary.long_after)
            flags = np.full(chunk.size, flag, dtype=np.int64)
            columns.append(np.stack([positions, flags, slots + positions % page_tokens]))
        columns.append(np.repeat([[0], [0], [self.text.scratch_slot]], padding, axis=1))
        return torch.from_numpy(np.concatenate(columns, axis=1))

    def _embedded(self, chunk: Chunk) -> torch.Tensor:
        """(tokens, hidden): image features for image tokens, word embeddings for the others."""
        ids = np.asarray(chunk.row.prompt.ids[: chunk.stop])
        is_image = ids == self.image_token_id
        embedded = self.text.embed(torch.from_numpy(ids[chunk.start :]).to(self.text.device))
        features = chunk.row.features
        if features is None:
            return embedded
        first, last = int(is_image[: chunk.start].sum()), int(is_image.sum())
        positions = torch.from_numpy(np.flatnonzero(is_image[chunk.start :])).to(embedded.device)
        return embedded.index_copy(0, positions, features[first:last].to(embedded.dtype))


def padded_attend(attend: Attend, tokens: int, padding: int) -> Attend:
    """Attention for the first `tokens` queries; zeros for the `padding` ones behind them."""

    def padded(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return _pad_rows(attend(queries[:tokens], keys, values), padding)

    return padded


def _pad_rows(rows: torch.Tensor, count: int) -> torch.Tensor:
    """Append rows of zeros."""
    return torch.cat([rows, rows.new_zeros(count, *rows.shape[1:])]) if count else rows
