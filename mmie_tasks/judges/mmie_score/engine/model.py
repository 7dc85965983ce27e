"""The language model of the judge on one flat batch of tokens, whose keys lie in pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.base import JudgeError
from mmie_tasks.judges.mmie_score.engine.attention import Attend, Rotary, rotated
from mmie_tasks.judges.mmie_score.pixels import normalized

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration


class TextModel:
    """Phi-3 layers as transformers loads them, with attention and cache of our own.

    Args:
        model: The judge's model; its parameters are used where they are.
        pages: Pages of the cache, the scratch page included.
        page_tokens: Tokens of a page.

    Attributes:
        keys: (layers, pages, page_tokens, kv_heads, head_dim), rotated when they are stored.
        values: In the same shape.
    """

    def __init__(
        self, model: InternVLForConditionalGeneration, *, pages: int, page_tokens: int
    ) -> None:
        self._text, self._head = model.model.language_model, model.lm_head
        config = self._text.config
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.hidden_size // config.num_attention_heads
        weight = self._head.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.rotary = Rotary(config, self.device)
        layers = config.num_hidden_layers
        shape = (layers, pages, page_tokens, self._kv_heads, self._head_dim)
        self.keys = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.values = torch.zeros_like(self.keys)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) to (tokens, hidden)."""
        embedded: torch.Tensor = self._text.embed_tokens(ids)
        return embedded

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        is_long: torch.Tensor,
        slots: torch.Tensor,
        attend: Attend,
    ) -> torch.Tensor:
        """Through all layers; the keys and values of the tokens are stored.

        Args:
            embeddings: (tokens, hidden).
            positions: In each token's own sequence, from 0, (tokens,).
            is_long: Whether a token has the long rotary factors, (tokens,).
            slots: Where a token's keys go: page times page_tokens plus place, (tokens,).
            attend: Sees what is stored, this step's keys included.

        Returns:
            (tokens, hidden), before the last norm.
        """
        hidden = embeddings
        cos, sin = self.rotary(positions, is_long, hidden.dtype)
        sizes = [count * self._head_dim for count in (self._heads, *[self._kv_heads] * 2)]
        for layer, keys, values in zip(self._text.layers, self.keys, self.values, strict=True):
            fused = layer.self_attn.qkv_proj(layer.input_layernorm(hidden))
            query, key, value = (
                each.unflatten(-1, (-1, self._head_dim)) for each in fused.split(sizes, dim=-1)
            )
            keys.flatten(0, 1).index_copy_(0, slots, rotated(key, cos, sin))
            values.flatten(0, 1).index_copy_(0, slots, value)
            seen = attend(rotated(query, cos, sin), keys, values)
            hidden = hidden + layer.self_attn.o_proj(seen.flatten(1))
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(rows, hidden) to (rows, vocabulary), in the model's dtype, where ties are made."""
        found: torch.Tensor = self._head(self._text.norm(hidden))
        return found


# What goes into the engine, what is alive in it, and what comes out.


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One prompt.

    Attributes:
        key: Whose it is; comes back with what came of it.
        ids: The prompt, one ``<IMG_CONTEXT>`` for each image feature. Never empty.
        tiles: Its images, cut, uint8 of shape (tiles, side, side, 3); None without images.
        max_new_tokens: How many tokens may be generated, at least 1.
    """

    key: int
    ids: list[int]
    tiles: NDArray[np.uint8] | None = None
    max_new_tokens: int = 1024

    @property
    def most_tokens(self) -> int:
        """Keys that are stored for it at most: the last token generated needs none."""
        return len(self.ids) + self.max_new_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What was generated: tokens up to and with the end token, where there is one.

    Attributes:
        key: Of the work.
        output: Ids of the tokens.
        finish: ``length`` where generation ran into its limit.
        prompt_tokens: Of the prompt, those of images included.
    """

    key: int
    output: list[int]
    finish: Literal["stop", "length"]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why a work has no output."""

    key: int
    error: JudgeError


Result: TypeAlias = Finished | Failed


class Feed(Protocol):
    """Hands over prepared work, one after another."""

    def get(self, *, wait: bool) -> Work | Failed | None:
        """The next, or None: nothing is ready now, or, having waited, nothing is left."""
        ...


@dataclass(slots=True, kw_only=True)
class Row:
    """A sequence that is being computed.

    Attributes:
        work: What it is of.
        pages: Where its keys and values lie, in order; enough for all it may become.
        features: Of its images, (image tokens, hidden); None without, and once they are used.
        stored: Tokens of the prompt whose keys are stored.
        output: Tokens generated so far.
    """

    work: Work
    pages: list[int]
    features: torch.Tensor | None = None
    stored: int = 0
    output: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Tokens of the prompt that are still to be stored."""
        return len(self.work.ids) - self.stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of a prompt, to be computed in one step.

    Attributes:
        row: Whose.
        start: Its first token in the prompt.
        stop: The token after its last.
    """

    row: Row
    start: int
    stop: int

    @property
    def ends_prompt(self) -> bool:
        """Whether the first token can be generated after it."""
        return self.stop == len(self.row.work.ids)


Watch: TypeAlias = Callable[[int, int, torch.Tensor], None]
"""Is told a work's key, how many tokens it had before, and the logits (vocabulary,) of the next."""


# Image features: tiles of several prompts through the vision tower at once.


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
