"""MMIE-Score as a model of vLLM: configuration, inputs, and rotary factors that follow the token.

Layers and the vision tower are vLLM's own. Its tokenizer, chat template and image processor never
run: a request consists of our token ids and our tiles.

LongRoPE has two sets of factors. In the official code, a call has the long ones if its last
position is above the border, so a prompt's tokens follow the prompt's length, and a generated token
follows its own position. For a prompt of P tokens and the border B: if P > B, every token has the
long factors; else a token has them from position B on, and all of the prompt is below B. So one bit
for each request is enough.

vLLM chooses one set for the whole engine, but keeps several positions of each token for models with
M-RoPE. Here the first is the token's position, and the second minus the first is that bit. It comes
with the prompt's first token: see `marked`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import Phi3Config, PreTrainedConfig
from vllm.compilation.decorators import support_torch_compile
from vllm.config import VllmConfig
from vllm.inputs import EngineInput
from vllm.inputs.engine import mm_input, tokens_input
from vllm.model_executor.models.interfaces import SupportsMRoPE
from vllm.model_executor.models.internvl import InternVLChatModel
from vllm.model_executor.models.llama import LlamaAttention, LlamaDecoderLayer, LlamaModel
from vllm.model_executor.models.phi3 import Phi3ForCausalLM
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItems, PlaceholderRange
from vllm.multimodal.processing import (
    BaseDummyInputsBuilder,
    BaseMultiModalProcessor,
    BaseProcessingInfo,
)

from mmie_tasks.judges.mmie_score.checkpoint import files
from mmie_tasks.judges.mmie_score.checkpoint.config import MAX_TILES, SYSTEM, Config, read_config
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from mmie_tasks.judges.mmie_score.checkpoint.weights import merged, weights_of
from mmie_tasks.judges.mmie_score.exact import exact_arithmetic
from mmie_tasks.judges.mmie_score.native_model import text_config
from mmie_tasks.judges.mmie_score.transformers_engine import Rotary, normalized
from mmie_tasks.judges.mmie_score.vllm import NAME

# The second position of a token minus the first: by position, or all of the request long.
_BY_POSITION, _LONG = 0, 1
_MAX_IMAGE_TILES = MAX_TILES + 1  # with the thumbnail


def official_config(folder: Path) -> Config:
    """The ``config.json`` of a checkpoint; raises like `read_config`."""
    return read_config(files.read_object(folder / files.CONFIG), folder / files.CONFIG)


class MmieScoreConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """The fields of the official ``config.json`` that vLLM needs."""

    model_type = "mmie_score"
    sub_configs = {"text_config": Phi3Config, "vision_config": PreTrainedConfig}  # noqa: RUF012

    def __init__(
        self,
        text_config: Phi3Config | None = None,
        vision_config: PreTrainedConfig | None = None,
        **fields: object,
    ) -> None:
        self.text_config = text_config or Phi3Config()
        self.vision_config = vision_config or PreTrainedConfig()
        super().__init__(**fields)  # type: ignore[arg-type]

    def get_text_config(self, *_: object, **__: object) -> PreTrainedConfig:
        """The language model's configuration."""
        return self.text_config


def parse_config(folder: Path) -> tuple[dict[str, object], PreTrainedConfig]:
    """The content of ``config.json``, as it is and for vLLM; raises like `read_config`."""
    content = files.read_object(folder / files.CONFIG)
    config = read_config(content, folder / files.CONFIG)
    text = text_config(config.llm_config)
    text.architectures = [MmieScorePhi3.__name__]
    # `TokenRope` has the factors: with `longrope`, vLLM would take the border for the length of the
    # longest sequence. With `mrope_section` it keeps several positions of each token.
    text.ignore_keys_at_rope_validation = {"mrope_section"}
    text.rope_parameters = {
        "rope_type": "default",
        "rope_theta": config.llm_config.rope_theta,
        "partial_rotary_factor": 1.0,
        "mrope_section": [1, 1, 1],
    }
    text.first_token_id = SlowLlamaTokenizer(folder).encode(SYSTEM)[0]
    vision = {**config.vision_config.model_dump(), "initializer_factor": 1.0}
    return content, MmieScoreConfig(
        text_config=text,
        vision_config=PreTrainedConfig(**vision),
        architectures=[MmieScoreModel.__name__],
        tokens_per_tile=config.tokens_per_tile,
        **config.model_dump(
            include={"force_image_size", "downsample_ratio", "ps_version", "select_layer"}
        ),
    )


