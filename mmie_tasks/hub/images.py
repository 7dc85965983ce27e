"""Image files of benchmarks: safe paths, and opening with a limit on pixels."""

from __future__ import annotations

import hashlib
import math
import os
import posixpath
import re
import struct
import zlib
from contextlib import suppress
from io import BytesIO
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, BinaryIO

from mmie_tasks.core.errors import DataBroken, DataMissing

if TYPE_CHECKING:
    from PIL import Image  # imported where it is used: results commands need no image library


DECODE_ERRORS = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error),
    *(RuntimeError, ZeroDivisionError),  # AVIF; ZeroDivisionError for a time scale of 0
    TypeError,  # a TIFF with offsets that are not whole numbers
)
"""What Pillow's decoders raise on data that does not match its header."""

MAX_PIXELS = 178_956_970
"""Pillow refuses an image with more pixels (width times height)."""

_HINT = "look at it in an image viewer; if it is missing or damaged, unpack the published one again"


class ImageBroken(DataBroken):
    """An image cannot be used; `reason` says why, without a full stop."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"The image `{path}` cannot be used: {reason}.", hint=_HINT)


class TooManyPixels(ImageBroken):
    """An image has too many pixels to be decoded."""


_IMAGE_STARTS = {
    ".png": rb"\x89PNG\r\n\x1a\n",
    ".jpg": rb"\xff\xd8\xff",  # also MPO, with several images
    ".gif": rb"GIF8",
    ".bmp": rb"BM",
    ".tif": rb"II\*\x00|MM\x00\*",
    ".webp": rb"(?s:RIFF.{4}WEBP)",
    ".avif": rb"(?s:.{4}ftyp.{0,20}avi[fs])",
}
_END_MARKS = {".png": b"IEND", ".jpg": b"\xff\xd9"}


def inside(folder: Path, relative: str) -> Path:
    r"""The path of `relative` below `folder`; the file need not exist.

    The name comes from a dataset and is not trusted. Slash and backslash both separate. Links are
    followed, and must end inside `folder`.

    Raises:
        DataBroken: The name is absolute or empty, has a drive or a NUL, or leaves `folder` through
            ``..`` or a link.

    >>> inside(Path("images"), r"left\0.jpg").as_posix()
    'images/left/0.jpg'
    """
    name = posixpath.normpath(relative.replace("\\", "/"))
    path = folder / name
    is_inside = False
    if "\0" not in relative and not PureWindowsPath(relative).anchor and name != ".":
        with suppress(OSError, RuntimeError):  # a loop of links (RuntimeError before Python 3.13)
            is_inside = path.resolve().is_relative_to(folder.resolve())
    if not is_inside:
        raise DataBroken(
            f"The dataset names {relative!r}, which is not a file inside `{folder}`.",
            hint="names are relative to that folder; put the file there and correct the name",
        )
    return path


def open_rgb(path: Path, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The image as 8-bit RGB, fully loaded, with the file closed.

    Pillow's ``convert("RGB")`` converts it, like the official scripts: alpha is dropped, not
    blended. There are two exceptions, where that call would give white or a warning: grey values of
    16 bits are divided by 256 (not clipped), and a palette with transparency is converted through
    RGBA. EXIF rotation and colour profiles are ignored. An animation gives its first frame.

    Raises:
        DataMissing: There is no such file, or no permission to read it.
        ImageBroken: It is not an image, or is truncated.
        TooManyPixels: It has more than `max_pixels` (width times height).
    """
    image = open_bounded(path, max_pixels)
    try:
        return _as_rgb(image)
    except ValueError as error:
        reason = f"its colour mode {image.mode} cannot be converted to RGB"
        raise ImageBroken(path, reason) from error


def open_bounded(
    path: Path, max_pixels: int = MAX_PIXELS, content: bytes | None = None
) -> Image.Image:
    """The image in the colour mode of its file; otherwise like `open_rgb`.

    If `content` has the file's bytes, `path` only names the image in messages.
    """
    content = read_image(path) if content is None else content
    check_end(content, path)
    image = _header(BytesIO(content), path, max_pixels)
    try:
        image.load()
    except DECODE_ERRORS as error:
        raise ImageBroken(path, str(error)) from error
    return image


