"""The config of transformers' own model that computes what the official one does."""

from __future__ import annotations

import torch
from torch import nn
from transformers import InternVLConfig, InternVLVisionConfig, Phi3Config

from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig, VisionConfig
from mmie_tasks.judges.mmie_score.engine.attention import Rotary


def native_config(config: Config, *, image_token_id: int, attention: str) -> InternVLConfig:
    """Put the official fields into transformers' words.

    Args:
        config: As read from the checkpoint.
        image_token_id: Of ``<IMG_CONTEXT>``.
        attention: The kernel, as transformers names it: ``sdpa`` or ``eager``.
    """
    native = InternVLConfig(
        vision_config=_vision(config.vision_config),
        text_config=_text(config.llm_config),
        image_token_id=image_token_id,
        image_seq_length=config.tokens_per_tile,
        downsample_ratio=config.downsample_ratio,
        projector_hidden_act="gelu",
        vision_feature_layer=config.select_layer,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,  # transformers ties them unless told
    )
    native._attn_implementation = attention  # for its parts as well
    return native


def _vision(config: VisionConfig) -> InternVLVisionConfig:
    return InternVLVisionConfig(
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        attention_bias=config.qkv_bias,
        use_qk_norm=config.qk_normalization,
        hidden_act=config.hidden_act,
        norm_type=config.norm_type,
        layer_norm_eps=config.layer_norm_eps,
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_channels=config.num_channels,
        use_absolute_position_embeddings=True,
        use_mask_token=False,
        use_mean_pooling=True,  # leaves out the last norm, which the official tower has not
        hidden_dropout_prob=0.0,
        attention_dropout=0.0,
        projection_dropout=0.0,
    )


def _text(config: TextConfig) -> Phi3Config:
    longest, original = config.max_position_embeddings, config.original_max_position_embeddings
    return Phi3Config(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.kv_heads,
        hidden_act=config.hidden_act,
        rms_norm_eps=config.rms_norm_eps,
        max_position_embeddings=longest,
        original_max_position_embeddings=original,
        # In the new words: `su` under its old name is not understood whole. The factor is what
        # would be computed; unsaid, it is warned of.
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": config.rope_theta,
            "short_factor": list(config.rope_scaling.short_factor),
            "long_factor": list(config.rope_scaling.long_factor),
            "original_max_position_embeddings": original,
            "factor": longest / original,
            "partial_rotary_factor": 1.0,
        },
        sliding_window=None,  # longer than the longest sequence; unset, it costs nothing
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=config.pad_token_id,
        use_cache=True,
        tie_word_embeddings=False,
        attention_dropout=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
    )


# The rotary embedding for transformers' own forward pass, chosen for each row of a batch.


class RowRope(nn.Module):
    """In the place of ``Phi3RotaryEmbedding``, which lets the longest row decide for all.

    The frequencies are no buffers: a model that is cast to bf16 would round them, and one that is
    built on the meta device would have none.
    """

    def __init__(self, config: Phi3Config) -> None:
        super().__init__()
        self.config = config
        self._by_device: dict[torch.device, Rotary] = {}

    @torch.no_grad()
    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each (rows, tokens, head_dim), in the type of `x`.

        Args:
            x: Any tensor of the device and type that is wanted.
            position_ids: From 0, (rows, tokens); a row that ends above the original length has
                the long factors, as the official model does for one sample a call.
        """
        if x.device not in self._by_device:
            self._by_device[x.device] = Rotary(self.config, x.device)
        rotary = self._by_device[x.device]
        is_long = position_ids.amax(-1, keepdim=True) + 1 > rotary.long_after
        positions, flags = position_ids.flatten(), is_long.expand_as(position_ids).flatten()
        cos, sin = rotary(positions, flags, x.dtype)
        return cos.view(*position_ids.shape, -1), sin.view(*position_ids.shape, -1)
