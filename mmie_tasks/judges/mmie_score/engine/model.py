"""The judge's model on batches: the vision tower on tiles, the language model on one flat batch of
tokens.

Rotary positions follow ``Phi3SuScaledRotaryEmbedding`` of InternVL's ``modeling_phi3.py``, one
token at a time. The official code looks at the highest position of a call: above 4,096 tokens
(``original_max_position_embeddings``) every token of that call gets the long factors, else the
short ones, and keys in the cache stay as they were rotated. For one sample a call that means: a
prompt token follows the length of the prompt, a generated token its own position. Applied to each
token, the rule holds whatever else is in the batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.engine.attention import Attend, Attention, BatchLayout
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk
from mmie_tasks.judges.mmie_score.generation import JudgePrompt

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration, PretrainedConfig

_MEAN = (0.485, 0.456, 0.406)  # of ImageNet: red, green, blue
_DEVIATION = (0.229, 0.224, 0.225)


def normalized(tiles: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Tiles as the vision tower takes them, on the device they are on.

    Steps and order are those of torchvision's ``ToTensor`` and ``Normalize`` in 32 bits, as in
    ``load_image`` of ``main.py``; the result is rounded to `dtype` at the end.

    8-bit tiles (tiles, side, side, 3) become (tiles, 3, side, side), about -2.1 to 2.7.
    """
    pixels = tiles.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    mean, deviation = (
        torch.tensor(channels, dtype=torch.float32, device=tiles.device).view(1, 3, 1, 1)
        for channels in (_MEAN, _DEVIATION)
    )
    return pixels.div_(255).sub_(mean).div_(deviation).to(dtype)


class Vision:
    """Image features of prompts.

    Tiles go to the device as bytes and are normalized there. If batches are `fixed`, the last one
    is padded with black tiles: a tile's features then do not depend on the number of other tiles.
    """

    def __init__(self, model: InternVLForConditionalGeneration, *, fixed: bool) -> None:
        self._model = model
        self._fixed = fixed
        weight = model.lm_head.weight
        self._device, self._dtype = weight.device, weight.dtype
        # Of the first tiles of prompts, by key.
        self._features: defaultdict[int, list[torch.Tensor]] = defaultdict(list)

    def features(self, prompts: Sequence[JudgePrompt], batch_tiles: int) -> torch.Tensor | None:
        """The features of the first prompt, (image tokens, hidden); None without images.

        What is left of a batch is filled with tiles of the other prompts, whose turns come next.
        """
        prompt = prompts[0]
        if prompt.tiles is None:
            return None
        while self._computed(prompt) < len(prompt.tiles):
            self._compute_batch(prompts, batch_tiles)
        return torch.cat(self._features.pop(prompt.key)).flatten(0, 1)

    def clear(self) -> None:
        """Drop the features of all prompts."""
        self._features.clear()

    def _computed(self, prompt: JudgePrompt) -> int:
        return sum(map(len, self._features[prompt.key]))

    def _compute_batch(self, prompts: Sequence[JudgePrompt], batch_tiles: int) -> None:
        """Compute one batch; nothing is recorded if it raises."""
        stretches: list[tuple[int, NDArray[np.uint8]]] = []
        left = batch_tiles
        for prompt in prompts:
            if left and prompt.tiles is not None:
                start = self._computed(prompt)
                stretches.append((prompt.key, prompt.tiles[start : start + left]))
                left -= len(stretches[-1][1])
        features = self._forward(np.concatenate([tiles for _, tiles in stretches]), batch_tiles)
        sizes = [len(tiles) for _, tiles in stretches]
        for (key, _), own in zip(stretches, torch.split(features, sizes), strict=True):
            self._features[key].append(own)

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


