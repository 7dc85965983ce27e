"""The check before a run, and its messages."""

import asyncio
import base64
import io
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from openai import AsyncAPIResponse
from PIL import Image
from support.judge_asking import FAST, KEY, ask, judge_at, settings_of
from support.judge_faults import in_list
from support.judge_server import JudgeServer, completion
from support.loopback import HANG, Sent, error

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.openai.check import _COLOURS, check


@pytest.fixture
def server():
    with JudgeServer("5", check=None) as server:
        yield server


def problem(judge, max_images=0):
    with pytest.raises(JudgeMisconfigured) as raised:
        judge.check(max_images)
    return str(raised.value)


def test_the_check_is_one_chat_request_of_few_tokens(server):
    judge_at(server.url).check()
    assert [request.route for request in server.log] == ["chat"]
    (body,) = server.asked
    assert body["max_tokens"] <= 16


def pictures(body) -> list[str]:
    """The data URIs of a request's pictures."""
    (message,) = body["messages"]
    parts = [part for part in message["content"] if part["type"] == "image_url"]
    return [part["image_url"]["url"] for part in parts]


@pytest.mark.parametrize(("max_images", "sent"), [(0, 0), (1, 1), (12, 2)])
def test_the_check_sends_as_many_pictures_as_the_run_at_most_two(server, max_images, sent):
    judge = judge_at(server.url)
    judge.check(max_images)
    (body,) = server.asked
    urls = pictures(body)
    assert len(set(urls)) == len(urls) == sent
    assert all(url.startswith("data:image/png;base64,") for url in urls)


@pytest.mark.parametrize(
    ("refusal", "max_images"),
    [
        pytest.param(error(500, message="image input is not supported"), 1, id="llama.cpp"),
        pytest.param(error(404, message="No endpoints found that support image input"), 1,
                     id="OpenRouter"),
        pytest.param(error(400, message="At most 1 image(s) may be provided"), 2, id="vLLM"),
    ],
)  # fmt: skip
def test_a_server_that_refuses_the_pictures_of_the_run_stops_it_with_a_hint(
    server, refusal, max_images
):
    server.says(lambda body: refusal if len(pictures(body)) >= max_images else "5")
    judge = judge_at(server.url)
    judge.check()
    text = problem(judge, 12)
    assert "image" in text.partition("hint:")[0]
    assert """--limit-mm-per-prompt '{"image": 12}'""" in text
    assert "--mmproj" in text


def test_a_wrong_key_is_not_taken_for_a_refusal_of_pictures(server):
    server.says(error(401))
    judge = judge_at(server.url)
    assert "--mmproj" not in problem(judge, 12)
    assert len(server) == 1


def colour(url: str) -> str:
    """The colour of a picture in a data URI."""
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    return next(name for name, rgb in _COLOURS.items() if rgb == image.getpixel((0, 0)))


def warnings_of_check(server, warnings, reply, **more):
    """What is warned of a judge whose reply is filled in with the colours of two pictures."""

    def says(body):
        first, second = map(colour, pictures(body))
        wrong = next(name for name in _COLOURS if name not in (first, second))
        return completion(reply.format(first=first, second=second, wrong=wrong), **more)

    server.says(says)
    judge = judge_at(server.url)
    judge.check(12)
    return list(warnings)


FEW = {"usage": {"prompt_tokens": 30, "completion_tokens": 1}}


@pytest.mark.parametrize(
    ("reply", "more"),
    [
        pytest.param("{second}, {first}", {}, id="both"),
        pytest.param("**{first}**", {}, id="one"),
        pytest.param("### Score: 4", {}, id="no-answer-to-the-question"),
        pytest.param("Got it, let me look at the image", {"finish_reason": "length"}, id="cut"),
        pytest.param("{first}, {second}", FEW, id="Llama-3.2-Vision-on-Ollama"),
    ],
)
def test_a_judge_that_names_the_colours_of_the_pictures_is_not_warned_of(
    server, warnings, reply, more
):
    assert warnings_of_check(server, warnings, reply, **more) == []


@pytest.mark.parametrize(
    ("reply", "more", "words"),
    [
        pytest.param("I cannot see any image.", {}, "it replied `I cannot see any", id="says-so"),
        pytest.param("No colored image was shared.", {}, "it replied `No col", id="red-in-words"),
        pytest.param("{wrong}", {}, "it replied", id="guesses"),
        pytest.param("Yes", {}, "it replied `Yes`", id="yes"),
        pytest.param("{first}", FEW, "30 prompt tokens for a question with 2", id="counts-none"),
    ],
)
def test_a_judge_that_may_not_see_pictures_is_named_before_the_run(
    server, warnings, reply, more, words
):
    (warning,) = warnings_of_check(server, warnings, reply, **more)
    assert words in warning


def test_another_model_that_answers_is_named_before_the_run(server, warnings):
    colours = "{first} and {second}"
    assert warnings_of_check(server, warnings, colours, model="judge-model-2026-01-02") == []
    (warning,) = warnings_of_check(server, warnings, colours, model="other-model")
    assert "`judge-model`" in warning
    assert "`other-model`" in warning
    assert server.url in warning


def test_a_judge_cannot_know_the_colours_beforehand(server):
    judge = judge_at(server.url)
    for _ in range(12):
        judge.check(2)
    assert len({tuple(map(colour, pictures(body))) for body in server.asked}) > 1


