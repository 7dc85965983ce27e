"""Transformers' own ``generate()`` on the judge's model: slow, and what the engine must equal."""

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
class Generated:
    """What the model went on with.

    Attributes:
        ids: Up to and with the end token, or as many as were allowed.
        logits: Of each step, (steps, vocabulary), in the model's dtype.
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
        model: As `load_model` gives it, with its rotary embedding for each row.
        prompts: One or more.
        max_new_tokens: After which a row is cut.
        facts: Of the checkpoint.

    Returns:
        For each prompt the new ids, up to and with the end token.
    """
    found = generate_with_logits(model, prompts, max_new_tokens=max_new_tokens, facts=facts)
    return [one.ids for one in found]


@torch.inference_mode()
def generate_with_logits(
    model: InternVLForConditionalGeneration,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    facts: Facts,
) -> list[Generated]:
    """As `generate`, and what the model thought of each token, for tests."""
    width = max(len(ids) for ids, _ in prompts)
    padded = [[facts.pad_token_id] * (width - len(ids)) + ids for ids, _ in prompts]
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in prompts]
    tiles = [one for _, one in prompts if one is not None]
    # An argument that is None is not the same as none: generate() stumbles over it.
    pictures = {"pixel_values": torch.cat(tiles).to(model.device)} if tiles else {}
    untyped: Any = model  # the types of `generate` are wider than what comes of these arguments
    output = untyped.generate(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        generation_config=_greedy(max_new_tokens, facts),
        **pictures,
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


def _until_the_end(ids: list[int], logits: torch.Tensor, end_token_id: int) -> Generated:
    length = ids.index(end_token_id) + 1 if end_token_id in ids else len(ids)
    return Generated(ids=ids[:length], logits=logits[:length])
