"""How an answer refers to an image: a path, an address, a data URI, or an object that holds one."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jfif")

_MAX_CHARACTERS = 4096  # of a path; PATH_MAX of Linux
_KEYS = ("image_url", "url", "path", "image", "file", "file_name", "file_path", "source")
_BASE64_KEYS = ("b64_json", "data", "result")  # of OpenAI's images, Anthropic's, OpenAI's responses
_MAX_DEPTH = 4
_MAY_HAVE_SPACES = re.compile(r"(?:/|~/|\.{1,2}/|file://|[A-Za-z]:[\\/])")


def image_of(value: object, depth: int = 0) -> str | None:
    """The reference to an image in a value; None where there is none.

    A text is the reference itself, unless it is blank. Of an object, the first of its usual keys
    counts: ``{"image_url": {"url": "a.png"}}``. Bytes and base64 become a data URI.

    >>> image_of({"type": "image", "path": "out/1.png"})
    'out/1.png'
    >>> image_of("  ") is None
    True
    """
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, (bytes, bytearray)):
        return _data_uri(base64.b64encode(value).decode()) if value else None
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return None
    for key in _KEYS:
        if found := image_of(value.get(key), depth + 1):
            return found
    for key in _BASE64_KEYS:
        if isinstance(packed := value.get(key), str) and packed.strip():
            return packed if packed.startswith("data:") else _data_uri(packed)
    return image_of(value.get("bytes"), depth + 1)


def looks_like_image(text: str) -> bool:
    """Whether a text that may be words is a reference to an image, told by how it is written.

    A data URI of an image, or a path or address with an image's ending. Only what begins as a path
    may have spaces.

    >>> looks_like_image("out/a 1.png"), looks_like_image("./out/a 1.png")
    (False, True)
    """
    if text.startswith("data:image/"):
        return "\n" not in text
    return is_one_path(text) and text.rstrip().lower().endswith(ENDINGS)


def is_one_path(text: str) -> bool:
    """Whether nothing in a text speaks against its being one path or address."""
    bare = text.strip()
    if not bare or len(bare) > _MAX_CHARACTERS or "\n" in bare or "\0" in bare:
        return False
    return not any(c.isspace() for c in bare) or _MAY_HAVE_SPACES.match(bare) is not None


def _data_uri(packed: str) -> str:
    """The kind is read from the bytes later, so it need not be true here."""
    return f"data:image/png;base64,{packed}"
