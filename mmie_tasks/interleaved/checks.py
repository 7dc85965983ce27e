"""Whether a file is an image that a judge can be shown, told without decoding it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from mmie_tasks.errors import DataBroken, DataMissing
from mmie_tasks.sources.images import open_bounded, size_px

Problem: TypeAlias = Literal["", "missing", "outside", "unreadable", "too_large", "remote"]

MAX_PIXELS = 178_956_970
"""Width times height above which Pillow raises (twice its `MAX_IMAGE_PIXELS`), and with it MMIE's
official script."""

_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What is wrong with a file, both empty for nothing; and its width and height, in pixels."""

    problem: Problem = ""
    detail: str = ""
    size_px: tuple[int, int] = (0, 0)


def checked(path: Path, max_pixels: int = MAX_PIXELS) -> Checked:
    """Whether a file is an image that can be shown, by its kind, its header and its end.

    Decoded is only a file that does not end as its format ends: that it was cut off while it was
    written is the one damage worth the look. Nothing but a regular file is ever opened.

    Args:
        path: It need not exist.
        max_pixels: Width times height, in pixels, above which an image is not used.
    """
    found = status(path)
    if found is None:
        return Checked(problem="missing", detail=f"`{path}` is not there")
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        return Checked(problem="unreadable", detail=f"`{path}` is {kind}")
    if not found.st_size:
        return Checked(problem="unreadable", detail=f"`{path}` is empty")
    try:
        return _looked_into(path, max_pixels)
    except (DataMissing, DataBroken) as error:
        return Checked(problem="unreadable", detail=str(error).partition("\n")[0])
    except OSError as error:
        return Checked(problem="unreadable", detail=f"`{path}` cannot be read: {error}")


def _looked_into(path: Path, max_pixels: int) -> Checked:
    width, height = size_px(path)
    if width * height > max_pixels:
        detail = f"`{path}` has {width} x {height} pixels, more than {max_pixels:,}"
        return Checked(problem="too_large", detail=detail)
    if not _ends_as_it_should(path):
        open_bounded(path, max_pixels)
    return Checked(size_px=(width, height))


def status(path: Path) -> os.stat_result | None:
    """What the file system says of a path; None where it knows none, as `os.path.exists`."""
    try:
        return path.stat()
    except (OSError, ValueError):  # ValueError: a NUL, or characters no file name has
        return None


def ending_of(data: bytes) -> str | None:
    r"""The usual ending of an image file that begins so; None where it is no image.

    >>> ending_of(b"\xff\xd8\xff\xe0")
    '.jpg'
    """
    if data[:4] == b"RIFF":
        return ".webp" if data[8:12] == b"WEBP" else None
    if data[4:12] == b"ftypavif":
        return ".avif"
    beginnings = (
        (b"\x89PNG\r\n\x1a\n", ".png"),
        (b"\xff\xd8\xff", ".jpg"),
        (b"GIF8", ".gif"),
        (b"BM", ".bmp"),
        (b"II*\0", ".tif"),
        (b"MM\0*", ".tif"),
    )
    return next((ending for start, ending in beginnings if data.startswith(start)), None)


def _ends_as_it_should(path: Path) -> bool:
    """False also where a format's end cannot be told."""
    with path.open("rb") as file:
        head = file.read(12)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_PNG_END)))
        tail = file.read()
    match ending_of(head):
        case ".png":
            return tail == _PNG_END
        case ".jpg":
            return tail.endswith(b"\xff\xd9")
        case ".gif":
            return tail.endswith(b"\0;")
        case ".webp":
            return int.from_bytes(head[4:8], "little") + 8 <= size
        case ".bmp":
            return 0 < int.from_bytes(head[2:6], "little") <= size
        case _:
            return False
