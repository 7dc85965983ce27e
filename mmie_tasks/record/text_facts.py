"""What is unusual about an answer's text, logged with its sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFacts:
    """What is unusual about the text of an answer, without its thinking.

    Facts are what was noted or counted about an answer and its request before any verdict.

    Attributes:
        thinking: Whether thinking was removed from the answer.
        tag: The tag at the beginning of the text: ``[FOO]``.
        special_tokens: Special tokens of a tokenizer in the text, such as ``<|im_end|>``; each
            counts 1.
        short_text: The whole text in one line, if it is short and other samples should not have the
            same; None for other answers.
    """

    thinking: bool = False
    tag: str = ""
    special_tokens: Mapping[str, int] = field(default_factory=dict)
    short_text: str | None = None
