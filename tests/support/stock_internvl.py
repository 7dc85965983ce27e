"""Transformers' own ``generate()`` on the judge's model: slow, and the reference of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from transformers import GenerationConfig, InternVLForConditionalGeneration, Phi3Config

from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.engine.model import Rotary

JudgePrompt: TypeAlias = "tuple[list[int], torch.Tensor | None]"
"""Token ids, and the tiles of all its images in order, (tiles, 3, side, side), if it has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A continuation of the model.

    Attributes:
        ids: Up to and including the end token, or `max_new_tokens` of them.
        logits: Logits of each step, (steps, vocabulary), in the model's dtype.
    """

    ids: list[int]
    logits: torch.Tensor


def load(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> InternVLForConditionalGeneration:
    """The model of a checkpoint, with the rotary embedding that its own forward pass needs."""
    model = load_model(checkpoint, device=device, dtype=dtype)
    text = model.model.language_model
    text.rotary_emb = RowRope(text.config)
    return model


def generate(
    model: InternVLForConditionalGeneration,
    prompts: Sequence[JudgePrompt],
    *,
    max_new_tokens: int,
    checkpoint: Checkpoint,
) -> list[list[int]]:
    """Decode greedily, all prompts in one batch padded on the left; only ``<|end|>`` stops.

    Args:
        model: A model that `load` returned.
        prompts: One or more.
        max_new_tokens: Most new tokens of a row.
        checkpoint: The model's.

    Returns:
        The new ids of each prompt, up to and including the end token.
    """
    outputs = generate_with_logits(
        model, prompts, max_new_tokens=max_new_tokens, checkpoint=checkpoint
    )
    return [output.ids for output in outputs]


@torch.inference_mode()
def generate_with_logits(
    model: InternVLForConditionalGeneration,
    prompts: Sequence[JudgePrompt],
    *,
    max_new_tokens: int,
    checkpoint: Checkpoint,
) -> list[Continuation]:
    """As `generate`, with the logits of every step."""
    width = max(len(ids) for ids, _ in prompts)
    padded = [[checkpoint.end_token_id] * (width - len(ids)) + ids for ids, _ in prompts]
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in prompts]
    tiles = [images for _, images in prompts if images is not None]
    # generate() fails on `pixel_values=None`, so the argument is left out.
    pixels = {"pixel_values": torch.cat(tiles).to(model.device)} if tiles else {}
    untyped: Any = model  # `generate` declares wider types than it returns for these arguments
    output = untyped.generate(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        generation_config=_greedy(max_new_tokens, checkpoint),
        **pixels,
    )
    rows = zip(output.sequences[:, width:].tolist(), torch.stack(output.logits, 1), strict=True)
    return [_until_the_end(ids, logits, checkpoint.end_token_id) for ids, logits in rows]


def _greedy(max_new_tokens: int, checkpoint: Checkpoint) -> GenerationConfig:
    return GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=max_new_tokens,
        do_sample=False,
        eos_token_id=checkpoint.end_token_id,
        pad_token_id=checkpoint.end_token_id,
        return_dict_in_generate=True,
        output_logits=True,
    )


def _until_the_end(ids: list[int], logits: torch.Tensor, end_token_id: int) -> Continuation:
    length = ids.index(end_token_id) + 1 if end_token_id in ids else len(ids)
    return Continuation(ids=ids[:length], logits=logits[:length])


class RowRope(nn.Module):
    """The rotary embedding of transformers' own forward pass, with factors for each row.

    Replaces ``Phi3RotaryEmbedding``, in which the longest row of a batch decides for all. The
    frequencies are not buffers: casting the model to bf16 would round them, and a model built on
    the meta device would have none.
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
            x: A tensor of the requested device and type.
            position_ids: From 0, (rows, tokens); a row that ends above the original length uses
                the long factors, as the official model does for one sample per call.
        """
        if x.device not in self._by_device:
            self._by_device[x.device] = Rotary(self.config, x.device)
        rotary = self._by_device[x.device]
        is_long = position_ids.amax(-1, keepdim=True) + 1 > rotary.long_after
        positions, flags = position_ids.flatten(), is_long.expand_as(position_ids).flatten()
        cos, sin = rotary(positions, flags, x.dtype)
        return cos.view(*position_ids.shape, -1), sin.view(*position_ids.shape, -1)
