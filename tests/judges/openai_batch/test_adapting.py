"""Providers that take less at once, and models that want to be asked in another way."""

import json

import pytest
from support.batch_handler import error


@pytest.mark.parametrize("limit", [pytest.param(3, id="three"), pytest.param(1, id="one")])
def test_a_provider_that_takes_less_at_once_is_given_less(server, asking, limit):
    server.enqueued_limit = limit
    assert asking.texts(*"abcdefg") == list("ABCDEFG")
    sizes = [b["request_counts"]["total"] for b in server.batches.values()]
    ended = [b["status"] for b in server.batches.values()]
    assert all(size <= limit for size, end in zip(sizes, ended, strict=True) if end != "failed")


def test_a_provider_that_takes_nothing_is_asked_a_few_times_and_then_no_more(server, asking):
    server.enqueued_limit = 0
    found = asking.texts(*"abcdefgh")
    assert all(text.startswith("JudgeUnavailable: no batch is taken") for text in found)
    assert server.count("create") == 4
    server.enqueued_limit = None
    assert asking.texts("a") == ["A"]


def test_a_provider_that_says_at_once_that_it_is_too_much_is_given_less(server, asking):
    said = json.dumps(error("Enqueued token limit reached.", "token_limit_exceeded")).encode()
    server.fails(429, "create", times=2, body=said)
    assert asking.texts(*"abcd") == list("ABCD")
    assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [1, 1, 1, 1]
    assert asking.left() == []


def test_a_model_that_wants_to_be_asked_in_another_way_is(server, asking):
    said = error("Use 'max_completion_tokens' instead of 'max_tokens'.", "unsupported_parameter")
    said["error"]["param"] = "max_tokens"
    say = server.say
    server.says(lambda body: (400, said) if "max_tokens" in body else say(body))
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batches) == 2


def test_a_model_that_likes_no_way_of_being_asked_refuses(server, asking):
    def says(body):
        name = next(key for key in body if key.startswith("max"))
        said = error(f"Unsupported parameter: '{name}'.", "unsupported_parameter")
        return 400, said

    server.says(says)
    (found,) = asking.texts("a")
    assert found.startswith("JudgeRefused: ")
    assert len(server.batches) <= 3
