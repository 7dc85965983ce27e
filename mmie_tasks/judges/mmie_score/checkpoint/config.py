"""``config.json`` and ``conversation.py`` of the official checkpoint, read and checked.

Every field of ``config.json`` that the judge depends on is checked by type and value, under its
name in the file; all other fields are ignored. Fixed values belong to InternVL2-4B with a Phi-3
text model; other values would need other code.

The default system message belongs to the checkpoint and is not in our code. As in the official
``modeling_internvl_chat.py`` (OpenGVLab/InternVL since 2024-07-26), ``system_message`` in
``config.json`` takes precedence over the template's in ``conversation.py``, which is never run.
`inputs.query` puts the message into the template.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from mmie_tasks.judges.mmie_score.checkpoint.files import CONFIG, CONVERSATION, read_bytes, unusable

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

MAX_TILES = 12
"""The most tiles of an image, without the thumbnail: MMIE's own value."""

_MESSAGE_KEY = "system_message"
_LAYOUT = {
    "system_template": repr("<|system|>\n{system_message}"),
    "roles": repr(("<|user|>\n", "<|assistant|>\n")),
    "sep": repr("<|end|>"),
    "sep_style": "SeparatorStyle.MPT",
}
"""The prompt that `inputs.query` builds, as the expressions of the official template."""


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", protected_namespaces=())


class RopeScaling(_Section):
    """Long and short factors of the rotary embedding.

    The official code of 2024 accepts these three keys only. Its ``yarn`` has another scale than
    ``su``, so it is not accepted.
    """

    model_config = ConfigDict(extra="forbid")

    type: Literal["su", "longrope"]
    short_factor: list[PositiveFloat]
    long_factor: list[PositiveFloat]


class TextConfig(_Section):
    """``llm_config``: the language model."""

    architectures: tuple[Literal["Phi3ForCausalLM"]] = Field(strict=False)
    model_type: Literal["phi3"]
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt | None = None
    hidden_act: Literal["silu"] = "silu"
    rms_norm_eps: PositiveFloat = 1e-5
    vocab_size: PositiveInt
    max_position_embeddings: PositiveInt
    original_max_position_embeddings: PositiveInt
    rope_theta: PositiveFloat = 10_000.0
    rope_scaling: RopeScaling
    partial_rotary_factor: Annotated[float, Field(ge=1, le=1)] = 1.0
    sliding_window: int | None = None
    tie_word_embeddings: Literal[False] = False

    @property
    def kv_heads(self) -> int:
        """Key/value heads: by default as many as query heads, as in the official ``Phi3Config``."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_dim(self) -> int:
        """Dimension of a head."""
        return self.hidden_size // self.num_attention_heads


class VisionConfig(_Section):
    """``vision_config``: the vision tower."""

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_channels: Literal[3]
    image_size: PositiveInt
    patch_size: PositiveInt
    qkv_bias: Literal[True]
    qk_normalization: Literal[False]
    norm_type: Literal["layer_norm"]
    layer_norm_eps: PositiveFloat = 1e-6
    hidden_act: Literal["gelu"] = "gelu"

    @property
    def side_patches(self) -> int:
        """Patches along the side of a tile."""
        return self.image_size // self.patch_size


class Config(_Section):
    """The fields of ``config.json`` that the judge depends on."""

    model_type: Literal["internvl_chat"]
    architectures: tuple[Literal["InternVLChatModel"]] = Field(strict=False)
    llm_config: TextConfig
    vision_config: VisionConfig
    template: Literal["phi3-chat"]
    ps_version: Literal["v2"]
    select_layer: Literal[-1] = -1
    downsample_ratio: Annotated[float, Field(ge=0.5, le=0.5)]
    force_image_size: int | None = None

    @property
    def tokens_per_tile(self) -> int:
        """Four patches become one token: 256 tokens at 448 px with patches of 14 px."""
        return (self.vision_config.side_patches // 2) ** 2


def read_config(content: dict[str, object], path: Path) -> Config:
    """The fields that the judge depends on; raises unless it supports them as a whole."""
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        problems = problems_of(error)
    else:
        problems = "; ".join(_conflicts(config))
        if not problems:
            return config
    raise unusable(
        f"`{path}` is not that of MMIE-Score, an InternVL2-4B: {problems}.",
        "use `model=MMIE/MMIE-Score` or a folder with a copy of it; to judge with another model, "
        "serve it and use the judge `openai`",
    )


def problems_of(error: ValidationError) -> str:
    """The first five problems, each with its field and value, as clauses of an error message."""
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
    text, px = config.llm_config, config.vision_config.image_size
    rope, longest = text.rope_scaling, text.max_position_embeddings
    lengths, half = (len(rope.short_factor), len(rope.long_factor)), text.head_dim // 2
    if lengths != (half, half):
        yield f"`llm_config.rope_scaling` has {lengths} short and long factors, and not {half} each"
    if text.sliding_window is not None and text.sliding_window < longest:
        yield f"`llm_config.sliding_window` is {text.sliding_window}, below {longest} positions"
    if (side := config.force_image_size) not in (None, px):
        yield f"`force_image_size` is {side}, and `vision_config.image_size` {px}"


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """The default system message of a checkpoint, which may be empty, and its file."""

    text: str
    file: str


def read_message(folder: Path, content: dict[str, object]) -> SystemMessage:
    """The default system message; `content` is that of ``config.json``, whose message wins even if
    it is empty.
    """
    if _MESSAGE_KEY in content:
        message, file = content[_MESSAGE_KEY], CONFIG
    else:
        message, file = _template_message(folder), CONVERSATION
    if not isinstance(message, str):
        raise unusable(f"`{_MESSAGE_KEY}` in `{folder / file}` is not text.")
    return SystemMessage(message, file)


def _template_message(folder: Path) -> object:
    """The message of the template in ``conversation.py``; None unless it is a literal."""
    path = folder / CONVERSATION
    hint = (
        f"download the whole repository, with `{CONVERSATION}`, or add the official message as "
        f"`{_MESSAGE_KEY}` to `{CONFIG}`"
    )
    if not path.is_file():
        raise unusable(
            f"There is no default system message: `{folder / CONFIG}` has no `{_MESSAGE_KEY}`, and "
            f"there is no `{CONVERSATION}` beside it.",
            hint,
        )
    try:
        tree = ast.parse(read_bytes(path))
    except (SyntaxError, ValueError) as error:
        raise unusable(f"`{path}` cannot be parsed as Python: {error}.") from error
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Conversation":
            continue
        fields = {keyword.arg: keyword.value for keyword in node.keywords}
        sources = {name: ast.unparse(value) for name, value in fields.items()}
        if sources.get("name") != repr(TEMPLATE):
            continue
        if other := [name for name, source in _LAYOUT.items() if sources.get(name) != source]:
            raise unusable(
                f"The template `{TEMPLATE}` in `{path}` has another layout than the judge's: see "
                f"`{'`, `'.join(other)}`."
            )
        message = fields.get(_MESSAGE_KEY, ast.Constant(""))
        return message.value if isinstance(message, ast.Constant) else None
    raise unusable(f"`{path}` defines no template `{TEMPLATE}`.", hint)
