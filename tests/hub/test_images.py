import contextlib
import io
import warnings
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile, features
from support.pictures import header_only

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import (
    MAX_PIXELS,
    ImageBroken,
    TooManyPixels,
    check_whole,
    inside,
    open_rgb,
)


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


NOISE = Image.frombytes("RGB", (40, 40), Random(0).randbytes(4_800))  # noqa: S311 - not secret


@pytest.mark.parametrize(
    ("relative", "where"),
    [
        ("0.png", "0.png"),
        ("left/4504_frame52/a b.jpg", "left/4504_frame52/a b.jpg"),
        (r"left\0.png", "left/0.png"),
        ("a/../b.png", "b.png"),
        ("ü·图.png", "ü·图.png"),
    ],
)
def test_a_name_below_the_folder_is_a_path_in_it(tmp_path, relative, where):
    assert inside(tmp_path, relative) == tmp_path / where


@pytest.mark.parametrize(
    "relative",
    ["", "../x.png", r"a\..\..\x.png", "/etc/passwd", r"\\host\share\x.png", "C:/x.png", "a\0.png"],
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, relative):
    with pytest.raises(DataBroken):
        inside(tmp_path, relative)


def test_links_must_end_inside_the_folder(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "good").symlink_to("sub/0.png")
    (folder / "out").symlink_to("../secret")
    (folder / "round").symlink_to("round")
    assert inside(folder, "good") == folder / "good"
    for bad in ("out", "out/x.png"):
        with pytest.raises(DataBroken):
            inside(folder, bad)


@given(st.text(alphabet="ab./\\\0: C~", max_size=12))
def test_no_name_leads_to_a_path_outside_the_folder(tmp_path_factory, relative):
    folder = tmp_path_factory.getbasetemp() / "nowhere"
    try:
        path = inside(folder, relative)
    except DataBroken:
        return
    assert path.resolve().is_relative_to(folder)
    assert path != folder


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_every_colour_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / "a.tiff"
    path.write_bytes(encoded(Image.new(mode, (3, 2)), "TIFF"))
    image = open_rgb(path)
    assert (image.mode, image.size) == ("RGB", (3, 2))


def palette_with_transparency():
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    return encoded(image, "PNG", transparency=b"\x00\x80")


GREYS = {0: 0, 200: 0, 0x8000: 128, 0xFFFF: 255}  # of 16 bits, and of 8


@pytest.mark.parametrize(
    ("content", "pixel"),
    [
        *(
            (encoded(Image.new("I;16", (1, 1), old), "PNG"), (new,) * 3)
            for old, new in GREYS.items()
        ),
        (encoded(Image.new("RGBA", (1, 1), (10, 20, 30, 0)), "PNG"), (10, 20, 30)),
        (palette_with_transparency(), (10, 20, 30)),
    ],
    ids=[*map(str, GREYS), "alpha", "palette"],
)
def test_grey_is_scaled_and_alpha_dropped_as_in_official_scripts(tmp_path, content, pixel):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    assert open_rgb(path).getpixel((0, 0)) == pixel


def test_the_exif_orientation_is_ignored(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(Image.new("RGB", (3, 2)), "JPEG", exif=exif))
    assert open_rgb(path).size == (3, 2)


@pytest.mark.parametrize("name", ["absent.png", ".", "a" * 5_000])
def test_a_missing_file_is_reported_as_missing(tmp_path, name):
    with pytest.raises(DataMissing, match="cannot be read"):
        open_rgb(tmp_path / name)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>busy</html>", id="a page"),
        pytest.param(encoded(NOISE, "PNG")[:2_000], id="png cut off"),
    ],
)
def test_a_file_that_cannot_be_decoded_is_named(tmp_path, content):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(DataBroken, match=f"The image `{path}` cannot be used"):
        open_rgb(path)


@pytest.mark.parametrize(("side", "limit"), [(60_000, MAX_PIXELS), (100, 9_999)])
def test_too_many_pixels_are_refused_before_decoding(tmp_path, side, limit):
    path = tmp_path / "a.png"
    path.write_bytes(header_only(side, side))
    with pytest.raises(TooManyPixels, match=f"more than {limit:,}"):
        open_rgb(path, limit)


@given(st.data())
def test_damaged_bytes_give_an_image_or_an_error_of_this_package(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]))
    content = bytearray(encoded(Image.new("RGB", (8, 8), "red"), kind))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on odd TIFF and EXIF
        with contextlib.suppress(DataBroken):
            check_whole(path)
        with contextlib.suppress(DataBroken):
            assert open_rgb(path, max_pixels=10_000).mode == "RGB"


NEEDS_AVIF = pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")


def film_without_time_scale() -> bytes:
    """An AVIF of two images whose media header has a time scale of 0."""
    file = io.BytesIO()
    NOISE.convert("RGB").save(file, "AVIF", save_all=True, append_images=[NOISE.convert("RGB")])
    content = file.getvalue()
    start = content.index(b"mdhd") + 24  # after version, flags and two times of 8 bytes
    return content[:start] + bytes(4) + content[start + 4 :]


def tiff_with_fractional_offsets() -> bytes:
    """A TIFF whose tag 273, the offsets of its strips, has the type of 32-bit floats."""
    return encoded(NOISE, "TIFF").replace(b"\x11\x01\x04\x00", b"\x11\x01\x0b\x00")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(film_without_time_scale, marks=NEEDS_AVIF, id="avif"),
        pytest.param(tiff_with_fractional_offsets, id="tiff"),
    ],
)
def test_what_decoders_raise_unexpectedly_is_a_broken_image(tmp_path, content):
    path = tmp_path / "odd"
    path.write_bytes(content())
    for read in (check_whole, open_rgb):
        with pytest.raises(ImageBroken):
            read(path)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_a_truncated_image_is_an_error_even_if_the_runner_allows_it(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as lmms_eval/api/task.py does
    content = encoded(NOISE, kind)
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    (tmp_path / "whole").write_bytes(content)
    with pytest.raises(
        DataBroken, match=r"cannot be used: (it is truncated|could not create decoder object)"
    ):
        open_rgb(tmp_path / "cut")
    assert open_rgb(tmp_path / "whole").size == NOISE.size
