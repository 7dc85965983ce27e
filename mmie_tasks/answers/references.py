"""References to images: in objects, as models and chat servers write them, and in plain text."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from io import BytesIO

from mmie_tasks.hub.images import DECODE_ERRORS

IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".gif"),
    *(".bmp", ".tif", ".tiff", ".avif", ".jfif"),
)

_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux
_MAX_DEPTH = 4
_BASE64_KEYS = ("b64_json", "data", "result")  # of OpenAI's images, Anthropic's, OpenAI's responses
_REFERENCE_KEYS = (
    *("image_url", "url", "path", "image", "image_path"),
    *("file", "file_name", "file_path", "source"),
    *("inlineData", "inline_data"),  # of Gemini's parts
    *_BASE64_KEYS,
)
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")  # of Pillow, which PNG can hold
_MAY_HAVE_SPACES = re.compile(r"(?:/|~/|\.{1,2}/|file://|[A-Za-z]:[\\/])")


def image_reference(value: object, depth: int = 0) -> str | None:
    """The reference to an image in a value; None where it holds none.

    A text is the reference itself, unless it is blank. Of an object, the first of the usual keys
    counts: ``{"image_url": {"url": "a.png"}}`` (see `image_key`). Base64 under the keys that hold
    it becomes a data URI, whose media type is not checked: the kind of image is read from the bytes
    later. So does the PNG of a Pillow image, which a model that is used from Python may return.

    >>> image_reference({"type": "image", "path": "out/1.png"})
    'out/1.png'
    >>> image_reference("  ") is None
    True
    """
    if isinstance(value, str):
        return value if value.strip() else None
    if not isinstance(value, Mapping):
        return _pillow_uri(value)
    if depth > _MAX_DEPTH:
        return None
    references = (_reference_under(key, value, depth) for key in _REFERENCE_KEYS)
    return next((reference for reference in references if reference), None)


def image_key(part: Mapping[object, object]) -> str | None:
    """The key with the image reference of an object; None where it has none.

    >>> image_key({"type": "image", "path": "out/1.png"})
    'path'
    """
    return next((key for key in _REFERENCE_KEYS if _reference_under(key, part, 0)), None)


def _reference_under(key: str, part: Mapping[object, object], depth: int) -> str | None:
    value = part.get(key)
    if key not in _BASE64_KEYS:
        return image_reference(value, depth + 1)
    if not isinstance(value, str) or not value.strip():
        return None
    return value if value.startswith("data:") else _data_uri(value)


def _pillow_uri(value: object) -> str | None:
    """The PNG of a Pillow image as a data URI, without content if it cannot be made; None for any
    other value.
    """
    from PIL import Image  # commands that read no such value need no image library

    if not isinstance(value, Image.Image):
        return None
    png = BytesIO()
    try:
        (value if value.mode in _PNG_MODES else value.convert("RGB")).save(png, "PNG")
    except DECODE_ERRORS:  # this picture is then unreadable, and counted
        return _data_uri("")
    return _data_uri(base64.b64encode(png.getvalue()).decode())


def _data_uri(encoded: str) -> str:
    return f"data:image/png;base64,{encoded}"


def is_image_reference(text: str) -> bool:
    """Whether a text that may be prose is written like a reference to an image.

    A data URI of an image, or a path or URL that ends like an image's. Only a text that begins as a
    path may contain spaces.

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
