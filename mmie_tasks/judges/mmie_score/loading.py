"""Loads the judge's weights into transformers' own model."""

from __future__ import annotations

import torch
from torch import nn
from transformers import InternVLForConditionalGeneration

from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import empty_model, merged, native_names


def load_model(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> InternVLForConditionalGeneration:
    """Build the model and load its weights one at a time, so that none is in memory twice.

    The model is built without memory, and each weight is rounded once. It has no rotary embedding:
    that of transformers is right for one row at a time only. Raises like `merged`.

    Raises:
        torch.OutOfMemoryError: The device has less memory than `Checkpoint.weight_bytes`.
    """
    model = empty_model(checkpoint.config, image_token_id=checkpoint.image_token_id)
    names, state = native_names(model), {}
    for official, weight in sorted(checkpoint.weights.items(), key=lambda named: named[1][0].path):
        parts = merged(weight).chunk(len(names[official]))
        for native, part in zip(names[official], parts, strict=True):
            state[native] = part.to(device=device, dtype=dtype, copy=True)
    model.load_state_dict(state, strict=True, assign=True)
    model.model.language_model.rotary_emb = nn.Identity()
    model.requires_grad_(False)
    model.eval()  # type: ignore[no-untyped-call]
    return model
