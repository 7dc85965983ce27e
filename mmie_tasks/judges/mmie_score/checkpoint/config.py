"""``config.json`` and ``conversation.py`` of the official checkpoint, read and checked.

Every field of ``config.json`` that the judge depends on is checked by type and value; names are
those of the file, and all other fields are ignored. Fixed values are those of InternVL2-4B with a
Phi-3 text model; other values would need other code.

The default system message belongs to the checkpoint and is not in our code. As in the official
``modeling_internvl_chat.py`` (OpenGVLab/InternVL since 2024-07-26), ``system_message`` in
``config.json`` takes precedence over the template's in ``conversation.py``. That file is parsed,
never run. What cannot be used raises `JudgeMisconfigured`, which names the file and the field.
`query` puts the message into the template, as the official ``InternVLChatModel.chat`` does
(22839ce).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.judges.mmie_score.checkpoint.files import (
    CONFIG,
    CONVERSATION,
    OFFICIAL_HINT,
    read_bytes,
    unusable,
)

TEMPLATE = "phi3-chat"
IMAGE = "<image>"
IMAGE_START = "<img>"
IMAGE_CONTEXT = "<IMG_CONTEXT>"
IMAGE_END = "</img>"
SYSTEM = "<|system|>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"
END = "<|end|>"

MARKS = (SYSTEM, USER, ASSISTANT, END, IMAGE_START, IMAGE_CONTEXT, IMAGE_END)
"""Strings that a prompt is built with. Each must be one token of the judge."""

MAX_TILES = 12  # of an image, without the thumbnail: MMIE's own value

Count = Annotated[int, Field(ge=1, le=65_536)]
Positions = Annotated[int, Field(ge=1, le=16_777_216)]
Small = Annotated[float, Field(gt=0, lt=1)]
Factor = Annotated[float, Field(gt=0, lt=1e6)]

_MESSAGE_KEY = "system_message"
_MAX_SOURCE_BYTES = (
    1024 * 1024
)  # the official file has about 15 KB; parsing takes many times as much memory
_LAYOUT = {
    "system_template": "<|system|>\n{system_message}",
    "roles": ("<|user|>\n", "<|assistant|>\n"),
    "sep": "<|end|>",
    "sep_style": "SeparatorStyle.MPT",
}
"""The prompt that `query` builds, field by field."""
_PARSE_ERRORS = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", protected_namespaces=())


class RopeScaling(_Section):
    """Long and short factors of the rotary embedding.

    The official code of 2024 accepts these three keys and no others. Its ``yarn`` has another
    scale, so it is not accepted in place of ``su``.
    """

    model_config = ConfigDict(extra="forbid")

    type: Literal["su", "longrope"]
    short_factor: list[Factor]
    long_factor: list[Factor]


class TextConfig(_Section):
    """``llm_config``: the language model."""

    architectures: tuple[Literal["Phi3ForCausalLM"]] = Field(strict=False)
    model_type: Literal["phi3"]
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Annotated[int, Field(ge=1, le=1024)]
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    hidden_act: Literal["silu"] = "silu"
    rms_norm_eps: Small = 1e-5
    vocab_size: Annotated[int, Field(ge=1, le=2_000_000)]
    max_position_embeddings: Positions
    original_max_position_embeddings: Annotated[int, Field(ge=2, le=16_777_216)]
    rope_theta: Annotated[float, Field(gt=1, lt=1e12)] = 10_000.0
    rope_scaling: RopeScaling
    partial_rotary_factor: Annotated[float, Field(ge=1, le=1)] = 1.0
    sliding_window: int | None = None
    tie_word_embeddings: Literal[False] = False

    @property
    def kv_heads(self) -> int:
        """Key/value heads; by default as many as query heads, as in the official ``Phi3Config``."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_dim(self) -> int:
        """Dimension of a head."""
        return self.hidden_size // self.num_attention_heads


class VisionConfig(_Section):
    """``vision_config``: the vision tower."""

    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Annotated[int, Field(ge=1, le=1024)]
    num_attention_heads: Count
    num_channels: Literal[3]
    image_size: Annotated[int, Field(ge=1, le=8192)]
    patch_size: Annotated[int, Field(ge=1, le=1024)]
    qkv_bias: Literal[True]
    qk_normalization: Literal[False]
    norm_type: Literal["layer_norm"]
    layer_norm_eps: Small = 1e-6
    hidden_act: Literal["gelu"] = "gelu"

    @property
    def side_patches(self) -> int:
        """Patches along the side of a tile."""
        return self.image_size // self.patch_size


