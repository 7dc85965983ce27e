"""The drawer `images` on a server of this machine: requests, images, and what goes wrong."""

import base64
import json
import threading
from contextlib import nullcontext
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.judge_server import JudgeServer
from support.loopback import Sent, error
from support.pictures import MODERATION, header_only, images, noise, picture, png

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.drawing.answers import AnswerDrawer
from mmie_tasks.drawing.drawer import ImageRequest, NotDrawn
from mmie_tasks.drawing.registry import open_drawer
from mmie_tasks.drawing.server import ImageServer, read_reply

KEY = "4f9a-oddly/shaped+key"
GREY = png(Image.new("RGB", (9, 9)))


@pytest.fixture
def server():
    with JudgeServer(models=("image-model",)) as server:
        yield server


def drawer_at(url, **options):
    pairs = {"model": "image-model", "base_url": url, **options}
    text = ",".join(f"{name}={value}" for name, value in pairs.items())
    drawer = open_drawer(f"images:{text}", {"OPENAI_API_KEY": KEY})
    assert isinstance(drawer, ImageServer)
    return drawer


def draw(drawer, n=1):
    """The outcomes of `n` requests, in their order."""
    requests = [ImageRequest(prompt=f"scene {index}", seed=index) for index in range(n)]
    outcomes = dict(drawer.draw(requests))
    return [outcomes[index] for index in range(n)]


def pixels(content):
    assert isinstance(content, bytes)
    return Image.open(BytesIO(content)).convert("RGB").tobytes()


def test_images_arrive_pixel_by_pixel_and_requests_have_every_option(server):
    options = {"quality": "high", "steps": 4, "guidance": 3.5, "negative_prompt": "blurry"}
    outcomes = draw(drawer_at(server.url, size="64x32", **options), 3)
    expected = [pixels(picture(f"scene {index}", index, 64, 32)) for index in range(3)]
    assert list(map(pixels, outcomes)) == expected
    assert next(body for body in server.asked if body["seed"] == 2) == {
        "model": "image-model",
        "prompt": "scene 2",
        "n": 1,
        "size": "64x32",
        "seed": 2,
        "response_format": "b64_json",
        "quality": "high",
        "num_inference_steps": 4,
        "guidance_scale": 3.5,
        "negative_prompt": "blurry",
    }
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_openais_models_get_no_parameter_that_they_do_not_know(server):
    draw(drawer_at(server.url, model="openai/gpt-image-2"))
    assert server.asked == [{"model": "openai/gpt-image-2", "prompt": "scene 0", "n": 1}]


def test_a_large_image_is_scaled_down_unless_it_is_stored_as_drawn(server):
    content = noise(1200, 900)
    server.draws(images(None, url=f"data:image/png;base64,{base64.b64encode(content).decode()}"))
    (small,) = draw(drawer_at(server.url))
    assert Image.open(BytesIO(small)).size == (512, 384)
    (whole,) = draw(drawer_at(server.url, max_side_px=0))
    assert pixels(whole) == pixels(content)


def test_a_request_that_fails_is_sent_again(server):
    server.fails(error(503), times=1)
    assert isinstance(draw(drawer_at(server.url))[0], bytes)
    assert len(server) == 1 + 1


@pytest.mark.parametrize(
    ("says", "reason", "words"),
    [
        pytest.param(MODERATION, "refused", "safety system", id="moderation"),
        pytest.param(error(422, message="no such size"), "refused", "no such size", id="422"),
        pytest.param(error(401, message=f"wrong {KEY}"), "unavailable", "HTTP 401", id="401"),
        pytest.param({"data": []}, "unusable", "no image", id="no-image"),
        pytest.param({"error": {"message": f"wrong {KEY}"}}, "unusable", "wrong", id="200-error"),
        pytest.param(images(None, url=f"http://me@h/{KEY}"), "unusable", "address", id="address"),
        pytest.param(images("YWJ"), "unusable", "base64", id="base64"),
        pytest.param(images(b"no image"), "unusable", "", id="no-image-file"),
        pytest.param(images(header_only(5_000, 5_000)), "unusable", "", id="too-many-pixels"),
        pytest.param(images(GREY), "unusable", "one colour", id="one-colour"),
    ],
)
def test_what_is_not_an_image_has_a_reason_without_a_key(server, says, reason, words):
    server.draws(says)
    (outcome,) = draw(drawer_at(server.url))
    assert (outcome.reason, len(server)) == (reason, 1)
    assert words in outcome.detail
    assert KEY not in outcome.detail


KEYS = st.sampled_from(["data", "b64_json", "url", "error", "code"])
JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.just(base64.b64encode(picture("x")).decode()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)


@given(st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_an_image_or_a_reason(content):
    assert isinstance(read_reply(content, 512, [KEY]), (bytes, NotDrawn))


def test_closing_early_ends_the_requests(server, monkeypatch):
    server.delay_s, begun, draw_one = 0.02, [], ImageServer._draw
    monkeypatch.setattr(ImageServer, "_draw", lambda *all: begun.append(1) or draw_one(*all))
    requests = [ImageRequest(prompt=f"scene {index}", seed=index) for index in range(500)]
    outcomes = drawer_at(server.url, max_concurrency=4).draw(requests)
    next(outcomes)
    outcomes.close()
    count = len(begun)
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(5)
    assert len(server) <= len(begun) <= count + 4


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        pytest.param(error(401, message=f"wrong {KEY}"), "HTTP 401", id="401"),
        pytest.param(None, "", id="no-list"),
        pytest.param(Sent(content=b"<html>"), "", id="page"),
    ],
)
def test_a_denied_key_is_found_before_the_run(server, models, problem):
    server.models = models
    raises = pytest.raises(SettingWrong, match=problem) if problem else nullcontext()
    with raises as raised:
        drawer_at(server.url).check()
    assert KEY not in str(raised and raised.value)


def test_a_missing_key_or_server_is_found_before_the_run():
    with pytest.raises(SettingWrong, match="needs a key"):
        AnswerDrawer.open("images:gpt-image-2", {})
    with pytest.raises(SettingWrong, match="start it"):
        drawer_at("http://127.0.0.1:9/v1").check()
