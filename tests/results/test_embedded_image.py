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

SIDE_PX = 192
embedded = partial(embed_image, max_side_px=SIDE_PX, quality=60)
UNREADABLE = "the file is not a readable image"


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
    ("name", "size", "mode", "rotation", "expected"),
    [
        pytest.param("a.png", (400, 100), "RGB", 0, (192, 48), id="wide"),
        pytest.param("a.jpg", (900, 1800), "CMYK", 0, (96, 192), id="tall, four colours"),
        pytest.param("a.gif", (300, 300), "P", 0, (192, 192), id="palette"),
        pytest.param("a.jpg", (400, 100), "RGB", 6, (192, 48), id="as a model sees it"),
    ],
)
def test_an_image_is_a_webp_of_at_most_the_given_side(
    tmp_path: Path,
    name: str,
    size: tuple[int, int],
    mode: str,
    rotation: int,
    expected: tuple[int, int],
) -> None:
    exif = Image.Exif()
    exif[0x0112] = rotation  # 6: a viewer would rotate it
    path = noise_image(tmp_path / name, size, mode=mode, **({"exif": exif} if rotation else {}))
    result = embedded(path)
    assert result.note == ""
    assert result.sha256 == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    with decoded(result.address) as image:
        assert image.size == expected


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


def enormous(path: Path) -> str:
    header = struct.pack(">4sIIBBBBB", b"IHDR", 20_000, 20_000, 1, 0, 0, 0, 0)
    sealed = struct.pack(">I17sI", 13, header, zlib.crc32(header))
    return file_of(path, b"\x89PNG\r\n\x1a\n" + sealed + b"\0\0\0\1IDAT")


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
        pytest.param(
            enormous, "too large to show: more than 50,000,000 pixels", id="too-many-pixels"
        ),
    ],
)
def test_a_file_that_cannot_be_embedded_has_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object, note: str
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as lmms-eval sets it
    result = embedded(make(tmp_path / "a.png"))  # type: ignore[operator]
    assert (result.address, result.note) == (None, note)


def test_images_are_embedded_in_their_order_until_the_next_one_exceeds_the_budget(
    tmp_path: Path,
) -> None:
    files = ["gone.png", *(noise_image(tmp_path / f"{n}.png", (192, 192)) for n in range(3))]
    all_images = embed_images(files, SIDE_PX, 60, 10**6)
    size = len(all_images[files[1]].address or "")
    assert embed_images(files, SIDE_PX, 60, int(2.5 * size)) == {
        file: all_images[file] for file in files[:3]
    }
