"""The grid of an image and its tiles, compared with the official code."""

import hashlib

import numpy as np
import pytest
from PIL import Image
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.mmie_score.tiles import grid, read_tiles


@pytest.mark.parametrize(
    "case",
    golden.read("preprocess_cases")["images"],
    ids=lambda case: f"{case['image']}-{case['tile']}",
)
def test_pixels_equal_the_official_ones_bit_for_bit(case):
    cut = read_tiles(golden.FOLDER / case["image"], case["tile"])
    assert cut.shape == (case["n_tiles"], case["tile"], case["tile"], 3)
    assert hashlib.sha256(cut.tobytes()).hexdigest() == case["uint8_sha256"]


def test_the_exif_orientation_is_ignored(tmp_path):
    exif, gradient = Image.Exif(), Image.linear_gradient("L").resize((56, 28))
    exif[0x0112] = 6  # turn by 90 degrees
    gradient.save(tmp_path / "turned.png", exif=exif)
    gradient.save(tmp_path / "plain.png")
    turned, plain = (read_tiles(tmp_path / f"{name}.png", 28) for name in ("turned", "plain"))
    assert np.array_equal(turned, plain)


CUT_OFF = (golden.IMAGES / "vga.png").read_bytes()[:9000]


@pytest.mark.parametrize(
    ("content", "words"), [(b"not an image", "it is not an image"), (CUT_OFF, "cannot be used")]
)
def test_a_broken_image_is_a_broken_request(content, words, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(RequestBroken, match=str(path)) as caught:
        read_tiles(path, 28)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_golden_size_has_the_official_grid():
    cases = vectors("tile_grids")["grids"]
    assert len(cases) == 334
    assert [[w, h, *grid(w, h)] for w, h, *_ in cases] == cases