def size_px(path: Path, max_pixels: float = math.inf) -> tuple[int, int]:
    """Width and height in the image's header, in pixels; nothing is decoded.

    It raises the errors of `open_rgb`; `TooManyPixels` also if Pillow refuses to open the image.
    """
    with _open(path) as file:
        return _header(file, path, max_pixels).size


def image_suffix(content: bytes) -> str | None:
    r"""The usual file suffix of an image, by its first bytes; None if it is not an image.

    >>> image_suffix(b"\xff\xd8\xff\xe0")
    '.jpg'
    """
    return next(
        (suffix for suffix, start in _IMAGE_STARTS.items() if re.match(start, content)), None
    )


def check_end(content: bytes, path: Path) -> bool:
    """Check that a PNG, JPEG, GIF, WebP or BMP is not cut off; `path` is for the message.

    Pillow does not, since ``lmms_eval/api/task.py`` sets its ``LOAD_TRUNCATED_IMAGES``: a model
    would see grey in place of the missing part. Returns whether the image has one of these formats,
    whose end can be recognised.

    Raises:
        ImageBroken: The end is missing.
    """
    match image_suffix(content):
        case ".png" | ".jpg" as suffix:
            is_whole = _END_MARKS[suffix] in content
        case ".gif":
            is_whole = content.rstrip(b"\0\n").endswith(b";")
        case ".webp":
            is_whole = int.from_bytes(content[4:8], "little") + 8 <= len(content)
        case ".bmp":
            is_whole = int.from_bytes(content[2:6], "little") <= len(content)
        case _:
            return False
    if not is_whole:
        raise ImageBroken(path, "it is truncated")
    return True


def check_whole(path: Path) -> str:
    """Check that a file is a complete image, by its type, its header and its end.

    Returns its SHA-256, in hexadecimal.

    The likely damage is a file that was cut off while it was written. An image is decoded only if
    its end cannot be recognised: TIFF, AVIF. It raises the errors of `open_rgb`.
    """
    content = read_image(path)
    _header(BytesIO(content), path, MAX_PIXELS)
    if not check_end(content, path):
        open_bounded(path, content=content)
    return hashlib.sha256(content).hexdigest()


def has_changed(path: Path, sha256: str) -> bool:
    """Whether a file has another SHA-256; False if `sha256` is empty, or it cannot be read."""
    if not sha256:
        return False
    with suppress(DataMissing):
        return hashlib.sha256(read_image(path)).hexdigest() != sha256
    return False


def read_image(path: Path) -> bytes:
    """The bytes of an image file; `DataMissing` if there is none, or it cannot be read."""
    with _open(path) as file:
        return file.read()


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise DataMissing(f"The image `{path}` cannot be read: {why}.", hint=_HINT) from error


def _header(file: BinaryIO, path: Path, max_pixels: float = math.inf) -> Image.Image:
    """The image with size and mode, not decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(file)
    except Image.DecompressionBombError as error:
        raise TooManyPixels(path, f"it has more than {MAX_PIXELS:,} pixels") from error
    except DECODE_ERRORS as error:  # UnidentifiedImageError is an OSError
        why = "" if isinstance(error, UnidentifiedImageError) else f" ({error})"
        raise ImageBroken(path, f"it is not an image that Pillow can open{why}") from error
    if image.width * image.height > max_pixels:
        size = f"{image.width} x {image.height} pixels, more than {max_pixels:,}"
        raise TooManyPixels(path, f"it has {size}")
    return image


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # whole numbers of 16 or 32 bits
        wide = image.convert("I")
        brightest = max(value for value in wide.getextrema() if isinstance(value, (int, float)))
        if image.mode != "I" or brightest > 255:
            wide = wide.point(lambda value: value * (1 / 256))
        image = wide.convert("L")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")
