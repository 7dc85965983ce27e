"""The grid of an image and its tiles, compared with the official code."""

from __future__ import annotations

import hashlib
import io
import random
import struct
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.mmie_score.checkpoint.config import MAX_TILES
from mmie_tasks.judges.mmie_score.tiles import TILE_PX, grid, read_tiles, tiles

TOKENS_PER_TILE = 256
CASES = golden.read("preprocess_cases")
_IMAGES = [pytest.param(case, id=f"{case['image']}-{case['tile']}") for case in CASES["images"]]


def sha256(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def saved(path: Path, mode: str = "RGB", size: tuple[int, int] = (30, 20), **options: Any) -> Path:
    """A saved gradient: no two pixels alike."""
    Image.linear_gradient("L").resize(size).convert(mode).save(path, **options)
    return path


@pytest.mark.parametrize("case", _IMAGES)
def test_pixels_equal_the_official_ones_bit_for_bit(case: dict[str, Any]) -> None:
    cut = read_tiles(golden.FOLDER / case["image"], case["tile"])
    assert cut.shape == (case["n_tiles"], case["tile"], case["tile"], 3)
    assert sha256(cut) == case["uint8_sha256"]


def test_the_last_tile_is_a_thumbnail_of_the_whole_image(tmp_path: Path) -> None:
    image = Image.new("RGB", (112, 56), "red")
    image.paste("blue", (56, 0, 112, 56))
    image.save(tmp_path / "a.png")
    left, right, whole = read_tiles(tmp_path / "a.png", 56)
    assert (left == (255, 0, 0)).all()
    assert (right == (0, 0, 255)).all()
    assert whole[:, 0].tolist() == [[255, 0, 0]] * 56
    assert whole[:, -1].tolist() == [[0, 0, 255]] * 56


def test_tiles_are_writeable(tmp_path: Path) -> None:
    cut = read_tiles(saved(tmp_path / "a.png"), 28)
    assert cut.flags.writeable
    assert cut.flags.c_contiguous


@pytest.mark.parametrize(
    ("name", "mode", "size"),
    [
        pytest.param("a.png", "RGB", (1, 1), id="one pixel"),
        pytest.param("a.tif", "F", (30, 20), id="fractions"),
        pytest.param("a.png", "I;16", (30, 20), id="16 bits"),
        pytest.param("a.png", "LA", (30, 20), id="grey with alpha"),
    ],
)
def test_an_image_of_any_mode_is_converted_as_pillow_converts_it(
    name: str, mode: str, size: tuple[int, int], tmp_path: Path
) -> None:
    path = saved(tmp_path / name, mode, size)
    cut = read_tiles(path, 28)
    columns, rows = grid(*size, tile_px=28)
    with Image.open(path) as image:
        wide = image.convert("RGB").resize((28, image.height), Image.Resampling.BICUBIC)
    last = np.asarray(wide.resize((28, 28), Image.Resampling.BICUBIC))
    assert len(cut) == columns * rows + (columns * rows > 1)
    assert np.array_equal(cut[-1], last)


def test_the_first_frame_of_an_animation_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (read_tiles(tmp_path / "a.gif", 28) == (255, 0, 0)).all()


def test_alpha_is_dropped_and_not_blended(tmp_path: Path) -> None:
    Image.new("RGBA", (20, 20), (10, 20, 30, 0)).save(tmp_path / "a.png")
    assert (read_tiles(tmp_path / "a.png", 28) == (10, 20, 30)).all()


@pytest.mark.parametrize(
    "transparency", [pytest.param(0, id="one"), pytest.param(b"\0\x80", id="more")]
)
def test_a_transparent_palette_keeps_its_colours_without_a_warning(
    transparency: int | bytes, tmp_path: Path
) -> None:
    image = Image.new("P", (20, 20), 0)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.save(tmp_path / "a.png", transparency=transparency)
    assert (read_tiles(tmp_path / "a.png", 28) == (10, 20, 30)).all()


def test_the_exif_orientation_is_ignored(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    path = saved(tmp_path / "a.png", size=(56, 28), exif=exif)
    assert np.array_equal(
        read_tiles(path, 28), read_tiles(saved(tmp_path / "b.png", size=(56, 28)), 28)
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"not an image", "it is not an image", id="text"),
        pytest.param(
            (golden.IMAGES / "vga.png").read_bytes()[:9000], "cannot be used", id="cut off"
        ),
    ],
)
def test_a_broken_image_is_a_broken_request(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(RequestBroken) as caught:
        read_tiles(path, 28)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_colour_mode_without_a_way_to_rgb_is_a_broken_request(tmp_path: Path) -> None:
    """Pillow writes no such file: the tag of alpha becomes that of premultiplied alpha."""
    written = io.BytesIO()
    Image.new("LA", (2, 2)).save(written, "TIFF")
    alpha, premultiplied = (struct.pack("<HHII", 338, 3, 1, kind) for kind in (2, 1))
    path = tmp_path / "a.tiff"
    path.write_bytes(written.getvalue().replace(alpha, premultiplied))
    with pytest.raises(RequestBroken, match=r"a\.tiff"):
        read_tiles(path, 28)


def test_an_extremely_long_strip_is_a_broken_request(tmp_path: Path) -> None:
    Image.new("1", (1, 500_001)).save(tmp_path / "a.png")
    with pytest.raises(RequestBroken, match="1 x 500001 pixels, and no side may exceed 500,000"):
        read_tiles(tmp_path / "a.png", 28)


def grid_of_shuffled(width, height, order):
    """The official rule over grids in a random order of equal sizes."""
    grids = [(i, j) for i in range(1, 13) for j in range(1, 13) if i * j <= MAX_TILES]
    order.shuffle(grids)
    best, closest = (1, 1), float("inf")
    for i, j in sorted(grids, key=lambda size: size[0] * size[1]):
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
    ("width", "height", "expected_grid", "with_thumbnail", "tokens"),
    [
        pytest.param(633, 633, (1, 1), 1, 256, id="largest-of-one-tile"),
        pytest.param(634, 634, (2, 2), 5, 1280, id="smallest-of-2x2"),
        pytest.param(951, 951, (3, 3), 10, 2560, id="smallest-of-3x3"),
        pytest.param(500, 375, (4, 3), 13, 3328, id="any-4:3"),
        pytest.param(1, 5000, (1, 12), 13, 3328, id="a-line"),
    ],
)
def test_the_tiles_of_well_known_sizes(width, height, expected_grid, with_thumbnail, tokens):
    assert grid(width, height) == expected_grid
    assert tiles(width, height) == with_thumbnail
    assert tiles(width, height) * TOKENS_PER_TILE == tokens


def test_the_order_of_equal_grids_does_not_matter_half_way_between_ratios():
    order = random.Random(1)  # noqa: S311
    for n, m in product(range(1, 13), repeat=2):
        for scale in (1, 60, 200):  # many of these are as close to one grid as to another
            width, height = scale * (n + m), scale * 2 * m
            assert grid(width, height) == grid_of_shuffled(width, height, order)


@pytest.mark.parametrize("sizes", [(0, 5), (5, -1), (5, 5, 0)])
def test_a_size_below_1_is_an_error(sizes):
    with pytest.raises(ValueError, match="no tiles"):
        grid(*sizes)
