"""Transformers' own model with the weights of the checkpoint.

Official names are from ``InternVLChatModel`` (OpenGVLab/InternVL), native names from transformers'
``InternVLForConditionalGeneration`` with a Phi-3 text model. The rows of the vision tower's fused
``qkv`` are queries, keys and values in equal thirds; all other weights keep their shape.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import nn
from transformers import (
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLVisionConfig,
    Phi3Config,
)

from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig
from mmie_tasks.judges.mmie_score.checkpoint.files import unusable
from mmie_tasks.judges.mmie_score.checkpoint.weights import merged

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


def load_model(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> InternVLForConditionalGeneration:
    """Build the model and load its weights one at a time, so that none is in memory twice.

    Each weight is rounded once. The model gets no rotary embedding: that of transformers is right
    for one row at a time only.

    Raises:
        JudgeMisconfigured: The weights are not those of the model, or a file cannot be read.
        RuntimeError: The device has too little memory.
    """
    folder = checkpoint.location.folder
    model = empty_model(checkpoint.config, image_token_id=checkpoint.image_token_id)
    names, state = native_names(model), {}
    for unmatched, problem in (
        (sorted(names.keys() - checkpoint.weights), "lacks"),
        (sorted(checkpoint.weights.keys() - names), "has, beyond those of the model,"),
    ):
        if unmatched:
            raise unusable(
                f"The checkpoint in `{folder}` {problem} {len(unmatched)} weights; the first is "
                f"`{unmatched[0]}`."
            )
    for official, weight in sorted(checkpoint.weights.items(), key=lambda named: named[1][0].path):
        parts = merged(weight).chunk(len(names[official]))
        for native, part in zip(names[official], parts, strict=False):
            state[native] = part.to(device=device, dtype=dtype, copy=True)
    try:
        model.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        raise unusable(
            f"The weights in `{folder}` do not have the shapes of its `config.json`: "
            f"{' '.join(str(error).split())[:300]}"
        ) from error
    model.model.language_model.rotary_emb = nn.Identity()
    model.requires_grad_(False)
    model.eval()  # type: ignore[no-untyped-call]
    return model


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
