"""Texts and images as they are sent to models."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image


def user_turn(content: Iterable[str | Image.Image]) -> list[dict[str, object]]:
    """One user message with texts and images in their order, for the runner's chat models.

    Neighbouring texts become one. Images are opened, because not every chat model takes paths.

    >>> user_turn(["a ", "b"])
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'a b'}]}]
    """
    entries: list[dict[str, object]] = []
    for is_text, group in groupby(content, key=lambda part: isinstance(part, str)):
        if not is_text:
            entries += [{"type": "image", "url": image} for image in group]
        elif text := "".join(map(str, group)):
            entries.append({"type": "text", "text": text})
    return [{"role": "user", "content": entries}]


def replace_surrogates(text: str) -> str:
    r"""The text with every lone surrogate replaced by U+FFFD.

    A lone surrogate cannot be written as UTF-8: no request can contain it, and the runner would
    fail when it saves its samples.

    >>> replace_surrogates("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
