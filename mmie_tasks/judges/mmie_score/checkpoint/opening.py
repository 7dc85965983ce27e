"""A checkpoint opened: everything checked that can be without reading weights, in seconds."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.judges.mmie_score.checkpoint import config as config_file
from mmie_tasks.judges.mmie_score.checkpoint import files
from mmie_tasks.judges.mmie_score.checkpoint.config import TEMPLATE, Config, Facts
from mmie_tasks.judges.mmie_score.checkpoint.files import (
    CONFIG,
    CONVERSATION,
    Tensor,
    digest_of,
    read_bytes,
    read_headers,
    unusable,
)
from mmie_tasks.judges.mmie_score.checkpoint.names import Weight, expected_shapes, weights_of
from mmie_tasks.judges.mmie_score.checkpoint.source import Located
from mmie_tasks.judges.mmie_score.prompt import END, IMAGE_CONTEXT, MARKS

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer


# The default system message, which belongs to the checkpoint and is not in our code.
#
# The order is that of the official ``modeling_internvl_chat.py`` (OpenGVLab/InternVL since
# 2024-07-26): ``system_message`` of ``config.json`` replaces the template's in ``conversation.py``.
# That file is only parsed; nothing in it is run.

KEY = "system_message"
MAX_SOURCE_BYTES = 1024 * 1024  # the official file has some 15 KB

# What `mmie_tasks.judges.mmie_score.prompt` builds, field by field.
_LAYOUT = {
    "system_template": "<|system|>\n{system_message}",
    "roles": ("<|user|>\n", "<|assistant|>\n"),
    "sep": "<|end|>",
}
_STYLE = "SeparatorStyle.MPT"

_UNREADABLE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


def in_config(config: dict[str, object]) -> bool:
    """Whether the message is in ``config.json``; an empty one is a message too."""
    return KEY in config


def read_message(folder: Path, config: dict[str, object], template: str) -> str:
    """The default system message.

    Args:
        folder: Of the checkpoint.
        config: Content of its ``config.json``.
        template: Name of the conversation template.

    Raises:
        JudgeMisconfigured: It is in neither place, is no text, or the template has another layout.
    """
    if in_config(config):
        return _text(config[KEY], f"`{KEY}` in `{folder / CONFIG}`")
    path = folder / CONVERSATION
    if not path.is_file():
        raise _nowhere(folder, f"there is no `{CONVERSATION}` beside it")
    calls = [fields for fields in _conversations(path) if _literal(fields.get("name")) == template]
    match calls:
        case []:
            raise _nowhere(folder, f"`{CONVERSATION}` beside it defines no template `{template}`")
        case [fields]:
            _check_layout(path, template, fields)
            message = fields.get(KEY)
            return "" if message is None else _text(_literal(message), f"`{KEY}` in `{path}`")
    raise unusable(f"`{path}` defines the template `{template}` {len(calls)} times.")


def _conversations(path: Path) -> Iterator[dict[str, ast.expr]]:
    """The named arguments of every ``Conversation(...)``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a stranger's escapes in strings
            nodes = list(ast.walk(ast.parse(read_bytes(path, MAX_SOURCE_BYTES))))
    except _UNREADABLE as error:
        raise unusable(f"`{path}` cannot be parsed as Python: {error}.") from error
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="Conversation"), args=[]):
                yield {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}


def _check_layout(path: Path, template: str, fields: dict[str, ast.expr]) -> None:
    found: dict[str, object] = {name: _literal(fields.get(name)) for name in _LAYOUT}
    style = fields.get("sep_style")
    found["sep_style"] = None if style is None else ast.unparse(style)
    for name, expected in {**_LAYOUT, "sep_style": _STYLE}.items():
        if found[name] != expected:
            raise unusable(
                f"The template `{template}` in `{path}` has another layout than the judge's: "
                f"`{name}` is {found[name]!r}, and {expected!r} was expected."
            )


