"""The image files of an answer: where a reference leads, and whether a judge can be shown it.

As the official ``dataset.py:26,43`` (Lillianwei-h/MMIE at eb0fd6e), an absolute path is taken as it
is and a relative one is joined to a folder. Beyond it: several folders, which a relative path must
not leave; addresses of files, data URIs; and nothing that is named here ever stops a run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import posixpath
import re
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote

from loguru import logger

from mmie_tasks.answers.parsing import Reading
from mmie_tasks.answers.placement import Segment
from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import inside, open_bounded, size_px

# Whether a file is an image that a judge can be shown, told without decoding it.

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


# What models of lmms-eval leave on disk beside their answers.

_NUMBERED = re.compile(r"(\d{4}|[1-9]\d{4,8})_s(\d{1,9})\.png", re.ASCII)
_MAX_NOTE_BYTES = 4 * 1024 * 1024


class Listing:
    """Numbered images of folders, each folder read once until it changes."""

    def __init__(self) -> None:
        self._folders: dict[Path, tuple[int, Mapping[int, list[Path]]]] = {}

    def of(self, folder: Path, index: int) -> list[Path]:
        """The files ``<index in four digits>_s<seed>.png`` in a folder, by seed."""
        found = status(folder)
        if found is None or not stat.S_ISDIR(found.st_mode):
            return []
        known = self._folders.get(folder)
        if known is None or known[0] != found.st_mtime_ns:
            known = (found.st_mtime_ns, _numbered(folder))
            self._folders[folder] = known
        return known[1].get(index, [])


def _numbered(folder: Path) -> Mapping[int, list[Path]]:
    by_index: dict[int, list[tuple[int, Path]]] = defaultdict(list)
    try:
        for path in folder.iterdir():
            if match := _NUMBERED.fullmatch(path.name):
                by_index[int(match[1])].append((int(match[2]), path))
    except OSError as error:
        logger.warning(f"The folder `{folder}` of an answer cannot be read: {error}.")
    return {index: [path for _, path in sorted(found)] for index, found in by_index.items()}


def generated_images(path: Path) -> list[str] | None:
    """The images a model noted in a ``<index>_metadata.json``; None where it cannot be read."""
    try:
        value = json.loads(_note(path))
        images = value["generated_images"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        logger.warning(f"`{path}`, a model's note of its images, is passed over: {error!r:.200}.")
        return None
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        logger.warning(f"`{path}` is passed over: `generated_images` is not a list of paths.")
        return None
    return [image for image in images if image.strip()]


def _note(path: Path) -> bytes:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_NOTE_BYTES:
        raise ValueError("not a regular file, or a very large one")
    return path.read_bytes()


MAX_DATA_BYTES = 64 * 1024 * 1024
"""Of a data URI, decoded."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_DATA = re.compile(r"data:[^,]{0,300};base64,", re.IGNORECASE)
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The file of a reference, or why there is none.

    Attributes:
        path: An image file that is whole; None where there is a problem.
        problem: ``missing``: no such file. ``outside``: a relative path that leaves its folder.
            ``unreadable``: no image, or a damaged one. ``too_large``: too many pixels or bytes.
            ``remote``: an address, which is never fetched.
        detail: The problem in words, for people.
        size_px: Width and height of the image.
    """

    path: Path | None = None
    problem: Problem = ""
    detail: str = ""
    size_px: tuple[int, int] = (0, 0)


class Finder:
    """Finds the images that a tested model names.

    Args:
        roots: Folders to which relative paths are joined, in this order; the first in which such a
            file is there wins.
        keep: Folder for images that came as data URIs; made when it is needed.
        max_pixels: Width times height, in pixels, above which an image is not used.
    """

    def __init__(self, roots: Sequence[Path], keep: Path, max_pixels: int = MAX_PIXELS) -> None:
        self._roots = tuple(roots)
        self._keep = keep
        self._max_pixels = max_pixels
        self._listing = Listing()

    def find(self, reference: str) -> Found:
        """The file a reference names. Raises nothing, whatever it is.

        Args:
            reference: A path, a ``file://`` address or a data URI of an image.
        """
        if reference[:5].lower() == "data:":
            return self._of_data(reference)
        located = self._located(reference)
        if not isinstance(located, Path):
            return _problem(located)
        seen = checked(located, self._max_pixels)
        return _problem(seen) if seen.problem else Found(path=located, size_px=seen.size_px)

    def is_folder(self, reference: str) -> bool:
        """Whether a reference names a folder."""
        located = self._located(reference)
        found = status(located) if isinstance(located, Path) else None
        return found is not None and stat.S_ISDIR(found.st_mode)

    def find_folder(self, reference: str, index: int) -> list[Path]:
        """The images of one sample in a folder that a model answered with, by seed.

        As ``models/simple/wan2_1_t2i.py`` of lmms-eval 0.7.3 names them: ``0007_s0.png``.

        Args:
            reference: The folder.
            index: The sample's row, from 0.
        """
        located = self._located(reference)
        return self._listing.of(located, index) if isinstance(located, Path) else []

    def side_files(self, task: str, index: int) -> list[str]:
        """References to images that a model left on disk beside an answer of text only.

        As ``models/simple/ovis_u1.py`` and ``illume_plus.py`` of lmms-eval 0.7.3 note them, in
        ``<root>/<task>/<index>_metadata.json``; the first root that has such a file wins. One that
        cannot be read is logged and passed over.

        Args:
            task: Name of the task.
            index: The sample's row, from 0.
        """
        for root in self._roots:
            note = _place(root, f"{task}/{index}_metadata.json")
            if isinstance(note, DataBroken) or not status(note):
                continue
            if (images := generated_images(note)) is not None:
                return images
        return []

    def _located(self, reference: str) -> Path | Checked:
        """What is there under this name, of whatever kind."""
        scheme = _SCHEME.match(reference)
        if scheme and scheme[1].lower() != "file":
            return Checked(problem="remote", detail=f"{_shown(reference)} is an address")
        try:
            named = Path(_local(reference, is_address=bool(scheme)))
            if named.parts[:1] == ("~",):
                named = named.expanduser()
            there = named if named.is_absolute() else self._below_a_root(str(named))
        except (DataBroken, ValueError, RuntimeError) as error:
            detail = str(error).partition("\n")[0]
            problem: Problem = "outside" if isinstance(error, DataBroken) else "missing"
            return Checked(problem=problem, detail=detail)
        if there is None or not status(there):
            return Checked(problem="missing", detail=f"{_shown(reference)} is not there")
        return there

    def _below_a_root(self, relative: str) -> Path | None:
        """The first that is there; None where none is.

        Raises:
            DataBroken: What is there is outside its root; or nothing is, and the name leads out.
        """
        name = posixpath.normpath(relative.replace("\\", "/"))
        # First what is there: to follow links takes longer, and most roots have no such file.
        roots = [root for root in self._roots if status(root / name)] or self._roots[:1]
        places = [_place(root, relative) for root in roots]
        inner = [place for place in places if isinstance(place, Path)]
        for refused in places if not inner else ():
            if isinstance(refused, DataBroken):
                raise refused
        return inner[0] if inner else None

    def _of_data(self, reference: str) -> Found:
        head = _DATA.match(reference)
        packed = unquote(reference[head.end() :]) if head else ""
        if len(packed) > MAX_DATA_BYTES // 3 * 4 + 4:
            return Found(problem="too_large", detail="a data URI of more than 64 MiB")
        try:
            data = base64.b64decode(packed, validate=True)
        except ValueError:
            return Found(problem="unreadable", detail="a data URI whose base64 is damaged")
        if not (ending := ending_of(data)):
            return Found(problem="unreadable", detail="a data URI that holds no image in base64")
        path = self._keep / f"{hashlib.sha256(data).hexdigest()}{ending}"
        try:
            return self._kept(path, data)
        except OSError as error:
            logger.warning(f"The image of an answer cannot be written to `{path}`: {error}.")
            return Found(problem="unreadable", detail=f"it cannot be written: {error.strerror}")

    def _kept(self, path: Path, data: bytes) -> Found:
        if not path.is_file():
            with atomic_write(path) as part:
                part.write_bytes(data)
        seen = checked(path, self._max_pixels)
        if seen.problem:
            path.unlink(missing_ok=True)
            return _problem(seen)
        return Found(path=path, size_px=seen.size_px)


def _place(root: Path, relative: str) -> Path | DataBroken:
    try:
        return inside(root, relative)
    except DataBroken as error:
        return error


def _local(reference: str, *, is_address: bool) -> str:
    if not is_address:
        return reference
    return unquote(reference[len("file://") :].removeprefix("localhost"))


def _problem(wrong: Checked) -> Found:
    return Found(problem=wrong.problem, detail=wrong.detail[: 5 * _SHOWN_CHARACTERS])


def _shown(reference: str) -> str:
    cut = reference[:_SHOWN_CHARACTERS]
    return ascii(cut) if len(cut) == len(reference) else f"{cut!a}..."


# From what a tested model said to text and files that a judge can be shown.


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment of an answer, and the file its image is.

    Attributes:
        text: As the model wrote it, without its thinking; None where there is none.
        image: How the model refers to the image; None where there is none.
        found: The file, or why there is none; None where there is no image.
    """

    text: str | None = None
    image: str | None = None
    found: Found | None = None


def resolve(reading: Reading, finder: Finder, task: str, index: int) -> tuple[Piece, ...]:
    """The pieces of an answer, in order, with every image looked for. Never raises.

    Args:
        reading: What was said.
        finder: Where images may lie.
        task: Name of the task; some models leave images in files that are named after it.
        index: The sample's row in the task's dataset, from 0, which those names also hold.
    """
    pieces = [piece for segment in reading.segments for piece in _pieces(segment, finder, index)]
    if not any(piece.image for piece in pieces):
        pieces += [Piece(None, each, finder.find(each)) for each in finder.side_files(task, index)]
    return tuple(pieces)


def _pieces(segment: Segment, finder: Finder, index: int) -> Iterator[Piece]:
    if segment.image is None:
        yield Piece(segment.text)
        return
    found = finder.find(segment.image)
    of_folder = [] if found.path else finder.find_folder(segment.image, index)
    if not of_folder:
        yield Piece(segment.text, segment.image, found)
        return
    if segment.text is not None:
        yield Piece(segment.text)
    for path in of_folder:
        yield Piece(None, str(path), finder.find(str(path)))
