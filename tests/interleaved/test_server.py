"""The drawer `images` on real sockets: faults, parameters that servers do not know, cost, several
servers, secrets.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loguru import logger
from PIL import Image
from support.image_server import (
    MODERATION,
    NO_PICTURE,
    NOT_JSON,
    drawn,
    header_only,
    image_server,
    images,
    noise,
    picture,
    png,
    without,
)
from support.judge_server import HANG, HANG_UP, Body, JudgeServer, Says, Sent, error

from mmie_tasks.http.endpoint import Pace
from mmie_tasks.interleaved.base import (
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
from mmie_tasks.interleaved.server import ImageServer, open_drawer, read_reply

KEY = "sk-thisisnotarealkey"
FAST = Pace(base_s=0.02, cap_s=0.1, no_growth_s=0.2, check_s=(0.01, 0.01))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with image_server() as running:
        yield running


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Everything that is logged, as a list of texts."""
    lines: list[str] = []
    sink = logger.add(lines.append, level=0, backtrace=True, diagnose=True)
    yield lines
    logger.remove(sink)


def drawer_at(*urls: str, key: str | None = KEY, **options: Any) -> ImageServer:
    # Longer than a busy machine takes for anything here: only what fails on purpose ends so.
    options = {"model": "image-model", "timeout": 30.0, "patience": 30.0, **options}
    environment = {**({"OPENAI_API_KEY": key} if key else {}), **options.pop("environment", {})}
    return replace(
        open_drawer(environment=environment, base_url=" ".join(urls) or None, **options), pace=FAST
    )


def requests(count: int) -> list[PictureRequest]:
    return [PictureRequest(prompt=f"scene {index}", seed=index) for index in range(count)]


def draw(drawer: Drawer, sent: int | Sequence[PictureRequest] = 1) -> list[Picture | DrawingError]:
    """One outcome per request, in their order; more or fewer are an error."""
    sequence = requests(sent) if isinstance(sent, int) else sent
    outcomes = list(drawer.draw(sequence))
    assert sorted(index for index, _ in outcomes) == list(range(len(sequence)))
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


def test_pictures_arrive_byte_for_byte_and_requests_hold_every_option(server: JudgeServer) -> None:
    options = {
        "quality": "high",
        "steps": 4,
        "guidance": 3.5,
        "negative_prompt": "blurry",
        "size": "64x32",
    }
    outcomes = draw(drawer_at(server.url, **options), 3)
    assert outcomes == [
        Picture(content=picture(f"scene {index}", index, 64, 32), suffix=".png")
        for index in range(3)
    ]
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
    sizes = []
    for max_side_px in (512, 0):
        (outcome,) = draw(drawer_at(server.url, size="1024x768", max_side_px=max_side_px))
        assert isinstance(outcome, Picture)
        sizes.append(Image.open(BytesIO(outcome.content)).size)
    assert sizes == [(512, 384), (1024, 768)]


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        pytest.param("gpt-image-1", {"response_format", "seed"}, id="gpt-image"),
        pytest.param("openai/gpt-image-1-mini", {"response_format", "seed"}, id="gateway"),
        pytest.param("dall-e-2", {"seed"}, id="dall-e"),
        pytest.param("flux", set(), id="other"),
    ],
)
def test_openais_own_models_get_no_parameters_that_they_do_not_know(
    server: JudgeServer, model: str, missing: set[str]
) -> None:
    assert isinstance(draw(drawer_at(server.url, model=model))[0], Picture)
    (body,) = server.asked
    assert {"response_format", "seed"} - body.keys() == missing


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
    ],
)
def test_a_parameter_that_a_server_does_not_know_is_left_out_at_once_and_from_then_on(
    server: JudgeServer, log: list[str], says: Says
) -> None:
    server.says(says)
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


UNTIL_GIVEN_UP = None
PNG = picture("x")
LATER = images(PNG)


