"""A checkpoint is checked without reading its weights; every problem has a clear error. What is
loaded gives the official outputs.
"""

from __future__ import annotations

import json
from os import SEEK_END, SEEK_SET

import numpy as np
import pytest
import torch
from support.internvl_golden import CHECKPOINT, vision_outputs
from support.tiny_checkpoint import INDEX, REMOVED, SHARDS, TinyCheckpoint, safetensors_file
from support.transformers_5 import needs_transformers_5
from support.unmerged import split

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.files import (
    DIGEST_BLOCK_BYTES,
    DIGEST_BLOCKS,
    digest_of,
)
from mmie_tasks.judges.mmie_score.native_model import load_model
from mmie_tasks.judges.mmie_score.tiles import read_tiles
from mmie_tasks.judges.mmie_score.transformers_engine import normalized

GOLDEN = json.loads((CHECKPOINT / "config.json").read_bytes())
HEAD = "language_model.lm_head.weight"
QKV = "vision_model.encoder.layers.0.attn.qkv.weight"


@pytest.fixture
def tiny(tmp_path):
    return TinyCheckpoint.copied_to(tmp_path / "checkpoint")


def open_tiny(tiny):
    return open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))


def load_tiny(tiny):
    return load_model(open_tiny(tiny), device=torch.device("cpu"), dtype=torch.float32)


def error_of(tiny, action=open_tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        action(tiny)
    assert "\n\nhint: " in str(caught.value)
    return str(caught.value)


# Files


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer.model", "tokenizer_config.json", SHARDS[2]]
)
def test_a_missing_file_is_named(tiny, file):
    tiny.delete(file)
    assert f"`{file}`" in error_of(tiny)


def test_a_pickle_is_never_opened(tiny):
    tiny.write("pytorch_model.bin", b"\x80\x04cos\nabort\n(tR.")  # ends the process that opens it
    assert open_tiny(tiny).config.llm_config.num_hidden_layers == 2
    tiny.delete(INDEX, *SHARDS)
    assert INDEX in error_of(tiny)


@pytest.mark.parametrize("name", ["../model.safetensors", "pytorch_model.bin", 7])
def test_the_index_names_safetensors_files_of_the_folder_only(tiny, name):
    content = json.loads((tiny.folder / INDEX).read_bytes())
    content["weight_map"][HEAD] = name
    tiny.write(INDEX, json.dumps(content).encode())
    assert "`weight_map`" in error_of(tiny)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda shard: shard[:-1], id="cut"),
        pytest.param(lambda _: b"version https://git-lfs.github.com/spec/v1", id="pointer"),
        pytest.param(
            lambda _: safetensors_file(
                {"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}}, bytes(4)
            ),
            id="int8",
        ),
    ],
)
def test_a_shard_that_cannot_be_used_is_named(tiny, content):
    tiny.write(SHARDS[3], content((tiny.folder / SHARDS[3]).read_bytes()))
    assert SHARDS[3] in error_of(tiny)


# The configuration


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param({"model_type": "qwen2_vl"}, "'qwen2_vl'", id="qwen2-vl"),
        pytest.param(
            {**GOLDEN, "llm_config": {"architectures": ["Qwen2ForCausalLM"]}},
            "'Qwen2ForCausalLM'",
            id="internvl3",
        ),
    ],
)
def test_another_model_is_reported_before_its_missing_files(tiny, content, name):
    tiny.write("config.json", json.dumps(content).encode())
    tiny.delete("tokenizer.model")
    assert name in error_of(tiny)


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
        ("llm_config.tie_word_embeddings", True),
        ("llm_config.partial_rotary_factor", 0.75),
        ("llm_config.sliding_window", 2047),
        ("llm_config.original_max_position_embeddings", REMOVED),
        ("llm_config.rope_scaling.type", "yarn"),
        ("llm_config.rope_scaling.factor", 32.0),
        ("llm_config.rope_scaling.short_factor", [2.0] * 7),
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
        ("llm_config.rope_scaling.type", "longrope"),
        ("llm_config.num_key_value_heads", REMOVED),
    ],
)
def test_a_field_may_be_left_out_or_have_an_equivalent_value(tiny, field, value):
    tiny.set_field(field, value)
    assert open_tiny(tiny).config.llm_config.kv_heads == 4


# The system message

TEMPLATES = """
raise SystemExit("this file was run")
register(Conversation(name="other", system_message="of another template", sep="</s>"))
register(
    Conversation(
        name="phi3-chat",
        system_template="<|system|>\\n{system_message}",
        system_message="From the" " template.",
        roles=("<|user|>\\n", "<|assistant|>\\n"),
        sep_style=SeparatorStyle.MPT,
        sep="<|end|>",
        stop_token_ids=[2, 32000, 32007],
    )
)
"""


