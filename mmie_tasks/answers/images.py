"""Finds the image files of an answer, named in it or left on disk by the model.

The official ``dataset.py:26,43`` (Lillianwei-h/MMIE at eb0fd6e) uses an absolute path unchanged and
joins a relative path to a folder. In addition, there may be several folders, which a relative path
must not leave; ``file://`` URLs and data URIs are read; a path of another machine is looked for by
its end; and no reference ever stops a run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import json
import posixpath
import re
import stat
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Literal, TypeAlias
from urllib.parse import unquote

from loguru import logger

from mmie_tasks.answers.parsed_answer import ParsedAnswer
from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write, file_status
from mmie_tasks.hub.images import TooManyPixels, check_whole, image_suffix, inside
from mmie_tasks.record.answer_facts import ABSENT
from mmie_tasks.record.segment import Segment, Segments

ImageProblem: TypeAlias = Literal["", "missing", "outside", "unreadable", "too_large", "remote"]

MAX_DATA_BYTES = 64 * 1024 * 1024
"""Size limit of a data URI, decoded."""

_ROW_IMAGE = re.compile(r"(\d{4}|[1-9]\d{4,8})_s(\d{1,9})\.png", re.ASCII)
_URL_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_DATA_URI = re.compile(r"data:[^,]{0,300};base64,", re.IGNORECASE)
_SHOWN_CHARACTERS = 200
_MAX_DETAIL_CHARACTERS = 1000
_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """The file of an image reference, or why it cannot be used.

    Attributes:
        path: A complete image file; None if there is a problem.
        problem: Empty if there is none. ``missing``: no such file. ``outside``: a relative path
            that leaves its folder. ``unreadable``: not an image, or damaged. ``too_large``: too
            many pixels or bytes. ``remote``: a URL, which is never fetched.
        detail: The problem in words.
        sha256: SHA-256 of the file, in hexadecimal; empty if there is a problem.
    """

    path: Path | None = None
    problem: ImageProblem = ""
    detail: str = ""
    sha256: str = ""


class _Unusable(Exception):
    """An image reference cannot be used; `file` has the problem."""

    def __init__(self, problem: ImageProblem, detail: str) -> None:
        super().__init__(detail)
        self.file = ImageFile(problem=problem, detail=detail[:_MAX_DETAIL_CHARACTERS])


def resolve_images(answer: ParsedAnswer, resolver: ImageResolver, task: str, row: int) -> Segments:
    """The segments of an answer, in order; every image is a file or has a problem. Never raises.

    Some models name image files after the task and the sample's row in its dataset, from 0.
    """
    segments: list[Segment] = []
    for segment in answer.segments:
        resolved = resolver.resolve_segment(segment)
        folder = None
        if segment.image and resolved.problem:
            folder = resolver.existing_folder(segment.image)
        in_folder = row_images(folder, row) if folder else []
        if not in_folder:
            segments.append(resolved)
        elif segment.text is not None:
            segments.append(Segment(segment.text))
        segments += [resolver.resolve_segment(Segment(image=str(path))) for path in in_folder]
    if not any(segment.image for segment in segments):
        images = metadata_images(resolver.roots, task, row)
        segments += [resolver.resolve_segment(Segment(image=image)) for image in images]
    return tuple(segments)


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

    def resolve(self, reference: str) -> ImageFile:
        """The file of a reference: a path, a ``file://`` URL or a data URI. Never raises."""
        try:
            if reference[:5].lower() == "data:":
                return self._write_data_uri(reference)
            return check_image(self._path(reference))
        except _Unusable as unusable:
            return unusable.file

    def locate(self, reference: str) -> ImageFile:
        """The file or folder of a path, whatever it has, or why there is none. Never raises.

        A data URI has neither a path nor a problem.
        """
        try:
            is_data = reference[:5].lower() == "data:"
            return ImageFile(path=None if is_data else self._path(reference))
        except _Unusable as unusable:
            return unusable.file

    def resolve_segment(self, segment: Segment) -> Segment:
        """The segment with the path of its image, or the problem with it."""
        if segment.image is None:
            return segment
        file = self.resolve(segment.image)
        path = segment.image if file.path is None else str(file.path)
        return replace(
            segment, image=path, problem=file.problem, detail=file.detail, sha256=file.sha256
        )

    def is_folder(self, reference: str) -> bool:
        """Whether the reference is an existing folder."""
        return self.existing_folder(reference) is not None

    def existing_folder(self, reference: str) -> Path | None:
        """The existing folder of a reference, if any."""
        with suppress(_Unusable):
            if (path := self._existing_path(reference)).is_dir():
                return path
        return None

    def existing_file(self, reference: str) -> Path | None:
        """The existing file of a reference, if any, whatever it contains."""
        with suppress(_Unusable):
            if (path := self._existing_path(reference)).is_file():
                return path
        return None

    def _path(self, reference: str) -> Path:
        """The file or folder of a reference, also of another machine's; raises `_Unusable`."""
        try:
            return self._existing_path(reference)
        except _Unusable as unusable:
            if unusable.file.problem in ABSENT and (moved := self._moved(reference)):
                return moved
            raise

    def _moved(self, reference: str) -> Path | None:
        """The file with the longest end of another machine's path; None if there is none.

        Such a path is absolute, of Unix or Windows, or begins with ``~`` or ``..``.
        """
        name = posixpath.normpath(_local_path(reference).replace("\\", "/"))
        is_moved = PureWindowsPath(name).anchor or name.startswith(("~", "../"))
        parts = name.split("/") if is_moved and len(name) <= _MAX_PATH_CHARACTERS else []
        ends = ("/".join(parts[first:]) for first in range(1, len(parts)))
        for end, root in itertools.product(ends, self._moved_to):
            # Existence first, as in `_below_a_root`.
            if file_status(root / end):
                with suppress(DataBroken):
                    if (path := inside(root, end)).is_file():
                        return path
        return None

    def _existing_path(self, reference: str) -> Path:
        """The file or folder of a reference; raises `_Unusable`."""
        reference = _local_path(reference)
        try:
            named = Path(reference)
            if named.parts[:1] == ("~",):
                named = named.expanduser()
            path = named if named.is_absolute() else self._below_a_root(str(named))
        except DataBroken as error:
            raise _Unusable("outside", error.message) from error
        except (ValueError, RuntimeError) as error:
            raise _Unusable("missing", str(error)) from error
        if path is None or not file_status(path):
            raise _Unusable("missing", f"{_shortened(reference)} does not exist")
        return path

    def _below_a_root(self, relative: str) -> Path | None:
        """The first existing file; raises `DataBroken` if the path leaves its only root."""
        name = posixpath.normpath(relative.replace("\\", "/"))
        # Existence first: following links takes longer, and most roots have no such file.
        roots = [root for root in self.roots if file_status(root / name)] or self.roots[:1]
        for root in roots[:-1]:
            with suppress(DataBroken):
                return inside(root, relative)
        return inside(roots[-1], relative) if roots else None

    def _write_data_uri(self, reference: str) -> ImageFile:
        """Write the image of a data URI to a file that is named by a hash of its content."""
        head = _DATA_URI.match(reference)
        encoded = unquote(reference[head.end() :]) if head else ""
        if len(encoded) > MAX_DATA_BYTES // 3 * 4 + 4:
            raise _Unusable("too_large", "a data URI of more than 64 MiB")
        try:
            content = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise _Unusable("unreadable", "a data URI with damaged base64") from error
        if not (suffix := image_suffix(content)):
            raise _Unusable("unreadable", "a data URI without an image in base64")
        path = self._data_uri_dir / f"{hashlib.sha256(content).hexdigest()}{suffix}"
        try:
            if not path.is_file():
                with atomic_write(path) as part:
                    part.write_bytes(content)
            file = check_image(path)
            if file.problem:
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning(f"The image of an answer could not be written to `{path}`: {error}.")
            raise _Unusable("unreadable", f"it could not be written: {error.strerror}") from error
        return file


