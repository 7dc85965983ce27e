"""The grid of an image and its tiles, compared with the official code."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.mmie_score.tiles import grid, read_tiles

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


def test_alpha_is_dropped_and_not_blended(tmp_path: Path) -> None:
    Image.new("RGBA", (20, 20), (10, 20, 30, 0)).save(tmp_path / "a.png")
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


def test_every_golden_size_has_the_official_grid():
    cases = vectors("tile_grids")["grids"]
    assert len(cases) == 334
    assert [[w, h, *grid(w, h)] for w, h, *_ in cases] == cases