class Config(_Section):
    """The fields of ``config.json`` that matter; `read_config` checks that they fit together."""

    template: Literal["phi3-chat"]
    ps_version: Literal["v2"]
    select_layer: Literal[-1] = -1
    downsample_ratio: Annotated[float, Field(ge=0.5, le=0.5)]
    force_image_size: int | None = None
    max_dynamic_patch: int | None = None
    tie_word_embeddings: bool | None = None
    llm_config: TextConfig
    vision_config: VisionConfig

    @property
    def tokens_per_tile(self) -> int:
        """Four patches become one token: 256 at 448 px and patches of 14."""
        return (self.vision_config.side_patches // 2) ** 2


def _check_architecture(content: dict[str, object], path: Path) -> None:
    """Return if this is an InternVL with a Phi-3 text model."""
    names = [content.get("model_type")]
    for section in (content, content.get("llm_config")):
        match section:
            case {"architectures": [name, *_]}:
                names.append(name)
            case _:
                names.append(None)
    expected = ["internvl_chat", "InternVLChatModel", "Phi3ForCausalLM"]
    if names == expected:
        return
    listed = " · ".join("nothing" if name is None else str(name)[:80] for name in names)
    raise unusable(
        f"`{path}` is of another model than MMIE-Score. Its type, architecture and text model "
        f"are {listed}; expected are {' · '.join(expected)}, as in InternVL2-4B.",
        OFFICIAL_HINT,
    )


def read_config(content: dict[str, object], path: Path) -> Config:
    """The fields of the file's content that matter, each of a type and value that the judge
    supports.
    """
    _check_architecture(content, path)
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        raise unusable(f"`{path}` cannot be used: {problems_of(error)}.") from error
    if conflicts := list(_conflicts(config)):
        raise unusable(f"`{path}` cannot be used: {'; '.join(conflicts)}.")
    return config


def problems_of(error: ValidationError) -> str:
    """The first problems, each with its field and value, as clauses of an error message."""
    problems = []
    for detail in error.errors(include_url=False, include_context=False)[:5]:
        field = f"`{'.'.join(map(str, detail['loc']))}`" if detail["loc"] else "it"
        shown = repr(detail["input"])
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        state = "is missing" if detail["type"] == "missing" else f"is {shown}"
        problems.append(f"{field} {state} ({detail['msg'][:1].lower()}{detail['msg'][1:]})")
    return "; ".join(problems)


def _conflicts(config: Config) -> Iterator[str]:
    """Fields that contradict each other, as clauses of an error message."""
    text, vision = config.llm_config, config.vision_config
    rope, heads, half = text.rope_scaling, text.num_attention_heads, text.head_dim // 2
    window, longest = text.sliding_window, text.max_position_embeddings
    side, px = config.force_image_size, vision.image_size
    lengths = (len(rope.short_factor), len(rope.long_factor))
    if text.hidden_size % heads or text.head_dim % 2:
        yield f"`llm_config`: {text.hidden_size} dimensions cannot be divided among {heads} heads"
    if heads % text.kv_heads:
        yield f"`llm_config`: {heads} heads cannot share {text.kv_heads} key/value heads"
    if lengths != (half, half):
        yield f"`llm_config.rope_scaling` has {lengths} short and long factors, and not {half} each"
    if text.original_max_position_embeddings > longest:
        yield "`llm_config.original_max_position_embeddings` is above `max_position_embeddings`"
    if window is not None and window < longest:
        yield f"`llm_config.sliding_window` is {window}, below the {longest} positions"
    if side not in (None, px):
        yield f"`force_image_size` is {side}, and `vision_config.image_size` {px}"
    if px % (2 * vision.patch_size):
        yield f"`vision_config`: {px} px is no even number of {vision.patch_size} px"
    if vision.hidden_size % vision.num_attention_heads:
        yield "`vision_config`: `hidden_size` cannot be divided among `num_attention_heads`"


def message_file(content: dict[str, object]) -> str:
    """The file with the default system message; an empty message in ``config.json`` counts."""
    return CONFIG if _MESSAGE_KEY in content else CONVERSATION


def read_message(folder: Path, content: dict[str, object]) -> str:
    """The default system message of a checkpoint with this content of ``config.json``."""
    if message_file(content) == CONFIG:
        return _message_text(content[_MESSAGE_KEY], f"`{_MESSAGE_KEY}` in `{folder / CONFIG}`")

    def no_message(reason: str) -> Exception:
        return unusable(
            f"There is no default system message: `{folder / CONFIG}` has no `{_MESSAGE_KEY}`, and "
            f"{reason}.",
            f"download the whole repository, with `{CONVERSATION}`, or add the official message as "
            f"`{_MESSAGE_KEY}` to `{CONFIG}`",
        )

    path = folder / CONVERSATION
    if not path.is_file():
        raise no_message(f"there is no `{CONVERSATION}` beside it")
    calls = [fields for fields in _conversations(path) if _literal(fields.get("name")) == TEMPLATE]
    if not calls:
        raise no_message(f"`{CONVERSATION}` beside it defines no template `{TEMPLATE}`")
    if len(calls) > 1:
        raise unusable(f"`{path}` defines the template `{TEMPLATE}` {len(calls)} times.")
    _check_layout(path, calls[0])
    message = calls[0].get(_MESSAGE_KEY)
    return (
        "" if message is None else _message_text(_literal(message), f"`{_MESSAGE_KEY}` in `{path}`")
    )


def _conversations(path: Path) -> Iterator[dict[str, ast.expr]]:
    """The keyword arguments of every ``Conversation(...)``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the file's strings
            nodes = list(ast.walk(ast.parse(read_bytes(path, _MAX_SOURCE_BYTES))))
    except _PARSE_ERRORS as error:
        raise unusable(f"`{path}` cannot be parsed as Python: {error}.") from error
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="Conversation"), args=[]):
                yield {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}


def _check_layout(path: Path, fields: dict[str, ast.expr]) -> None:
    for name, expected in _LAYOUT.items():
        node = fields.get(name)
        layout = ast.unparse(node) if node and name == "sep_style" else _literal(node)
        if layout != expected:
            raise unusable(
                f"The template `{TEMPLATE}` in `{path}` has another layout than the judge's: "
                f"`{name}` is {layout!r}, and {expected!r} was expected."
            )


def _literal(node: ast.expr | None) -> object:
    """The value of a literal; None for any other expression, or none."""
    if node is None:
        return None
    try:
        literal: object = ast.literal_eval(node)
    except _PARSE_ERRORS:
        return None
    return literal


def _message_text(message: object, where: str) -> str:
    if not isinstance(message, str):
        raise unusable(f"{where} is not text, but a {type(message).__name__}.")
    try:
        message.encode()
    except UnicodeEncodeError as error:
        raise unusable(f"{where} is not text: {error}.") from error
    return message


def question_of(parts: Sequence[str | Path]) -> str:
    """The question as the official code receives it: ``<image>`` for every image.

    >>> question_of(["Image-0: ", Path("a.png"), " Why?"])
    'Image-0: <image> Why?'
    """
    return "".join(IMAGE if isinstance(part, Path) else part for part in parts)


def query(question: str, tiles: Sequence[int], *, system_message: str, tokens_per_tile: int) -> str:
    """The whole text that the model reads, for images cut into so many tiles.

    Each image replaces the first ``<image>`` that is left in the whole text, system message
    included. So if the judged text contains one, later images move forward and the last ``<image>``
    stays text, as in the official code. If there are images and no ``<image>``, one is put in
    front.

    >>> print(query("Why? <image>", [1], system_message="Look.", tokens_per_tile=2), end="")
    <|system|>
    Look.<|end|><|user|>
    Why? <img><IMG_CONTEXT><IMG_CONTEXT></img><|end|><|assistant|>
    """
    if tiles and IMAGE not in question:
        question = f"{IMAGE}\n{question}"
    turn = f"{USER}\n{question}{END}" if question else f"{USER}\n"
    texts = f"{SYSTEM}\n{system_message}{END}{turn}{ASSISTANT}\n".split(IMAGE, maxsplit=len(tiles))
    pieces = [texts[0]]
    for count, text in zip(tiles, texts[1:], strict=False):  # surplus images are dropped
        pieces += [IMAGE_START, IMAGE_CONTEXT * (tokens_per_tile * count), IMAGE_END, text]
    return "".join(pieces)
