"""``config.json`` of the official checkpoint: every field the judge builds on, by type and value.

Names are those of the file. A field that the judge does not use is not looked at. Values that are
fixed here are those of InternVL2-4B with a Phi-3 text model; another value would need other code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.judges.mmie_score.checkpoint.files import OFFICIAL, unusable

TEMPLATE = "phi3-chat"
MMIE_TILES = 12

Count = Annotated[int, Field(ge=1, le=65_536)]
Positions = Annotated[int, Field(ge=1, le=16_777_216)]
Small = Annotated[float, Field(gt=0, lt=1)]
Factor = Annotated[float, Field(gt=0, lt=1e6)]


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", protected_namespaces=())


class RopeScaling(_Section):
    """Long and short factors of the rotary embedding.

    The official code of 2024 takes these three keys and no other. Its ``yarn`` has another scale,
    so it is not taken for ``su``.
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
    bos_token_id: int | None = None
    pad_token_id: int | None = None

    @property
    def kv_heads(self) -> int:
        """As many as heads where the file does not say, as in the official ``Phi3Config``."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_dim(self) -> int:
        """Numbers of one head."""
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
    """All of ``config.json`` that matters; `read_config` checks how its parts fit."""

    template: Literal["phi3-chat"]
    ps_version: Literal["v2"]
    select_layer: Literal[-1] = -1
    downsample_ratio: Annotated[float, Field(ge=0.5, le=0.5)]
    force_image_size: int | None = None
    max_dynamic_patch: int | None = None
    tie_word_embeddings: bool | None = None
    use_llm_lora: Annotated[int, Field(ge=0, le=65_536)] = 0
    use_backbone_lora: Annotated[int, Field(ge=0, le=65_536)] = 0
    llm_config: TextConfig
    vision_config: VisionConfig

    @property
    def tokens_per_tile(self) -> int:
        """Four patches become one token: 256 at 448 px and patches of 14."""
        return (self.vision_config.side_patches // 2) ** 2


def check_architecture(content: dict[str, object], path: Path) -> None:
    """Return if this is an InternVL with a Phi-3 text model.

    Raises:
        JudgeMisconfigured: It is something else; names what was found.
    """
    text = content.get("llm_config")
    text = text if isinstance(text, dict) else {}
    found = (content.get("model_type"), _first(content), _first(text))
    expected = ("internvl_chat", "InternVLChatModel", "Phi3ForCausalLM")
    if found == expected:
        return
    said = " · ".join("nothing" if name is None else str(name)[:80] for name in found)
    raise unusable(
        f"`{path}` is of another model than MMIE-Score. Its type, architecture and text model "
        f"are {said}; expected are {' · '.join(expected)}, as in InternVL2-4B.",
        OFFICIAL,
    )


def read_config(content: dict[str, object], path: Path) -> Config:
    """The fields that matter, checked.

    Args:
        content: Of the file.
        path: The file, for complaints.

    Raises:
        JudgeMisconfigured: A field is missing, has another type or a value that the judge is not
            built for, or two do not fit; names the file and the field.
    """
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        raise unusable(f"`{path}` cannot be used: {_in_words(error)}.") from error
    if misfits := _misfits(config):
        raise unusable(f"`{path}` cannot be used: {'; '.join(misfits)}.")
    return config


def _misfits(config: Config) -> list[str]:
    """What does not fit, in words."""
    text, vision = config.llm_config, config.vision_config
    rope, heads, half = text.rope_scaling, text.num_attention_heads, text.head_dim // 2
    window, longest = text.sliding_window, text.max_position_embeddings
    pad, side = text.pad_token_id, config.force_image_size
    lengths = (len(rope.short_factor), len(rope.long_factor))
    checks: list[tuple[object, str]] = [
        (
            text.hidden_size % heads or text.head_dim % 2,
            f"`llm_config`: {text.hidden_size} numbers cannot be shared by {heads} heads",
        ),
        (
            heads % text.kv_heads,
            f"`llm_config`: {heads} heads cannot share {text.kv_heads} heads of keys",
        ),
        (
            lengths != (half, half),
            f"`llm_config.rope_scaling` has {lengths} short and long factors, and not {half} each",
        ),
        (
            text.original_max_position_embeddings > longest,
            "`llm_config.original_max_position_embeddings` is above `max_position_embeddings`",
        ),
        (
            window is not None and window < longest,
            f"`llm_config.sliding_window` is {window}, below the {longest} positions",
        ),
        (
            pad is not None and not 0 <= pad < text.vocab_size,
            f"`llm_config.pad_token_id` is {pad}, and there are {text.vocab_size} tokens",
        ),
        (
            side is not None and side != vision.image_size,
            f"`force_image_size` is {side}, and `vision_config.image_size` {vision.image_size}",
        ),
        (
            vision.image_size % (2 * vision.patch_size),
            f"`vision_config`: {vision.image_size} px is no even number of {vision.patch_size} px",
        ),
        (
            vision.hidden_size % vision.num_attention_heads,
            "`vision_config`: `hidden_size` cannot be shared by `num_attention_heads`",
        ),
    ]
    return [what for is_wrong, what in checks if is_wrong]


def notes_on(config: Config) -> list[str]:
    """What is unlike the official model and does not matter, in words."""
    notes = []
    if config.max_dynamic_patch not in (None, MMIE_TILES):
        notes.append(
            f"`max_dynamic_patch` is {config.max_dynamic_patch}; images are cut into up to "
            f"{MMIE_TILES} tiles all the same, as MMIE does"
        )
    if config.tie_word_embeddings:
        notes.append("`tie_word_embeddings` is true beside `llm_config`; the stored head is used")
    return notes


def _first(section: dict[str, Any]) -> object:
    match section.get("architectures"):
        case [name, *_]:
            return name
    return None


def _in_words(error: ValidationError) -> str:
    """The first complaints, each with its field and value."""
    said = []
    for one in error.errors(include_url=False, include_context=False)[:5]:
        field = f"`{'.'.join(map(str, one['loc']))}`"
        found = "is missing" if one["type"] == "missing" else f"is {_short(one['input'])}"
        said.append(f"{field} {found} ({one['msg'][:1].lower()}{one['msg'][1:]})")
    return "; ".join(said)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# What an opened checkpoint says of itself, in plain numbers and words.


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Numbers of a checkpoint, read from its files and checked against each other.

    Attributes:
        system_message: The default one; it may be empty.
        image_px: Side of a tile.
        tokens_per_tile: How many tokens of the prompt a tile becomes.
        image_token_id: Of ``<IMG_CONTEXT>``.
        end_token_id: Of ``<|end|>``, the only token that stops.
        pad_token_id: What shorter prompts of a padded batch are filled with; it is masked.
        max_positions: The longest sequence, in tokens: 131072.
        long_after: Prompts of more tokens have the long rotary factors: 4096.
        weight_bytes: Of all tensors, as stored.
        dtype: Of most of the weights, as stored: ``bfloat16``, ``float16`` or ``float32``.
        hidden_size: Of the text model, like all that are not named for the vision model.
        layers: Of the text model.
        heads: Queries of a layer.
        kv_heads: Keys and values of a layer.
        head_dim: Numbers of one head.
        intermediate_size: Of the text model's feed-forward part.
        vocab_size: Rows of the embeddings and of the head; the tokenizer may have fewer tokens.
        vision_hidden_size: Of the vision model.
        vision_layers: Of the vision model.
        vision_intermediate_size: Of the vision model's feed-forward part.
    """

    system_message: str
    image_px: int
    tokens_per_tile: int
    image_token_id: int
    end_token_id: int
    pad_token_id: int
    max_positions: int
    long_after: int
    weight_bytes: int
    dtype: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    vision_hidden_size: int
    vision_layers: int
    vision_intermediate_size: int
