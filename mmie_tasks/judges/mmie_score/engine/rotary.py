"""LongRoPE as the official model has it, one token at a time.

Source: ``Phi3SuScaledRotaryEmbedding`` of InternVL's ``modeling_phi3.py``. It looks at the highest
position of a call: above 4,096 tokens (``original_max_position_embeddings``) every token of that
call gets the long factors, else the short ones. Keys in the cache stay as they were rotated. For
one sample a call that means: a token of the prompt follows the prompt's length, a generated token
its own position. Said of each token, it holds whoever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


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
