"""A checkpoint is checked without reading its weights, and what is wrong is said in words."""

import json
import subprocess
import sys

import pytest
import torch
from support.tiny_checkpoint import INDEX, INTERNVL, REMOVED, SHARDS, TinyCheckpoint

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Located, open_checkpoint

EMBEDDINGS = "language_model.model.embed_tokens.weight"
HEAD = "language_model.lm_head.weight"

OPEN_WITHOUT_TORCH = f"""
import sys
from mmie_tasks.judges.mmie_score.checkpoint import locate, open_checkpoint
open_checkpoint(locate({str(INTERNVL / "checkpoint")!r}, None, {{}}))
print([name for name in ("torch", "transformers") if name in sys.modules])
"""


@pytest.fixture
def tiny(tmp_path):
    return TinyCheckpoint.copied_to(tmp_path / "checkpoint")


def opened(tiny):
    return open_checkpoint(Located(folder=tiny.folder, name="local folder"))


def complaint(tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        opened(tiny)
    assert "\n\nhint: " in str(caught.value)
    return str(caught.value)


def test_the_golden_checkpoint_has_nothing_to_note_and_says_its_numbers(tiny):
    checkpoint = opened(tiny)
    facts = checkpoint.facts
    assert checkpoint.notes == ()
    assert facts.system_message == "Look, then give a number."
    assert (facts.image_px, facts.tokens_per_tile, facts.dtype) == (56, 4, "bfloat16")
    assert (facts.image_token_id, facts.end_token_id, facts.pad_token_id) == (993, 987, 980)
    assert (facts.max_positions, facts.long_after, facts.weight_bytes) == (8192, 256, 699392)
    assert (facts.hidden_size, facts.layers, facts.heads, facts.kv_heads) == (64, 2, 4, 4)
    assert (facts.head_dim, facts.vocab_size, facts.intermediate_size) == (16, 1000, 160)
    vision = (facts.vision_hidden_size, facts.vision_layers, facts.vision_intermediate_size)
    assert vision == (64, 2, 128)


def test_opening_needs_no_torch():
    ended = subprocess.run(
        [sys.executable, "-c", OPEN_WITHOUT_TORCH], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer.model", "tokenizer_config.json", *SHARDS]
)
def test_a_missing_file_is_named(tiny, file):
    tiny.drops(file)
    assert f"`{file}`" in complaint(tiny)


def test_all_missing_shards_are_named_at_once(tiny):
    tiny.drops(*SHARDS[1:3])
    found = complaint(tiny)
    assert f"misses 2 of its 4 files of weights: `{SHARDS[1]}`, `{SHARDS[2]}`" in found


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model-00001-of-00002.bin", "judge.pt"])
def test_a_pickle_is_refused_and_never_opened(tiny, file):
    tiny.drops(INDEX, *SHARDS)
    tiny.says(file, b"\x80\x04cos\nabort\n(tR.")  # ends the process that opens it
    found = complaint(tiny)
    assert f"`{file}` only: a pickle" in found
    assert "converted to safetensors" in found


def test_a_pickle_beside_the_shards_is_left_alone(tiny):
    tiny.says("pytorch_model.bin", b"\x80\x04cos\nabort\n(tR.")
    assert opened(tiny).facts.layers == 2


def test_no_weights_at_all_are_told_from_weights_without_an_index(tiny):
    tiny.drops(INDEX)
    assert f"4 safetensors files and no `{INDEX}`" in complaint(tiny)
    tiny.drops(*SHARDS)
    assert "has no weights" in complaint(tiny)


def test_weights_in_a_single_file_need_no_index(tiny):
    tensors = tiny.tensors()
    tiny.holds(tensors, shards=1)
    (tiny.folder / "model-00001-of-00001.safetensors").rename(tiny.folder / "model.safetensors")
    tiny.drops(INDEX)
    assert opened(tiny).facts.weight_bytes == 699392


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("../model.safetensors", "no name of a safetensors file", id="above"),
        pytest.param("/etc/model.safetensors", "no name of a safetensors file", id="absolute"),
        pytest.param("part/model.safetensors", "no name of a safetensors file", id="below"),
        pytest.param("pytorch_model.bin", "no name of a safetensors file", id="pickle"),
        pytest.param("a\0.safetensors", "no name of a safetensors file", id="zero-byte"),
        pytest.param(7, "no name of a safetensors file", id="number"),
        pytest.param("other.safetensors", "misses 1 of its 5 files", id="not-there"),
    ],
)
def test_the_index_names_files_of_the_folder_only(tiny, name, said):
    content = json.loads((tiny.folder / INDEX).read_bytes())
    content["weight_map"][HEAD] = name
    tiny.says(INDEX, json.dumps(content).encode())
    assert said in complaint(tiny)


