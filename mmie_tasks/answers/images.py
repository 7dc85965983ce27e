"""Finds the image files that an answer names.

The official ``dataset.py:26,43`` (Lillianwei-h/MMIE at eb0fd6e) uses an absolute path unchanged and
joins a relative path to a folder. In addition, there may be several folders, which a relative path
must not leave; data URIs are read; a path of another machine is looked for by its end; and no
reference ever stops a run.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Literal, TypeAlias

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import (
    MAX_PIXELS,
    TooManyPixels,
    check_whole,
    image_suffix,
    inside,
    size_px,
)
from mmie_tasks.record.segment import Segment, Segments

ImageProblem: TypeAlias = Literal["", "missing", "unreadable", "too_large", "remote"]

_MAX_DATA_CHARACTERS = 90_000_000  # of base64: about 64 MiB
_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux
_MAX_DETAIL_CHARACTERS = 1000
_SHOWN_CHARACTERS = 200
_NO_IMAGE = "a data URI without an image in base64"
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_DATA_URI = re.compile(r"data:[^,]{0,300};base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """The file of an image reference, or why it cannot be used.

    Attributes:
        path: The file; None if there is a problem.
        problem: Empty if there is none. ``missing``: no such file in the folders searched.
            ``unreadable``: not an image, or damaged. ``too_large``: too many pixels or bytes.
            ``remote``: a URL, which is never fetched.
        detail: The problem in words.
        sha256: SHA-256 of a complete image file, in hexadecimal; else empty.
        is_moved: Whether it is another machine's path, found by its end.
    """

    path: Path | None = None
    problem: ImageProblem = ""
    detail: str = ""
    sha256: str = ""
    is_moved: bool = False


class ImageResolver:
    """Resolves the image references of a tested model.

    Args:
        roots: Folders that relative paths are joined to; the first one with such a file wins.
        data_uri_dir: Folder for the images of data URIs; created when it is needed.
        moved_to: Folders to which images of another machine may have been moved: a path that does
            not exist and is absolute or leaves its folder is looked for there.
    """

    def __init__(
        self, roots: Sequence[Path], data_uri_dir: Path, moved_to: Sequence[Path] = ()
    ) -> None:
        self.roots = tuple(roots)
        self._moved_to = tuple(moved_to)
        self._data_uri_dir = data_uri_dir

    def resolved(self, segments: Iterable[Segment]) -> Segments:
        """The segments with the path of each image, or the problem with it. Never raises."""
        return tuple(map(self._resolved, segments))

    def resolve(self, reference: str) -> ImageFile:
        """The complete image file of a reference: a path or a data URI. Never raises."""
        if reference[:5].lower() == "data:":
            return self._write_data_uri(reference)
        file = self.locate(reference)
        return file if file.path is None else check_image(file.path)

    def locate(self, reference: str) -> ImageFile:
        """The file of a path, whatever it contains, or why there is none. Never raises.

        A data URI has no path, and a problem if it does not begin as an image.
        """
        if reference[:5].lower() == "data:":
            return ImageFile() if _begins_as_image(reference) else _problem("unreadable", _NO_IMAGE)
        if _URL.match(reference):
            return _problem("remote", f"{_shortened(reference)} is a URL")
        try:
            path = self._existing_path(reference)
            moved = None if path else self._moved(reference)
        except (ValueError, OSError, RuntimeError) as error:  # a NUL, too long, an unknown user
            return _problem("missing", f"{_shortened(reference)}: {error}")
        if path or moved:
            return ImageFile(path=path or moved, is_moved=moved is not None)
        return _problem("missing", f"{_shortened(reference)} does not exist")

    def _resolved(self, segment: Segment) -> Segment:
        if segment.image is None:
            return segment
        file = self.resolve(segment.image)
        path = segment.image if file.path is None else str(file.path)
        return replace(
            segment, image=path, problem=file.problem, detail=file.detail, sha256=file.sha256
        )

    def _existing_path(self, reference: str) -> Path | None:
        path = Path(reference).expanduser()
        if path.is_absolute():
            return path if _exists(path) else None
        return _below(self.roots, reference)

    def _moved(self, reference: str) -> Path | None:
        """The file with the longest end of another machine's path; None if there is none."""
        name = posixpath.normpath(reference.replace("\\", "/"))
        is_of_another = PureWindowsPath(name).anchor or name.startswith(("~", "../"))
        parts = name.split("/") if is_of_another and len(name) <= _MAX_PATH_CHARACTERS else []
        ends = ("/".join(parts[first:]) for first in range(1, len(parts)))
        files = (_below(self._moved_to, end) for end in ends)
        return next((path for path in files if path and path.is_file()), None)

    def _write_data_uri(self, reference: str) -> ImageFile:
        """Write the image of a data URI to a file that is named by a hash of its content."""
        head = _DATA_URI.match(reference)
        encoded = reference[head.end() :] if head else ""
        if len(encoded) > _MAX_DATA_CHARACTERS:
            return _problem("too_large", "a data URI of more than 64 MiB")
        try:
            content = base64.b64decode(encoded, validate=True)
            if not (suffix := image_suffix(content)):
                return _problem("unreadable", _NO_IMAGE)
            path = self._data_uri_dir / f"{hashlib.sha256(content).hexdigest()}{suffix}"
            if not path.is_file():
                with atomic_write(path) as part:
                    part.write_bytes(content)
        except (ValueError, OSError) as error:
            return _problem("unreadable", f"a data URI that cannot be written to a file: {error}")
        file = check_image(path)
        if file.problem:
            path.unlink(missing_ok=True)
        return file


def check_image(path: Path, *, header_only: bool = False) -> ImageFile:
    """A file, or why it is not a complete image (see `check_whole`). Never raises.

    With `header_only`, a file that is cut off has no problem; neither pixels nor hash are read.
    """
    if not path.exists():
        return _problem("missing", f"`{path}` does not exist")
    if not path.is_file() or not path.stat().st_size:
        return _problem("unreadable", f"`{path}` is empty or not a regular file")
    try:
        if header_only:
            size_px(path, MAX_PIXELS)
        return ImageFile(path=path, sha256="" if header_only else check_whole(path))
    except TooManyPixels as error:
        return _problem("too_large", error.message)
    except (DataMissing, DataBroken) as error:
        return _problem("unreadable", error.message)
    except OSError as error:
        return _problem("unreadable", f"`{path}` cannot be read: {error}")


def _begins_as_image(data_uri: str) -> bool:
    head = _DATA_URI.match(data_uri)
    start = head.end() if head else len(data_uri)
    with suppress(ValueError):
        content = base64.b64decode(data_uri[start : start + 64], validate=True)
        return image_suffix(content) is not None
    return False


def _below(folders: Sequence[Path], relative: str) -> Path | None:
    """The first existing file or folder of a relative path that stays inside its folder."""
    name = posixpath.normpath(relative.replace("\\", "/"))
    for folder in folders:
        # Existence first: following links takes longer, and most folders have no such file.
        if _exists(folder / name):
            with suppress(DataBroken):
                return inside(folder, relative)
    return None


def _problem(problem: ImageProblem, detail: str) -> ImageFile:
    return ImageFile(problem=problem, detail=detail[:_MAX_DETAIL_CHARACTERS])


def _shortened(reference: str) -> str:
    start = reference[:_SHOWN_CHARACTERS]
    return ascii(start) if len(start) == len(reference) else f"{start!a}..."


def _exists(path: Path) -> bool:
    """Whether there is such a file; False also for a name that no file can have."""
    try:
        path.stat()
    except (OSError, ValueError):  # ValueError: a NUL, or characters no file name has
        return False
    return True
