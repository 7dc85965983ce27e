"""Image features: tiles of several prompts through the vision tower at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.engine.work import Work
from mmie_tasks.judges.mmie_score.pixels import normalized

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration


@dataclass(slots=True)
class _Shown:
    """Tiles of one work, and the features of the first of them."""

    tiles: NDArray[np.uint8]
    features: list[torch.Tensor] = field(default_factory=list)
    done: int = 0


class Vision:
    """The features of works, in the order in which the works were added.

    Tiles go to the device as bytes and are normalized there.

    Args:
        model: The judge's model.
        fixed: Every batch has the same number of tiles, the last one filled up with black ones:
            what a tile becomes then does not depend on how many others there are.
    """

    def __init__(self, model: InternVLForConditionalGeneration, *, fixed: bool) -> None:
        self._model = model
        self._fixed = fixed
        weight = model.lm_head.weight
        self._device, self._dtype = weight.device, weight.dtype
        self._waiting: deque[int] = deque()
        self._shown: dict[int, _Shown] = {}

    def add(self, work: Work, *, first: bool = False) -> None:
        """Let a work's tiles be looked at, before all others if `first`."""
        if work.tiles is None:
            return
        self._shown[work.key] = _Shown(work.tiles)
        if first:
            self._waiting.appendleft(work.key)
        else:
            self._waiting.append(work.key)

    def drop(self, work: Work) -> None:
        """Forget a work."""
        if self._shown.pop(work.key, None) is not None and work.key in self._waiting:
            self._waiting.remove(work.key)

    def features(self, work: Work, batch_tiles: int) -> torch.Tensor | None:
        """The features of a work that was added, (image tokens, hidden); None without images.

        Computed now, with those of the works before and after it, unless they are there already.
        Given once: then the work is forgotten.
        """
        if work.tiles is None:
            return None
        shown = self._shown[work.key]
        while shown.done < len(shown.tiles):
            self._look(batch_tiles)
        del self._shown[work.key]
        return torch.cat(shown.features)

    def _look(self, batch_tiles: int) -> None:
        """One batch. Nothing is noted before it has succeeded."""
        pieces = list(self._next(batch_tiles))
        tiles = np.concatenate([shown.tiles[start:stop] for shown, start, stop in pieces])
        features = self._through(tiles, batch_tiles)
        place = 0
        for shown, start, stop in pieces:
            own = features[place : place + stop - start]
            shown.features.append(own.flatten(0, 1))
            shown.done = stop
            place += stop - start
        while self._waiting and self._is_done(self._waiting[0]):
            self._waiting.popleft()

    def _is_done(self, key: int) -> bool:
        shown = self._shown.get(key)
        return shown is None or shown.done == len(shown.tiles)

    def _next(self, batch_tiles: int) -> Iterator[tuple[_Shown, int, int]]:
        """Stretches of tiles that have not been looked at, up to so many in all."""
        room = batch_tiles
        for key in self._waiting:
            shown = self._shown[key]
            stop = min(len(shown.tiles), shown.done + room)
            if stop > shown.done:
                yield shown, shown.done, stop
                room -= stop - shown.done
            if not room:
                return

    @torch.inference_mode()
    def _through(self, tiles: NDArray[np.uint8], batch_tiles: int) -> torch.Tensor:
        """(tiles, side, side, 3) to (tiles, tokens a tile, hidden)."""
        count = len(tiles)
        if self._fixed and count < batch_tiles:
            tiles = np.concatenate([tiles, np.zeros_like(tiles[:1]).repeat(batch_tiles - count, 0)])
        raw = torch.from_numpy(tiles)
        if self._device.type == "cuda":
            raw = raw.pin_memory()
        pixels = normalized(raw.to(self._device, non_blocking=True), self._dtype)
        found = self._model.model.get_image_features(
            pixels, vision_feature_layer=-1, vision_feature_select_strategy="default"
        )
        features: torch.Tensor = found.pooler_output
        return features[:count]
