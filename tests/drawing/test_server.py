"""The drawer `images` on real sockets: faults, parameters that servers do not know, cost,
secrets.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from loguru import logger
from PIL import Image
from support.judge_faults import in_list
from support.judge_server import JudgeServer, Says
from support.loopback import HANG, HANG_UP, Sent, error
from support.pictures import MODERATION, drawn, header_only, images, noise, picture, png, without

from mmie_tasks.http.sender import Pace
from mmie_tasks.interleaved.drawer import (
    Drawer,
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    DrawingError,
    DrawingOverBudget,
    Picture,
    PictureRequest,
    PictureUnusable,
)
from mmie_tasks.interleaved.server import ImageOptions, ImageServer, open_server

KEY = "sk-thisisnotarealkey"
FAST = Pace(base_s=0.02, cap_s=0.1, short_cap_s=0.1, no_growth_s=0.2, check_s=(0.01, 0.01))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(models=("image-model",)) as running:
        yield running


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Everything that is logged, as a list of texts."""
    lines: list[str] = []
    sink = logger.add(lines.append, level=0, backtrace=True, diagnose=True)
    yield lines
    logger.remove(sink)


def drawer_at(url: str | None = None, *, key: str | None = KEY, **options: Any) -> ImageServer:
    # Longer than a busy machine takes for anything here: only what fails on purpose ends so.
    options = {"model": "image-model", "timeout": 30.0, "patience": 30.0, **options}
    environment = {**({"OPENAI_API_KEY": key} if key else {}), **options.pop("environment", {})}
    return replace(open_server(ImageOptions(base_url=url, **options), environment), pace=FAST)


def requests(count: int) -> list[PictureRequest]:
    return [PictureRequest(prompt=f"scene {index}", seed=index) for index in range(count)]


def draw(drawer: Drawer, sent: int | Sequence[PictureRequest] = 1) -> list[Picture | DrawingError]:
    """One outcome per request, in their order; more or fewer are an error."""
    sequence = requests(sent) if isinstance(sent, int) else sent
    outcomes = list(drawer.draw(sequence))
    assert sorted(index for index, _ in outcomes) == list(range(len(sequence)))
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(without("response_format", "seed"), id="400"),
        pytest.param(without("seed", "response_format", status=422), id="422"),
        pytest.param(
            lambda body: (
                error(
                    422,
                    message="[{'loc': ['body', 'seed'], 'msg': 'Extra inputs are not permitted'}]",
                )
                if "seed" in body
                else drawn(body)
            ),
            id="pydantic",
        ),
        pytest.param(
            lambda body: (
                in_list(error(400, message='Unknown name "seed": Cannot find field.'))
                if "seed" in body
                else drawn(body)
            ),
            id="list",
        ),
    ],
)
def test_a_parameter_that_a_server_does_not_know_is_left_out_at_once_and_from_then_on(
    server: JudgeServer, log: list[str], says: Says
) -> None:
    server.draws(says)
    drawer = drawer_at(server.url)
    assert isinstance(draw(drawer)[0], Picture)
    before = len(server)
    assert before <= 3
    assert all(isinstance(outcome, Picture) for outcome in draw(drawer, 5))
    assert len(server) == before + 5
    assert len([line for line in log if "now gets no " in line]) == 1


def test_an_error_of_another_cause_leaves_no_parameter_out(server: JudgeServer) -> None:
    server.fails(400, param="seed", message="Unknown parameter: 'seed'")
    server.fails(400, message="the prompt is too long")
    drawer = drawer_at(server.url)
    assert isinstance(draw(drawer)[0], DrawerRefused)
    assert isinstance(draw(drawer)[0], Picture)
    assert "seed" in server.asked[-1]