def marked(ids: Sequence[int], config: Config) -> list[int]:
    """The prompt's tokens; a prompt above the rotary border begins with a token of its own.

    That is the token after the vocabulary, and it has the embedding of the first token. So neither
    prefix caching nor vLLM's answer to full memory, which computes a request's prompt and
    generated tokens again, can give a token the factors of the other kind of prompt.
    """
    text = config.llm_config
    is_long = len(ids) > text.original_max_position_embeddings
    return [text.vocab_size if is_long else ids[0], *ids[1:]]


def engine_input(
    ids: list[int],
    tiles: NDArray[np.uint8] | None,
    tile_counts: Sequence[int],
    *,
    image_token_id: int,
    tokens_per_tile: int,
) -> EngineInput:
    """A request for vLLM's engine, which bypasses vLLM's own processing.

    Image features replace the ``<IMG_CONTEXT>``, `tokens_per_tile` for each tile, in their order,
    as in the official code. `tiles` has those of all images, (tiles, side, side, 3).
    """
    if tiles is None:
        return tokens_input(ids)
    features = [count * tokens_per_tile for count in tile_counts]
    places = np.flatnonzero(np.asarray(ids) == image_token_id)
    by_image = np.split(places, np.cumsum(features)[:-1])
    counts, starts = torch.tensor(tile_counts), np.cumsum(tile_counts)[:-1]
    items = MultiModalKwargsItems.from_hf_inputs(
        {"tiles": torch.from_numpy(tiles), "tile_counts": counts},
        {
            "tiles": MultiModalFieldConfig.flat_from_sizes("image", counts),
            "tile_counts": MultiModalFieldConfig.batched("image", keep_on_cpu=True),
        },
    )
    hashes = [hashlib.sha256(image.tobytes()).hexdigest() for image in np.split(tiles, starts)]
    ranges = [_placeholder(image) for image in by_image]
    return mm_input(ids, items, {"image": hashes}, {"image": ranges})


def _placeholder(places: NDArray[np.int64]) -> PlaceholderRange:
    """Where an image's features go; control strings in a text may separate them."""
    first, length = int(places[0]), int(places[-1] - places[0]) + 1
    if length == len(places):
        return PlaceholderRange(offset=first, length=length)
    is_feature = torch.zeros(length, dtype=torch.bool)
    is_feature[torch.from_numpy(places - first)] = True
    return PlaceholderRange(offset=first, length=length, is_embed=is_feature)


class _Info(BaseProcessingInfo):  # type: ignore[misc]
    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        return {"image": None}

    def get_mm_max_tokens_per_item(self, **_: object) -> Mapping[str, int]:
        return {"image": _MAX_IMAGE_TILES * self.get_hf_config().tokens_per_tile}


class _DummyInputs(BaseDummyInputsBuilder):  # type: ignore[misc]
    def get_dummy_text(self, *_: object) -> str:
        return ""

    def get_dummy_mm_data(self, *_: object) -> dict[str, object]:
        return {}


class _Processor(BaseMultiModalProcessor):  # type: ignore[misc]
    """Supplies the largest image, with which vLLM measures memory; processes nothing."""

    requires_tokenizer = False

    def get_dummy_mm_inputs(self, mm_counts: Mapping[str, int], **_: object) -> EngineInput:
        config, images = self.info.get_hf_config(), mm_counts.get("image", 0)
        side = config.vision_config.image_size
        count = _MAX_IMAGE_TILES * images
        return engine_input(
            [0] * (count * config.tokens_per_tile),
            np.zeros((count, side, side, 3), np.uint8) if images else None,
            [_MAX_IMAGE_TILES] * images,
            image_token_id=0,
            tokens_per_tile=config.tokens_per_tile,
        )

    def _get_mm_fields_config(self, *_: object) -> NoReturn:
        raise NotImplementedError

    def _get_prompt_updates(self, *_: object) -> NoReturn:
        raise NotImplementedError