def check_image(path: Path) -> ImageFile:
    """A file, or why it is not a complete image (see `check_whole`). Never raises."""
    try:
        return ImageFile(path=path, sha256=_require_image(path))
    except _Unusable as unusable:
        return unusable.file


def _require_image(path: Path) -> str:
    """The SHA-256 of a complete image; raises `_Unusable` for other files."""
    status = file_status(path)
    if status is None:
        raise _Unusable("missing", f"`{path}` does not exist")
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        raise _Unusable("unreadable", f"`{path}` is a folder, empty or not a regular file")
    try:
        return check_whole(path)
    except TooManyPixels as error:
        raise _Unusable("too_large", error.message) from error
    except (DataMissing, DataBroken) as error:
        raise _Unusable("unreadable", error.message) from error
    except OSError as error:
        raise _Unusable("unreadable", f"`{path}` cannot be read: {error}") from error


def _local_path(reference: str) -> str:
    """A path, or the path of a ``file://`` URL; raises `_Unusable` for other URLs."""
    scheme = _URL_SCHEME.match(reference)
    if scheme and scheme[1].lower() != "file":
        raise _Unusable("remote", f"{_shortened(reference)} is a URL")
    return unquote(reference[len("file://") :].removeprefix("localhost")) if scheme else reference


def _shortened(reference: str) -> str:
    start = reference[:_SHOWN_CHARACTERS]
    return ascii(start) if len(start) == len(reference) else f"{start!a}..."


