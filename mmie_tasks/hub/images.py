"""Image files of a benchmark: where they may lie, and how one is opened."""

from __future__ import annotations

import os
import posixpath
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

from loguru import logger
from PIL import Image, ImageFile, UnidentifiedImageError

from mmie_tasks.core.errors import DataBroken, DataMissing

# What Pillow's decoders raise on bytes that are not what their header promises.
_UNREADABLE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error),
    RuntimeError,  # AVIF
)

_FETCH_AGAIN = "unpack or download the dataset again, or look at the file with an image viewer"
_bomb_check = threading.Lock()


def inside(folder: Path, relative: str) -> Path:
    r"""The file `relative` names below `folder`; it need not exist.

    The name comes from a dataset's file and is not trusted. Slash and backslash both separate.
    Links are followed, and must end inside `folder`.

    Raises:
        DataBroken: An absolute name, a drive, a NUL, an empty name, or one that leaves `folder`
            by ``..`` or through a link.

    >>> inside(Path("images"), r"left\0.jpg").as_posix()
    'images/left/0.jpg'
    """
    slashed = relative.replace("\\", "/")
    named = posixpath.normpath(slashed)
    drive_or_root = PureWindowsPath(relative).anchor
    if "\0" in relative or drive_or_root or named in (".", "..") or named.startswith("../"):
        raise _outside(folder, relative)
    path = folder / named
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError) as error:  # a loop of links (RuntimeError before Python 3.13)
        raise _outside(folder, relative) from error
    if not is_inside:
        raise _outside(folder, relative)
    return path


def _outside(folder: Path, relative: str) -> DataBroken:
    return DataBroken(
        f"The dataset names the image {relative!r}, which is not a file inside `{folder}`.",
        hint="unpack or download the dataset again; image names are relative to that folder",
    )


def open_rgb(path: Path, max_pixels: int = 200_000_000) -> Image.Image:
    """The image as 8-bit RGB, fully loaded, the file closed.

    What Pillow's ``convert("RGB")`` does, as the official scripts open images: alpha is dropped,
    not blended. Two exceptions, where that call would give white or a warning: grey values of 16
    bits are divided by 256 (not clipped), and a palette with transparency goes through RGBA.
    Nothing else is applied: no rotation from EXIF, no colour profile. Of an animation, the first
    frame.

    Args:
        path: The image file.
        max_pixels: Width times height, in pixels, above which the file is not decoded.

    Raises:
        DataMissing: No such file, or no right to read it.
        DataBroken: Not an image, cut off, or too many pixels.
    """
    image = open_bounded(path, max_pixels)
    try:
        return _as_rgb(image)
    except ValueError as error:
        raise _broken(path, f"its colour mode {image.mode} has no way to RGB") from error


def open_bounded(path: Path, max_pixels: int = 200_000_000) -> Image.Image:
    """The image in the colour mode of its file, fully loaded, the file closed.

    Args:
        path: The image file.
        max_pixels: Width times height, in pixels, above which the file is not decoded.

    Raises:
        DataMissing: No such file, or no right to read it.
        DataBroken: Not an image, cut off, or too many pixels.
    """
    with opened(path) as file:
        image = _bounded(_header(file, path), path, max_pixels)
        try:
            with whole_images_only:
                image.load()
        except _UNREADABLE as error:
            raise _broken(path, str(error)) from error
    return image


def problem_with(path: Path, max_pixels: int = 200_000_000) -> str | None:
    """What is wrong with an image by its header, in a sentence; None for nothing.

    Nothing is decoded, so it is cheap enough for every image of a run. A file that is cut off
    behind its header is not noticed here.
    """
    try:
        with opened(path) as file:
            _bounded(_header(file, path), path, max_pixels)
    except (DataMissing, DataBroken) as error:
        return str(error).partition("\n")[0]
    return None


def size_px(path: Path) -> tuple[int, int]:
    """Width and height by the image's header, in pixels; nothing is decoded.

    Raises:
        DataMissing: No such file, or no right to read it.
        DataBroken: Not an image.
    """
    with opened(path) as file:
        return _header(file, path).size


