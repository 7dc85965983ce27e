"""Image features: tiles of several prompts through the vision tower at once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.engine.schedule import Prompt

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration


_MEAN = (0.485, 0.456, 0.406)  # of ImageNet: red, green, blue
_DEVIATION = (0.229, 0.224, 0.225)


def normalized(tiles: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Tiles as the vision tower takes them, on the device they are on.

    Steps and order are those of torchvision's ``ToTensor`` and ``Normalize`` in 32 bits, as in
    ``load_image`` of ``main.py``; the result is rounded to `dtype` at the end.

    Args:
        tiles: 8-bit, (tiles, side, side, 3).
        dtype: Of the result.

    Returns:
        (tiles, 3, side, side); about -2.1 to 2.7.
    """
    pixels = tiles.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    mean, deviation = (
        torch.tensor(channels, dtype=torch.float32, device=tiles.device).view(1, 3, 1, 1)
        for channels in (_MEAN, _DEVIATION)
    )
    return pixels.div_(255).sub_(mean).div_(deviation).to(dtype)


@dataclass(slots=True)
class _PromptTiles:
    """Tiles of a prompt, and the features of the first of them."""

    tiles: NDArray[np.uint8]
    features: list[torch.Tensor] = field(default_factory=list)
    computed: int = 0


class Vision:
    """Image features of prompts, in the order in which the prompts were added.

    Tiles go to the device as bytes and are normalized there.

    Args:
        model: The judge's model.
        fixed: Every batch has the same number of tiles, the last one padded with black tiles: a
            tile's features then do not depend on the number of other tiles.
    """

    def __init__(self, model: InternVLForConditionalGeneration, *, fixed: bool) -> None:
        self._model = model
        self._fixed = fixed
        weight = model.lm_head.weight
        self._device, self._dtype = weight.device, weight.dtype
        self._prompts: OrderedDict[int, _PromptTiles] = OrderedDict()

    def add(self, prompt: Prompt, *, first: bool = False) -> None:
        """Add a prompt's tiles to the queue, in front of all others if `first`."""
        if prompt.tiles is not None:
            self._prompts[prompt.key] = _PromptTiles(prompt.tiles)
            self._prompts.move_to_end(prompt.key, last=not first)

    def drop(self, prompt: Prompt) -> None:
        """Remove a prompt."""
        self._prompts.pop(prompt.key, None)

    def features(self, prompt: Prompt, batch_tiles: int) -> torch.Tensor | None:
        """The features of an added prompt, (image tokens, hidden); None without images.

        They are computed now, with those of the prompts in the queue, unless an earlier call has
        computed them. The prompt is then removed.
        """
        if prompt.tiles is None:
            return None
        own = self._prompts[prompt.key]
        while own.computed < len(own.tiles):
            self._compute_batch(batch_tiles)
        del self._prompts[prompt.key]
        return torch.cat(own.features)

    def _compute_batch(self, batch_tiles: int) -> None:
        """Compute one batch; nothing is recorded if it raises."""
        stretches, left = [], batch_tiles
        for pending in self._prompts.values():
            stop = min(len(pending.tiles), pending.computed + left)
            if stop > pending.computed:
                stretches.append((pending, pending.computed, stop))
                left -= stop - pending.computed
        tiles = np.concatenate([pending.tiles[start:stop] for pending, start, stop in stretches])
        features = self._forward(tiles, batch_tiles)
        sizes = [stop - start for _, start, stop in stretches]
        for (pending, _, stop), own in zip(stretches, torch.split(features, sizes), strict=True):
            pending.features.append(own.flatten(0, 1))
            pending.computed = stop

    @torch.inference_mode()
    def _forward(self, tiles: NDArray[np.uint8], batch_tiles: int) -> torch.Tensor:
        """(tiles, side, side, 3) to (tiles, tokens per tile, hidden)."""
        count = len(tiles)
        padding = batch_tiles - count if self._fixed else 0
        on_host = torch.from_numpy(np.pad(tiles, ((0, padding), (0, 0), (0, 0), (0, 0))))
        if self._device.type == "cuda":
            on_host = on_host.pin_memory()
        pixels = normalized(on_host.to(self._device, non_blocking=True), self._dtype)
        output = self._model.model.get_image_features(
            pixels, vision_feature_layer=-1, vision_feature_select_strategy="default"
        )
        features: torch.Tensor = output.pooler_output
        return features[:count]
