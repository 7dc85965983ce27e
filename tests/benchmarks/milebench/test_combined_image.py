import shutil

import pytest
from PIL import Image

from mmie_tasks.benchmarks.milebench.combined_image import combined_image
from mmie_tasks.core.errors import DataBroken, DataMissing


def drawn(folder, *colours, mode="RGB", size=(30, 20)):
    paths = []
    for index, colour in enumerate(colours):
        path = folder / f"{index}.png"
        Image.new(mode, size, colour).save(path)
        paths.append(path)
    return paths


def is_about(pixel, expected):
    return all(abs(a - b) <= 6 for a, b in zip(pixel, expected, strict=True))


@pytest.mark.parametrize(
    ("count", "columns", "rows"),
    [(1, 1, 1), (2, 2, 1), (3, 2, 2), (4, 2, 2), (5, 3, 2), (7, 3, 3), (10, 4, 3)],
)
def test_the_grid_has_the_square_root_of_the_count_as_columns(tmp_path, count, columns, rows):
    images = drawn(tmp_path, "red") * count
    with Image.open(combined_image(images, tmp_path / "cache")) as grid:
        assert (grid.format, grid.mode) == ("JPEG", "RGB")
        assert grid.size == (columns * 800, rows * 800)


def test_images_are_in_order_row_by_row_and_empty_cells_are_black(tmp_path):
    images = drawn(tmp_path, "red", "lime", "blue")
    with Image.open(combined_image(images, tmp_path / "cache")) as grid:
        centres = [grid.getpixel((x, y)) for y in (400, 1200) for x in (400, 1200)]
    expected = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)]
    assert all(is_about(*pair) for pair in zip(centres, expected, strict=True))


def test_the_caption_is_white_on_a_black_box_at_the_bottom_centre(tmp_path):
    with Image.open(combined_image(drawn(tmp_path, "red"), tmp_path / "cache")) as grid:
        box = grid.crop((340, 754, 460, 800))
        colours = dict.fromkeys(("white", "black", "red"), 0)
        for red, green, blue in zip(*(band.tobytes() for band in box.split()), strict=True):
            colours["white"] += min(red, green, blue) > 200
            colours["black"] += max(red, green, blue) < 60
            colours["red"] += red > 200 and max(green, blue) < 60
        assert colours["white"] > 200
        assert colours["black"] > 3_000
        assert colours["red"] == 0
        assert is_about(grid.getpixel((200, 780)), (255, 0, 0))
        assert is_about(grid.getpixel((400, 735)), (255, 0, 0))


def test_pixels_hidden_by_transparency_show(tmp_path):
    images = drawn(tmp_path, (200, 100, 50, 0), mode="RGBA", size=(800, 800))
    with Image.open(combined_image(images, tmp_path / "cache")) as grid:
        assert is_about(grid.getpixel((400, 400)), (200, 100, 50))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "I;16", "F"])
def test_every_colour_mode_is_drawn(tmp_path, mode):
    path = tmp_path / "a.tiff"
    Image.new(mode, (3, 2)).save(path)
    with Image.open(combined_image([path], tmp_path / "cache")) as grid:
        assert grid.size == (800, 800)


def test_the_same_images_are_drawn_once_wherever_they_are(tmp_path):
    images = drawn(tmp_path, "red", "lime")
    first = combined_image(images, tmp_path / "cache")
    written = first.stat().st_mtime_ns
    copies = [shutil.copy(path, path.with_suffix(".copy")) for path in images]
    assert combined_image(copies, tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == written
    assert list((tmp_path / "cache").iterdir()) == [first]


def test_other_images_or_another_order_give_another_file(tmp_path):
    red, lime = drawn(tmp_path, "red", "lime")
    sets = ([red], [lime], [red, lime], [lime, red], [red, red])
    assert len({combined_image(images, tmp_path / "cache") for images in sets}) == 5


def test_an_image_that_cannot_be_opened_leaves_nothing_behind(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataBroken, match=r"bad\.png"):
        combined_image([tmp_path / "bad.png"], tmp_path / "cache")
    with pytest.raises(DataMissing, match=r"absent\.png"):
        combined_image([tmp_path / "absent.png"], tmp_path / "cache")
    with pytest.raises(DataBroken, match="no images"):
        combined_image([], tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