class Rotary:
    """Cosine and sine of positions, computed in fp32 and rounded to the model's dtype at the
    end.
    """

    def __init__(self, config: PretrainedConfig, device: torch.device) -> None:
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        parameters = config.rope_parameters
        self.long_after: int = parameters["original_max_position_embeddings"]
        frequencies = ROPE_INIT_FUNCTIONS["longrope"]
        self._short, self._scale = frequencies(config, device)
        self._long, _ = frequencies(config, device, seq_len=self.long_after + 1)

    def __call__(
        self, positions: torch.Tensor, is_long: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, both (tokens, 1, head_dim), of positions from 0 and whether they have
        the long factors.
        """
        angles = positions.to(torch.float32)[:, None] * torch.where(
            is_long[:, None], self._long, self._short
        )
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return (angles.cos() * self._scale).to(dtype), (angles.sin() * self._scale).to(dtype)


def rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Queries or keys, (tokens, heads, head_dim), rotated to their positions."""
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin


class TextModel:
    """Phi-3 layers as transformers loads them, with our attention and cache.

    Attributes:
        keys: (layers, pages, page_tokens, kv_heads, head_dim), rotated before they are stored.
        values: Same shape.
        scratch_slot: The first slot of the last page, which belongs to no row.
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
        shape = (config.num_hidden_layers, pages, page_tokens, self._kv_heads, self._head_dim)
        # A kernel reads all of a row's last page. On a CPU, sdpa reads only what was written, and
        # memory is taken as it is written.
        allocate = torch.empty if self.device.type == "cpu" else torch.zeros
        self.keys = allocate(shape, dtype=self.dtype, device=self.device)
        self.values = allocate(shape, dtype=self.dtype, device=self.device)
        self.scratch_slot = (pages - 1) * page_tokens

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
        """Compute all layers; keys and values of the tokens are stored.

        Args:
            embeddings: (tokens, hidden).
            positions: Of each token in its own sequence, from 0, (tokens,).
            is_long: Whether a token has the long rotary factors, (tokens,).
            slots: Where a token's keys are stored: page times page_tokens plus offset, (tokens,).
            attend: Reads the stored keys, those of this step included.

        Returns:
            (tokens, hidden), before the last norm.
        """
        hidden = embeddings
        cos, sin = self.rotary(positions, is_long, hidden.dtype)
        sizes = [count * self._head_dim for count in (self._heads, *[self._kv_heads] * 2)]
        for layer, keys, values in zip(self._text.layers, self.keys, self.values, strict=True):
            fused = layer.self_attn.qkv_proj(layer.input_layernorm(hidden))
            query, key, value = (
                states.unflatten(-1, (-1, self._head_dim)) for states in fused.split(sizes, dim=-1)
            )
            keys.flatten(0, 1).index_copy_(0, slots, rotated(key, cos, sin))
            values.flatten(0, 1).index_copy_(0, slots, value)
            hidden = hidden + layer.self_attn.o_proj(
                attend(rotated(query, cos, sin), keys, values).flatten(1)
            )
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(rows, hidden) to (rows, vocabulary), in the model's dtype, in which ties occur."""
        logits: torch.Tensor = self._head(self._text.norm(hidden))
        return logits


def token_columns(chunks: Sequence[Chunk], page_tokens: int, long_after: int) -> NDArray[np.int64]:
    """Of each token its id, position, slot, and whether it has the long factors: (4, tokens)."""
    columns = []
    for chunk in chunks:
        positions = np.arange(chunk.start, chunk.stop, dtype=np.int64)
        pages = np.asarray(chunk.row.pages)[positions // page_tokens]
        flags = np.full(chunk.size, chunk.takes_long_factors(long_after))
        slots = pages * page_tokens + positions % page_tokens
        columns.append(np.stack([np.asarray(chunk.ids), positions, slots, flags]))
    return np.concatenate(columns, axis=1)


@dataclass(frozen=True, slots=True)
class FlatSteps:
    """Computes chunks of several rows in one step: parts of prompts, or generated tokens. With
    `fixed_rows`, so many go through the head.
    """

    text: TextModel
    attention: Attention
    image_token_id: int
    fixed_rows: int | None = None

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk], fixed_tokens: int | None = None) -> torch.Tensor:
        """Logits after the chunks that end their row, (those chunks, vocabulary).

        With `fixed_tokens`, so many go through every layer, padded after those of the chunks.
        """
        text, device = self.text, self.text.device
        tokens = token_columns(chunks, text.keys.shape[2], text.rotary.long_after)
        count = tokens.shape[1]
        padding = max(0, (fixed_tokens or 0) - count)
        absent = np.repeat([[0], [0], [text.scratch_slot], [0]], padding, axis=1)
        columns = torch.from_numpy(np.concatenate([tokens, absent], axis=1)).to(device)
        ids, positions, slots, is_long = columns
        starts = np.cumsum([0, *(chunk.size for chunk in chunks)]).tolist()
        layout = BatchLayout(
            starts=starts,
            lengths=[chunk.stop for chunk in chunks],
            tables=[chunk.row.pages for chunk in chunks],
        )
        embeddings = text.embed(ids)
        for chunk, start in zip(chunks, starts[:-1], strict=True):
            self._set_features(embeddings[start : start + chunk.size], chunk)
        attend = _padded_attend(self.attention.plan(layout, device), count, padding)
        hidden = text.forward(embeddings, positions, is_long.bool(), slots, attend)
        ends = [stop - 1 for stop, chunk in zip(starts[1:], chunks, strict=True) if chunk.ends_row]
        ending = hidden[torch.tensor(ends, dtype=torch.long, device=device)]
        absent_rows = max(0, (self.fixed_rows or 0) - len(ends))
        return text.logits(_pad_rows(ending, absent_rows))[: len(ends)]

    def _set_features(self, embeddings: torch.Tensor, chunk: Chunk) -> None:
        """Replace the embeddings of a chunk's image tokens by the features of the images."""
        features = chunk.row.features
        if features is None:
            return
        is_image = np.asarray(chunk.row.prompt.ids[: chunk.stop]) == self.image_token_id
        first, last = int(is_image[: chunk.start].sum()), int(is_image.sum())
        positions = torch.from_numpy(np.flatnonzero(is_image[chunk.start :])).to(embeddings.device)
        embeddings.index_copy_(0, positions, features[first:last].to(embeddings.dtype))


def _padded_attend(attend: Attend, tokens: int, padding: int) -> Attend:
    """Attention for the first `tokens` queries; zeros for the `padding` ones after them."""

    def padded(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return _pad_rows(attend(queries[:tokens], keys, values), padding)

    return padded


def _pad_rows(rows: torch.Tensor, count: int) -> torch.Tensor:
    """Append rows of zeros."""
    return torch.cat([rows, rows.new_zeros(count, *rows.shape[1:])]) if count else rows