def _literal(node: ast.expr | None) -> object:
    """The value that is written there; None where there is none, or anything but a literal."""
    if node is None:
        return None
    try:
        value: object = ast.literal_eval(node)
    except _UNREADABLE:
        return None
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise unusable(f"{where} is no text, but a {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise unusable(f"{where} is no text: {error}.") from error
    return value


def _nowhere(folder: Path, why: str) -> Exception:
    return unusable(
        f"No default system message was found: `{folder / CONFIG}` has no `{KEY}`, and {why}.",
        "download the whole repository, with "
        f"`{CONVERSATION}`, or add the official message as `{KEY}` to `{CONFIG}`",
    )


_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that was checked; its weights have not been read.

    Attributes:
        located: Where it is.
        digest: 12 hex digits that tell its content from another's; see `digest_of`.
        facts: Plain numbers and words.
        tokenizer: Its tokenizer.
        config: The fields of ``config.json`` that matter.
        weights: Where each weight is stored, by its official name.
        notes: What was found that is unlike the official model and does no harm, in words.
    """

    located: Located
    digest: str
    facts: Facts
    tokenizer: SlowLlamaTokenizer = field(repr=False)
    config: Config = field(repr=False)
    weights: Mapping[str, Weight] = field(repr=False)
    notes: tuple[str, ...] = ()


def open_checkpoint(located: Located) -> Checkpoint:
    """Read and check all but the weights.

    Raises:
        JudgeMisconfigured: A file is missing or damaged, it is another model, or its parts do not
            fit; the message says what was found, and where.
    """
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

    folder = located.folder
    files.require(folder, [files.CONFIG])
    content = files.read_object(folder / files.CONFIG)
    config_file.check_architecture(content, folder / files.CONFIG)
    files.require(folder, [files.TOKENIZER, files.TOKENIZER_CONFIG])
    config = config_file.read_config(content, folder / files.CONFIG)
    words = read_message(folder, content, TEMPLATE)
    shards = files.find_shards(folder)
    tensors = read_headers(shards.paths)
    _check_index(folder, shards, tensors)
    ranks = {"language_model": config.use_llm_lora, "vision_model": config.use_backbone_lora}
    weights = weights_of(tensors.values(), ranks)
    _check_weights(folder, config, weights)
    tokenizer = SlowLlamaTokenizer.from_folder(folder)
    ids = _check_tokens(folder, config, tokenizer)
    return Checkpoint(
        located=located,
        digest=digest_of(_small_files(folder, content), shards.paths),
        facts=_facts(config, tensors.values(), ids, words),
        tokenizer=tokenizer,
        config=config,
        weights=weights,
        notes=tuple(_notes(config, shards, tensors.values(), weights, tokenizer)),
    )


def _small_files(folder: Path, content: dict[str, object]) -> list[Path]:
    conversation = [] if in_config(content) else [files.CONVERSATION]
    names = (files.CONFIG, *files.TOKENIZER_FILES, *conversation)
    return [folder / name for name in names if (folder / name).is_file()]


def _check_index(folder: Path, shards: files.Shards, tensors: Mapping[str, Tensor]) -> None:
    """Index and files name the same tensors, each in the same place."""
    if shards.index is None:
        return
    said = {(name, where) for name, where in shards.index.items()}
    found = {(name, tensor.path.name) for name, tensor in tensors.items()}
    for pairs, text in ((said - found, "is not in it"), (found - said, "is in it unannounced")):
        for name, where in sorted(pairs)[:1]:
            raise unusable(
                f"The index in `{folder}` and the files do not fit: `{name}` in `{where}` {text}."
            )


def _check_weights(folder: Path, config: Config, weights: Mapping[str, Weight]) -> None:
    expected = expected_shapes(config)
    missing, surplus = sorted(expected.keys() - weights), sorted(weights.keys() - expected)
    for names, text in ((missing, "misses"), (surplus, "has, beyond what the model has,")):
        if names:
            raise unusable(
                f"The checkpoint in `{folder}` {text} {len(names)} weights; the first is "
                f"`{names[0]}`."
            )
    for name, shape in expected.items():
        stored = weights[name].stored
        if stored.shape != shape:
            raise unusable(
                f"`{name}` in `{stored.path}` is {list(stored.shape)}, and `{files.CONFIG}` makes "
                f"it {list(shape)}{_of_vocabulary(name, config)}."
            )


def _of_vocabulary(name: str, config: Config) -> str:
    is_table = name.endswith(("embed_tokens.weight", "lm_head.weight"))
    return f" (`llm_config.vocab_size` is {config.llm_config.vocab_size})" if is_table else ""


def _check_tokens(folder: Path, config: Config, tokenizer: SlowLlamaTokenizer) -> dict[str, int]:
    """The numbers of the marks, once all tokens have a row in the embeddings."""
    rows, tokens = config.llm_config.vocab_size, len(tokenizer)
    if tokens > rows:
        raise unusable(
            f"The tokenizer in `{folder}` has {tokens} tokens, and `llm_config.vocab_size` in "
            f"`{files.CONFIG}` is {rows}: they are not of the same model."
        )
    ids = {mark: tokenizer.id_of(mark) for mark in MARKS}
    return {mark: number for mark, number in ids.items() if number is not None}


def _facts(config: Config, tensors: Iterable[Tensor], ids: Mapping[str, int], words: str) -> Facts:
    text, vision = config.llm_config, config.vision_config
    stored: Counter[str] = Counter()
    for tensor in tensors:
        stored[_DTYPES[tensor.dtype]] += tensor.n_bytes
    pad = text.pad_token_id
    return Facts(
        system_message=words,
        image_px=vision.image_size,
        tokens_per_tile=config.tokens_per_tile,
        image_token_id=ids[IMAGE_CONTEXT],
        end_token_id=ids[END],
        pad_token_id=ids[END] if pad is None else pad,
        max_positions=text.max_position_embeddings,
        long_after=text.original_max_position_embeddings,
        weight_bytes=stored.total(),
        dtype=stored.most_common(1)[0][0],
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
    shards: files.Shards,
    tensors: Iterable[Tensor],
    weights: Mapping[str, Weight],
    tokenizer: SlowLlamaTokenizer,
) -> list[str]:
    notes = config_file.notes_on(config)
    if shards.ignored:
        notes.append(f"not read, because the index does not name them: {', '.join(shards.ignored)}")
    if len(dtypes := {tensor.dtype for tensor in tensors}) > 1:
        notes.append(f"weights are stored in several types: {', '.join(sorted(dtypes))}")
    if updated := sum(weight.up is not None for weight in weights.values()):
        notes.append(f"{updated} weights of a LoRA fine-tune are merged when they are loaded")
    elif config.use_llm_lora or config.use_backbone_lora:
        notes.append("the config speaks of a LoRA fine-tune; its weights are merged already")
    if rows := config.llm_config.vocab_size - len(tokenizer):
        notes.append(f"{rows} rows of the embeddings belong to no token")
    return notes
