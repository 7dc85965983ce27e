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
from mmie_tasks.judges.mmie_score.checkpoint.config import MAX_TILES, Config, message_file, read_config, read_message
from mmie_tasks.judges.mmie_score.checkpoint.files import Shards, Tensor, unusable
from mmie_tasks.judges.mmie_score.checkpoint.names import Weight, expected_shapes, weights_of
from mmie_tasks.judges.mmie_score.checkpoint.source import DEFAULT_MODEL, CheckpointLocation, locate
from mmie_tasks.judges.mmie_score.prompt import END, IMAGE_CONTEXT

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

__all__ = ["DEFAULT_MODEL", "Checkpoint", "CheckpointLocation", "locate", "open_checkpoint"]

_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint whose files were checked; its weights have not been read.

    Attributes:
        location: Its folder and name.
        digest: 12 hex digits that identify its content; see `files.digest_of`.
        config: The fields of ``config.json`` that matter.
        tokenizer: Its tokenizer.
        system_message: The default system message; may be empty.
        message_file: The file with that message.
        image_token_id: Id of ``<IMG_CONTEXT>``.
        end_token_id: Id of ``<|end|>``, the only stop token.
        weight_bytes: Size of all tensors, as stored.
        dtype: Type of most weights, as stored: ``bfloat16``, ``float16`` or ``float32``.
        weights: The stored tensors of each weight, by its official name.
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
    notes: tuple[str, ...] = ()


def open_checkpoint(location: CheckpointLocation) -> Checkpoint:
    """Read and check everything but the weights.

    Raises:
        JudgeMisconfigured: A file is missing or damaged, it is another model, or its parts do not
            fit together; the message names file and problem.
    """
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

    folder = location.folder
    files.require(folder, [files.CONFIG])
    content = files.read_object(folder / files.CONFIG)
    config = read_config(content, folder / files.CONFIG)
    files.require(folder, [files.TOKENIZER, files.TOKENIZER_CONFIG])
    message = read_message(folder, content)
    shards = files.find_shards(folder)
    tensors = files.read_headers(shards.paths)
    _check_index(folder, shards, tensors)
    ranks = {"language_model": config.use_llm_lora, "vision_model": config.use_backbone_lora}
    weights = weights_of(tensors.values(), ranks)
    _check_weights(folder, config, weights)
    tokenizer = SlowLlamaTokenizer(folder)
    if len(tokenizer) > config.llm_config.vocab_size:
        raise unusable(
            f"The tokenizer in `{folder}` has {len(tokenizer)} tokens, and `llm_config.vocab_size` "
            f"in `{files.CONFIG}` is {config.llm_config.vocab_size}: they are not of the same model."
        )
    small_files = dict.fromkeys((files.CONFIG, *files.TOKENIZER_FILES, message_file(content)))
    existing = [folder / name for name in small_files if (folder / name).is_file()]
    bytes_by_dtype: Counter[str] = Counter()
    for tensor in tensors.values():
        bytes_by_dtype[_DTYPES[tensor.dtype]] += tensor.n_bytes
    return Checkpoint(
        location=location,
        digest=files.digest_of(existing, shards.paths),
        config=config,
        tokenizer=tokenizer,
        system_message=message,
        message_file=message_file(content),
        image_token_id=tokenizer.mark_ids[IMAGE_CONTEXT],
        end_token_id=tokenizer.mark_ids[END],
        weight_bytes=bytes_by_dtype.total(),
        dtype=bytes_by_dtype.most_common(1)[0][0],
        weights=weights,
        notes=tuple(_notes(config, shards, tensors.values(), weights, tokenizer)),
    )


def _check_index(folder: Path, shards: Shards, tensors: Mapping[str, Tensor]) -> None:
    """The index and the files name the same tensors, in the same files."""
    if shards.index is None:
        return
    indexed = set(shards.index.items())
    stored = {(name, tensor.path.name) for name, tensor in tensors.items()}
    for pairs, problem in ((indexed - stored, "is only in the index"), (stored - indexed, "is only in the file")):
        for name, file_name in sorted(pairs)[:1]:
            raise unusable(f"The index in `{folder}` does not fit the files: `{name}` in `{file_name}` {problem}.")


def _check_weights(folder: Path, config: Config, weights: Mapping[str, Weight]) -> None:
    expected = expected_shapes(config)
    missing, surplus = sorted(expected.keys() - weights), sorted(weights.keys() - expected)
    for names, problem in ((missing, "lacks"), (surplus, "has, beyond those of the model,")):
        if names:
            raise unusable(f"The checkpoint in `{folder}` {problem} {len(names)} weights; the first is `{names[0]}`.")
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
    shards: Shards,
    tensors: Iterable[Tensor],
    weights: Mapping[str, Weight],
    tokenizer: SlowLlamaTokenizer,
) -> list[str]:
    notes = []
    if config.max_dynamic_patch not in (None, MAX_TILES):
        notes.append(
            f"`max_dynamic_patch` is {config.max_dynamic_patch}; images are cut into up to "
            f"{MAX_TILES} tiles nevertheless, as MMIE does"
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
