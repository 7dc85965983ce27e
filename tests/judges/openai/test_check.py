"""The check before a run, and its messages."""

import base64
import io
import time

import pytest
from PIL import Image
from support.judge_asking import KEY, ask, judge_at
from support.judge_server import JudgeServer, completion
from support.loopback import HANG_UP, error

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.openai.check import _COLOURS


@pytest.fixture
def server():
    with JudgeServer("5", check=None) as server:
        yield server


def problem(judge, max_images=0):
    with pytest.raises(JudgeMisconfigured) as raised:
        judge.check(max_images)
    return str(raised.value)


def images(body) -> list[str]:
    """The data URIs of a request's images."""
    (message,) = body["messages"]
    parts = [part for part in message["content"] if part["type"] == "image_url"]
    return [part["image_url"]["url"] for part in parts]


def test_the_check_is_one_request_with_as_many_images_as_the_run_at_most_two(server):
    for max_images, sent in ((0, 0), (1, 1), *[(12, 2)] * 8):
        judge_at(server.url).check(max_images)
        urls = images(server.asked[-1])
        assert len(set(urls)) == len(urls) == sent
    assert [request.route for request in server.log] == ["chat"] * 10
    assert len({tuple(images(body)) for body in server.asked[2:]}) > 1  # the colours are random


def test_the_check_has_the_parameters_of_the_run(server):
    judge_at(server.url, temperature=0.7, max_tokens=9, extra_body='{"top_k": 1}').check()
    judge_at(server.url, model="gpt-6-luna").check()
    plain, reasoning = server.asked
    assert (plain["temperature"], plain["max_tokens"], plain["top_k"]) == (0.7, 50, 1)
    assert "temperature" not in reasoning
    assert reasoning["max_completion_tokens"] == 50 + 8192


def test_parameters_that_the_check_found_are_those_of_the_run(server):
    rejected = error(400, message="Unsupported parameter: 'max_tokens'")
    server.says(lambda body: rejected if "max_tokens" in body else "5")
    judge = judge_at(server.url)
    judge.check()
    assert ask(judge)[0].text == "5"
    assert server.statuses == {400: 1, 200: 2}


# Images


def colour(url: str) -> str:
    """The colour of an image in a data URI."""
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    return next(name for name, rgb in _COLOURS.items() if rgb == image.getpixel((0, 0)))


FEW = {"usage": {"prompt_tokens": 30, "completion_tokens": 1}}


@pytest.mark.parametrize(
    ("reply", "more", "words"),
    [
        pytest.param("{second}, {first}", {}, "", id="both"),
        pytest.param("**{first}**", {}, "", id="one"),
        pytest.param("Got it, let me", {"finish_reason": "length"}, "", id="cut-off"),
        pytest.param("{first}, {second}", FEW, "", id="Llama-3.2-Vision-on-Ollama"),
        pytest.param("No colored image was shared.", {}, "it replied `No col", id="red-in-words"),
        pytest.param("{wrong}", {}, "it replied", id="guesses"),
        pytest.param("5", {}, "it replied `5`", id="another-answer"),
        pytest.param("{first}", FEW, "30 prompt tokens", id="counts-none"),
    ],
)
def test_a_judge_that_may_not_see_images_is_named_before_the_run(server, logs, reply, more, words):
    def says(body):
        first, second = map(colour, images(body))
        wrong = next(name for name in _COLOURS if name not in (first, second))
        return completion(reply.format(first=first, second=second, wrong=wrong), **more)

    server.says(says)
    judge_at(server.url).check(12)
    assert len(logs) == bool(words)
    assert words in "".join(logs)


# Servers

NO_IMAGES = error(404, message="No endpoints found that support image input")


@pytest.mark.parametrize(
    ("sent", "words", "hint"),
    [
        pytest.param(error(401), "HTTP 401", "`OPENAI_API_KEY`", id="401"),
        pytest.param(error(429, code="insufficient_quota"), "insufficient", "credit", id="quota"),
        pytest.param(error(404), "HTTP 404", "most end in `/v1`", id="route"),
        pytest.param(HANG_UP, "no connection", "most end in `/v1`", id="hangs-up"),
        pytest.param(error(400, message="no such top_q"), "top_q", "`extra_body=`", id="400"),
        pytest.param(error(429, message="try again in 6h"), "in 6h", "360 min", id="hours"),
        pytest.param(NO_IMAGES, "support image", """t '{"image": 12}'`""", id="no-images"),
    ],
)
def test_an_unusable_server_stops_the_run_with_its_words_and_a_hint(server, sent, words, hint):
    server.models = None
    server.says(sent)
    text, _, shown_hint = problem(judge_at(server.url), 12).partition("hint:")
    assert words in text
    assert server.url in text
    assert hint in shown_hint
    assert len(server) == 1 or words == "no connection"
    assert KEY not in text


def test_an_unknown_model_gets_similar_names_as_a_hint(server):
    server.models = ["Qwen3-VL-8B", "Qwen3-VL-32B", "whisper"]
    server.says(error(404, code="model_not_found", message="no such model"))
    message = problem(judge_at(server.url, model="Qwen3-VL-8b"))
    assert "It has `Qwen3-VL-8B`" in message
    assert "hint: `model=Qwen3-VL-8B`" in message
    assert "whisper" not in message


def test_a_server_that_loads_its_model_is_waited_for_as_long_as_the_patience(server, logs):
    server.fails(503, times=9, message="Loading model")
    judge_at(server.url).check()
    assert server.statuses == {503: 9, 200: 1}
    assert len([line for line in logs if "Loading model" in line]) == 1
    server.says(error(503, message="Loading model"))
    begun = time.monotonic()
    assert "Loading model" in problem(judge_at(server.url, patience=0.3))
    assert 0.3 <= time.monotonic() - begun < 25  # `judge_at` has a patience of 30 s
