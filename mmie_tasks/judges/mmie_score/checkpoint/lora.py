"""Weights as stored, put together: those of a LoRA fine-tune that was not merged get their update.

A fine-tune with the official script (``internvl_chat_finetune.py``) may be saved as it was trained:
``base_layer`` beside ``lora_A.default`` and ``lora_B.default``. The script's alpha is always twice
the rank, so that the merged weight is ``base + 2 * B @ A``, whatever the rank.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mmie_tasks.judges.mmie_score.checkpoint.complaints import WHOLE, unusable
from mmie_tasks.judges.mmie_score.checkpoint.headers import Tensor
from mmie_tasks.judges.mmie_score.checkpoint.names import is_computed, unwrapped

SCALE = 2.0

_BASE = ".base_layer."
_UPDATE = re.compile(r"(.+)\.lora_([AB])\.default\.weight")
_LAYER = re.compile(r"\.layers\.\d+\.")
_MERGED = f"take a folder in which the fine-tune is merged, or {WHOLE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One weight of the model and where it is stored.

    Attributes:
        stored: The weight, or what it was before the fine-tune.
        down: The update's ``A``, (rank, columns); None where there is no update.
        up: The update's ``B``, (rows, rank).
    """

    stored: Tensor
    down: Tensor | None = None
    up: Tensor | None = None


def weights_of(tensors: Iterable[Tensor], ranks: Mapping[str, int]) -> dict[str, Weight]:
    """The model's weights by their official names.

    Args:
        tensors: All that are stored.
        ranks: What the config says of the fine-tune, by the first part of a name
            (``language_model``, ``vision_model``); 0 where it says nothing.

    Raises:
        JudgeMisconfigured: A weight is stored twice, or an update has no base, half of itself, a
            shape that does not fit, or is missing in some layers.
    """
    stored: dict[str, Tensor] = {}
    updates: dict[str, dict[str, Tensor]] = defaultdict(dict)
    bases = set()
    for tensor in tensors:
        name = unwrapped(tensor.name)
        if is_computed(name):
            continue
        if half := _UPDATE.fullmatch(name):
            place, name = updates[f"{half[1]}.weight"], half[2]
        else:
            place = stored
            if _BASE in name:
                name = name.replace(_BASE, ".", 1)
                bases.add(name)
        if name in place:
            raise unusable(f"`{tensor.name}` is stored a second time, as `{place[name].name}`.")
        place[name] = tensor
    _check_pairs(stored, bases, updates)
    _check_layers(stored, updates)
    return {name: _weight(name, stored[name], updates.get(name, {}), ranks) for name in stored}


def _check_pairs(
    stored: Mapping[str, Tensor], bases: set[str], updates: Mapping[str, Mapping[str, Tensor]]
) -> None:
    for name in sorted({name for name in bases if name.endswith(".weight")} | set(updates)):
        there = set(updates.get(name, {}))
        if name in bases and there == {"A", "B"}:
            continue
        parts = {"base_layer": name in bases, "lora_A": "A" in there, "lora_B": "B" in there}
        missing = ", ".join(f"`{part}`" for part, is_there in parts.items() if not is_there)
        merged = ", and a merged weight is there too" if name in set(stored) - bases else ""
        raise unusable(
            f"`{name}` is the half of a LoRA fine-tune: {missing} is missing{merged}.", _MERGED
        )


def _check_layers(stored: Mapping[str, Tensor], updates: Mapping[str, object]) -> None:
    """A kind of weight is updated in all layers or in none."""
    kinds = {_LAYER.sub(".layers.N.", name) for name in updates}
    for name in stored:
        if name not in updates and _LAYER.sub(".layers.N.", name) in kinds:
            raise unusable(
                f"`{name}` is merged, and other layers are not: a fine-tune that was merged in "
                "part.",
                _MERGED,
            )


def _weight(
    name: str, stored: Tensor, update: Mapping[str, Tensor], ranks: Mapping[str, int]
) -> Weight:
    if not update:
        return Weight(stored=stored)
    down, up = update["A"], update["B"]
    rank, told = down.shape[0] if down.shape else 0, ranks.get(name.partition(".")[0], 0)
    fits = len(stored.shape) == 2 and (down.shape, up.shape) == (
        (rank, stored.shape[1]),
        (stored.shape[0], rank),
    )
    if not fits or rank == 0 or told not in (0, rank):
        expected = f", and the config says rank {told}" if told else ""
        raise unusable(
            f"The fine-tune of `{name}` does not fit: the weight is {list(stored.shape)}, its "
            f"update {list(up.shape)} by {list(down.shape)}{expected}.",
            _MERGED,
        )
    return Weight(stored=stored, down=down, up=up)