def require(benchmark: str, owners: Mapping[str, str], hint: str) -> None:
    """Look at the header of every image of a run, before anything is asked.

    Args:
        benchmark: Whose images, in words.
        owners: Path to the id of a sample that has it.
        hint: What helps where some are not there.

    Raises:
        DataMissing: Files are not there or are no images; says how many and names the first.
    """
    unusable = {path: problem for path in owners if (problem := problem_with(Path(path)))}
    if unusable:
        path, problem = next(iter(unusable.items()))
        raise DataMissing(
            f"{len(unusable)} of the {len(owners)} images of {benchmark} cannot be used. "
            f"The first, of sample {owners[path]}: {problem}",
            hint=hint,
        )


class Opener:
    """Opens images for a tested model without ever ending its run.

    An image that cannot be opened is replaced by a blank one, and the sample is remembered: it has
    no score, because the model did not see what was asked about.
    """

    def __init__(self) -> None:
        self._failures: dict[str, str] = {}

    def open(self, sample_id: str, find: Callable[[], Path]) -> Image.Image:
        """The image as `open_rgb` gives it, or a blank.

        Args:
            sample_id: Whose image it is.
            find: Gives the file; what it raises counts as well.
        """
        try:
            return open_rgb(find())
        except (DataMissing, DataBroken) as error:
            if sample_id not in self._failures:
                logger.warning(f"Sample {sample_id} will have no score. {error}")
            self._failures[sample_id] = str(error).partition("\n")[0]
            return Image.new("RGB", (64, 64))

    def failure(self, sample_id: str) -> str | None:
        """Why an image of the sample could not be opened, or None."""
        return self._failures.get(sample_id)


def opened(path: Path) -> BinaryIO:
    """The image's file, open for reading bytes.

    Raises:
        DataMissing: No such file, or no right to read it.
    """
    try:
        return path.open("rb")
    except OSError as error:
        found = os.strerror(error.errno or 0)
        message = f"The image `{path}` cannot be read: {found}."
        raise DataMissing(message, hint=_FETCH_AGAIN) from error


def _header(file: BinaryIO, path: Path) -> Image.Image:
    """Size and mode, nothing decoded yet."""
    try:
        with _no_bomb_warning():
            return Image.open(file)
    except UnidentifiedImageError as error:
        raise _broken(path, "it is not an image, or of a kind Pillow does not know") from error
    except _UNREADABLE as error:
        raise _broken(path, str(error)) from error


def _bounded(image: Image.Image, path: Path, max_pixels: int) -> Image.Image:
    if image.width * image.height > max_pixels:
        size = f"{image.width} x {image.height} pixels, more than {max_pixels:,}"
        raise _broken(path, f"it has {size}")
    return image


@contextmanager
def _no_bomb_warning() -> Iterator[None]:
    """Pillow's own limit off while a header is read: `max_pixels` is checked right after."""
    with _bomb_check:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


class _WholeImagesOnly:
    """While it is entered, an image that is cut off is an error, whatever the process puts up with.

    ``lmms_eval/api/task.py`` switches ``LOAD_TRUNCATED_IMAGES`` on for the whole process; a model
    would be shown grey where the picture ends. May be entered by several threads at once: the first
    switches it off, the last puts it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = ImageFile.LOAD_TRUNCATED_IMAGES
                ImageFile.LOAD_TRUNCATED_IMAGES = False
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                ImageFile.LOAD_TRUNCATED_IMAGES = self._before


whole_images_only = _WholeImagesOnly()
"""Entered while an image is decoded: see there."""


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # whole numbers of 16 or 32 bits
        wide = image.convert("I")
        if image.mode != "I" or _brightest(wide) > 255:
            wide = wide.point(lambda value: value * (1 / 256))
        image = wide.convert("L")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _brightest(image: Image.Image) -> float:
    extrema = image.getextrema()
    return max(value for value in extrema if isinstance(value, (int, float)))


def _broken(path: Path, found: str) -> DataBroken:
    return DataBroken(f"The image `{path}` cannot be used: {found}.", hint=_FETCH_AGAIN)
