import os
from dataclasses import replace

import pytest

from mmie_tasks.judges.base import JudgeRequest, ReplySchema, RequestBroken
from mmie_tasks.judges.content import MAX_IMAGE_BYTES, content_key, image_bytes

SCHEMA = ReplySchema(name="f", parameters="{}")


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG and so on")
    return path


def request_of(*parts):
    return JudgeRequest(parts=parts, max_tokens=9)


def test_requests_with_other_content_have_other_keys(picture):
    """Also where the same words are divided otherwise, or the bytes of an image are a text."""
    bytes_as_text = picture.read_bytes().decode("latin-1")
    request = request_of("x", picture)
    other = picture.with_name("other.png")
    other.write_bytes(picture.read_bytes()[:-1])
    keys = [content_key(request), content_key(request_of("x", other))]
    parts = [("xy", picture), (picture, "x"), ("x", "", picture), ("x", bytes_as_text), ("\ud800",)]
    parts += [("a", "b"), ("atext\nb",)]  # as the hashed text would be without lengths
    requests = [
        *(request_of(*some) for some in parts),
        replace(request, max_tokens=8),
        replace(request, attempt=1),
        replace(request, system="s"),
        replace(request, schema=SCHEMA),
        JudgeRequest(parts=("ab",), max_tokens=9, system="c"),
        JudgeRequest(parts=("a",), max_tokens=9, system="bc"),
        JudgeRequest(parts=("abc",), max_tokens=9),
        JudgeRequest(parts=("ab",), max_tokens=9, schema=SCHEMA),
        JudgeRequest(parts=("ab",), max_tokens=9, schema=replace(SCHEMA, description="f")),
        JudgeRequest(parts=("ab",), max_tokens=9, schema=replace(SCHEMA, parameters='{"a": 1}')),
    ]
    keys += [content_key(request) for request in requests]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("size", [0, MAX_IMAGE_BYTES + 1], ids=["empty", "too-large"])
def test_an_empty_or_huge_image_is_not_sent(tmp_path, size):
    path = tmp_path / "a.png"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(RequestBroken, match="64 MiB"):
        image_bytes(path)
    with pytest.raises(RequestBroken, match=r"none\.png"):
        content_key(request_of(tmp_path / "none.png"))
