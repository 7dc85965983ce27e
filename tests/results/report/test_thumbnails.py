from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image, ImageFile

from mmie_tasks.results.embedded_image import EmbeddedImage
from mmie_tasks.results.page_data import file_name
from mmie_tasks.results.report.samples import SIDE_PX, make_thumbnails, thumbnail


def noise_image(path: Path, size: tuple[int, int] = (400, 100), **options: object) -> str:
    noise = Image.effect_noise(size, 80).convert(str(options.pop("mode", "RGB")))
    noise.save(path, **options)  # type: ignore[arg-type]
    return str(path)


def decoded(address: str | None) -> Image.Image:
    assert address is not None
    head, _, body = address.partition(",")
    assert head == "data:image/webp;base64"
    return Image.open(io.BytesIO(base64.b64decode(body, validate=True)))


@pytest.mark.parametrize(
    ("name", "size", "mode", "expected"),
    [
        pytest.param("a.png", (400, 100), "RGB", (192, 48), id="wide"),
        pytest.param("a.jpg", (900, 1800), "RGB", (96, 192), id="tall-jpeg"),
        pytest.param("a.gif", (300, 300), "P", (192, 192), id="palette"),
        pytest.param("a.jpg", (300, 300), "CMYK", (192, 192), id="four-colours"),
    ],
)
def test_a_thumbnail_is_a_webp_of_at_most_192_px(
    tmp_path: Path, name: str, size: tuple[int, int], mode: str, expected: tuple[int, int]
) -> None:
    result = thumbnail(noise_image(tmp_path / name, size, mode=mode))
    assert result.note == ""
    with decoded(result.address) as image:
        assert image.size == expected
        assert max(image.size) <= SIDE_PX


def test_a_thumbnail_of_a_rotated_photo_is_as_a_model_sees_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a viewer would rotate it
    with decoded(thumbnail(noise_image(tmp_path / "a.jpg", exif=exif)).address) as image:
        assert image.size == (192, 48)


def half_image(path: Path) -> str:
    whole = Path(noise_image(path)).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return str(path)


def file_of(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def pipe(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


UNREADABLE = "the file is not a readable image"


@pytest.mark.parametrize(
    ("make", "note"),
    [
        pytest.param(str, "the file no longer exists", id="missing"),
        pytest.param(lambda p: str(p.parent), "not a file", id="folder"),
        pytest.param(pipe, "not a file", id="pipe"),
        pytest.param(lambda _: "a\0b", UNREADABLE, id="nul"),
        pytest.param(lambda _: "a\ud83d.png", UNREADABLE, id="surrogate"),
        pytest.param(lambda _: "a" * 9999, UNREADABLE, id="too-long-a-name"),
        pytest.param(lambda p: file_of(p, b"<html>"), UNREADABLE, id="text"),
        pytest.param(lambda p: half_image(p.with_suffix(".jpg")), UNREADABLE, id="cut-jpeg"),
        pytest.param(lambda p: noise_image(p.with_suffix(".pcx")), UNREADABLE, id="a-rare-format"),
    ],
)
def test_a_file_without_a_thumbnail_has_a_note(tmp_path: Path, make: object, note: str) -> None:
    result = thumbnail(make(tmp_path / "a.png"))  # type: ignore[operator]
    assert (result.address, result.note) == (None, note)


def test_an_enormous_image_is_not_decoded(tmp_path: Path) -> None:
    header = struct.pack(">4sIIBBBBB", b"IHDR", 20_000, 20_000, 1, 0, 0, 0, 0)
    sealed = struct.pack(">I17sI", 13, header, zlib.crc32(header))
    path = file_of(tmp_path / "a.png", b"\x89PNG\r\n\x1a\n" + sealed + b"\0\0\0\1IDAT")
    assert thumbnail(path).note == "too large to show: more than 50,000,000 pixels"


def test_thumbnails_are_made_in_order_until_the_next_sample_does_not_fit(tmp_path: Path) -> None:
    images = [noise_image(tmp_path / f"{index}.png", (192, 192)) for index in range(3)]
    size = thumbnail(images[0]).size_bytes
    thumbnails = make_thumbnails(
        [(7, images[:1]), (3, images[1:2]), (5, images[2:])], 9, int(2.5 * size)
    )
    assert thumbnails.rows == {7, 3}
    assert thumbnails.left_out == 1
    assert thumbnails.used_bytes <= 2.5 * size
    assert thumbnails.find(7, images[0]).address
    assert thumbnails.find(5, images[2]).note == "no thumbnail"


def test_an_image_counts_as_often_as_it_is_shown_and_is_stored_once(tmp_path: Path) -> None:
    image = noise_image(tmp_path / "a.png")
    size = thumbnail(image).size_bytes
    thumbnails = make_thumbnails([(0, [image, image]), (1, [image])], 9, 10 * size)
    assert thumbnails.used_bytes == 3 * size
    assert list(thumbnails.by_image) == [image]


def test_an_image_of_many_samples_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded_images: list[str] = []

    def note(image: str) -> EmbeddedImage:
        decoded_images.append(image)
        return EmbeddedImage("x")

    monkeypatch.setattr("mmie_tasks.results.report.samples.thumbnail", note)
    make_thumbnails([(row, ["a.png"]) for row in range(100)], 100, 100)
    assert decoded_images == ["a.png"]


def test_missing_files_use_no_budget_and_samples_without_images_are_not_counted() -> None:
    thumbnails = make_thumbnails([(0, ["gone.png"]), (1, []), (2, ["gone.png"])], 9, 0)
    assert (thumbnails.rows, thumbnails.left_out, thumbnails.used_bytes) == ({0, 2}, 0, 0)
    assert thumbnails.find(0, "gone.png").note == "the file no longer exists"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("/a/b/c.png", "c.png", id="slashes"),
        pytest.param("C:\\a\\c.png", "c.png", id="backslashes"),
        pytest.param("x" * 5000 + ".png", f"…{'x' * 75}.png", id="long"),
    ],
)
def test_the_name_of_a_file_is_short(image: str, expected: str) -> None:
    assert file_name(image) == expected


def test_a_truncated_image_has_no_thumbnail_even_if_the_runner_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as lmms-eval sets it
    path = tmp_path / "cut.jpg"
    Image.effect_noise((64, 64), 80).save(path)
    path.write_bytes(path.read_bytes()[:-800])
    assert thumbnail(str(path)).address is None
