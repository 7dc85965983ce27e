"""``config.json``: broken files, other models, and every field that the judge uses."""

import json

import pytest
from support.tiny_checkpoint import INTERNVL, REMOVED, TinyCheckpoint

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint

GOLDEN = json.loads((INTERNVL / "checkpoint/config.json").read_bytes())
FACTORS = [1.0 + number for number in range(8)]


@pytest.fixture
def tiny(tmp_path):
    return TinyCheckpoint.copied_to(tmp_path / "checkpoint")


def error_of(tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))
    message = str(caught.value)
    assert f"{tiny.folder}/config.json" in message
    return message


@pytest.mark.parametrize(
    ("content", "names"),
    [
        pytest.param(
            {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"]},
            ("`model_type` is 'qwen2_vl'", "'Qwen2VLForConditionalGeneration'"),
            id="qwen2-vl",
        ),
        pytest.param(
            {**GOLDEN, "llm_config": {"architectures": ["Qwen2ForCausalLM"]}},
            ("`llm_config.architectures.0` is 'Qwen2ForCausalLM'",),
            id="internvl3",
        ),
        pytest.param(
            {"model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"]},
            ("`model_type` is 'internvl'", "'InternVLForConditionalGeneration'"),
            id="internvl3-converted",
        ),
    ],
)
def test_another_model_is_reported_before_its_missing_files(tiny, content, names):
    tiny.write("config.json", json.dumps(content).encode())
    tiny.delete("tokenizer.model")
    message = error_of(tiny)
    assert all(name in message for name in names)
    assert "InternVL2-4B" in message
    assert "model=MMIE/MMIE-Score" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("template", "internlm2-chat"),
        ("ps_version", "v1"),
        ("select_layer", -2),
        ("downsample_ratio", 0.25),
        ("force_image_size", 448),
        ("vision_config.qk_normalization", True),
        ("vision_config.norm_type", "rms_norm"),
        ("vision_config.qkv_bias", False),
        ("llm_config.hidden_size", -64),
        ("llm_config.tie_word_embeddings", True),
        ("llm_config.partial_rotary_factor", 0.75),
        ("llm_config.sliding_window", 2047),
        ("llm_config.original_max_position_embeddings", REMOVED),
        ("llm_config.rope_scaling.type", "yarn"),
        ("llm_config.rope_scaling.factor", 32.0),
        ("llm_config.rope_scaling.short_factor", FACTORS[1:]),
        ("llm_config.rope_scaling.long_factor", [*FACTORS, 9.0]),
    ],
)
def test_a_field_with_an_unsupported_value_is_named(tiny, field, value):
    tiny.set_field(field, value)
    message, section = error_of(tiny), field.rpartition(".")[0] or field
    assert f"`{field}" in message or f"`{section}`" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("select_layer", REMOVED),
        ("force_image_size", None),
        ("llm_config.rope_scaling.type", "longrope"),
        ("llm_config.num_key_value_heads", REMOVED),
        ("llm_config.sliding_window", None),
        ("llm_config.rope_theta", 10_000),
    ],
)
def test_a_field_may_be_left_out_or_have_an_equivalent_value(tiny, field, value):
    tiny.set_field(field, value)
    opened = open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))
    assert opened.config.llm_config.kv_heads == 4
