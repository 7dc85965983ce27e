"""Checkpoints: what is refused, system message, digest, fine-tunes, and the official outputs."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.internvl_golden import CHECKPOINT, IMAGES, logits
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import files, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.native_model import load_model
from mmie_tasks.judges.mmie_score.tiles import read_tiles
from mmie_tasks.judges.mmie_score.transformers_engine import normalized

GOLDEN = json.loads((CHECKPOINT / "config.json").read_bytes())
INDEX = "model.safetensors.index.json"
SHARDS = [f"model-0000{number}-of-00004.safetensors" for number in range(1, 5)]
HEAD = "language_model.lm_head.weight"
QKV = "vision_model.encoder.layers.0.attn.qkv.weight"
REMOVED = object()


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(CHECKPOINT, tmp_path / "checkpoint")


def set_field(folder, field, value, file="config.json"):
    """Change a field of a JSON file, such as ``llm_config.vocab_size``, or remove it."""
    content = json.loads((folder / file).read_bytes())
    *sections, name = field.split(".")
    section = content
    for key in sections:
        section = section[key]
    section[name] = value
    if value is REMOVED:
        del section[name]
    (folder / file).write_text(json.dumps(content))


def change_tensors(folder, change):
    """Store the tensors that a function makes of all, or has changed, in two other shards."""
    shards = sorted(folder.glob("*.safetensors"))
    tensors = {name: tensor for shard in shards for name, tensor in load_file(shard).items()}
    tensors = change(tensors) or tensors
    for shard in shards:
        shard.unlink()
    weight_map = {}
    for file, names in (("a.safetensors", [*tensors][::2]), ("b.safetensors", [*tensors][1::2])):
        save_file({name: tensors[name].contiguous() for name in names}, folder / file)
        weight_map |= dict.fromkeys(names, file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def safetensors_start(header):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


def opened(folder):
    return open_checkpoint(locate(str(folder), None))


def loaded(folder):
    return load_model(opened(folder), device=torch.device("cpu"), dtype=torch.float32)


def error_of(folder, action=opened):
    with pytest.raises(JudgeMisconfigured) as caught:
        action(folder)
    return str(caught.value)


# Files and fields that cannot be used

INT8 = safetensors_start({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}}) + bytes(4)
PICKLE = b"\x80\x04cos\nabort\n(tR."  # ends the process that opens it
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


def field(name, value, file="config.json"):
    return lambda folder: set_field(folder, name, value, file)


def shard(content):
    return lambda folder: (folder / SHARDS[3]).write_bytes(content)


def no_pickle(folder):
    for file in (INDEX, *SHARDS):
        (folder / file).unlink()
    (folder / "pytorch_model.bin").write_bytes(PICKLE)


def config(**fields):
    """Another model's, whose other files are missing, too."""

    def change(folder):
        (folder / "config.json").write_text(json.dumps({**GOLDEN, **fields}))
        (folder / "tokenizer.model").unlink()

    return change


def layout(old, new):
    """No system message in the config, and another template."""
    assert old in TEMPLATES

    def change(folder):
        set_field(folder, "system_message", REMOVED)
        (folder / "conversation.py").write_text(TEMPLATES.replace(old, new))

    return change


