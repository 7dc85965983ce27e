"""Transformers' own ``generate()`` on the judge's model: slow, and the reference of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from transformers import GenerationConfig, InternVLForConditionalGeneration

from mmie_tasks.judges.mmie_score.checkpoint.config import Facts

Prompt: TypeAlias = "tuple[list[int], torch.Tensor | None]"
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


def generate(
    model: InternVLForConditionalGeneration,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    facts: Facts,
) -> list[list[int]]:
    """Decode greedily, all prompts in one batch padded on the left; only ``<|end|>`` stops.

    Args:
        model: A model that `load_model` returned, with its rotary embedding for each row.
        prompts: One or more.
        max_new_tokens: Most new tokens of a row.
        facts: The checkpoint's.

    Returns:
        The new ids of each prompt, up to and including the end token.
    """
    outputs = generate_with_logits(model, prompts, max_new_tokens=max_new_tokens, facts=facts)
    return [output.ids for output in outputs]


@torch.inference_mode()
def generate_with_logits(
    model: InternVLForConditionalGeneration,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    facts: Facts,
) -> list[Continuation]:
    """As `generate`, with the logits of every step."""
    width = max(len(ids) for ids, _ in prompts)
    padded = [[facts.pad_token_id] * (width - len(ids)) + ids for ids, _ in prompts]
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in prompts]
    tiles = [images for _, images in prompts if images is not None]
    # generate() fails on `pixel_values=None`, so the argument is left out.
    pixels = {"pixel_values": torch.cat(tiles).to(model.device)} if tiles else {}
    untyped: Any = model  # `generate` declares wider types than it returns for these arguments
    output = untyped.generate(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        generation_config=_greedy(max_new_tokens, facts),
        **pixels,
    )
    rows = zip(output.sequences[:, width:].tolist(), torch.stack(output.logits, 1), strict=True)
    return [_until_the_end(ids, logits, facts.end_token_id) for ids, logits in rows]


def _greedy(max_new_tokens: int, facts: Facts) -> GenerationConfig:
    return GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=max_new_tokens,
        do_sample=False,
        eos_token_id=facts.end_token_id,
        pad_token_id=facts.pad_token_id,
        return_dict_in_generate=True,
        output_logits=True,
    )


def _until_the_end(ids: list[int], logits: torch.Tensor, end_token_id: int) -> Continuation:
    length = ids.index(end_token_id) + 1 if end_token_id in ids else len(ids)
    return Continuation(ids=ids[:length], logits=logits[:length])
