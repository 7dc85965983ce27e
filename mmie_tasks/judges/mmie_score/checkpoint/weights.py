"""The weights of a checkpoint, read into transformers' own model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import InternVLForConditionalGeneration

from mmie_tasks.judges.mmie_score.checkpoint.files import Tensor, unusable
from mmie_tasks.judges.mmie_score.checkpoint.names import SCALE, Weight, native_names
from mmie_tasks.judges.mmie_score.checkpoint.native import RowRope, native_config
from mmie_tasks.judges.mmie_score.checkpoint.opening import Checkpoint


def load_model(
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    attention: str = "sdpa",
) -> InternVLForConditionalGeneration:
    """Build the model and read its weights, one at a time: nothing is held twice.

    The model is built without memory and the weights are put in, each rounded once from what is
    stored (a fine-tune's update is added in fp32 before). The rotary embedding is replaced: the
    model can be cast and moved, and chooses its factors for each row of a batch by itself.

    Args:
        checkpoint: As `open_checkpoint` found it.
        device: Where the weights go.
        dtype: Of all weights.
        attention: The kernel of transformers' own forward pass: ``sdpa`` or ``eager``.

    Raises:
        JudgeMisconfigured: A file cannot be read, or is not the one that was checked.
        torch.OutOfMemoryError: The device has no room; `Facts.weight_bytes` says for how much.
    """
    config = native_config(
        checkpoint.config, image_token_id=checkpoint.facts.image_token_id, attention=attention
    )
    with torch.device("meta"):
        model = InternVLForConditionalGeneration(config)
    state = {
        name: value.to(device=device, dtype=dtype, copy=True)
        for official, stored in _read(checkpoint)
        for name, value in _split(official, stored)
    }
    model.load_state_dict(state, strict=True, assign=True)
    text = model.model.language_model
    text.rotary_emb = RowRope(text.config)
    model.requires_grad_(False)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def _read(checkpoint: Checkpoint) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight by its official name, file by file; views of files that are then closed."""
    by_file: dict[Path, list[str]] = {}
    for name, weight in checkpoint.weights.items():
        by_file.setdefault(weight.stored.path, []).append(name)
    for path in sorted(by_file):
        for name in by_file[path]:
            yield name, _merged(checkpoint.weights[name])


def _merged(weight: Weight) -> torch.Tensor:
    stored = _tensor(weight.stored)
    if weight.down is None or weight.up is None:
        return stored
    update = _tensor(weight.up).float() @ _tensor(weight.down).float()
    return stored.float() + SCALE * update


def _split(official: str, weight: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    names = native_names(official)
    return zip(names, weight.chunk(len(names)), strict=True)


def _tensor(tensor: Tensor) -> torch.Tensor:
    try:
        with safe_open(tensor.path, framework="pt") as file:
            found: torch.Tensor = file.get_tensor(tensor.name)
    except (OSError, SafetensorError) as error:
        raise unusable(f"`{tensor.name}` cannot be read from `{tensor.path}`: {error}.") from error
    if tuple(found.shape) != tensor.shape:
        raise unusable(f"`{tensor.path}` changed while the judge was loaded.")
    return found
