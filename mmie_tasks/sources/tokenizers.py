"""Tokenizers of tested models, for benchmarks that cut their contexts by tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mmie_tasks.errors import SettingWrong

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLimit:
    """How long a context may be, for which model."""

    tokenizer: str  # a name on the Hub, or a folder
    max_context_tokens: int
    tokens_per_image: int

    def __str__(self) -> str:
        return f"{self.max_context_tokens}x{self.tokens_per_image}@{self.tokenizer}"


def context_limit(environment: Mapping[str, str], prefix: str) -> ContextLimit | None:
    """Read ``<prefix>_TOKENIZER``, ``_MAX_CONTEXT_TOKENS`` and ``_TOKENS_PER_IMAGE``.

    Returns:
        The limit, or None where none of the three is set.

    Raises:
        SettingWrong: Only some are set, or a number is none.
    """
    names = [f"{prefix}_{n}" for n in ("TOKENIZER", "MAX_CONTEXT_TOKENS", "TOKENS_PER_IMAGE")]
    tokenizer, context, per_image = values = [environment.get(name, "") for name in names]
    if not any(values):
        return None
    if not tokenizer or not context.isdecimal() or not per_image.isdecimal():
        found = ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
        raise SettingWrong(
            f"A cut context needs a tokenizer and two whole numbers, and found {found}.",
            hint="set all three, or none for contexts that are not cut",
        )
    return ContextLimit(
        tokenizer=tokenizer, max_context_tokens=int(context), tokens_per_image=int(per_image)
    )


def is_here(name: str) -> bool:
    """Whether `load_tokenizer` would need nobody: a folder, or what the Hub's cache holds."""
    from transformers import AutoTokenizer

    try:
        AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError):
        return False
    return True


@lru_cache(maxsize=4)
def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of that name; no code that comes with it is run.

    Raises:
        SettingWrong: It cannot be loaded.
    """
    from transformers import AutoTokenizer

    try:
        loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise SettingWrong(
            f"The tokenizer `{name}` cannot be loaded: {str(error).strip().partition(chr(10))[0]}",
            hint="name a model on the Hub (`hf auth login` if it is gated) or a folder with it",
        ) from error
    return loaded
