"""Tiles of an image, as the judge model sees it.

Source: ``find_closest_aspect_ratio``, ``dynamic_preprocess`` and ``load_image`` in ``main.py`` of
Lillianwei-h/MMIE at eb0fd6e, which are InternVL's, run with Pillow 10.4. The pixels are equal bit
for bit with any version of Pillow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.hub.images import open_bounded
from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.mmie_score.checkpoint.config import MAX_TILES

TILE_PX = 448
_MAX_SIDE_PX = 500_000  # a longer strip would take gigabytes on its way to a tile


def grid(width_px: int, height_px: int, tile_px: int = TILE_PX) -> tuple[int, int]:
    """Columns and rows of the grid whose aspect ratio is closest to the image's, without thumbnail.

    If several are equally close, the one with more tiles wins, provided that the image has more
    than half as many pixels as that grid. Raises `ValueError` for a size below 1.

    >>> grid(512, 512), grid(640, 480)
    ((1, 1), (4, 3))
    """
    if min(width_px, height_px, tile_px) < 1:
        raise ValueError(f"no tiles of {tile_px} px: {width_px} x {height_px}")
    aspect = width_px / height_px
    best, closest = (1, 1), float("inf")
    for columns, rows in _grids():
        distance = abs(aspect - columns / rows)
        filled = width_px * height_px > 0.5 * tile_px * tile_px * columns * rows
        if distance < closest or (distance == closest and filled):
            best, closest = (columns, rows), distance
    return best


def tiles(width_px: int, height_px: int, tile_px: int = TILE_PX) -> int:
    """Number of tiles of an image, including the thumbnail that is added to more than one.

    >>> tiles(633, 633), tiles(634, 634), tiles(640, 480)
    (1, 5, 13)
    """
    columns, rows = grid(width_px, height_px, tile_px)
    return columns * rows + (columns * rows > 1)


@cache
def _grids() -> list[tuple[int, int]]:
    """Every grid of at most `MAX_TILES` tiles, the smaller ones first.

    The official order of grids of one size is that of a Python set, which never matters: if two of
    them are equally close to an image, a third is closer.
    """
    sides = range(1, MAX_TILES + 1)
    grids = ((i, j) for i in sides for j in sides if i * j <= MAX_TILES)
    return sorted(grids, key=lambda size: (size[0] * size[1], size))


def read_tiles(path: Path, tile_px: int, content: bytes | None = None) -> NDArray[np.uint8]:
    """Cut an image into tiles, row by row, and add a thumbnail if there is more than one.

    Colours are converted by Pillow's ``convert("RGB")``: alpha is dropped, and grey values of more
    than 8 bits are clipped. EXIF rotation and colour profiles are ignored; an animation counts with
    its first frame. `content` is the file's bytes, if it is on another machine.

    Returns:
        The tiles, (tiles, tile_px, tile_px, 3), not shared with anything.

    Raises:
        RequestBroken: The file is not a readable image, is too large, or cannot become RGB.
    """
    image = _rgb(path, content)
    if max(image.size) > _MAX_SIDE_PX:
        size = f"{image.width} x {image.height} pixels, and no side may exceed {_MAX_SIDE_PX:,}"
        raise RequestBroken(f"the image `{path}` cannot be cut into tiles: it has {size}")
    columns, rows = grid(*image.size, tile_px=tile_px)
    count = columns * rows
    cut = np.empty((count + (count > 1), tile_px, tile_px, 3), dtype=np.uint8)
    whole = _resized(image, columns * tile_px, rows * tile_px)
    by_tile = whole.reshape(rows, tile_px, columns, tile_px, 3).swapaxes(1, 2)
    cut[:count] = by_tile.reshape(count, tile_px, tile_px, 3)
    if count > 1:
        cut[count] = _resized(image, tile_px, tile_px)
    return cut


def _rgb(path: Path, content: bytes | None) -> Image.Image:
    try:
        image = open_bounded(path, content=content)
    except (DataMissing, DataBroken) as error:
        raise RequestBroken(first_line(error)) from error
    if image.mode == "RGB":
        return image
    image.info.pop("transparency", None)  # Pillow warns that it is dropped
    try:
        return image.convert("RGB")
    except ValueError as error:  # Pillow reads grey TIFF files with premultiplied alpha as `La`
        raise RequestBroken(
            f"the image `{path}` cannot be used: its colour mode {image.mode} has no way to RGB"
        ) from error


def _resized(image: Image.Image, width_px: int, height_px: int) -> NDArray[np.uint8]:
    """Resize the width first: Pillow 13 may begin with the height, which rounds differently."""
    wide = image.resize((width_px, image.height), Image.Resampling.BICUBIC)
    return np.asarray(wide.resize((width_px, height_px), Image.Resampling.BICUBIC))
