"""Ordered text and images, in the shapes lmms-eval's models take."""

from __future__ import annotations

from collections.abc import Iterable

from PIL import Image

Content = dict[str, object]


def user_turn(parts: Iterable[str | Image.Image]) -> list[dict[str, object]]:
    """One user message with text and images in their order, for the runner's chat models.

    Neighbouring texts become one. Images are opened ones: every chat model takes those, while
    paths mean different things to different models.

    >>> user_turn(["a ", "b"])
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'a b'}]}]
    """
    content: list[Content] = []
    text: list[str] = []
    for part in parts:
        if isinstance(part, str):
            text.append(part)
            continue
        _flush(text, content)
        content.append({"type": "image", "url": part})
    _flush(text, content)
    return [{"role": "user", "content": content}]


def _flush(text: list[str], content: list[Content]) -> None:
    if joined := "".join(text):
        content.append({"type": "text", "text": joined})
    text.clear()
