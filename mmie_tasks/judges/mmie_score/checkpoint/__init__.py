"""The official checkpoint: found or downloaded, checked without reading weights, then loaded.

No file of a checkpoint is ever run, and no pickle is ever opened: ``conversation.py`` is parsed as
text, and weights are safetensors. `open_checkpoint` takes seconds and does not import torch; the
weights are loaded by `mmie_tasks.judges.mmie_score.loading`, which does.

Official names are those of ``InternVLChatModel`` (OpenGVLab/InternVL); native ones those of
transformers' ``InternVLForConditionalGeneration`` with a Phi-3 text model. The rows of the vision
tower's fused ``qkv`` are queries, keys and values in equal thirds; all other weights keep their
shape.

A fine-tune with the official script (``internvl_chat_finetune.py``) may be saved as it was trained:
``base_layer`` beside ``lora_A.default`` and ``lora_B.default``. The script's alpha is always twice
the rank, so the merged weight is ``base + 2 * B @ A``, whatever the rank.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.mmie_score.checkpoint import config as config_file
from mmie_tasks.judges.mmie_score.checkpoint import files
from mmie_tasks.judges.mmie_score.checkpoint.config import (
    Config,
    message_file,
    read_config,
    read_message,
)
from mmie_tasks.judges.mmie_score.checkpoint.files import DOWNLOAD_HINT, Tensor, unusable
from mmie_tasks.judges.mmie_score.checkpoint.source import DEFAULT_MODEL, CheckpointLocation, locate
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer

__all__ = ["DEFAULT_MODEL", "Checkpoint", "CheckpointLocation", "locate", "open_checkpoint"]

LORA_SCALE = 2.0

_TOWER = "model.vision_tower"
_PREFIXES = {
    "mlp1.0.": "model.multi_modal_projector.layer_norm.",
    "mlp1.1.": "model.multi_modal_projector.linear_1.",
    "mlp1.3.": "model.multi_modal_projector.linear_2.",
    "language_model.lm_head.": "lm_head.",
    "language_model.model.": "model.language_model.",
    "vision_model.embeddings.class_embedding": f"{_TOWER}.embeddings.cls_token",
    "vision_model.embeddings.position_embedding": f"{_TOWER}.embeddings.position_embeddings",
    "vision_model.embeddings.patch_embedding.": f"{_TOWER}.embeddings.patch_embeddings.projection.",
    "vision_model.encoder.layers.": f"{_TOWER}.encoder.layer.",
}
_LAYER_PARTS = {
    ".attn.proj.": ".attention.projection_layer.",
    ".norm1.": ".layernorm_before.",
    ".norm2.": ".layernorm_after.",
    ".ls1": ".lambda_1",
    ".ls2": ".lambda_2",
}
_FUSED = re.compile(r"(.+)\.attn\.qkv\.(weight|bias)")
_LORA_UPDATE = re.compile(r"(.+)\.(lora_[AB])\.default\.weight")

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A stored weight, and its update by a fine-tune if any: `up`, (rows, rank), times `down`,
    (rank, columns).
    """

    stored: Tensor
    down: Tensor | None = None
    up: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint whose files were checked; its weights have not been read.

    Attributes:
        digest: Of its content; see `files.digest_of`.
        system_message: The default one, which is in `message_file`; may be empty.
        image_token_id: Of ``<IMG_CONTEXT>``.
        end_token_id: Of ``<|end|>``, the only stop token.
        weight_bytes: Size of all tensors, as stored.
        dtype: Type of most weights, as stored: ``bfloat16``, ``float16`` or ``float32``.
        weights: By official name.
        notes: Harmless differences from the official model, as clauses.
    """

    location: CheckpointLocation
    digest: str
    config: Config = field(repr=False)
    tokenizer: SlowLlamaTokenizer = field(repr=False)
    system_message: str
    message_file: str
    image_token_id: int
    end_token_id: int
    weight_bytes: int
    dtype: str
    weights: Mapping[str, Weight] = field(repr=False)
    notes: tuple[str, ...]

    def description(self) -> str:
        """The content of the files; not the system message itself, which is not ours to show."""
        tokenizer, text = self.tokenizer, self.config.llm_config
        stripping = sum(token.rstrip for token in tokenizer.listed.values())
        description = (
            f"InternVL2 with Phi-3, {readable_size(self.weight_bytes)} of {self.dtype}, "
            f"{text.num_hidden_layers} layers, vocabulary {text.vocab_size:,}, "
            f"tiles of {self.config.vision_config.image_size} px; rope {text.rope_scaling.type}, "
            "long above "
            f"{text.original_max_position_embeddings:,} of {text.max_position_embeddings:,} "
            "tokens; tokenizer "
            f"legacy={str(tokenizer.legacy).lower()}, {len(tokenizer.added)} added "
            f"tokens, {stripping} with rstrip; system message of "
            f"{len(self.system_message)} characters in `{self.message_file}`; digest {self.digest}"
        )
        return "; ".join([description, *self.notes])


def open_checkpoint(location: CheckpointLocation) -> Checkpoint:
    """Read and check everything but the weights.

    Raises:
        JudgeMisconfigured: A file is missing or damaged, it is another model, or its parts do not
            fit together.
    """
    folder = location.folder
    files.require(folder, [files.CONFIG])
    content = files.read_object(folder / files.CONFIG)
    config = read_config(content, folder / files.CONFIG)
    files.require(folder, [files.TOKENIZER, files.TOKENIZER_CONFIG])
    message, message_source = read_message(folder, content), message_file(content)
    shards = files.find_shards(folder)
    tensors = files.read_headers(shards)
    weights = _weights_of(tensors)
    _check_weights(folder, config, weights)
    tokenizer = SlowLlamaTokenizer(folder)
    if len(tokenizer) > config.llm_config.vocab_size:
        raise unusable(
            f"The tokenizer in `{folder}` has {len(tokenizer)} tokens, and `llm_config.vocab_size` "
            f"in `{files.CONFIG}` is {config.llm_config.vocab_size}: they are not of the same "
            "model."
        )
    small_files = (folder / name for name in (files.CONFIG, *files.TOKENIZER_FILES, message_source))
    existing = [path for path in dict.fromkeys(small_files) if path.is_file()]
    bytes_by_dtype: Counter[str] = Counter()
    for tensor in tensors:
        bytes_by_dtype[files.DTYPES[tensor.dtype]] += tensor.n_bytes
    return Checkpoint(
        location=location,
        digest=files.digest_of(existing, shards),
        config=config,
        tokenizer=tokenizer,
        system_message=message,
        message_file=message_source,
        image_token_id=tokenizer.mark_ids[config_file.IMAGE_CONTEXT],
        end_token_id=tokenizer.mark_ids[config_file.END],
        weight_bytes=bytes_by_dtype.total(),
        dtype=bytes_by_dtype.most_common(1)[0][0],
        weights=weights,
        notes=tuple(_notes(config, shards, tensors, weights, len(tokenizer))),
    )


def _check_weights(folder: Path, config: Config, weights: Mapping[str, Weight]) -> None:
    expected = expected_shapes(config)
    for names, problem in (
        (sorted(expected.keys() - weights), "lacks"),
        (sorted(weights.keys() - expected), "has, beyond those of the model,"),
    ):
        if names:
            raise unusable(
                f"The checkpoint in `{folder}` {problem} {len(names)} weights; the first is "
                f"`{names[0]}`."
            )
    for name, shape in expected.items():
        stored = weights[name].stored
        if stored.shape != shape:
            is_table = name.endswith(("embed_tokens.weight", "lm_head.weight"))
            rows = f" (`llm_config.vocab_size` is {shape[0]})" if is_table else ""
            raise unusable(
                f"`{name}` in `{stored.path}` is {list(stored.shape)}, and by `{files.CONFIG}` it "
                f"is {list(shape)}{rows}."
            )


def _notes(
    config: Config,
    shards: Sequence[Path],
    tensors: Iterable[Tensor],
    weights: Mapping[str, Weight],
    tokens: int,
) -> Iterator[str]:
    if config.max_dynamic_patch not in (None, config_file.MAX_TILES):
        yield (
            f"`max_dynamic_patch` is {config.max_dynamic_patch}; images are cut into up to "
            f"{config_file.MAX_TILES} tiles nevertheless, as MMIE does"
        )
    if config.tie_word_embeddings:
        yield "`tie_word_embeddings` is true beside `llm_config`; the stored head is used"
    if ignored := sorted({*shards[0].parent.glob("*.safetensors")} - {*shards}):
        yield (
            "not read, because the index does not name them: "
            f"{', '.join(path.name for path in ignored)}"
        )
    if len(dtypes := {tensor.dtype for tensor in tensors}) > 1:
        yield f"weights are stored in several types: {', '.join(sorted(dtypes))}"
    if updated := sum(weight.up is not None for weight in weights.values()):
        yield f"{updated} weights of a LoRA fine-tune are merged when they are loaded"
    if rows := config.llm_config.vocab_size - tokens:
        yield f"{rows} rows of the embeddings belong to no token"


def native_names(official: str) -> tuple[str, ...]:
    """The native name of a weight; three names if queries, keys and values are separate there.

    >>> native_names("mlp1.3.bias")
    ('model.multi_modal_projector.linear_2.bias',)
    >>> native_names("vision_model.encoder.layers.7.attn.qkv.bias")[1]
    'model.vision_tower.encoder.layer.7.attention.k_proj.bias'
    """
    prefix, native = next(pair for pair in _PREFIXES.items() if official.startswith(pair[0]))
    name = native + official.removeprefix(prefix)
    if not name.startswith(f"{_TOWER}.encoder."):
        return (name,)
    if fused := _FUSED.fullmatch(name):
        layer, kind = fused.groups()
        return tuple(f"{layer}.attention.{part}_proj.{kind}" for part in "qkv")
    for part, native in _LAYER_PARTS.items():
        name = name.replace(part, native)
    return (name,)


def expected_shapes(config: Config) -> dict[str, Shape]:
    """Every weight of the official model, by its official name, with its shape."""
    vision, text = config.vision_config, config.llm_config
    wide, inner = vision.hidden_size, vision.intermediate_size
    vision_layer = {
        "ls1": (wide,),
        "ls2": (wide,),
        **_pair("norm1", wide),
        **_pair("norm2", wide),
        **_pair("attn.qkv", 3 * wide, wide),
        **_pair("attn.proj", wide, wide),
        **_pair("mlp.fc1", inner, wide),
        **_pair("mlp.fc2", wide, inner),
    }
    shuffled = 4 * wide  # of the four patches that become one token
    hidden, inner = text.hidden_size, text.intermediate_size
    heads = text.num_attention_heads + 2 * text.kv_heads
    text_layer = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.qkv_proj.weight": (heads * text.head_dim, hidden),
        "self_attn.o_proj.weight": (hidden, hidden),
        "mlp.gate_up_proj.weight": (2 * inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    patch = (vision.num_channels, vision.patch_size, vision.patch_size)
    return {
        "vision_model.embeddings.class_embedding": (1, 1, wide),
        "vision_model.embeddings.position_embedding": (1, vision.side_patches**2 + 1, wide),
        **_pair("vision_model.embeddings.patch_embedding", wide, *patch),
        **_layers("vision_model.encoder.layers", vision.num_hidden_layers, vision_layer),
        "language_model.lm_head.weight": (text.vocab_size, hidden),
        "language_model.model.embed_tokens.weight": (text.vocab_size, hidden),
        "language_model.model.norm.weight": (hidden,),
        **_layers("language_model.model.layers", text.num_hidden_layers, text_layer),
        **_pair("mlp1.0", shuffled),
        **_pair("mlp1.1", hidden, shuffled),
        **_pair("mlp1.3", hidden, hidden),
    }


def _layers(stem: str, count: int, layer: Mapping[str, Shape]) -> dict[str, Shape]:
    return {f"{stem}.{n}.{name}": shape for n in range(count) for name, shape in layer.items()}


def _pair(stem: str, *shape: int) -> dict[str, Shape]:
    """A weight, and a bias with one number for each of its rows."""
    return {f"{stem}.weight": shape, f"{stem}.bias": shape[:1]}


def _weights_of(tensors: Iterable[Tensor]) -> dict[str, Weight]:
    """The model's weights by their official names; rotary frequencies, which old files hold, are
    left out.
    """
    parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for tensor in tensors:
        name = tensor.name.replace(".base_model.model.", ".", 1)  # added by a LoRA wrapper
        if name.endswith("rotary_emb.inv_freq"):
            continue
        if update := _LORA_UPDATE.fullmatch(name):
            parts[f"{update[1]}.weight"][update[2]] = tensor
        elif ".base_layer." in name:
            parts[name.replace(".base_layer.", ".", 1)]["base_layer"] = tensor
        else:
            parts[name]["merged"] = tensor
    return {name: _weight(name, stored) for name, stored in parts.items()}


def _weight(name: str, parts: Mapping[str, Tensor]) -> Weight:
    """The weight of a name; a bias beside a LoRA update is a ``base_layer`` alone."""
    match parts:
        case {"merged": stored} if len(parts) == 1:
            return Weight(stored=stored)
        case {"base_layer": stored} if name.endswith(".bias"):
            return Weight(stored=stored)
        case {"base_layer": stored, "lora_A": down, "lora_B": up} if len(parts) == 3:
            if (
                down.shape[1:] + up.shape[:1] == stored.shape[::-1]
                and up.shape[1:] == down.shape[:1]
            ):
                return Weight(stored=stored, down=down, up=up)
    shapes = ", ".join(f"`{part}` {list(tensor.shape)}" for part, tensor in parts.items())
    raise unusable(
        f"`{name}` is part of a LoRA fine-tune that is incomplete, merged in part, or does not "
        f"fit; there are {shapes}.",
        f"use a folder in which the fine-tune is merged, or {DOWNLOAD_HINT}",
    )