def test_the_message_is_that_of_the_config_or_else_of_the_template_which_is_not_run(tiny):
    tiny.write("conversation.py", TEMPLATES.encode())
    for message in ("", "From the key.", "<|end|>\n{braces}"):
        tiny.set_field("system_message", message)
        assert open_tiny(tiny).system_message == message
    tiny.set_field("system_message", REMOVED)
    assert open_tiny(tiny).system_message == "From the template."
    tiny.delete("conversation.py")
    assert "`conversation.py`" in error_of(tiny)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        pytest.param('sep="<|end|>"', 'sep="<|im_end|>"', "`sep`", id="separator"),
        pytest.param("SeparatorStyle.MPT", "SeparatorStyle.PLAIN", "`sep_style`", id="style"),
        pytest.param("<|system|>\\n{", "<|system|>{", "`system_template`", id="system"),
        pytest.param('"From the" " template."', "MESSAGE", "`system_message`", id="a-name"),
        pytest.param("phi3-chat", "phi4-chat", "`phi3-chat`", id="another-template"),
    ],
)
def test_another_layout_than_the_judges_is_refused(tiny, old, new, field):
    assert old in TEMPLATES
    tiny.set_field("system_message", REMOVED)
    tiny.write("conversation.py", TEMPLATES.replace(old, new).encode())
    assert field in error_of(tiny)


# The digest


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.set_field("max_dynamic_patch", 13), id="config"),
        pytest.param(lambda t: t.set_field("legacy", True, "tokenizer_config.json"), id="tokens"),
        pytest.param(lambda t: t.flip_byte(SHARDS[0], -1), id="weights"),
    ],
)
def test_the_digest_is_that_of_the_content_wherever_it_is(tiny, tmp_path, change):
    original = open_tiny(tiny).digest
    elsewhere = TinyCheckpoint.copied_to(tmp_path / "elsewhere")
    assert open_tiny(elsewhere).digest == original
    change(elsewhere)
    assert open_tiny(elsewhere).digest != original


def test_a_large_file_is_sampled_from_its_first_byte_to_its_last(tmp_path):
    path, blocks = tmp_path / "model.safetensors", 3 * DIGEST_BLOCKS + 7
    size = blocks * DIGEST_BLOCK_BYTES
    start = safetensors_file(
        {"a": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}
    )
    with path.open("wb") as file:  # zeros, as a hole on the disk
        file.write(start)
        file.truncate(len(start) + size)
    digests = {digest_of([], [path])}
    for position in (len(start), len(start) + size // (DIGEST_BLOCKS - 1), -1):
        with path.open("r+b") as file:
            file.seek(position, SEEK_SET if position >= 0 else SEEK_END)
            file.write(b"1")
        digests.add(digest_of([], [path]))
    assert len(digests) == 4


# A fine-tune that was saved unmerged

WRAPPED = "language_model.base_model.model.model.layers.0.mlp.down_proj"
PLAIN = "language_model.model.layers.0.mlp.down_proj.weight"


@needs_transformers_5
def test_an_unmerged_fine_tune_gives_the_merged_weights(tiny):
    expected = load_tiny(tiny).state_dict()
    tiny.store(split(tiny.tensors()))
    merged = load_tiny(tiny).state_dict()
    assert merged.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(merged[name], weight, rtol=0, atol=1e-6)


def without_base(tensors):
    del tensors[f"{WRAPPED}.base_layer.weight"]


def add_merged(tensors):
    tensors[PLAIN] = tensors[f"{WRAPPED}.base_layer.weight"].clone()


def other_rank(tensors):
    name = f"{WRAPPED}.lora_A.default.weight"
    tensors[name] = tensors[name][1:]


@pytest.mark.parametrize("change", [without_base, add_merged, other_rank])
def test_a_fine_tune_that_does_not_fit_together_is_refused(tiny, change):
    tiny.store(split(tiny.tensors()))
    tiny.change_tensors(change)
    assert PLAIN in error_of(tiny)


# The loaded model


@needs_transformers_5
def test_image_features_are_the_official_ones(tiny):
    model = load_tiny(tiny)
    for image, official in vision_outputs().items():
        pixels = normalized(torch.from_numpy(read_tiles(image, 56).copy()), torch.float32)
        features = model.model.get_image_features(
            pixels, vision_feature_layer=-1, vision_feature_select_strategy="default"
        )
        assert np.abs(features.pooler_output.numpy() - official).max() < 5e-5


@needs_transformers_5
@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param(lambda t: t.pop(HEAD), HEAD, id="less"),
        pytest.param(lambda t: t.update({"mlp2.weight": torch.zeros(1)}), "mlp2.weight", id="more"),
        pytest.param(lambda t: t.update({HEAD: t[HEAD][:990]}), "lm_head", id="row"),
        pytest.param(lambda t: t.update({QKV: t[QKV][:-3]}), "size mismatch", id="fused"),
    ],
)
def test_every_weight_must_have_its_shape_and_no_other_may_exist(tiny, change, name):
    tiny.change_tensors(change)
    assert name in error_of(tiny, load_tiny)