@pytest.mark.parametrize(
    ("map_", "said"),
    [
        pytest.param(REMOVED, "no `weight_map`", id="none"),
        pytest.param({}, "no `weight_map`", id="empty"),
        pytest.param([1], "no `weight_map`", id="list"),
    ],
)
def test_an_index_without_a_map_is_refused(tiny, map_, said):
    tiny.sets("weight_map", map_, INDEX)
    assert said in complaint(tiny)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda m: m.pop(HEAD), f"`{HEAD}` in `{SHARDS[2]}` is in it un", id="unsaid"),
        pytest.param(lambda m: m.update(more=SHARDS[0]), "`more` in", id="promised"),
        pytest.param(
            lambda m: m.update({HEAD: SHARDS[0]}),
            f"`{HEAD}` in `{SHARDS[0]}` is not in it",
            id="elsewhere",
        ),
    ],
)
def test_the_index_and_the_files_must_say_the_same(tiny, change, said):
    content = json.loads((tiny.folder / INDEX).read_bytes())
    change(content["weight_map"])
    tiny.says(INDEX, json.dumps(content).encode())
    assert said in complaint(tiny)


def test_a_shard_that_the_index_does_not_name_is_not_read_and_noted(tiny):
    tiny.says("model-00009-of-00009.safetensors", b"no weights")
    notes = opened(tiny).notes
    assert len(notes) == 1
    assert "model-00009-of-00009.safetensors" in notes[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda t: t.pop(HEAD), f"misses 1 weights; the first is `{HEAD}`", id="less"),
        pytest.param(
            lambda t: t.update({"mlp2.weight": torch.zeros(1)}), "`mlp2.weight`", id="more"
        ),
        pytest.param(
            lambda t: t.update({"mlp1.0.bias": torch.zeros(255)}),
            "is [255], and `config.json` makes it [256]",
            id="shape",
        ),
        pytest.param(
            lambda t: t.update({"mlp1.0.bias": torch.zeros(256, dtype=torch.int8)}),
            "'I8'",
            id="quantized",
        ),
        pytest.param(
            lambda t: t.update({HEAD: t[HEAD][:990]}), "(`llm_config.vocab_size` is 1000)", id="row"
        ),
    ],
)
def test_every_weight_is_there_in_its_shape_and_no_other(tiny, change, said):
    tiny.changes(change)
    assert said in complaint(tiny)


def test_rotary_frequencies_of_an_old_file_are_skipped(tiny):
    name = "language_model.model.layers.0.self_attn.rotary_emb.inv_freq"
    tiny.changes(lambda tensors: tensors.update({name: torch.zeros(8)}))
    assert name not in opened(tiny).weights


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_another_type_of_weights_is_told(tiny, dtype):
    tiny.holds({name: tensor.to(dtype) for name, tensor in tiny.tensors().items()})
    checkpoint = opened(tiny)
    assert checkpoint.facts.dtype == str(dtype).removeprefix("torch.")
    assert checkpoint.notes == ()


def test_several_types_of_weights_are_noted(tiny):
    tiny.changes(lambda tensors: tensors.update({HEAD: tensors[HEAD].float()}))
    checkpoint = opened(tiny)
    assert checkpoint.facts.dtype == "bfloat16"
    assert "several types: BF16, F32" in checkpoint.notes[0]


def test_another_vocabulary_than_the_embeddings_is_told(tiny):
    tiny.sets("llm_config.vocab_size", 1010)
    assert "(`llm_config.vocab_size` is 1010)" in complaint(tiny)


def with_rows(tiny, rows):
    """Give embeddings and head another number of rows, and say so in the config."""

    def change(tensors):
        for name in (EMBEDDINGS, HEAD):
            tensors[name] = torch.cat([tensors[name]] * 2)[:rows]

    tiny.changes(change)
    tiny.sets("llm_config.vocab_size", rows)


def test_a_padded_vocabulary_is_noted(tiny):
    with_rows(tiny, 1024)
    assert opened(tiny).notes == ("24 rows of the embeddings belong to no token",)


def test_a_tokenizer_that_is_longer_than_the_embeddings_is_refused(tiny):
    with_rows(tiny, 996)
    assert "1000 tokens, and `llm_config.vocab_size` in `config.json` is 996" in complaint(tiny)


@pytest.mark.parametrize("mark", ["<|end|>", "<IMG_CONTEXT>", "<|user|>"])
def test_a_mark_that_is_no_token_is_named(tiny, mark):
    for file in ("added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"):
        content = (tiny.folder / file).read_text()
        tiny.says(file, content.replace(mark, "<other>").encode())
    assert repr(mark) in complaint(tiny)


def test_a_vocabulary_of_sentencepiece_that_is_cut_off_is_named(tiny):
    tiny.cuts("tokenizer.model", keep=1000)
    assert "tokenizer.model" in complaint(tiny)


def test_what_does_no_harm_is_noted(tiny):
    tiny.sets("max_dynamic_patch", 6)
    tiny.sets("use_llm_lora", 16)
    tiny.sets("tie_word_embeddings", value=True)
    notes = opened(tiny).notes
    words = ("`max_dynamic_patch` is 6", "the stored head is used", "merged already")
    assert [word for word, note in zip(words, notes, strict=True) if word in note] == [*words]
