"""Image files of benchmarks: safe paths, and opening with bounds."""

from __future__ import annotations

import math
import os
import posixpath
import re
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, BinaryIO

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing

if TYPE_CHECKING:
    from PIL import Image  # imported where it is used: results commands need no image library

# What Pillow's decoders raise on data that does not match its header.
_DECODE_ERRORS = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error),
    RuntimeError,  # AVIF
)

_IMAGE_STARTS = {
    ".png": rb"\x89PNG\r\n\x1a\n",
    ".jpg": rb"\xff\xd8\xff",  # also MPO, with several images
    ".gif": rb"GIF8",
    ".bmp": rb"BM",
    ".tif": rb"II\*\x00|MM\x00\*",
    ".webp": rb"(?s:RIFF.{4}WEBP)",
    ".avif": rb"(?s:.{4}ftyp.{0,20}avi[fs])",
}
_HINT = "look at it in an image viewer; if it is missing or damaged, unpack the published one in its place"
_pillow_limit_lock = threading.Lock()


def inside(folder: Path, relative: str) -> Path:
    r"""The path of `relative` below `folder`; the file need not exist.

    The name comes from a dataset and is not trusted. Slash and backslash both separate. Links are
    followed, and must end inside `folder`.

    Raises:
        DataBroken: An absolute name, a drive, a NUL, an empty name, or one that leaves `folder`
            through ``..`` or a link.

    >>> inside(Path("images"), r"left\0.jpg").as_posix()
    'images/left/0.jpg'
    """
    name = posixpath.normpath(relative.replace("\\", "/"))
    drive_or_root = PureWindowsPath(relative).anchor
    path = folder / name
    is_inside = False
    if "\0" not in relative and not drive_or_root and name not in (".", ".."):
        with suppress(OSError, RuntimeError):  # a loop of links (RuntimeError before Python 3.13)
            is_inside = path.resolve().is_relative_to(folder.resolve())
    if not is_inside or name.startswith("../"):
        raise DataBroken(
            f"The dataset names {relative!r}, which is not a file inside `{folder}`.",
            hint="names are relative to that folder; put the file there and correct the name",
        )
    return path


def open_rgb(path: Path, max_pixels: int = 200_000_000) -> Image.Image:
    """The image as 8-bit RGB, fully loaded, with the file closed.

    Converted by Pillow's ``convert("RGB")``, like the official scripts: alpha is dropped, not
    blended. Two exceptions, where that call would give white or a warning: grey values of 16 bits
    are divided by 256 (not clipped), and a palette with transparency is converted through RGBA. No
    rotation from EXIF and no colour profile is applied. An animation gives its first frame.

    Args:
        path: The image file.
        max_pixels: The largest width times height that is decoded.

    Raises:
        DataMissing: No such file, or no permission to read it.
        DataBroken: Not an image, truncated, or too many pixels.
    """
    image = open_bounded(path, max_pixels)
    try:
        return _as_rgb(image)
    except ValueError as error:
        raise _broken(path, f"its colour mode {image.mode} cannot be converted to RGB") from error


def open_bounded(path: Path, max_pixels: int = 200_000_000, content: bytes | None = None) -> Image.Image:
    """The image in the colour mode of its file; otherwise like `open_rgb`.

    Args:
        path: The image file.
        max_pixels: The largest width times height that is decoded.
        content: The file's bytes, if it is on another machine; `path` then only names it in messages.

    Raises:
        DataMissing: No such file, or no permission to read it.
        DataBroken: Not an image, truncated, or too many pixels.
    """
    with open_file(path) if content is None else BytesIO(content) as file:
        image = _header(file, path, max_pixels)
        try:
            with whole_images_only:
                image.load()
        except _DECODE_ERRORS as error:
            raise _broken(path, str(error)) from error
    return image


def image_problem(path: Path, max_pixels: int = 200_000_000) -> str | None:
    """The problem that an image's header shows, as one sentence; None if there is none.

    Cheap enough for every image of a run, because nothing is decoded. A file that is truncated
    behind its header is not noticed.
    """
    try:
        with open_file(path) as file:
            _header(file, path, max_pixels)
    except (DataMissing, DataBroken) as error:
        return str(error).partition("\n")[0]
    return None


def size_px(path: Path) -> tuple[int, int]:
    """Width and height in the image's header, in pixels; nothing is decoded.

    Raises:
        DataMissing: No such file, or no permission to read it.
        DataBroken: Not an image.
    """
    with open_file(path) as file:
        return _header(file, path).size