MANY = None  # until the server is given up
FAULTS = {
    "429": (error(429), DrawerUnavailable, "HTTP 429", MANY),
    "hangs up": (HANG_UP, DrawerUnavailable, "no connection", MANY),
    "hangs": (HANG, DrawerUnavailable, "no answer in time", MANY),
    "moderation": (MODERATION, DrawerRefused, "moderation_blocked", 1),
    "413": (error(413, message="the body is too long"), DrawerRefused, "too long", 1),
    "400": (error(400, message="prompt is longer than a size"), DrawerRefused, "longer", 1),
    "refusal": (images(None, refusal="I will not."), DrawerRefused, "I will not.", 1),
    "filtered, 200": (
        {"data": [], "error": {"code": "content_filter", "message": "withheld"}},
        DrawerRefused,
        "withheld",
        1,
    ),
    "filtered": (images(None, finish_reason="content_filter"), DrawerRefused, "filter", 1),
    "text": (Sent(content=b"<html>Sign in</html>"), PictureUnusable, "no JSON", 3),
    "no picture": ({"created": 0, "data": []}, PictureUnusable, "without a picture", 3),
    "error, 200": ({"error": {"message": "out of memory"}}, PictureUnusable, "out of memory", 3),
    "base64": (images("iVBOR!"), PictureUnusable, "base64", 3),
    "no image": (images(b"a red square"), PictureUnusable, "not an image", 3),
    "truncated": (images(noise(64, 64)[:5000]), PictureUnusable, "truncated", 3),
    "one colour": (images(png(Image.new("RGB", (9, 9)))), PictureUnusable, "one colour", 3),
    "25 Mpx": (images(header_only(5_001, 5_000)), PictureUnusable, "16,777,216", 3),
    "address": (
        images(None, url="https://cdn/a.png?sig=hush"),
        PictureUnusable,
        "https://cdn/a.png in",
        1,
    ),
    "401": (error(401, code="invalid_api_key"), DrawerMisconfigured, "denies access", 1),
    "no credit": (error(429, code="insufficient_quota"), DrawerMisconfigured, "quota", 1),
    "size": (
        error(400, param="size", message="Invalid value: '512x512'."),
        DrawerMisconfigured,
        "Invalid value",
        1,
    ),
    "guidance": (error(422, message="guidance_scale: no"), DrawerMisconfigured, "guidance", 1),
}


@pytest.mark.parametrize(("says", "kind", "words", "times"), FAULTS.values(), ids=FAULTS)
def test_every_fault_is_an_outcome_with_its_reason(
    server: JudgeServer, says: Says, kind: type[DrawingError], words: str, times: int | None
) -> None:
    server.draws(says)
    quickly = {} if times else {"patience": 0.3, "timeout": 0.1}
    (outcome,) = draw(drawer_at(server.url, **quickly))
    assert isinstance(outcome, kind)
    assert words in str(outcome)
    assert "hush" not in str(outcome)
    assert len(server) == times if times else len(server) > 1


def test_pictures_arrive_byte_for_byte_and_requests_hold_every_option(server: JudgeServer) -> None:
    options = {"quality": "high", "steps": 4, "guidance": 3.5, "negative_prompt": "blurry"}
    outcomes = draw(drawer_at(server.url, size="64x32", **options), 3)
    contents = [picture(f"scene {index}", index, 64, 32) for index in range(3)]
    assert outcomes == [Picture(content=content, suffix=".png") for content in contents]
    body = next(body for body in server.asked if body["seed"] == 2)
    assert body == {
        "model": "image-model",
        "prompt": "scene 2",
        "n": 1,
        "size": "64x32",
        "response_format": "b64_json",
        "seed": 2,
        "quality": "high",
        "num_inference_steps": 4,
        "guidance_scale": 3.5,
        "negative_prompt": "blurry",
    }


def test_a_large_picture_is_scaled_down_unless_it_is_stored_as_drawn(server: JudgeServer) -> None:
    content = noise(1200, 900)
    server.draws(images(None, url=f"data:image/png;base64,{base64.b64encode(content).decode()}"))
    (small,) = draw(drawer_at(server.url))
    assert isinstance(small, Picture)
    assert Image.open(BytesIO(small.content)).size == (512, 384)
    (whole,) = draw(drawer_at(server.url, max_side_px=0))
    assert whole == Picture(content=content, suffix=".png")


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("gpt-image-2", {"response_format", "seed"}),
        ("openai/gpt-image-2", {"response_format", "seed"}),
        ("dall-e-2", {"seed"}),
    ],
)
def test_openais_own_models_get_no_parameters_that_they_do_not_know(
    server: JudgeServer, model: str, missing: set[str]
) -> None:
    assert isinstance(draw(drawer_at(server.url, model=model))[0], Picture)
    (body,) = server.asked
    assert {"response_format", "seed"} - body.keys() == missing


def test_a_prompt_that_utf_8_cannot_hold_is_sent(server: JudgeServer) -> None:
    (outcome,) = draw(drawer_at(server.url), [PictureRequest(prompt="a \ud800 b", seed=1)])
    assert isinstance(outcome, Picture)
    assert server.asked[0]["prompt"] == "a � b"


def test_closing_early_ends_the_requests_in_flight(server: JudgeServer) -> None:
    server.delay_s = 0.02
    outcomes = drawer_at(server.url, max_concurrency=4).draw(requests(500))
    assert isinstance(next(outcomes)[1], Picture)
    outcomes.close()  # type: ignore[attr-defined]
    count = len(server)
    time.sleep(0.3)
    assert len(server) <= count + 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("http")]


