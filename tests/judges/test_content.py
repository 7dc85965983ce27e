from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mmie_tasks.judges.base import JudgeRequest, ReplySchema, RequestBroken
from mmie_tasks.judges.content import MAX_IMAGE_BYTES, content_key, image_bytes

SCHEMA = ReplySchema(name="f", parameters="{}")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG and so on")
    return path


def request_of(*parts: str | Path) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=9)


def test_a_key_depends_on_the_content_and_not_on_the_path(picture: Path) -> None:
    other = picture.rename(picture.with_name("b.jpg"))
    copy = picture
    copy.write_bytes(other.read_bytes())
    assert content_key(request_of("x", other)) == content_key(request_of("x", copy))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(
            lambda request, _: replace(request, parts=("xy", *request.parts[1:])), id="text"
        ),
        pytest.param(lambda request, _: replace(request, parts=request.parts[::-1]), id="order"),
        pytest.param(
            lambda request, _: replace(request, parts=("x", "", *request.parts[1:])), id="parts"
        ),
        pytest.param(lambda request, _: replace(request, max_tokens=8), id="limit"),
        pytest.param(lambda request, _: replace(request, attempt=1), id="attempt"),
        pytest.param(lambda request, _: replace(request, system="s"), id="system"),
        pytest.param(lambda request, _: replace(request, schema=SCHEMA), id="schema"),
        pytest.param(
            lambda request, path: replace(
                request, parts=("x", path.read_bytes().decode("latin-1"))
            ),
            id="kind",
        ),
    ],
)
def test_a_request_with_other_content_has_another_key(picture: Path, changed: object) -> None:
    request = request_of("x", picture)
    assert content_key(changed(request, picture)) != content_key(request)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        pytest.param(
            ("x",), "da5c774532aeb0f919b874df29e95706b99d256be2a51bfed430b147c2c1edcc", id="text"
        ),
        pytest.param(
            ("ab", "c"),
            "248856e79f464a202b30492467ad23269a55b8af82a2dd32b1346e872636f8a2",
            id="texts",
        ),
    ],
)
def test_a_request_without_system_message_and_schema_has_the_first_form_of_key(
    parts: tuple[str, ...], key: str
) -> None:
    assert content_key(JudgeRequest(parts=parts, max_tokens=9, system="", schema=None)) == key


def test_instructions_and_parts_are_told_apart() -> None:
    requests = [
        JudgeRequest(parts=("ab",), max_tokens=9, system="c"),
        JudgeRequest(parts=("a",), max_tokens=9, system="bc"),
        JudgeRequest(parts=("abc",), max_tokens=9),
        JudgeRequest(parts=("c", "ab"), max_tokens=9),
        JudgeRequest(parts=("ab",), max_tokens=9, schema=SCHEMA),
        JudgeRequest(parts=("ab",), max_tokens=9, schema=replace(SCHEMA, description="f")),
        JudgeRequest(parts=("ab",), max_tokens=9, schema=replace(SCHEMA, parameters='{"a": 1}')),
    ]
    assert len({content_key(request) for request in requests}) == len(requests)


def test_a_lone_surrogate_has_a_key() -> None:
    assert len(content_key(request_of("\ud800"))) == 64


@pytest.mark.parametrize("size", [0, MAX_IMAGE_BYTES + 1], ids=["empty", "too-large"])
def test_an_empty_or_huge_image_is_not_sent(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.png"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(RequestBroken, match="64 MiB"):
        image_bytes(path)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestBroken, match=r"none\.png"):
        content_key(request_of(tmp_path / "none.png"))
