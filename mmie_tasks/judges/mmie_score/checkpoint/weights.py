"""The weights of a checkpoint, and transformers' own model that holds them.

Official names are from ``InternVLChatModel`` (OpenGVLab/InternVL), native names from transformers'
``InternVLForConditionalGeneration`` with a Phi-3 text model. The rows of the vision tower's fused
``qkv`` are queries, keys and values in equal thirds; all other weights keep their shape.

A fine-tune with the official script (``internvl_chat_finetune.py``) may be saved as it was trained:
``base_layer`` with ``lora_A.default`` and ``lora_B.default``. The script's alpha is always twice
the rank, so the merged weight is ``base + 2 * B @ A``, whatever the rank.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from transformers import (
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLVisionConfig,
    Phi3Config,
)

from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig
from mmie_tasks.judges.mmie_score.checkpoint.files import CONFIG, DOWNLOAD_HINT, Tensor, unusable

Weight: TypeAlias = tuple[Tensor, ...]
"""A stored weight, followed by the factors of a fine-tune's update if there is one: ``lora_A``,
(rank, columns), and ``lora_B``, (rows, rank)."""

_LORA_SCALE = 2.0
_LORA_UPDATE = re.compile(r"(.+)\.(lora_[AB])\.default\.weight")

_OFFICIAL_PARTS = {
    "model.multi_modal_projector.layer_norm.": "mlp1.0.",
    "model.multi_modal_projector.linear_1.": "mlp1.1.",
    "model.multi_modal_projector.linear_2.": "mlp1.3.",
    "lm_head.": "language_model.lm_head.",
    "model.language_model.": "language_model.model.",
    "model.vision_tower.": "vision_model.",
    "embeddings.cls_token": "embeddings.class_embedding",
    "embeddings.position_embeddings": "embeddings.position_embedding",
    "embeddings.patch_embeddings.projection.": "embeddings.patch_embedding.",
    "encoder.layer.": "encoder.layers.",
    ".attention.q_proj.": ".attn.qkv.",
    ".attention.k_proj.": ".attn.qkv.",
    ".attention.v_proj.": ".attn.qkv.",
    ".attention.projection_layer.": ".attn.proj.",
    ".layernorm_before.": ".norm1.",
    ".layernorm_after.": ".norm2.",
    ".lambda_1": ".ls1",
    ".lambda_2": ".ls2",
}
"""Official parts of names by native ones."""


def _official_name(native: str) -> str:
    """The official name of a native weight.

    >>> _official_name("model.vision_tower.encoder.layer.7.attention.k_proj.bias")
    'vision_model.encoder.layers.7.attn.qkv.bias'
    """
    for part, official in _OFFICIAL_PARTS.items():
        native = native.replace(part, official)
    return native


def native_names(model: InternVLForConditionalGeneration) -> dict[str, list[str]]:
    """The native names by official weight: three for a fused one, else one."""
    names = defaultdict(list)
    # Queries first, then keys and values.
    for native in sorted(model.state_dict(), key=lambda name: ("q_proj" not in name, name)):
        names[_official_name(native)].append(native)
    return dict(names)


def expected_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights of the official model, by official name."""
    model = empty_model(config, image_token_id=0)
    native = model.state_dict()
    shapes = {}
    for official, names in native_names(model).items():
        rows, *others = native[names[0]].shape
        shapes[official] = (len(names) * rows, *others)
    return shapes


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


def check_weights(folder: Path, config: Config, weights: Mapping[str, Weight]) -> None:
    """Raise `JudgeMisconfigured` unless the weights have the names and shapes of the model."""
    expected = expected_shapes(config)
    for names, problem in (
        (sorted(expected.keys() - weights), "lacks"),
        (sorted(weights.keys() - expected), "has, beyond those of the model,"),
    ):
        if names:
            raise unusable(
                f"The checkpoint in `{folder}` {problem} {len(names)} weights; the first is "
                f"`{names[0]}`."
            )
    for name, (stored, *_) in weights.items():
        if stored.shape != expected[name]:
            raise unusable(
                f"`{name}` in `{stored.path}` is {list(stored.shape)}, and by `{CONFIG}` it is "
                f"{list(expected[name])}."
            )


def merged(weight: Weight) -> torch.Tensor:
    """The content of a weight, with a fine-tune's update added in fp32; raises `JudgeMisconfigured`
    if a file cannot be read or has changed.
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
    except (OSError, SafetensorError) as error:
        raise unusable(f"`{tensor.name}` cannot be read from `{tensor.path}`: {error}.") from error
    if tuple(content.shape) != tensor.shape:
        raise unusable(f"`{tensor.path}` changed while the judge was loaded.")
    return content


def empty_model(config: Config, *, image_token_id: int) -> InternVLForConditionalGeneration:
    """Transformers' model that computes what the official one does, on the meta device."""
    vision, text = config.vision_config, config.llm_config
    native = InternVLConfig(
        vision_config=InternVLVisionConfig(
            **vision.model_dump(exclude={"qkv_bias", "qk_normalization"}),  # renamed below
            attention_bias=vision.qkv_bias,
            use_qk_norm=vision.qk_normalization,
            use_absolute_position_embeddings=True,
            use_mask_token=False,
            use_mean_pooling=True,  # leaves out the last norm, which the official tower lacks
        ),
        text_config=text_config(text),
        image_token_id=image_token_id,
        image_seq_length=config.tokens_per_tile,
        downsample_ratio=config.downsample_ratio,
        projector_hidden_act="gelu",
        vision_feature_layer=config.select_layer,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,  # transformers ties them by default
    )
    native._attn_implementation = "sdpa"  # of its parts as well
    with torch.device("meta"):
        return InternVLForConditionalGeneration(native)


def text_config(config: TextConfig) -> Phi3Config:
    """Transformers' configuration of the language model."""
    longest, original = config.max_position_embeddings, config.original_max_position_embeddings
    rotary = {"rope_theta", "rope_scaling", "partial_rotary_factor", "sliding_window"}  # set below
    names = {"architectures", "model_type", "num_key_value_heads"}
    return Phi3Config(
        **config.model_dump(exclude=names | rotary),
        num_key_value_heads=config.kv_heads,
        # Transformers converts the old name `su` only in part. It would compute the same factor,
        # and warn that it is missing.
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": config.rope_theta,
            **config.rope_scaling.model_dump(exclude={"type"}),
            "original_max_position_embeddings": original,
            "factor": longest / original,
            "partial_rotary_factor": 1.0,
        },
        sliding_window=None,  # longer than the longest sequence; None is faster
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
