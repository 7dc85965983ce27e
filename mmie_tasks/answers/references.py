"""Recognises references to images, in plain text and in objects of models and chat servers."""

from __future__ import annotations

import re
from collections.abc import Mapping

IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".gif"),
    *(".bmp", ".tif", ".tiff", ".avif", ".jfif"),
)

_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux
_MAX_DEPTH = 4
_BASE64_KEYS = ("b64_json", "data", "result")  # in OpenAI's images, Anthropic's, OpenAI's responses
_REFERENCE_KEYS = (
    *("image_url", "url", "path", "image", "source"),
    *("inlineData", "inline_data"),  # in Gemini's parts
    *_BASE64_KEYS,
)
_MAY_HAVE_SPACES = re.compile(r"(?:/|~/|\.{1,2}/|file://|[A-Za-z]:[\\/])")


def image_reference(value: object, depth: int = 0) -> str | None:
    """The reference to an image in a value; None if there is none.

    A text that is not blank is the reference itself. In an object, the first of the usual keys
    counts: ``{"image_url": {"url": "a.png"}}`` (see `image_key`). Base64 under its usual keys
    becomes a data URI, whose media type means nothing: the format is read from the bytes later.

    >>> image_reference({"type": "image", "path": "out/1.png"})
    'out/1.png'
    >>> image_reference("  ") is None
    True
    """
    if isinstance(value, str):
        return value if value.strip() else None
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return None
    references = (_reference_under(key, value, depth) for key in _REFERENCE_KEYS)
    return next((reference for reference in references if reference), None)


def image_key(part: Mapping[object, object]) -> str | None:
    """The key of an object's image, ``image`` even if that has none; None without such a key.

    >>> image_key({"type": "image", "path": "out/1.png"})
    'path'
    """
    if "image" in part:
        return "image"
    return next((key for key in _REFERENCE_KEYS if _reference_under(key, part, 0)), None)


def _reference_under(key: str, part: Mapping[object, object], depth: int) -> str | None:
    value = part.get(key)
    if key not in _BASE64_KEYS:
        return image_reference(value, depth + 1)
    if not isinstance(value, str) or not value.strip():
        return None
    return value if value.startswith("data:") else f"data:image/png;base64,{value}"


def is_image_reference(text: str) -> bool:
    """Whether a text that may be prose is a data URI of an image, or a path or URL with its suffix.

    Only a text that begins like a path may contain spaces.

    >>> is_image_reference("out/a 1.png"), is_image_reference("./out/a 1.png")
    (False, True)
    """
    if text.startswith("data:image/"):
        return "\n" not in text
    return is_single_path(text) and text.rstrip().lower().endswith(IMAGE_SUFFIXES)


def is_single_path(text: str) -> bool:
    """Whether a text can be one path or URL: one line, not too long, no unexpected spaces."""
    bare = text.strip()
    if not bare or len(bare) > _MAX_PATH_CHARACTERS or "\n" in bare or "\0" in bare:
        return False
    return not any(c.isspace() for c in bare) or _MAY_HAVE_SPACES.match(bare) is not None
