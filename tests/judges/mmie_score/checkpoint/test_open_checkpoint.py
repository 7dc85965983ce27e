"""A checkpoint is checked without reading its weights; every problem has a clear error."""

import json

import pytest
import torch
from support.tiny_checkpoint import INDEX, REMOVED, SHARDS, TinyCheckpoint

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint

EMBEDDINGS = "language_model.model.embed_tokens.weight"
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


def test_weights_in_a_single_file_need_no_index(tiny):
    tensors = tiny.tensors()
    tiny.store(tensors, shards=1)
    (tiny.folder / "model-00001-of-00001.safetensors").rename(tiny.folder / "model.safetensors")
    tiny.delete(INDEX)
    assert open_tiny(tiny).weight_bytes == 699392


@pytest.mark.parametrize("name", ["../model.safetensors", "pytorch_model.bin", 7])
def test_the_index_names_safetensors_files_of_the_folder_only(tiny, name):
    content = json.loads((tiny.folder / INDEX).read_bytes())
    content["weight_map"][HEAD] = name
    tiny.write(INDEX, json.dumps(content).encode())
    assert "has no `weight_map`" in error_of(tiny)


@pytest.mark.parametrize("weight_map", [REMOVED, [1]])
def test_an_index_without_a_map_is_refused(tiny, weight_map):
    tiny.set_field("weight_map", weight_map, INDEX)
    assert "has no `weight_map`" in error_of(tiny)


def test_a_quantized_weight_is_refused(tiny):
    tiny.change_tensors(lambda t: t.update({"mlp1.0.bias": torch.zeros(256, dtype=torch.int8)}))
    assert "'I8'" in error_of(tiny)


def test_rotary_frequencies_of_an_old_file_are_skipped(tiny):
    name = "language_model.model.layers.0.self_attn.rotary_emb.inv_freq"
    tiny.change_tensors(lambda tensors: tensors.update({name: torch.zeros(8)}))
    assert name not in open_tiny(tiny).weights


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_another_type_of_weights_is_read(tiny, dtype):
    tiny.store({name: tensor.to(dtype) for name, tensor in tiny.tensors().items()})
    checkpoint = open_tiny(tiny)
    assert checkpoint.dtype == str(dtype).removeprefix("torch.")


def with_rows(tiny, rows):
    """Give embeddings and head another number of rows, and say so in the config."""

    def change(tensors):
        for name in (EMBEDDINGS, HEAD):
            tensors[name] = torch.cat([tensors[name]] * 2)[:rows]

    tiny.change_tensors(change)
    tiny.set_field("llm_config.vocab_size", rows)


def test_a_vocabulary_may_be_padded(tiny):
    with_rows(tiny, 1024)
    assert open_tiny(tiny).config.llm_config.vocab_size == 1024


def test_a_tokenizer_that_is_longer_than_the_embeddings_is_refused(tiny):
    with_rows(tiny, 996)
    assert "1000 tokens, and `llm_config.vocab_size` in `config.json` is 996" in error_of(tiny)


@pytest.mark.parametrize("mark", ["<|end|>", "<IMG_CONTEXT>", "<|user|>"])
def test_a_missing_special_token_is_named(tiny, mark):
    for file in ("added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"):
        content = (tiny.folder / file).read_text()
        tiny.write(file, content.replace(mark, "<other>").encode())
    assert repr(mark) in error_of(tiny)
