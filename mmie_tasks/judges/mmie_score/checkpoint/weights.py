"""The weights of a checkpoint, loaded into transformers' own model.

Imports torch and transformers; the other modules of this package do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import InternVLConfig, InternVLForConditionalGeneration, InternVLVisionConfig, Phi3Config

from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig, VisionConfig
from mmie_tasks.judges.mmie_score.checkpoint.files import Tensor, unusable
from mmie_tasks.judges.mmie_score.checkpoint.names import LORA_SCALE, native_names


def load_model(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> InternVLForConditionalGeneration:
    """Build the model and load its weights one at a time, so that none is in memory twice.

    The model is built without memory, and each weight is rounded once from the stored one (a fine-tune's update is
    added in fp32 before). It has no rotary embedding: the engine computes positions itself, with `Rotary`.

    Args:
        checkpoint: A checkpoint that `open_checkpoint` returned.
        device: The device of the weights.
        dtype: The type of all weights.

    Raises:
        JudgeMisconfigured: A file cannot be read, or has changed since it was checked.
        torch.OutOfMemoryError: The device has less memory than `Checkpoint.weight_bytes`.
    """
    config = native_config(checkpoint.config, image_token_id=checkpoint.image_token_id)
    with torch.device("meta"):
        model = InternVLForConditionalGeneration(config)
    state = {name: tensor.to(device=device, dtype=dtype, copy=True) for name, tensor in _weights(checkpoint)}
    model.load_state_dict(state, strict=True, assign=True)
    model.model.language_model.rotary_emb = nn.Identity()
    model.requires_grad_(False)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def _weights(checkpoint: Checkpoint) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight by its native name, file by file; views of files that are then closed."""
    for official, weight in sorted(checkpoint.weights.items(), key=lambda named: named[1].stored.path):
        names, merged = native_names(official), _tensor(weight.stored)
        if weight.down is not None and weight.up is not None:
            merged = merged.float() + LORA_SCALE * (_tensor(weight.up).float() @ _tensor(weight.down).float())
        yield from zip(names, merged.chunk(len(names)), strict=True)


def _tensor(tensor: Tensor) -> torch.Tensor:
    try:
        with safe_open(tensor.path, framework="pt") as file:
            content: torch.Tensor = file.get_tensor(tensor.name)
    except (OSError, SafetensorError) as error:
        raise unusable(f"`{tensor.name}` cannot be read from `{tensor.path}`: {error}.") from error
    if tuple(content.shape) != tensor.shape:
        raise unusable(f"`{tensor.path}` changed while the judge was loaded.")
    return content


def native_config(config: Config, *, image_token_id: int) -> InternVLConfig:
    """The configuration of transformers' own model that computes what the official one does.

    Args:
        config: The checkpoint's configuration.
        image_token_id: Id of ``<IMG_CONTEXT>``.
    """
    native = InternVLConfig(
        vision_config=_vision_config(config.vision_config),
        text_config=_text_config(config.llm_config),
        image_token_id=image_token_id,
        image_seq_length=config.tokens_per_tile,
        downsample_ratio=config.downsample_ratio,
        projector_hidden_act="gelu",
        vision_feature_layer=config.select_layer,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,  # transformers ties them by default
    )
    native._attn_implementation = "sdpa"  # of its parts as well
    return native


def _vision_config(config: VisionConfig) -> InternVLVisionConfig:
    return InternVLVisionConfig(
        **config.model_dump(exclude={"qkv_bias", "qk_normalization"}),  # named otherwise below
        attention_bias=config.qkv_bias,
        use_qk_norm=config.qk_normalization,
        use_absolute_position_embeddings=True,
        use_mask_token=False,
        use_mean_pooling=True,  # leaves out the last norm, which the official tower lacks
    )


def _text_config(config: TextConfig) -> Phi3Config:
    longest, original = config.max_position_embeddings, config.original_max_position_embeddings
    rotary = {"rope_theta", "rope_scaling", "partial_rotary_factor", "sliding_window"}  # set below
    return Phi3Config(
        **config.model_dump(exclude={"architectures", "model_type", "num_key_value_heads", *rotary}),
        num_key_value_heads=config.kv_heads,
        # By its new name: transformers converts `su` only in part. It would compute the same
        # factor, and warn that it is missing.
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": config.rope_theta,
            **config.rope_scaling.model_dump(exclude={"type"}),
            "original_max_position_embeddings": original,
            "factor": longest / original,
            "partial_rotary_factor": 1.0,
        },
        sliding_window=None,  # longer than the longest sequence; None is faster
        bos_token_id=None,
        eos_token_id=None,
    )
