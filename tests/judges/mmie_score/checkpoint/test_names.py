"""Names and shapes of weights: those expected are those of transformers' model."""

import json

import torch
from support.random_checkpoint import expected_shapes
from support.tiny_checkpoint import INTERNVL
from support.transformers_5 import needs_transformers_5
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from mmie_tasks.judges.mmie_score.checkpoint.config import read_config
from mmie_tasks.judges.mmie_score.native_model import empty_model

GOLDEN = json.loads((INTERNVL / "checkpoint/config.json").read_bytes())
TEXT, VISION = GOLDEN["llm_config"], GOLDEN["vision_config"]

REAL_TEXT = {
    **TEXT,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32020,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "pad_token_id": 32000,
    "rope_scaling": {"type": "su", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48},
}
REAL_VISION = {
    **VISION,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 448,
}
REAL = {**GOLDEN, "force_image_size": 448, "llm_config": REAL_TEXT, "vision_config": REAL_VISION}


def config_of(content):
    return read_config(content, INTERNVL / "checkpoint/config.json")


def test_the_real_model_has_four_billion_weights_and_256_tokens_per_tile():
    config = config_of(REAL)
    count = sum(torch.Size(shape).numel() for shape in expected_shapes(config).values())
    assert round(count / 1e9, 2) == 4.15
    assert config.tokens_per_tile == 256
    assert config.llm_config.head_dim == 96


@needs_transformers_5
def test_the_real_rope_is_scaled_as_the_official_one():
    text = empty_model(config_of(REAL), image_token_id=7).config.text_config
    short, scale = ROPE_INIT_FUNCTIONS["longrope"](text, torch.device("cpu"))
    long, long_scale = ROPE_INIT_FUNCTIONS["longrope"](text, torch.device("cpu"), seq_len=4097)
    assert round(scale, 6) == round(long_scale, 6) == 1.190238
    assert torch.equal(long, short / 2)