# Images that a model left on disk and did not name in its answer


def row_images(folder: Path, row: int) -> list[Path]:
    """The images of one sample, by seed, in a folder that a model answered with.

    ``models/simple/wan2_1_t2i.py`` of lmms-eval 0.7.3 names them ``0007_s0.png``, with the row from
    0. A folder is listed once until it changes.
    """
    return _images_by_row(folder, folder.stat().st_mtime_ns).get(row, [])


def metadata_images(roots: Sequence[Path], task: str, row: int) -> list[str]:
    """References to images that a model left on disk next to an answer of text only.

    ``models/simple/ovis_u1.py``, ``illume_plus.py`` and ``qwen_image_edit.py`` of lmms-eval 0.7.3
    list them under ``generated_images`` or ``generated_image_path`` in
    ``<root>/<task>/<row>_metadata.json``. The first root with such a file wins; a file that cannot
    be read is logged and skipped.
    """
    for root in roots:
        with suppress(DataBroken):  # the name of the task leaves the folder
            path = inside(root, f"{task}/{row}_metadata.json")
            if file_status(path) and (images := _read_metadata_images(path)) is not None:
                return images
    return []


@functools.lru_cache(maxsize=8)
def _images_by_row(folder: Path, changed_ns: int) -> Mapping[int, list[Path]]:  # noqa: ARG001 - a key
    """Row to its images, by seed; the time of the last change is part of the cache's key."""
    seeds: dict[int, list[tuple[int, Path]]] = defaultdict(list)
    try:
        for file in folder.iterdir():
            if match := _ROW_IMAGE.fullmatch(file.name):
                seeds[int(match[1])].append((int(match[2]), file))
    except OSError as error:
        logger.warning(f"The folder `{folder}` of an answer cannot be read: {error}.")
    return {row: [file for _, file in sorted(files)] for row, files in seeds.items()}


def _read_metadata_images(path: Path) -> list[str] | None:
    """The images in a ``<row>_metadata.json``; None if it cannot be read."""
    try:
        note = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        logger.warning(f"`{path}`, a model's list of its images, was skipped: {error!r:.200}.")
        return None
    match note:
        case {"generated_images": [*images]} if all(isinstance(image, str) for image in images):
            return [image for image in images if image.strip()]
        case {"generated_image_path": str(image)}:
            return [image] if image.strip() else []
    logger.warning(f"`{path}` was skipped: it has no list of paths under `generated_images`.")
    return None
