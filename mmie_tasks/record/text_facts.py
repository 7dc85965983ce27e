"""What is unusual about an answer's text, logged with its sample."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_SHORT_CHARACTERS = 100
# `<name>` or `[NAME]` at the beginning, `<|name|>` anywhere; placeholders of images are none.
_IMAGE = r"(?!/?\|?(?:image|img)[ _]?\d*\|?[>\]])"
_TAG = re.compile(
    rf"\s*(?P<first><{_IMAGE}/?[a-z][\w:.-]{{0,39}}>|\[{_IMAGE}(?-i:[A-Z][A-Z_]{{2,39}})\])"
    rf"|.*?(?P<token><{_IMAGE}\|[^<>|\s]{{1,40}}\|>)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFacts:
    """What is unusual about the text of an answer, without its thinking.

    Facts are what was noted or counted about an answer and its request before any verdict.

    Attributes:
        thinking: Whether thinking was removed from the answer.
        tag: A tag that is not read: at the beginning of the text, such as ``<plan>`` or ``[PLAN]``,
            or a special token of a tokenizer anywhere, such as ``<|im_end|>``. Empty without one.
        short_text: The whole text in one line, if it is short and other samples should not have the
            same; None for other answers.
    """

    thinking: bool = False
    tag: str = ""
    short_text: str | None = None


def text_facts(text: str, *, thinking: bool, is_expected: bool = False) -> TextFacts:
    """What is unusual about a text of which thinking was removed. Never raises.

    The short text is left out if several samples may well have the same (`is_expected`).

    >>> text_facts("<plan> It is red.", thinking=False).tag
    '<plan>'
    >>> text_facts("<image> It is red.<|im_end|>", thinking=False).tag
    '<|im_end|>'
    >>> text_facts("I cannot  help.", thinking=True)
    TextFacts(thinking=True, tag='', short_text='I cannot help.')
    """
    match = _TAG.match(text)
    tag = (match["first"] or match["token"]) if match else ""
    return TextFacts(
        thinking=thinking, tag=tag, short_text=None if is_expected or tag else _short(text)
    )


def _short(text: str) -> str | None:
    """A short text as one line of printable characters; None for a long text."""
    if len(text) > 2 * _MAX_SHORT_CHARACTERS:
        return None
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= _MAX_SHORT_CHARACTERS else None
