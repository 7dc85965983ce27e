"""A judge can be asked without a run."""

import base64
from pathlib import Path

import pytest
from support.judge_server import JudgeServer
from support.judges import FunctionJudge, class_of, echo

import mmie_tasks
from mmie_tasks.judges import registry

PIXEL = b"\x89PNG\r\n\x1a\n, or what stands for an image here"


@pytest.fixture
def server():
    with JudgeServer(lambda body: f"re: {texts(body)[0]}") as running:
        yield running


def texts(body):
    return [part["text"] for part in body["messages"][0]["content"] if part["type"] == "text"]


def ask(server, requests, **options):
    return mmie_tasks.judge("openai:judge-model", requests, base_url=server.url, **options)


def test_one_request_of_text_and_images_gives_a_list_of_one_result(server, tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(PIXEL)
    [result] = ask(server, ("What is it?", image, "In one word."), max_tokens=7, temperature=1.5)
    assert (result.reply.text, result.reply.model) == ("re: What is it?", "judge-model")
    (body,) = server.asked
    question, drawn, last = body["messages"][0]["content"]
    assert (question["text"], last["text"]) == ("What is it?", "In one word.")
    assert base64.b64encode(PIXEL).decode() in drawn["image_url"]["url"]
    assert (body["max_tokens"], body["temperature"]) == (7, 1.5)


def test_a_repeated_request_costs_nothing_unless_the_cache_is_off(server):
    replies = [ask(server, "once", **more)[0].reply for more in ({}, {}, {"cache": False})]
    assert [reply.cached for reply in replies] == [False, True, False]
    assert len(server.asked) == 2


def test_a_request_that_fails_is_a_value_beside_the_replies(server, tmp_path):
    server.fails(400, code="content_filter")
    requests = ["bad", ("gone", tmp_path / "no.png"), "good"]
    refused, missing, fine = ask(server, requests, max_concurrency=1)
    assert {refused.reply, missing.reply} == {None}
    assert (refused.failure.reason, missing.failure.reason) == ("refused", "bad_image")
    assert fine.reply.text == "re: good"


@pytest.mark.parametrize(
    "requests", [["text", Path("a.png")], Path("a.png"), [["text"]], (1, 2)], ids=str
)
def test_a_request_of_another_form_is_an_error_that_shows_the_form(requests):
    with pytest.raises(TypeError, match=r'\("What does it show\?", Path\("a.png"\)\)'):
        mmie_tasks.judge("openai:m", requests)


def test_a_judge_in_this_process_is_closed_afterwards(monkeypatch):
    class LocalJudge(FunctionJudge):
        closed, in_process = 0, True

        def close(self):
            self.closed += 1

    judge = LocalJudge(echo)
    monkeypatch.setattr(registry, "judge_class", lambda _: class_of(judge))
    assert mmie_tasks.judge("local", "hello", cache="off")[0].reply.text == "hello"
    assert judge.closed == 1
