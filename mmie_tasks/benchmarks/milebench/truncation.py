"""The length limit of MileBench's contexts: its settings, and the tokenizer that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from mmie_tasks.benchmarks.milebench.prompts import Tokenizer, Truncation
from mmie_tasks.core.errors import SettingWrong

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_VARIABLES = tuple(
    f"MILEBENCH_{name}" for name in ("TOKENIZER", "MAX_CONTEXT_TOKENS", "TOKENS_PER_IMAGE")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimit:
    """How many tokens a context may have, for which model.

    Attributes:
        tokenizer: A name on the Hub, or a folder.
        max_context_tokens: Limit of instruction, context and images together.
        tokens_per_image: What each image counts.
    """

    tokenizer: str
    max_context_tokens: int
    tokens_per_image: int

    def __str__(self) -> str:
        return f"{self.max_context_tokens}x{self.tokens_per_image}@{self.tokenizer}"


def token_limit(environment: Mapping[str, str]) -> TokenLimit | None:
    """Read ``MILEBENCH_TOKENIZER``, ``_MAX_CONTEXT_TOKENS`` and ``_TOKENS_PER_IMAGE``.

    Returns:
        The limit, or None if none of the three is set.

    Raises:
        SettingWrong: Only some are set, or a number is not a whole number.
    """
    tokenizer, max_context, per_image = settings = [environment.get(v, "") for v in _VARIABLES]
    if not any(settings):
        return None
    if not tokenizer or not max_context.isdecimal() or not per_image.isdecimal():
        pairs = zip(_VARIABLES, settings, strict=True)
        shown = ", ".join(f"{name}={setting!r}" for name, setting in pairs)
        raise SettingWrong(
            f"Truncation of contexts needs a tokenizer and two whole numbers; set are {shown}.",
            hint="set all three, or none of them for contexts that are not truncated",
        )
    return TokenLimit(
        tokenizer=tokenizer, max_context_tokens=int(max_context), tokens_per_image=int(per_image)
    )


def truncation(environment: Mapping[str, str]) -> Truncation | None:
    """The official truncation with its tokenizer loaded; None if no `token_limit` is set.

    Raises:
        SettingWrong: Only some settings are set, or the tokenizer cannot be loaded.
    """
    limit = token_limit(environment)
    if limit is None:
        return None
    return Truncation(
        tokenizer=cast("Tokenizer", load_tokenizer(limit.tokenizer)),
        max_context_tokens=limit.max_context_tokens,
        tokens_per_image=limit.tokens_per_image,
    )


def is_tokenizer_here(name: str) -> bool:
    """Whether `load_tokenizer` works offline: a folder, or files in the Hub's cache."""
    from transformers import AutoTokenizer

    try:
        AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError):
        return False
    return True


@lru_cache(maxsize=4)
def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer; code that comes with it is not run.

    Raises:
        SettingWrong: It cannot be loaded.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise SettingWrong(
            f"The tokenizer `{name}` cannot be loaded: {str(error).strip().partition(chr(10))[0]}",
            hint="name a model on the Hub (`hf auth login` if it is gated) or a folder with it",
        ) from error
    return tokenizer