FILES = ("config.json", "tokenizer.model", "tokenizer_config.json", SHARDS[2])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        *((lambda folder, file=file: (folder / file).unlink(), f"`{file}`") for file in FILES),
        (no_pickle, INDEX),
        (field("weight_map", {HEAD: "../model.safetensors"}, INDEX), "`weight_map`"),
        (field("weight_map", {HEAD: "pytorch_model.bin"}, INDEX), "`weight_map`"),
        (field("weight_map", {HEAD: 7}, INDEX), "`weight_map`"),
        (shard((CHECKPOINT / SHARDS[3]).read_bytes()[:-1]), SHARDS[3]),
        (shard(b"version https://git-lfs.github.com/spec/v1"), SHARDS[3]),
        (shard(INT8), SHARDS[3]),
        (config(model_type="qwen2_vl"), "'qwen2_vl'"),
        (config(llm_config={"architectures": ["Qwen2ForCausalLM"]}), "'Qwen2ForCausalLM'"),
        (field("template", "internlm2-chat"), "`template`"),
        (field("ps_version", "v1"), "`ps_version`"),
        (field("select_layer", -2), "`select_layer`"),
        (field("downsample_ratio", 0.25), "`downsample_ratio`"),
        (field("force_image_size", 448), "`force_image_size`"),
        (field("vision_config.qk_normalization", True), "`vision_config.qk_normalization`"),
        (field("vision_config.norm_type", "rms_norm"), "`vision_config.norm_type`"),
        (field("vision_config.qkv_bias", False), "`vision_config.qkv_bias`"),
        (field("llm_config.tie_word_embeddings", True), "`llm_config.tie_word_embeddings`"),
        (field("llm_config.partial_rotary_factor", 0.75), "`llm_config.partial_rotary_factor`"),
        (field("llm_config.sliding_window", 2047), "`llm_config.sliding_window`"),
        (field("llm_config.original_max_position_embeddings", REMOVED), "`llm_config.original_"),
        (field("llm_config.rope_scaling.type", "yarn"), "`llm_config.rope_scaling"),
        (field("llm_config.rope_scaling.factor", 32.0), "`llm_config.rope_scaling"),
        (field("llm_config.rope_scaling.short_factor", [2.0] * 7), "`llm_config.rope_scaling"),
        (layout('sep="<|end|>"', 'sep="<|im_end|>"'), "`sep`"),
        (layout("SeparatorStyle.MPT", "SeparatorStyle.PLAIN"), "`sep_style`"),
        (layout("<|system|>\\n{", "<|system|>{"), "`system_template`"),
        (layout('"From the" " template."', "MESSAGE"), "`system_message`"),
        (layout("phi3-chat", "phi4-chat"), "`phi3-chat`"),
    ],
)
def test_what_cannot_be_used_is_named(folder, change, name):
    change(folder)
    assert name in error_of(folder)


def test_a_pickle_is_never_opened_and_a_field_may_be_left_out_or_have_an_equivalent_value(folder):
    (folder / "pytorch_model.bin").write_bytes(PICKLE)
    set_field(folder, "select_layer", REMOVED)
    set_field(folder, "llm_config.rope_scaling.type", "longrope")
    set_field(folder, "llm_config.num_key_value_heads", REMOVED)
    assert opened(folder).config.llm_config.kv_heads == 4


def test_the_message_is_that_of_the_config_or_else_of_the_template_which_is_not_run(folder):
    (folder / "conversation.py").write_text(TEMPLATES)
    for message in ("", "From the key.", "<|end|>\n{braces}"):
        set_field(folder, "system_message", message)
        assert opened(folder).system_message == message
    set_field(folder, "system_message", REMOVED)
    assert opened(folder).system_message == "From the template."
    (folder / "conversation.py").unlink()
    assert "`conversation.py`" in error_of(folder)


# The digest


def test_the_digest_is_that_of_the_content_wherever_it_is(folder):
    digests = [opened(CHECKPOINT).digest]
    assert opened(folder).digest == digests[0]
    content = (folder / SHARDS[0]).read_bytes()
    for change in (
        field("max_dynamic_patch", 13),
        field("legacy", True, "tokenizer_config.json"),
        lambda _: (folder / SHARDS[0]).write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
    ):
        change(folder)
        digests.append(opened(folder).digest)
    assert len(set(digests)) == 4


