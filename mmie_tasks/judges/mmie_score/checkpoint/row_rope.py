"""The rotary embedding for transformers' own forward pass, chosen for each row of a batch."""

from __future__ import annotations

import torch
from torch import nn
from transformers import Phi3Config

from mmie_tasks.judges.mmie_score.engine.rotary import Rotary


class RowRope(nn.Module):
    """In the place of ``Phi3RotaryEmbedding``, which lets the longest row decide for all.

    The frequencies are no buffers: a model that is cast to bf16 would round them, and one that is
    built on the meta device would have none.
    """

    def __init__(self, config: Phi3Config) -> None:
        super().__init__()
        self.config = config
        self._by_device: dict[torch.device, Rotary] = {}

    @torch.no_grad()
    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each (rows, tokens, head_dim), in the type of `x`.

        Args:
            x: Any tensor of the device and type that is wanted.
            position_ids: From 0, (rows, tokens); a row that ends above the original length has
                the long factors, as the official model does for one sample a call.
        """
        if x.device not in self._by_device:
            self._by_device[x.device] = Rotary(self.config, x.device)
        rotary = self._by_device[x.device]
        is_long = position_ids.amax(-1, keepdim=True) + 1 > rotary.long_after
        positions, flags = position_ids.flatten(), is_long.expand_as(position_ids).flatten()
        cos, sin = rotary(positions, flags, x.dtype)
        return cos.view(*position_ids.shape, -1), sin.view(*position_ids.shape, -1)