def test_the_check_has_the_parameters_of_the_run(server):
    judge_at(server.url, temperature=0.7, max_tokens=9).check()
    judge_at(server.url, model="gpt-6-luna").check()
    plain, reasoning = server.asked
    assert (plain["temperature"], plain["max_tokens"]) == (0.7, 16)
    assert "temperature" not in reasoning
    assert reasoning["max_completion_tokens"] == 16 + 8192


def test_a_rejected_temperature_is_found_before_the_run_and_left_out_with_a_warning(server, log):
    message = "`temperature` is deprecated for this model."
    server.says(lambda body: error(400, message=message) if "temperature" in body else "5")
    judge = judge_at(server.url)
    judge.check()
    assert ask(judge)[0].text == "5"
    assert server.statuses == {400: 1, 200: 2}
    (warning,) = [line for line in log if "no temperature" in line]
    assert message in warning


def test_a_hanging_server_costs_the_check_its_own_time_limit_and_not_the_judges(
    server, monkeypatch
):
    monkeypatch.setattr("mmie_tasks.judges.openai.check._TIMEOUT_S", 0.1)
    server.says(HANG)
    begun = time.monotonic()
    assert "at most 0.1 s" in problem(judge_at(server.url, timeout=60.0))
    assert time.monotonic() - begun < 30


def test_the_check_works_where_a_loop_is_running(server):
    async def main():
        judge_at(server.url).check()

    with ThreadPoolExecutor(1) as thread:  # while page tests run, this one has a loop
        thread.submit(lambda: asyncio.run(main())).result()
    assert len(server) == 1


def test_an_unknown_model_gets_similar_names_as_a_hint(server):
    server.models = ["Qwen3-VL-8B", "Qwen3-VL-32B", "whisper"]
    server.says(error(404, code="model_not_found", message="no such model"))
    message = problem(judge_at(server.url, model="Qwen3-VL-8b"))
    assert "It has `Qwen3-VL-8B`" in message
    assert "hint: `model=Qwen3-VL-8B`" in message
    assert "whisper" not in message


def test_a_list_of_models_that_hangs_costs_the_check_its_own_time_limit(server, monkeypatch):
    monkeypatch.setattr("mmie_tasks.judges.openai.check._LIST_TIMEOUT_S", 0.05)
    server.models = HANG
    server.says(error(404, code="model_not_found", message="no such model"))
    begun = time.monotonic()
    assert "no such model" in problem(judge_at(server.url))
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("foreign", [anyio.EndOfStream(), RuntimeError("the handler is closed")])
def test_an_error_that_the_sdk_lets_through_costs_the_check_only_the_similar_names(
    server, monkeypatch, foreign
):
    def odd(*_):
        raise foreign

    monkeypatch.setattr(AsyncAPIResponse, "iter_bytes", odd)
    server.says(error(404, code="model_not_found", message="no such model"))
    assert "name a model that this server has" in problem(judge_at(server.url))


def test_an_unknown_model_gets_its_hint_from_an_error_in_a_list_too(server):
    server.models = ["judge-model-2"]
    server.says(in_list(error(404, message="models/judge-model is not found.")))
    message = problem(judge_at(server.url))
    assert "models/judge-model is not found" in message
    assert "hint: `model=judge-model-2`" in message


def test_a_wrong_key_is_asked_about_once_whatever_the_status(server):
    server.says(in_list(error(400, message="API key not valid.")))
    assert "API key not valid" in problem(judge_at(server.url))
    assert len(server) == 1


def test_a_wrong_key_names_the_variables_and_not_the_key():
    with JudgeServer(key="another") as server:
        message = problem(judge_at(server.url))
    assert "HTTP 401" in message
    assert "`OPENAI_API_KEY`" in message
    assert KEY not in message


def test_a_hanging_server_is_not_retried(server):
    server.hangs(times=9)
    assert "at most 0.2 s" in problem(judge_at(server.url, timeout=0.2))
    assert len(server) == 1


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(error(429, code="insufficient_quota"), "top it up", id="quota"),
        pytest.param(error(403), "correct the key", id="403"),
        pytest.param(error(500), "try again later", id="500"),
        pytest.param(error(404), "most end in `/v1`", id="route"),
        pytest.param(Sent(content=b"<html>"), "no JSON", id="html"),
        pytest.param(error(400, message="no vision"), "no vision", id="400"),
        pytest.param(in_list(error(404, message="No model x.")), "No model x.", id="model-in-list"),
        pytest.param(
            in_list(error(400, message="API key not valid.")), "correct the key", id="key"
        ),
        pytest.param(error(429, message="try again in 6h"), "(6 h 0 min), longer than", id="hours"),
    ],
)
def test_an_error_of_the_short_request_has_a_hint(server, sent, expected):
    server.models = None
    server.says(sent)
    assert expected in problem(judge_at(server.url))


def test_a_server_that_is_starting_is_retried(server):
    server.models = None
    server.fails(503, times=2)
    judge_at(server.url).check()
    assert server.statuses[503] == 2


def test_a_busy_server_is_a_warning(server, log):
    server.models = None
    server.says(error(429))
    judge_at(server.url).check()
    assert any("is busy" in line for line in log)


def test_azure_gets_its_deployment_path_and_header(server):
    options = {"api_type": "azure", "base_url": server.url.removesuffix("/v1"), "model": "mine"}
    check(settings_of({"AZURE_OPENAI_API_KEY": KEY}, **options), pace=FAST)
    (headers,) = server.headers
    assert headers["api-key"] == KEY
    assert server.paths == ["/openai/deployments/mine/chat/completions"]