def test_a_large_file_is_sampled_from_its_first_byte_to_its_last(tmp_path):
    path, size = (
        tmp_path / "a.safetensors",
        (3 * files.DIGEST_BLOCKS + 7) * files.DIGEST_BLOCK_BYTES,
    )
    start = safetensors_start({})
    path.write_bytes(start)
    os.truncate(path, len(start) + size)  # zeros, as a hole on the disk
    digests = {files.digest_of([], [path])}
    for position in (0, size // (files.DIGEST_BLOCKS - 1), size - 1):
        with path.open("r+b") as file:
            file.seek(len(start) + position)
            file.write(b"1")
        digests.add(files.digest_of([], [path]))
    assert len(digests) == 4


# A fine-tune that was saved unmerged

WRAPPED = "language_model.base_model.model.model.layers.0.mlp.down_proj"
PLAIN = "language_model.model.layers.0.mlp.down_proj.weight"
TARGETS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attn.qkv", "attn.proj", "fc1", "fc2")


def unmerged(tensors):
    """The same weights with an update taken out of every target, named as peft names them."""
    generator = torch.Generator().manual_seed(0)
    parts = {}
    for name, tensor in tensors.items():
        model, _, rest = name.partition(".")
        wrapped = name if model == "mlp1" else f"{model}.base_model.model.{rest}"
        stem, _, kind = wrapped.rpartition(".")
        if not stem.endswith(TARGETS):
            parts[wrapped] = tensor
        elif kind == "bias":
            parts[f"{stem}.base_layer.bias"] = tensor
        else:
            # Small powers of two: sums and products are exact in fp32.
            down = torch.randint(-2, 3, (4, tensor.shape[1]), generator=generator) / 8
            up = torch.randint(-2, 3, (tensor.shape[0], 4), generator=generator) / 8
            parts[f"{stem}.base_layer.weight"] = tensor.float() - 2 * up @ down
            parts[f"{stem}.lora_A.default.weight"] = down.to(torch.bfloat16)
            parts[f"{stem}.lora_B.default.weight"] = up.to(torch.bfloat16)
    return parts


@needs_transformers_5
def test_an_unmerged_fine_tune_gives_the_merged_weights(folder):
    expected = loaded(folder).state_dict()
    change_tensors(folder, unmerged)
    merged = loaded(folder).state_dict()
    assert merged.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(merged[name], weight, rtol=0, atol=1e-6)


BASE, DOWN = f"{WRAPPED}.base_layer.weight", f"{WRAPPED}.lora_A.default.weight"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.__delitem__(BASE), id="without-base"),
        pytest.param(lambda t: t.update({PLAIN: t[BASE].clone()}), id="with-merged"),
        pytest.param(lambda t: t.update({DOWN: t[DOWN][1:]}), id="other-rank"),
    ],
)
def test_a_fine_tune_that_does_not_fit_together_is_refused(folder, change):
    change_tensors(folder, unmerged)
    change_tensors(folder, change)
    assert PLAIN in error_of(folder)


# The loaded model


@needs_transformers_5
def test_image_features_are_the_official_ones(folder):
    model = loaded(folder)
    outputs = {name: output for name, output in logits().items() if name.startswith("vit/")}
    for name, official in outputs.items():
        tiles = read_tiles(IMAGES / f"{name.removeprefix('vit/')}.png", 56)
        pixels = normalized(torch.from_numpy(tiles.copy()), torch.float32)
        features = model.model.get_image_features(
            pixels, vision_feature_layer=-1, vision_feature_select_strategy="default"
        )
        assert np.abs(features.pooler_output.numpy() - official).max() < 5e-5


@needs_transformers_5
@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param(lambda t: t.__delitem__(HEAD), HEAD, id="less"),
        pytest.param(lambda t: t.update({"mlp2.weight": torch.zeros(1)}), "mlp2.weight", id="more"),
        pytest.param(lambda t: t.update({HEAD: t[HEAD][:990]}), "lm_head", id="row"),
        pytest.param(lambda t: t.update({QKV: t[QKV][:-3]}), "size mismatch", id="fused"),
    ],
)
def test_every_weight_must_have_its_shape_and_no_other_may_exist(folder, change, name):
    change_tensors(folder, change)
    assert name in error_of(folder, loaded)
