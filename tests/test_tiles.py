"""Into how many tiles InternVL cuts an image."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import vectors

from mmie_tasks.judges.mmie_score.tiles import MAX_TILES, TILE_PX, TOKENS_PER_TILE, grid, tiles

SIZES = st.integers(1, 5000)


def ordered_by_chance(width, height, order):
    """The official rule over grids in some order of equal sizes."""
    grids = [(i, j) for i in range(1, 13) for j in range(1, 13) if i * j <= MAX_TILES]
    order.shuffle(grids)
    best, closest = (1, 1), float("inf")
    for i, j in sorted(grids, key=lambda each: each[0] * each[1]):
        distance = abs(width / height - i / j)
        wins_tie = distance == closest and width * height > 0.5 * TILE_PX**2 * i * j
        if distance < closest or wins_tie:
            best, closest = (i, j), distance
    return best


def test_every_golden_size_has_the_official_grid():
    cases = vectors("tile_grids")["grids"]
    assert len(cases) == 334
    assert [[w, h, *grid(w, h)] for w, h, *_ in cases] == cases


@pytest.mark.parametrize(
    ("width", "height", "of_grid", "with_thumbnail", "tokens"),
    [
        pytest.param(336, 336, (1, 1), 1, 256, id="small"),
        pytest.param(633, 633, (1, 1), 1, 256, id="largest-of-one-tile"),
        pytest.param(634, 634, (2, 2), 5, 1280, id="smallest-of-2x2"),
        pytest.param(950, 950, (2, 2), 5, 1280, id="largest-of-2x2"),
        pytest.param(951, 951, (3, 3), 10, 2560, id="smallest-of-3x3"),
        pytest.param(500, 375, (4, 3), 13, 3328, id="any-4:3"),
        pytest.param(500, 333, (3, 2), 7, 1792, id="almost-3:2"),
        pytest.param(1920, 1080, (4, 2), 9, 2304, id="16:9"),
        pytest.param(1, 5000, (1, 12), 13, 3328, id="a-line"),
    ],
)
def test_the_table_of_known_sizes(width, height, of_grid, with_thumbnail, tokens):
    assert grid(width, height) == of_grid
    assert tiles(width, height) == with_thumbnail
    assert tiles(width, height) * TOKENS_PER_TILE == tokens


@given(SIZES, SIZES, st.integers(0, 2**32))
def test_the_order_of_equal_grids_does_not_matter(width, height, seed):
    assert grid(width, height) == ordered_by_chance(width, height, random.Random(seed))  # noqa: S311


@pytest.mark.parametrize(("n", "m"), [(i, j) for i in range(1, 13) for j in range(1, 13)])
def test_the_order_does_not_matter_half_way_between_ratios(n, m):
    for scale in (1, 60, 200):  # many of these are as close to one grid as to another
        width, height = scale * (n + m), scale * 2 * m
        for seed in range(5):
            by_chance = ordered_by_chance(width, height, random.Random(seed))  # noqa: S311
            assert grid(width, height) == by_chance


@given(SIZES, SIZES, st.integers(1, 20))
def test_no_more_tiles_than_asked_and_the_thumbnail(width, height, most):
    columns, rows = grid(width, height, most)
    assert 1 <= columns * rows <= most
    assert tiles(width, height, most) == (columns * rows + 1 if columns * rows > 1 else 1)


@pytest.mark.parametrize("sizes", [(0, 5), (5, -1), (5, 5, 0), (5, 5, 12, 0)])
def test_a_size_that_is_none_is_an_error(sizes):
    with pytest.raises(ValueError, match="no tiles"):
        grid(*sizes)
