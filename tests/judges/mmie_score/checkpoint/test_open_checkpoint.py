"""A checkpoint is checked without reading its weights; every problem has a clear error."""

import json

import pytest
from support.tiny_checkpoint import INDEX, SHARDS, TinyCheckpoint

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint

HEAD = "language_model.lm_head.weight"


@pytest.fixture
def tiny(tmp_path):
    return TinyCheckpoint.copied_to(tmp_path / "checkpoint")


def open_tiny(tiny):
    return open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))


def error_of(tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        open_tiny(tiny)
    assert "\n\nhint: " in str(caught.value)
    return str(caught.value)


def test_the_golden_checkpoint_has_these_sizes(tiny):
    checkpoint = open_tiny(tiny)
    text, vision = checkpoint.config.llm_config, checkpoint.config.vision_config
    assert checkpoint.system_message == "Look, then give a number."
    assert (checkpoint.weight_bytes, checkpoint.dtype) == (699392, "bfloat16")
    assert (checkpoint.image_token_id, checkpoint.end_token_id) == (993, 987)
    assert (vision.image_size, checkpoint.config.tokens_per_tile) == (56, 4)
    assert (text.max_position_embeddings, text.original_max_position_embeddings) == (8192, 256)
    assert (text.hidden_size, text.num_hidden_layers) == (64, 2)
    assert (text.num_attention_heads, text.kv_heads, text.head_dim) == (4, 4, 16)
    assert (text.vocab_size, text.intermediate_size) == (1000, 160)
    assert (vision.hidden_size, vision.num_hidden_layers, vision.intermediate_size) == (64, 2, 128)


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
    message = error_of(tiny)
    assert f"no weights: no `{INDEX}`" in message
    assert "without safetensors must be converted" in message


@pytest.mark.parametrize("name", ["../model.safetensors", "pytorch_model.bin", 7])
def test_the_index_names_safetensors_files_of_the_folder_only(tiny, name):
    content = json.loads((tiny.folder / INDEX).read_bytes())
    content["weight_map"][HEAD] = name
    tiny.write(INDEX, json.dumps(content).encode())
    assert "has no `weight_map`" in error_of(tiny)
