from __future__ import annotations

import hashlib
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support import internvl_golden as golden

from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.mmie_score import pixels
from mmie_tasks.judges.mmie_score.pixels import normalized, read_tiles
from mmie_tasks.judges.mmie_score.tiles import grid

CASES = golden.read("preprocess_cases")
_IMAGES = [pytest.param(case, id=f"{case['image']}-{case['tile']}") for case in CASES["images"]]


def sha256(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def saved(path: Path, mode: str = "RGB", size: tuple[int, int] = (30, 20), **how: Any) -> Path:
    """A drawn image: every pixel another value."""
    Image.linear_gradient("L").resize(size).convert(mode).save(path, **how)
    return path


@pytest.mark.parametrize("case", _IMAGES)
def test_the_pixels_are_the_official_ones_to_the_bit(case: dict[str, Any]) -> None:
    tiles = read_tiles(golden.FOLDER / case["image"], case["tile"])
    assert tiles.shape == (case["n_tiles"], case["tile"], case["tile"], 3)
    assert sha256(tiles) == case["uint8_sha256"]


@pytest.mark.parametrize("case", _IMAGES)
def test_the_numbers_are_the_official_ones_to_the_bit(case: dict[str, Any]) -> None:
    tiles = torch.from_numpy(read_tiles(golden.FOLDER / case["image"], case["tile"]))
    values = normalized(tiles, torch.float32)
    assert values.is_contiguous()
    assert sha256(values.numpy()) == case["float32_sha256"]


def test_an_image_of_any_size_is_cut_into_the_official_grid() -> None:
    for width, height, columns, rows in CASES["grid_max12_tile448"]:
        assert grid(width, height) == (columns, rows)


def test_a_smaller_type_is_rounded_once_at_the_end() -> None:
    tiles = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16, 1).expand(-1, -1, -1, 3)
    exact = normalized(tiles, torch.float32)
    assert torch.equal(normalized(tiles, torch.bfloat16), exact.to(torch.bfloat16))


def test_normalising_leaves_the_tiles_as_they_are() -> None:
    tiles = torch.full((1, 4, 4, 3), 7, dtype=torch.uint8)
    normalized(tiles, torch.float32)
    assert tiles.unique().tolist() == [7]


def test_no_tiles_are_no_numbers() -> None:
    assert normalized(torch.empty(0, 8, 8, 3, dtype=torch.uint8), torch.float32).shape == (
        0,
        3,
        8,
        8,
    )


def test_the_thumbnail_is_last_and_of_the_whole(tmp_path: Path) -> None:
    image = Image.new("RGB", (112, 56), "red")
    image.paste("blue", (56, 0, 112, 56))
    image.save(tmp_path / "a.png")
    left, right, whole = read_tiles(tmp_path / "a.png", 56)
    assert (left == (255, 0, 0)).all()
    assert (right == (0, 0, 255)).all()
    assert whole[:, 0].tolist() == [[255, 0, 0]] * 56
    assert whole[:, -1].tolist() == [[0, 0, 255]] * 56


def test_tiles_may_be_written_to(tmp_path: Path) -> None:
    tiles = read_tiles(saved(tmp_path / "a.png"), 28)
    assert tiles.flags.writeable
    assert tiles.flags.c_contiguous


@pytest.mark.parametrize(
    ("name", "mode", "size"),
    [
        pytest.param("a.png", "RGB", (1, 1), id="one pixel"),
        pytest.param("a.png", "L", (1, 5000), id="a column"),
        pytest.param("a.png", "1", (5000, 1), id="a row of bits"),
        pytest.param("a.jpg", "CMYK", (30, 20), id="CMYK"),
        pytest.param("a.tif", "F", (30, 20), id="fractions"),
        pytest.param("a.tif", "I", (30, 20), id="32 bits"),
        pytest.param("a.png", "I;16", (30, 20), id="16 bits"),
        pytest.param("a.png", "LA", (30, 20), id="grey with alpha"),
        pytest.param("a.webp", "RGBA", (30, 20), id="WebP"),
    ],
)
def test_an_image_of_any_kind_is_what_pillow_makes_of_it(
    name: str, mode: str, size: tuple[int, int], tmp_path: Path
) -> None:
    path = saved(tmp_path / name, mode, size)
    tiles = read_tiles(path, 28)
    columns, rows = grid(*size, tile_px=28)
    with Image.open(path) as image:
        wide = image.convert("RGB").resize((28, image.height), Image.Resampling.BICUBIC)
    last = np.asarray(wide.resize((28, 28), Image.Resampling.BICUBIC))
    assert len(tiles) == columns * rows + (columns * rows > 1)
    assert np.array_equal(tiles[-1], last)


def test_of_an_animation_the_first_frame_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (read_tiles(tmp_path / "a.gif", 28) == (255, 0, 0)).all()


def test_alpha_is_dropped_and_not_blended(tmp_path: Path) -> None:
    Image.new("RGBA", (20, 20), (10, 20, 30, 0)).save(tmp_path / "a.png")
    assert (read_tiles(tmp_path / "a.png", 28) == (10, 20, 30)).all()


@pytest.mark.parametrize(
    "transparency", [pytest.param(0, id="one"), pytest.param(b"\0\x80", id="more")]
)
def test_a_transparent_palette_gives_its_colours_and_no_warning(
    transparency: int | bytes, tmp_path: Path
) -> None:
    image = Image.new("P", (20, 20), 0)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.save(tmp_path / "a.png", transparency=transparency)
    assert (read_tiles(tmp_path / "a.png", 28) == (10, 20, 30)).all()


def test_a_camera_that_was_held_sideways_is_not_turned_back(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    path = saved(tmp_path / "a.png", size=(56, 28), exif=exif)
    assert np.array_equal(
        read_tiles(path, 28), read_tiles(saved(tmp_path / "b.png", size=(56, 28)), 28)
    )


def test_threads_read_the_same() -> None:
    paths = sorted(golden.IMAGES.iterdir())
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda path: sha256(read_tiles(path, 28)), paths * 2))
    assert together == [sha256(read_tiles(path, 28)) for path in paths] * 2


def _png_of(width: int, height: int) -> bytes:
    """A header that promises so many pixels, and none of them."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", "it is not an image", id="empty"),
        pytest.param(b"not a picture", "it is not an image", id="text"),
        pytest.param(
            (golden.IMAGES / "vga.png").read_bytes()[:9000], "cannot be used", id="cut off"
        ),
        pytest.param(_png_of(100_000, 100_000), "more than 200,000,000", id="a huge header"),
    ],
)
def test_a_broken_image_is_one_broken_request(content: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(RequestBroken) as caught:
        read_tiles(path, 28)
    assert str(path) in str(caught.value)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_image_is_one_broken_request(tmp_path: Path) -> None:
    with pytest.raises(RequestBroken, match="No such file"):
        read_tiles(tmp_path / "a.png", 28)


def test_colours_without_a_way_to_rgb_are_one_broken_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    colours = Image.new("La", (2, 2))  # the only mode without one, and no file has it
    monkeypatch.setattr(pixels, "open_bounded", lambda _: colours)
    with pytest.raises(RequestBroken, match="its colour mode La has no way to RGB"):
        read_tiles(tmp_path / "a.png", 28)


def test_an_endless_strip_is_one_broken_request(tmp_path: Path) -> None:
    Image.new("1", (1, 500_001)).save(tmp_path / "a.png")
    with pytest.raises(RequestBroken, match="1 x 500001 pixels, and no side may exceed 500,000"):
        read_tiles(tmp_path / "a.png", 28)
