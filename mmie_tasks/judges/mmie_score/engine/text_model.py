"""The language model of the judge on one flat batch of tokens, whose keys lie in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mmie_tasks.judges.mmie_score.engine.attention import Attend
from mmie_tasks.judges.mmie_score.engine.rotary import Rotary, rotated

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration


class TextModel:
    """Phi-3 layers as transformers loads them, with attention and cache of our own.

    Args:
        model: The judge's model; its parameters are used where they are.
        pages: Pages of the cache, the scratch page included.
        page_tokens: Tokens of a page.

    Attributes:
        keys: (layers, pages, page_tokens, kv_heads, head_dim), rotated when they are stored.
        values: In the same shape.
    """

    def __init__(
        self, model: InternVLForConditionalGeneration, *, pages: int, page_tokens: int
    ) -> None:
        self._text, self._head = model.model.language_model, model.lm_head
        config = self._text.config
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.hidden_size // config.num_attention_heads
        weight = self._head.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.rotary = Rotary(config, self.device)
        layers = config.num_hidden_layers
        shape = (layers, pages, page_tokens, self._kv_heads, self._head_dim)
        self.keys = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.values = torch.zeros_like(self.keys)

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
        """Through all layers; the keys and values of the tokens are stored.

        Args:
            embeddings: (tokens, hidden).
            positions: In each token's own sequence, from 0, (tokens,).
            is_long: Whether a token has the long rotary factors, (tokens,).
            slots: Where a token's keys go: page times page_tokens plus place, (tokens,).
            attend: Sees what is stored, this step's keys included.

        Returns:
            (tokens, hidden), before the last norm.
        """
        hidden = embeddings
        cos, sin = self.rotary(positions, is_long, hidden.dtype)
        sizes = [count * self._head_dim for count in (self._heads, *[self._kv_heads] * 2)]
        for layer, keys, values in zip(self._text.layers, self.keys, self.values, strict=True):
            fused = layer.self_attn.qkv_proj(layer.input_layernorm(hidden))
            query, key, value = (
                each.unflatten(-1, (-1, self._head_dim)) for each in fused.split(sizes, dim=-1)
            )
            keys.flatten(0, 1).index_copy_(0, slots, rotated(key, cos, sin))
            values.flatten(0, 1).index_copy_(0, slots, value)
            seen = attend(rotated(query, cos, sin), keys, values)
            hidden = hidden + layer.self_attn.o_proj(seen.flatten(1))
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(rows, hidden) to (rows, vocabulary), in the model's dtype, where ties are made."""
        found: torch.Tensor = self._head(self._text.norm(hidden))
        return found
