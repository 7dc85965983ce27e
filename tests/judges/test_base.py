from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mmie_tasks.judges.base import (
    MAX_IMAGE_BYTES,
    JudgeMisconfigured,
    JudgeRequest,
    RequestBroken,
    content_key,
    image_bytes,
)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG and so on")
    return path


def request(*parts: str | Path) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=9)


def test_a_key_is_of_the_content_and_not_of_the_path(picture: Path) -> None:
    other = picture.rename(picture.with_name("b.jpg"))
    copy = picture
    copy.write_bytes(other.read_bytes())
    assert content_key(request("x", other)) == content_key(request("x", copy))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda asked, _: replace(asked, parts=("xy", *asked.parts[1:])), id="text"),
        pytest.param(lambda asked, _: replace(asked, parts=asked.parts[::-1]), id="order"),
        pytest.param(
            lambda asked, _: replace(asked, parts=("x", "", *asked.parts[1:])), id="parts"
        ),
        pytest.param(lambda asked, _: replace(asked, max_tokens=8), id="limit"),
        pytest.param(lambda asked, _: replace(asked, attempt=1), id="attempt"),
        pytest.param(
            lambda asked, path: replace(asked, parts=("x", path.read_bytes().decode("latin-1"))),
            id="kind",
        ),
    ],
)
def test_whatever_is_asked_otherwise_has_another_key(picture: Path, changed: object) -> None:
    asked = request("x", picture)
    assert content_key(changed(asked, picture)) != content_key(asked)  # type: ignore[operator]


def test_a_changed_image_has_another_key(picture: Path) -> None:
    before = content_key(request(picture))
    picture.write_bytes(b"\x89PNG and so forth")
    assert content_key(request(picture)) != before


def test_half_a_character_has_a_key() -> None:
    assert len(content_key(request("\ud800"))) == 64


@pytest.mark.parametrize("size", [0, MAX_IMAGE_BYTES + 1], ids=["empty", "too-large"])
def test_an_image_without_a_sensible_size_is_not_sent(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.png"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(RequestBroken, match="empty or larger than 64 MiB"):
        image_bytes(path)


def test_a_missing_image_names_itself(tmp_path: Path) -> None:
    with pytest.raises(RequestBroken, match=r"none\.png` cannot be read"):
        content_key(request(tmp_path / "none.png"))


def test_a_misconfigured_judge_says_what_helps() -> None:
    error = JudgeMisconfigured("There is no key.", hint="set one")
    assert str(error) == "There is no key.\n\nhint: set one"