@pytest.mark.parametrize(
    ("says", "kind", "words", "times"),
    [
        pytest.param(error(429), DrawerUnavailable, "HTTP 429", UNTIL_GIVEN_UP, id="429"),
        pytest.param(error(500), DrawerUnavailable, "HTTP 500", UNTIL_GIVEN_UP, id="500"),
        pytest.param(HANG_UP, DrawerUnavailable, "no connection", UNTIL_GIVEN_UP, id="hangs-up"),
        pytest.param(HANG, DrawerUnavailable, "no answer in time", UNTIL_GIVEN_UP, id="hangs"),
        pytest.param(MODERATION, DrawerRefused, "moderation_blocked", 1, id="moderation"),
        pytest.param(
            error(400, code="content_policy_violation"), DrawerRefused, "policy", 1, id="policy"
        ),
        pytest.param(
            error(413, message="the body is too long"), DrawerRefused, "too long", 1, id="413"
        ),
        pytest.param(
            error(400, message="prompt is longer than a size"), DrawerRefused, "longer", 1, id="400"
        ),
        pytest.param(
            images(None, refusal="I will not."), DrawerRefused, "I will not.", 1, id="refusal"
        ),
        pytest.param(
            {"data": [], "error": {"code": "content_filter", "message": "withheld"}},
            DrawerRefused,
            "withheld",
            1,
            id="filtered-200",
        ),
        pytest.param(
            images(None, finish_reason="content_filter"), DrawerRefused, "filter", 1, id="filtered"
        ),
        pytest.param(NOT_JSON, PictureUnusable, "no JSON", 3, id="text"),
        pytest.param(Sent(content=b""), PictureUnusable, "no JSON", 3, id="empty"),
        pytest.param(NO_PICTURE, PictureUnusable, "without a picture", 3, id="no-picture"),
        pytest.param(
            {"error": {"message": "out of memory"}},
            PictureUnusable,
            "out of memory",
            3,
            id="error-200",
        ),
        pytest.param({"data": "x"}, PictureUnusable, "without a picture", 3, id="data-is-text"),
        pytest.param(images(""), PictureUnusable, "without a picture", 3, id="empty-picture"),
        pytest.param(images("iVBOR!"), PictureUnusable, "base64", 3, id="broken-base64"),
        pytest.param(images("päng"), PictureUnusable, "base64", 3, id="no-ascii"),
        pytest.param(images(b"a red square"), PictureUnusable, "not an image", 3, id="no-image"),
        pytest.param(images(noise(64, 64)[:5000]), PictureUnusable, "truncated", 3, id="truncated"),
        pytest.param(
            images(png(Image.new("RGB", (64, 64), "navy"))),
            PictureUnusable,
            "one colour",
            3,
            id="one-colour",
        ),
        pytest.param(images(header_only(0, 64)), PictureUnusable, "not an image", 3, id="0-pixels"),
        pytest.param(
            images(header_only(5_001, 5_000)),
            PictureUnusable,
            "16,777,216",
            3,
            id="25-million-pixels",
        ),
        pytest.param(
            images(None, url="https://cdn/a.png?sig=hush"),
            PictureUnusable,
            "https://cdn/a.png in",
            1,
            id="address",
        ),
        pytest.param(
            images(None, url="/a.png"), PictureUnusable, "the address /a.png", 1, id="path"
        ),
        pytest.param(
            Sent(
                content=gzip.compress(b" " * (96 * 2**20 + 1), 1),
                headers={"content-encoding": "gzip"},
            ),
            PictureUnusable,
            "more than 96 MiB",
            3,
            id="too-large",
        ),
        pytest.param(
            error(401, code="invalid_api_key"),
            DrawerMisconfigured,
            "denies access",
            UNTIL_GIVEN_UP,
            id="401",
        ),
        pytest.param(
            error(404, message="no such model"),
            DrawerMisconfigured,
            "denies access",
            UNTIL_GIVEN_UP,
            id="model",
        ),
        pytest.param(
            error(429, code="insufficient_quota"),
            DrawerMisconfigured,
            "quota",
            UNTIL_GIVEN_UP,
            id="no-credit",
        ),
        pytest.param(
            error(400, param="size", message="Invalid value: '512x512'."),
            DrawerMisconfigured,
            "Invalid value",
            UNTIL_GIVEN_UP,
            id="size",
        ),
        pytest.param(
            error(422, message="guidance_scale: no"),
            DrawerMisconfigured,
            "guidance",
            UNTIL_GIVEN_UP,
            id="guidance",
        ),
    ],
)
def test_every_fault_is_an_outcome_with_its_reason(
    server: JudgeServer, says: Says, kind: type[DrawingError], words: str, times: int | None
) -> None:
    server.says(says)
    quickly = {"patience": 0.3, "timeout": 0.1} if times is UNTIL_GIVEN_UP else {}
    (outcome,) = draw(drawer_at(server.url, **quickly))
    assert type(outcome).name == kind.name
    assert isinstance(outcome, kind)
    assert words in str(outcome)
    assert "hush" not in str(outcome)
    assert len(server) == times if times else len(server) > 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(error(429, headers={"Retry-After": "0.05"}), id="429"),
        pytest.param(error(503), id="503"),
        pytest.param(HANG_UP, id="hangs-up"),
        pytest.param(NOT_JSON, id="text"),
        pytest.param(NO_PICTURE, id="no-picture"),
    ],
)
def test_a_picture_is_drawn_when_a_fault_is_over(server: JudgeServer, fault: Sent) -> None:
    server.then(fault, times=2)
    assert isinstance(draw(drawer_at(server.url))[0], Picture)
    assert len(server) == 3


