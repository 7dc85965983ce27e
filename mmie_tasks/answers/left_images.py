"""Images that models leave on disk without naming them in their answers."""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import file_status
from mmie_tasks.hub.images import inside

_ROW_IMAGE = re.compile(r"(\d{4}|[1-9]\d{4,8})_s(\d{1,9})\.png", re.ASCII)


def row_images(folder: Path, row: int) -> list[Path]:
    """The images of one sample in a folder that a model answered with, by seed.

    As ``models/simple/wan2_1_t2i.py`` of lmms-eval 0.7.3 names them: ``0007_s0.png``, with the row
    from 0. A folder is listed once until it changes.
    """
    return _images_by_row(folder, folder.stat().st_mtime_ns).get(row, [])


def metadata_images(roots: Sequence[Path], task: str, row: int) -> list[str]:
    """References to images that a model left on disk next to an answer of text only.

    As ``models/simple/ovis_u1.py``, ``illume_plus.py`` and ``qwen_image_edit.py`` of lmms-eval
    0.7.3 note them, under ``generated_images`` or ``generated_image_path`` in
    ``<root>/<task>/<row>_metadata.json``; the first root with such a file wins. One that cannot be
    read is logged and skipped.
    """
    for root in roots:
        with suppress(DataBroken):  # the name of the task leaves the folder
            path = inside(root, f"{task}/{row}_metadata.json")
            if file_status(path) and (images := _read_metadata_images(path)) is not None:
                return images
    return []


@functools.lru_cache(maxsize=8)
def _images_by_row(folder: Path, changed_ns: int) -> Mapping[int, list[Path]]:  # noqa: ARG001 - a key
    """Row to its images by seed, in a folder that was last changed at this time."""
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
