"""How many tiles InternVL cuts an image into, from its size alone.

Source: ``find_closest_aspect_ratio`` and ``dynamic_preprocess`` in ``main.py`` of
Lillianwei-h/MMIE at eb0fd6e, which are InternVL's.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

MAX_TILES = 12
TILE_PX = 448
TOKENS_PER_TILE = 256


class Grid(NamedTuple):
    """Tiles an image is cut into, the thumbnail aside."""

    columns: int
    rows: int


def grid(width_px: int, height_px: int, max_tiles: int = MAX_TILES, tile_px: int = TILE_PX) -> Grid:
    """The grid whose aspect ratio is closest to the image's.

    Of grids that are equally close the one with more tiles wins, if the image has more than half
    as many pixels as that grid.

    Args:
        width_px: Of the image.
        height_px: Of the image.
        max_tiles: The most tiles a grid may have.
        tile_px: Side of a tile.

    Raises:
        ValueError: A size is below 1.

    >>> grid(512, 512), grid(640, 480)
    (Grid(columns=1, rows=1), Grid(columns=4, rows=3))
    """
    if min(width_px, height_px, max_tiles, tile_px) < 1:
        raise ValueError(f"no tiles of {tile_px} px, {max_tiles} at most: {width_px} x {height_px}")
    aspect = width_px / height_px
    best, closest = Grid(1, 1), float("inf")
    for candidate in _grids(max_tiles):
        columns, rows = candidate
        distance = abs(aspect - columns / rows)
        filled = width_px * height_px > 0.5 * tile_px * tile_px * columns * rows
        if distance < closest or (distance == closest and filled):
            best, closest = candidate, distance
    return best


def tiles(width_px: int, height_px: int, max_tiles: int = MAX_TILES, tile_px: int = TILE_PX) -> int:
    """Tiles of an image, the thumbnail included that goes with more than one.

    Raises:
        ValueError: A size is below 1.

    >>> tiles(633, 633), tiles(634, 634), tiles(640, 480)
    (1, 5, 13)
    """
    columns, rows = grid(width_px, height_px, max_tiles, tile_px)
    return columns * rows + (columns * rows > 1)


@cache
def _grids(max_tiles: int) -> tuple[Grid, ...]:
    """Every grid of at most so many tiles, the smaller ones first.

    Between grids of one size the official order is that of a Python set. It never matters: two of
    them are equally close only to an image that a third is closer to.
    """
    sides = range(1, max_tiles + 1)
    found = (Grid(i, j) for i in sides for j in sides if i * j <= max_tiles)
    return tuple(sorted(found, key=lambda each: (each.columns * each.rows, each)))