def test_a_data_uri_is_a_picture(server: JudgeServer) -> None:
    server.says(images(None, url=f"data:image/png;base64,{base64.b64encode(PNG).decode()}"))
    assert draw(drawer_at(server.url)) == [Picture(content=PNG, suffix=".png")]


def test_a_picture_of_more_than_4_mib_is_read(server: JudgeServer) -> None:
    content = noise(1600, 1600)
    assert len(base64.b64encode(content)) > 4 * 2**20
    server.says(images(content))
    assert draw(drawer_at(server.url, max_side_px=0)) == [Picture(content=content, suffix=".png")]


def test_one_fault_costs_one_picture(server: JudgeServer) -> None:
    def says(body: Body) -> Body | Sent:
        return {"scene 3": MODERATION, "scene 5": NOT_JSON}.get(body["prompt"]) or drawn(body)

    server.says(says)
    outcomes = draw(drawer_at(server.url), 12)
    assert [
        index for index, outcome in enumerate(outcomes) if not isinstance(outcome, Picture)
    ] == [3, 5]


def test_a_prompt_that_utf_8_cannot_hold_is_sent(server: JudgeServer) -> None:
    (outcome,) = draw(drawer_at(server.url), [PictureRequest(prompt="a \ud800 b", seed=1)])
    assert isinstance(outcome, Picture)
    assert server.asked[0]["prompt"] == "a � b"


def test_a_server_gets_as_many_requests_at_once_as_it_serves(server: JudgeServer) -> None:
    server.delay_s, server.at_most = 0.05, 8
    assert all(isinstance(outcome, Picture) for outcome in draw(drawer_at(server.url), 60))
    assert server.most_at_once == 8
    assert server.statuses[429] < 20


def test_no_more_requests_are_in_flight_than_allowed(server: JudgeServer) -> None:
    server.delay_s = 0.05
    draw(drawer_at(server.url, max_concurrency=3), 9)
    assert server.most_at_once == 3


def test_an_outcome_is_yielded_as_soon_as_it_is_there(server: JudgeServer) -> None:
    server.then(HANG)
    outcomes = drawer_at(server.url).draw(requests(6))
    assert len([next(outcomes) for _ in range(5)]) == 5
    outcomes.close()  # type: ignore[attr-defined]


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
    server.says(NO_PICTURE)
    outcomes = draw(drawer_at(server.url, price=1.0, max_cost=4.0), 2)
    assert len(server) == 4
    assert {type(outcome) for outcome in outcomes} == {PictureUnusable}


def test_several_servers_share_the_work_and_one_that_is_down_costs_nothing(
    server: JudgeServer,
) -> None:
    with image_server(delay_s=0.02) as other, image_server() as down:
        down.stop()
        server.delay_s = 0.02
        drawer = drawer_at(server.url, down.url, other.url)
        drawer.check()
        assert all(isinstance(outcome, Picture) for outcome in draw(drawer, 40))
        assert min(len(server), len(other)) > 5


def test_what_is_not_known_to_one_server_is_still_sent_to_another(server: JudgeServer) -> None:
    server.delay_s = 0.02
    with image_server(without("seed"), delay_s=0.02) as other:
        draw(drawer_at(server.url, other.url), 40)
        assert all("seed" in body for body in server.asked)
        assert "seed" not in other.asked[-1]


