"""The official checkpoint: found or downloaded, checked without reading weights, then loaded.

No file of a checkpoint is ever run, and no pickle is ever opened: ``conversation.py`` is parsed as
text, and weights are safetensors. `open_checkpoint` takes seconds and does not import torch; the
weights are loaded by `mmie_tasks.judges.mmie_score.checkpoint.weights`, which does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.judges.mmie_score.checkpoint import files
from mmie_tasks.judges.mmie_score.checkpoint.config import (
    MMIE_TILES,
    Config,
    Facts,
    check_architecture,
    message_file,
    read_config,
    read_message,
)
from mmie_tasks.judges.mmie_score.checkpoint.files import Shards, Tensor, unusable
from mmie_tasks.judges.mmie_score.checkpoint.names import Weight, expected_shapes, weights_of
from mmie_tasks.judges.mmie_score.checkpoint.source import DEFAULT_MODEL, CheckpointLocation, locate
from mmie_tasks.judges.mmie_score.prompt import END, IMAGE_CONTEXT, MARKS

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

__all__ = [
    "DEFAULT_MODEL",
    "Checkpoint",
    "CheckpointLocation",
    "Facts",
    "locate",
    "open_checkpoint",
]

_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint whose files were checked; its weights have not been read.

    Attributes:
        location: Its folder and name.
        digest: 12 hex digits that identify its content; see `files.digest_of`.
        facts: Its dimensions and token ids.
        tokenizer: Its tokenizer.
        config: The fields of ``config.json`` that matter.
        message_file: The file with the default system message.
        weights: The stored tensors of each weight, by its official name.
        notes: Harmless differences from the official model, as clauses.
    """

    location: CheckpointLocation
    digest: str
    facts: Facts
    tokenizer: SlowLlamaTokenizer = field(repr=False)
    config: Config = field(repr=False)
    message_file: str
    weights: Mapping[str, Weight] = field(repr=False)
    notes: tuple[str, ...] = ()


def open_checkpoint(location: CheckpointLocation) -> Checkpoint:
    """Read and check everything but the weights.

    Raises:
        JudgeMisconfigured: A file is missing or damaged, it is another model, or its parts do not
            fit together; the message names file and problem.
    """
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

    folder = location.folder
    config_path = folder / files.CONFIG
    files.require(folder, [files.CONFIG])
    content = files.read_object(config_path)
    check_architecture(content, config_path)
    files.require(folder, [files.TOKENIZER, files.TOKENIZER_CONFIG])
    config = read_config(content, config_path)
    message = read_message(folder, content)
    shards = files.find_shards(folder)
    tensors = files.read_headers(shards.paths)
    _check_index(folder, shards, tensors)
    ranks = {"language_model": config.use_llm_lora, "vision_model": config.use_backbone_lora}
    weights = weights_of(tensors.values(), ranks)
    _check_weights(folder, config, weights)
    tokenizer = SlowLlamaTokenizer(folder)
    ids = _token_ids(folder, config, tokenizer)
    small_files = [files.CONFIG, *files.TOKENIZER_FILES]
    if message_file(content) != files.CONFIG:
        small_files.append(message_file(content))
    existing = [folder / name for name in small_files if (folder / name).is_file()]
    return Checkpoint(
        location=location,
        digest=files.digest_of(existing, shards.paths),
        facts=_facts(config, tensors.values(), ids, message),
        tokenizer=tokenizer,
        config=config,
        message_file=message_file(content),
        weights=weights,
        notes=tuple(_notes(config, shards, tensors.values(), weights, tokenizer)),
    )


def _check_index(folder: Path, shards: Shards, tensors: Mapping[str, Tensor]) -> None:
    """The index and the files name the same tensors, in the same files."""
    if shards.index is None:
        return
    indexed = set(shards.index.items())
    stored = {(name, tensor.path.name) for name, tensor in tensors.items()}
    for pairs, problem in (
        (indexed - stored, "is only in the index"),
        (stored - indexed, "is only in the file"),
    ):
        for name, file_name in sorted(pairs)[:1]:
            raise unusable(
                f"The index in `{folder}` does not fit the files: `{name}` in `{file_name}` "
                f"{problem}."
            )


def _check_weights(folder: Path, config: Config, weights: Mapping[str, Weight]) -> None:
    expected = expected_shapes(config)
    missing, surplus = sorted(expected.keys() - weights), sorted(weights.keys() - expected)
    for names, problem in ((missing, "lacks"), (surplus, "has, beyond those of the model,")):
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


def _token_ids(folder: Path, config: Config, tokenizer: SlowLlamaTokenizer) -> dict[str, int]:
    """The ids of the prompt's special tokens; checks that every token has an embedding."""
    rows, tokens = config.llm_config.vocab_size, len(tokenizer)
    if tokens > rows:
        raise unusable(
            f"The tokenizer in `{folder}` has {tokens} tokens, and `llm_config.vocab_size` in "
            f"`{files.CONFIG}` is {rows}: they are not of the same model."
        )
    return {mark: number for mark in MARKS if (number := tokenizer.id_of(mark)) is not None}


def _facts(
    config: Config, tensors: Iterable[Tensor], ids: Mapping[str, int], message: str
) -> Facts:
    text, vision = config.llm_config, config.vision_config
    bytes_by_dtype: Counter[str] = Counter()
    for tensor in tensors:
        bytes_by_dtype[_DTYPES[tensor.dtype]] += tensor.n_bytes
    pad = text.pad_token_id
    return Facts(
        system_message=message,
        image_px=vision.image_size,
        tokens_per_tile=config.tokens_per_tile,
        image_token_id=ids[IMAGE_CONTEXT],
        end_token_id=ids[END],
        pad_token_id=ids[END] if pad is None else pad,
        max_positions=text.max_position_embeddings,
        long_after=text.original_max_position_embeddings,
        weight_bytes=bytes_by_dtype.total(),
        dtype=bytes_by_dtype.most_common(1)[0][0],
        hidden_size=text.hidden_size,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
        kv_heads=text.kv_heads,
        head_dim=text.head_dim,
        intermediate_size=text.intermediate_size,
        vocab_size=text.vocab_size,
        vision_hidden_size=vision.hidden_size,
        vision_layers=vision.num_hidden_layers,
        vision_intermediate_size=vision.intermediate_size,
    )


def _notes(
    config: Config,
    shards: Shards,
    tensors: Iterable[Tensor],
    weights: Mapping[str, Weight],
    tokenizer: SlowLlamaTokenizer,
) -> list[str]:
    notes = []
    if config.max_dynamic_patch not in (None, MMIE_TILES):
        notes.append(
            f"`max_dynamic_patch` is {config.max_dynamic_patch}; images are cut into up to "
            f"{MMIE_TILES} tiles nevertheless, as MMIE does"
        )
    if config.tie_word_embeddings:
        notes.append("`tie_word_embeddings` is true beside `llm_config`; the stored head is used")
    if shards.ignored:
        notes.append(f"not read, because the index does not name them: {', '.join(shards.ignored)}")
    if len(dtypes := {tensor.dtype for tensor in tensors}) > 1:
        notes.append(f"weights are stored in several types: {', '.join(sorted(dtypes))}")
    if updated := sum(weight.up is not None for weight in weights.values()):
        notes.append(f"{updated} weights of a LoRA fine-tune are merged when they are loaded")
    elif config.use_llm_lora or config.use_backbone_lora:
        notes.append("the config names a LoRA fine-tune; its weights are merged already")
    if rows := config.llm_config.vocab_size - len(tokenizer):
        notes.append(f"{rows} rows of the embeddings belong to no token")
    return notes
