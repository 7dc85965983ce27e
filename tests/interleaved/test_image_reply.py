"""Replies of image servers, of any bytes."""

from __future__ import annotations

import base64
import json
import traceback

from hypothesis import given
from hypothesis import strategies as st
from support.pictures import header_only, images, picture

from mmie_tasks.interleaved.drawer import DrawerRefused, Picture, PictureUnusable
from mmie_tasks.interleaved.server import read_reply


def test_an_error_does_not_keep_the_reply_in_memory() -> None:
    outcome = read_reply(json.dumps(images(header_only(5_001, 5_000))).encode(), 512, [])
    assert isinstance(outcome, PictureUnusable)
    assert not traceback.extract_tb(outcome.__traceback__)
    assert (outcome.__cause__, outcome.__context__) == (None, None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.just(base64.b64encode(picture("x")).decode()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["data", "b64_json", "url", "error", "message", "code", "refusal", "finish_reason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_picture_or_an_error(content: bytes) -> None:
    outcome = read_reply(content, 512, ["sk-thisisnotarealkey"])
    assert isinstance(outcome, (Picture, PictureUnusable, DrawerRefused))
