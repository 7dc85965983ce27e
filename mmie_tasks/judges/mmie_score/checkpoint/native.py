"""The config of transformers' own model that computes what the official one does."""

from __future__ import annotations

from transformers import InternVLConfig, InternVLVisionConfig, Phi3Config

from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig, VisionConfig


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
