"""The weights of a checkpoint by official name, with a LoRA fine-tune merged.

A fine-tune with the official script (``internvl_chat_finetune.py`` of OpenGVLab/InternVL) may be
saved as it was trained: ``base_layer`` with ``lora_A.default`` and ``lora_B.default``. The script's
alpha is always twice the rank, so the merged weight is ``base + 2 * B @ A``, whatever the rank.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from safetensors import SafetensorError, safe_open

from mmie_tasks.judges.mmie_score.checkpoint.files import DOWNLOAD_HINT, Tensor, unusable

if TYPE_CHECKING:
    import torch

Weight: TypeAlias = tuple[Tensor, ...]
"""A stored weight, followed by the factors of a fine-tune's update if there is one: ``lora_A``,
(rank, columns), and ``lora_B``, (rows, rank)."""

_LORA_SCALE = 2.0
_LORA_UPDATE = re.compile(r"(.+)\.(lora_[AB])\.default\.weight")


def weights_of(tensors: Iterable[Tensor]) -> dict[str, Weight]:
    """The model's weights by official name, without the rotary frequencies of old files; raises
    `JudgeMisconfigured` if a fine-tune is incomplete.
    """
    parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for tensor in tensors:
        name = tensor.name.replace(".base_model.model.", ".", 1)  # added by a LoRA wrapper
        if name.endswith("rotary_emb.inv_freq"):
            continue
        if update := _LORA_UPDATE.fullmatch(name):
            parts[f"{update[1]}.weight"][update[2]] = tensor
        elif ".base_layer." in name:
            parts[name.replace(".base_layer.", ".", 1)]["base_layer"] = tensor
        else:
            parts[name]["merged"] = tensor
    return {name: _weight(name, stored) for name, stored in parts.items()}


def _weight(name: str, parts: Mapping[str, Tensor]) -> Weight:
    match parts:
        case {"merged": stored} if len(parts) == 1:
            return (stored,)
        case {"base_layer": stored} if name.endswith(".bias"):  # a fine-tune updates no bias
            return (stored,)
        case {"base_layer": stored, "lora_A": down, "lora_B": up} if len(parts) == 3:
            rank = down.shape[0]
            if down.shape == (rank, stored.shape[-1]) and up.shape == (stored.shape[0], rank):
                return (stored, down, up)
    raise unusable(
        f"`{name}` is part of a LoRA fine-tune that is incomplete, merged in part, or does not "
        f"fit; there is {', '.join(parts)}.",
        f"use a folder in which the fine-tune is merged, or {DOWNLOAD_HINT}",
    )


def merged(weight: Weight) -> torch.Tensor:
    """The content of a weight, with a fine-tune's update added in fp32; raises `JudgeMisconfigured`
    if a file cannot be read.
    """
    stored, *update = map(_content, weight)
    if not update:
        return stored
    down, up = update
    return stored.float() + _LORA_SCALE * (up.float() @ down.float())


def _content(tensor: Tensor) -> torch.Tensor:
    try:
        with safe_open(tensor.path, framework="pt") as file:
            content: torch.Tensor = file.get_tensor(tensor.name)
            return content
    except (OSError, SafetensorError) as error:
        raise unusable(f"`{tensor.name}` cannot be read from `{tensor.path}`: {error}.") from error