def image_suffix(content: bytes) -> str | None:
    r"""The usual file suffix of an image, by its first bytes; None if it is no image.

    >>> image_suffix(b"\xff\xd8\xff\xe0")
    '.jpg'
    """
    return next((suffix for suffix, start in _IMAGE_STARTS.items() if re.match(start, content)), None)


def has_png_end(file: BinaryIO, path: Path) -> bool:
    """Walk the chunks of a PNG without decoding them; whether there is an end chunk.

    Args:
        file: The file, open.
        path: For the message.

    Raises:
        DataBroken: A chunk is cut off, or differs from its checksum.
    """
    file.seek(8)
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        checksum = zlib.crc32(kind)
        while length and (data := file.read(min(length, 1 << 20))):
            checksum, length = zlib.crc32(data, checksum), length - len(data)
        if length or file.read(4) != checksum.to_bytes(4, "big"):
            raise _broken(path, "a part of it is cut off or damaged")
        if kind == b"IEND":
            return True
    return False


def check_images(benchmark: str, sample_ids: Mapping[str, str], hint: str) -> None:
    """Check the header of every image of a run, before anything is generated.

    Args:
        benchmark: Name of the benchmark, for the message.
        sample_ids: Path of each image to the id of a sample that uses it.
        hint: What to do if images are missing.

    Raises:
        DataMissing: Files are missing or not images; gives their number and names the first.
    """
    if unusable := {path: problem for path in sample_ids if (problem := image_problem(Path(path)))}:
        path, problem = next(iter(unusable.items()))
        raise DataMissing(
            f"{len(unusable)} of the {len(sample_ids)} images of {benchmark} cannot be used. "
            f"The first, of sample {sample_ids[path]}: {problem}",
            hint=hint,
        )


class ImageOpener:
    """Opens images for a tested model without ending its run.

    An image that cannot be opened is replaced by a blank one, and its sample is recorded: it has no
    score, because the model did not see the image.
    """

    def __init__(self) -> None:
        self._failures: dict[str, str] = {}

    def open(self, sample_id: str, find_path: Callable[[], Path]) -> Image.Image:
        """The image as `open_rgb` returns it, or a blank image.

        Args:
            sample_id: The sample with the image.
            find_path: Returns the file; its `DataMissing` and `DataBroken` are handled as well.
        """
        from PIL import Image

        try:
            return open_rgb(find_path())
        except (DataMissing, DataBroken) as error:
            if sample_id not in self._failures:
                logger.warning(f"Sample {sample_id} will have no score. {error}")
            self._failures[sample_id] = str(error).partition("\n")[0]
            return Image.new("RGB", (64, 64))

    def failure(self, sample_id: str) -> str | None:
        """Why an image of the sample could not be opened; None if all could."""
        return self._failures.get(sample_id)


def open_file(path: Path) -> BinaryIO:
    """An image file, open for reading bytes.

    Raises:
        DataMissing: No such file, or no permission to read it.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise DataMissing(f"The image `{path}` cannot be read: {os.strerror(error.errno or 0)}.", hint=_HINT) from error


def _header(file: BinaryIO, path: Path, max_pixels: float = math.inf) -> Image.Image:
    """The image with size and mode, not decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        with _pillow_limit_lock:  # Pillow's own limit: `max_pixels` is checked instead
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                image = Image.open(file)
            finally:
                Image.MAX_IMAGE_PIXELS = limit
    except UnidentifiedImageError as error:
        raise _broken(path, "it is not an image, or has a format that Pillow does not support") from error
    except _DECODE_ERRORS as error:
        raise _broken(path, str(error)) from error
    if image.width * image.height > max_pixels:
        size = f"{image.width} x {image.height} pixels, more than {max_pixels:,}"
        raise _broken(path, f"it has {size}")
    return image


class _WholeImagesOnly:
    """A context in which a truncated image is an error, whatever the process allows.

    ``lmms_eval/api/task.py`` sets ``LOAD_TRUNCATED_IMAGES`` for the whole process; a model would be shown grey in place
    of the missing part. Several threads may enter at once: the first clears the flag, the last restores it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._flag = False

    def __enter__(self) -> None:
        from PIL import ImageFile

        with self._lock:
            if not self._entered:
                self._flag = ImageFile.LOAD_TRUNCATED_IMAGES
                ImageFile.LOAD_TRUNCATED_IMAGES = False
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        from PIL import ImageFile

        with self._lock:
            self._entered -= 1
            if not self._entered:
                ImageFile.LOAD_TRUNCATED_IMAGES = self._flag


whole_images_only = _WholeImagesOnly()
"""Entered while an image is decoded: see `_WholeImagesOnly`."""


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


def _broken(path: Path, reason: str) -> DataBroken:
    return DataBroken(f"The image `{path}` cannot be used: {reason}.", hint=_HINT)
