"""The JPEGs that OpenING's judge gets."""

import io
from random import Random

import pytest
from PIL import Image

from mmie_tasks.benchmarks.opening.jpeg import reencode

NOISE = Image.frombytes("RGB", (40, 40), Random(0).randbytes(4_800))  # noqa: S311 - not secret


def encoded(image, kind):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "1"])
def test_an_image_is_encoded_again_as_pillow_does_it(tmp_path, mode):
    image = NOISE.convert(mode)
    (tmp_path / "a").write_bytes(encoded(image, "TIFF"))
    path = reencode(tmp_path / "a", tmp_path / "new", (51, 52))
    assert path.read_bytes() == encoded(image.resize((51, 52)), "JPEG")


@pytest.mark.parametrize("content", [b"", b"text", encoded(NOISE, "PNG")[:-20]])
def test_what_is_no_whole_image_is_not_encoded(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert reencode(tmp_path / "a", tmp_path, (8, 8)) is None
    assert reencode(tmp_path / "none", tmp_path, (8, 8)) is None