class TokenRope(nn.Module):
    """Rotary embedding with factors by token; see the module.

    Angles are computed in fp32; cosine and sine are rounded to `dtype`, for up to `max_tokens`.
    """

    def __init__(self, config: Config, max_tokens: int, dtype: torch.dtype) -> None:
        super().__init__()
        text = config.llm_config
        self.head_dim = text.head_dim
        rotary = Rotary(text_config(text), torch.get_default_device())
        self.long_after = rotary.long_after
        halves = []
        for is_long, length in ((False, min(self.long_after, max_tokens)), (True, max_tokens)):
            positions = torch.arange(length)
            parts = rotary(positions, torch.full_like(positions, is_long, dtype=torch.bool), dtype)
            halves.append(torch.cat([part[:, : self.head_dim // 2] for part in parts], -1))
        self.first_long = len(halves[0])
        # Rows by position, with short factors first; cosines, then sines: (positions, head_dim).
        self._table: torch.Tensor
        self.register_buffer("_table", torch.cat(halves), persistent=False)

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries and keys, (tokens, heads * head_dim), rotated by `positions`, (3, tokens)."""
        position, kind = positions[0], positions[1] - positions[0]
        is_long = (kind == _LONG) | (position >= self.long_after)
        rows = torch.where(is_long, position + self.first_long, position)
        cos, sin = self._table[rows].unsqueeze(-2).chunk(2, -1)

        def rotated(states: torch.Tensor) -> torch.Tensor:
            first, second = states.view(len(states), -1, self.head_dim).chunk(2, -1)
            turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
            return turned.flatten(-2)

        return rotated(query), rotated(key)


class _TokenRopeAttention(LlamaAttention):  # type: ignore[misc]
    def _init_rotary_emb(self, *_: object, **__: object) -> None:
        """`_TokenRopeModel` sets one for all layers."""


class _Layer(LlamaDecoderLayer):  # type: ignore[misc]
    def __init__(self, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config, prefix, attn_layer_type=_TokenRopeAttention)


@support_torch_compile(
    dynamic_arg_dims={
        "input_ids": {0: "tokens"},
        "positions": {-1: "tokens"},
        "intermediate_tensors": {0: "tokens"},
        "inputs_embeds": {0: "tokens"},
    }
)
class _TokenRopeModel(LlamaModel):  # type: ignore[misc]
    def __init__(
        self, *, vllm_config: VllmConfig, prefix: str = "", layer_type: type[nn.Module] = _Layer
    ) -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix, layer_type=layer_type)
        model = vllm_config.model_config
        rope = TokenRope(official_config(Path(model.model)), model.max_model_len, model.dtype)
        for layer in self.layers:
            layer.self_attn.rotary_emb = rope
        self._mark, self._first = self.config.vocab_size, self.config.first_token_id

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """The embeddings; see `marked`."""
        ids = input_ids.masked_fill(input_ids == self._mark, self._first)
        embedded: torch.Tensor = super().embed_input_ids(ids)
        return embedded


class MmieScorePhi3(Phi3ForCausalLM):  # type: ignore[misc]
    """The language model."""

    def _init_model(self, *, vllm_config: VllmConfig, prefix: str = "", **_: object) -> nn.Module:
        model: nn.Module = _TokenRopeModel(vllm_config=vllm_config, prefix=prefix)
        return model


@MULTIMODAL_REGISTRY.register_processor(_Processor, info=_Info, dummy_inputs=_DummyInputs)
class MmieScoreModel(InternVLChatModel, SupportsMRoPE):  # type: ignore[misc]
    """The whole model; its weights have the official names."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        model = vllm_config.model_config
        if (model.tokenizer_mode, model.generation_config) != (NAME, "vllm"):
            raise ValueError(
                f"MMIE-Score needs `--tokenizer-mode {NAME} --generation-config vllm`; `mmie-tasks "
                "serve` sets them."
            )
        self._folder = Path(model.model)
        self._mark = self.config.text_config.vocab_size

    def load_weights(self, *_: object) -> set[str]:
        """Load the files as we read them, with a LoRA fine-tune merged."""
        tensors = weights_of(files.read_headers(files.find_shards(self._folder)))
        by_file = sorted(tensors.items(), key=lambda named: named[1][0].path)
        loaded: set[str] = super().load_weights((name, merged(weight)) for name, weight in by_file)
        return loaded

    def get_mrope_input_positions(
        self, input_tokens: Sequence[int], *_: object
    ) -> tuple[torch.Tensor, int]:
        """Position and kind of each token of a prompt, (3, tokens); generated ones continue it.

        After vLLM has computed a request again, generated tokens are a part of `input_tokens`.
        """
        position = torch.arange(len(input_tokens))
        kind = _LONG if input_tokens[0] == self._mark else _BY_POSITION
        return torch.stack((position, position + kind, position)), 0

    def embed_multimodal(
        self, *, tiles: torch.Tensor, tile_counts: torch.Tensor, **_: object
    ) -> list[torch.Tensor]:
        """The features of each image, (tokens, hidden size)."""
        weight = self.mlp1[1].weight
        with exact_arithmetic():
            features = self.extract_feature(normalized(tiles.to(weight.device), weight.dtype))
        counts = tile_counts.flatten().tolist()
        return [image.flatten(0, 1) for image in features.split(counts)]
