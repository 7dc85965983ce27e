"""The image files of an answer: where a reference leads, and whether a judge can be shown it.

As the official ``dataset.py:26,43`` (Lillianwei-h/MMIE at eb0fd6e), an absolute path is taken as it
is and a relative one is joined to a folder. Beyond it: several folders, which a relative path must
not leave; addresses of files, data URIs; and nothing that is named here ever stops a run.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from loguru import logger

from mmie_tasks.errors import DataBroken
from mmie_tasks.interleaved.checks import (
    MAX_PIXELS,
    Checked,
    Problem,
    checked,
    ending_of,
    status,
)
from mmie_tasks.interleaved.folders import Listing, generated_images
from mmie_tasks.sources.archives import whole
from mmie_tasks.sources.images import inside

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
            with whole(path) as part:
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