def test_nothing_is_sent_beyond_the_cost_limit(server: JudgeServer) -> None:
    drawer = drawer_at(server.url, price=0.04, max_cost=0.4, environment={"WORLD_SIZE": "2"})
    outcomes = draw(drawer, 8)
    assert [type(outcome) for outcome in outcomes].count(Picture) == len(server) == 5
    (reason,) = {str(outcome) for outcome in outcomes if isinstance(outcome, DrawingOverBudget)}
    assert "0.2000 of 0.2000 US dollars are spent" in reason
    assert all(isinstance(outcome, DrawingOverBudget) for outcome in draw(drawer, 2))


def test_an_unusable_reply_costs_its_price_too(server: JudgeServer) -> None:
    server.draws({"created": 0, "data": []})
    outcomes = draw(drawer_at(server.url, price=1.0, max_cost=4.0), 2)
    assert len(server) == 4
    assert {type(outcome) for outcome in outcomes} == {PictureUnusable}


ODD_KEY = "4f9a-oddly/shaped+key"


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(error(401, message=f"Incorrect API key provided: {ODD_KEY}."), id="401"),
        pytest.param(error(500, message=f"stack trace with {ODD_KEY}"), id="500"),
        pytest.param(images(None, refusal=f"not for {ODD_KEY}"), id="refusal"),
        pytest.param(images(None, url=f"http://me:hush@h/{ODD_KEY}"), id="address"),
        pytest.param({"error": {"message": f"no {ODD_KEY}"}}, id="error-200"),
    ],
)
def test_no_message_or_log_or_repr_holds_a_key(
    server: JudgeServer, log: list[str], caplog: pytest.LogCaptureFixture, says: Says
) -> None:
    server.draws(says)
    server.models = error(401, message=f"wrong {ODD_KEY}")
    drawer = drawer_at(server.url.replace("http://", "http://u:hush@"), key=ODD_KEY, patience=0.1)
    with caplog.at_level(logging.DEBUG):
        outcomes: list[object] = [*draw(drawer, 3)]
        with pytest.raises(DrawerMisconfigured) as raised:
            drawer.check()
    texts = [*map(repr, outcomes), *map(str, outcomes), str(raised.value), *log, caplog.text]
    texts += [repr(drawer), drawer.signature]
    assert not [text for text in texts if ODD_KEY in text or "hush" in text]


def test_the_key_is_sent(server: JudgeServer) -> None:
    server.key = KEY
    drawer = drawer_at(server.url, key=None, api_key_env="MINE", environment={"MINE": KEY})
    drawer.check()
    assert isinstance(draw(drawer)[0], Picture)


def test_a_missing_key_is_an_error_before_anything_is_sent() -> None:
    drawer = drawer_at(key=None)
    with pytest.raises(
        DrawerMisconfigured, match=r"needs a key, and none is set in `OPENAI_API_KEY`.\n\nhint: "
    ):
        drawer.check()
    assert {type(outcome) for outcome in draw(drawer, 2)} == {DrawerMisconfigured}


def test_the_address_may_come_from_the_environment(server: JudgeServer) -> None:
    variables = {"OPENAI_API_BASE": f"{server.url}/", "JUDGE_BASE_URL": "http://not-this"}
    assert isinstance(draw(drawer_at(environment=variables))[0], Picture)
    assert server.paths == ["/v1/images/generations"]


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        pytest.param(error(401, message="wrong key"), "wrong key", id="401"),
        pytest.param(in_list(error(400, message="API key not valid")), "not valid", id="400"),
        pytest.param(None, "", id="404"),
        pytest.param(Sent(content=b"<html>"), "", id="page"),
    ],
)
def test_a_denied_key_is_found_before_the_run_and_a_missing_list_of_models_is_no_error(
    server: JudgeServer, log: list[str], models: Any, problem: str
) -> None:
    server.models = models
    drawer = drawer_at(server.url)
    if problem:
        with pytest.raises(DrawerMisconfigured, match=problem):
            drawer.check()
    else:
        drawer.check()
        assert not [line for line in log if "WARNING" in line]
    assert not len(server)


def test_a_model_that_is_not_in_the_list_is_a_warning_with_the_nearest_names(
    server: JudgeServer, log: list[str]
) -> None:
    server.models = ["flux-schnell", "image-model-2"]
    drawer_at(server.url).check()
    assert "not in the server's list of models. It has `image-model-2`" in "".join(log)
