"""What models of lmms-eval leave on disk beside their answers."""

from __future__ import annotations

import json
import re
import stat
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from loguru import logger

from mmie_tasks.interleaved.checks import status

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