@pytest.mark.parametrize(
    "key", [pytest.param(KEY, id="sk"), pytest.param("4f9a-oddly/shaped+key", id="odd")]
)
@pytest.mark.parametrize(
    "says",
    [
        pytest.param(
            lambda key: error(401, message=f"Incorrect API key provided: {key}."), id="401"
        ),
        pytest.param(lambda key: error(400, message=f"you sent {key}"), id="400"),
        pytest.param(lambda key: error(500, message=f"stack trace with {key}"), id="500"),
        pytest.param(lambda key: images(None, refusal=f"not for {key}"), id="refusal"),
        pytest.param(lambda key: images(None, url=f"http://me:hush@h/{key}"), id="address"),
        pytest.param(lambda key: {"error": {"message": f"no {key}"}}, id="error-200"),
    ],
)
def test_no_message_or_log_or_repr_holds_a_key(
    server: JudgeServer, log: list[str], caplog: pytest.LogCaptureFixture, key: str, says: Any
) -> None:
    server.says(says(key))
    server.models = error(401, message=f"wrong {key}")
    drawer = drawer_at(server.url.replace("http://", "http://u:hush@"), key=key, patience=0.1)
    with caplog.at_level(logging.DEBUG):
        outcomes: list[object] = [*draw(drawer, 3)]
        with pytest.raises(DrawerMisconfigured) as raised:
            drawer.check()
    texts = [*map(repr, outcomes), *map(str, outcomes), str(raised.value), *log, caplog.text]
    texts += [repr(drawer), drawer.signature]
    assert not [text for text in texts if key in text or "hush" in text]


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


@pytest.mark.parametrize(
    ("variable", "route"),
    [
        pytest.param("OPENAI_API_URL", "/chat/completions", id="chat"),
        pytest.param("OPENAI_BASE_URL", "/images/generations", id="images"),
        pytest.param("OPENAI_API_BASE", "/", id="none"),
    ],
)
def test_the_address_may_come_from_the_environment(
    server: JudgeServer, variable: str, route: str
) -> None:
    drawer = drawer_at(
        environment={variable: f"{server.url}{route}", "JUDGE_BASE_URL": "http://not-this"}
    )
    assert isinstance(draw(drawer)[0], Picture)
    assert server.paths == ["/v1/images/generations"]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        pytest.param(
            error(401, message="wrong key"), "wrong key.\n\nhint: correct the key", id="401"
        ),
        pytest.param(
            error(403, message="not yours"), "not yours.\n\nhint: correct the key", id="403"
        ),
    ],
)
def test_a_denied_key_is_found_before_the_run(
    server: JudgeServer, models: Sent, words: str
) -> None:
    server.models = models
    with pytest.raises(DrawerMisconfigured) as raised:
        drawer_at(server.url).check()
    assert words in str(raised.value)


def test_a_server_that_is_not_there_is_found_before_the_run(server: JudgeServer) -> None:
    server.stop()
    with pytest.raises(
        DrawerMisconfigured, match=r"is not reachable: no connection .*\n\nhint: start it"
    ):
        drawer_at(server.url).check()


@pytest.mark.parametrize(
    "models",
    [
        pytest.param(None, id="404"),
        pytest.param(error(405), id="405"),
        pytest.param(error(500), id="500"),
        pytest.param(error(429), id="429"),
        pytest.param(error(403, message="Missing scopes: api.model.read"), id="restricted-key"),
        pytest.param(Sent(content=b"<html>"), id="page"),
        pytest.param(Sent(content=b" " * (5 * 2**20)), id="large"),
        pytest.param(HANG, id="busy"),
        pytest.param([], id="no-models"),
    ],
)
def test_a_server_is_not_refused_because_it_has_no_list_of_models(
    server: JudgeServer, log: list[str], models: Any
) -> None:
    server.models = models
    drawer = drawer_at(server.url, timeout=0.3)
    drawer.check()
    assert not [line for line in log if "WARNING" in line]
    assert not len(server)
    assert isinstance(draw(drawer)[0], Picture)


def test_a_model_that_is_not_in_the_list_is_a_warning_with_the_nearest_names(
    server: JudgeServer, log: list[str]
) -> None:
    server.models = ["flux-schnell", "image-model-2"]
    drawer_at(server.url).check()
    assert "not in the server's list of models. It has `image-model-2`" in "".join(log)


def test_an_error_does_not_keep_the_reply_in_memory() -> None:
    outcome = read_reply(json.dumps(images(header_only(5_001, 5_000))).encode(), 512)
    assert isinstance(outcome, PictureUnusable)
    assert not traceback.extract_tb(outcome.__traceback__)
    assert (outcome.__cause__, outcome.__context__) == (None, None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.just(base64.b64encode(PNG).decode()),
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
    outcome = read_reply(content, 512, [KEY])
    assert isinstance(outcome, (Picture, PictureUnusable, DrawerRefused))
