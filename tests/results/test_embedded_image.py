from __future__ import annotations

import base64
import hashlib
import io
import os
import struct
import zlib
from functools import partial
from pathlib import Path

import pytest
from PIL import Image, ImageFile

from mmie_tasks.results.embedded_image import embed_image, embed_images
from mmie_tasks.results.page_data import file_name

SIDE_PX = 192
embedded = partial(embed_image, max_side_px=SIDE_PX, quality=60)


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
def test_an_image_is_a_webp_of_at_most_the_given_side(
    tmp_path: Path, name: str, size: tuple[int, int], mode: str, expected: tuple[int, int]
) -> None:
    path = noise_image(tmp_path / name, size, mode=mode)
    result = embedded(path)
    assert result.note == ""
    assert result.sha256 == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    with decoded(result.address) as image:
        assert image.size == expected


def test_an_image_of_a_rotated_photo_is_as_a_model_sees_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a viewer would rotate it
    with decoded(embedded(noise_image(tmp_path / "a.jpg", exif=exif)).address) as image:
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
def test_a_file_that_cannot_be_embedded_has_a_note(tmp_path: Path, make: object, note: str) -> None:
    result = embedded(make(tmp_path / "a.png"))  # type: ignore[operator]
    assert (result.address, result.note) == (None, note)


def test_an_enormous_image_is_not_decoded(tmp_path: Path) -> None:
    header = struct.pack(">4sIIBBBBB", b"IHDR", 20_000, 20_000, 1, 0, 0, 0, 0)
    sealed = struct.pack(">I17sI", 13, header, zlib.crc32(header))
    path = file_of(tmp_path / "a.png", b"\x89PNG\r\n\x1a\n" + sealed + b"\0\0\0\1IDAT")
    assert embedded(path).note == "too large to show: more than 50,000,000 pixels"


def test_images_are_embedded_in_their_order_until_the_next_one_exceeds_the_budget(
    tmp_path: Path,
) -> None:
    files = [noise_image(tmp_path / f"{index}.png", (192, 192)) for index in range(3)]
    all_images = embed_images(files, SIDE_PX, 60, 10**6)
    size = len(all_images[files[0]].address or "")
    assert embed_images(files, SIDE_PX, 60, int(2.5 * size)) == {
        file: all_images[file] for file in files[:2]
    }


def test_a_missing_file_uses_no_budget() -> None:
    images = embed_images(["gone.png", "away.png"], SIDE_PX, 60, 0)
    assert {image.note for image in images.values()} == {"the file no longer exists"}
    assert list(images) == ["gone.png", "away.png"]


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


def test_a_truncated_image_is_not_embedded_even_if_the_runner_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as lmms-eval sets it
    path = tmp_path / "cut.jpg"
    Image.effect_noise((64, 64), 80).save(path)
    path.write_bytes(path.read_bytes()[:-800])
    assert embedded(str(path)).address is None
