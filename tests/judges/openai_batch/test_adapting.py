"""Providers with lower limits, and models with other request parameters."""

import json

import pytest
from support.batch_asking import request
from support.batch_handler import error


@pytest.mark.parametrize("limit", [pytest.param(3, id="three"), pytest.param(1, id="one")])
def test_batches_adapt_to_the_providers_limit(server, asking, limit):
    server.enqueued_limit = limit
    assert asking.texts(*"abcdefg") == list("ABCDEFG")
    sizes = [b["request_counts"]["total"] for b in server.batches.values()]
    ended = [b["status"] for b in server.batches.values()]
    assert all(size <= limit for size, end in zip(sizes, ended, strict=True) if end != "failed")


def test_a_provider_that_accepts_nothing_is_given_up_after_a_few_attempts(server, asking):
    server.enqueued_limit = 0
    outcomes = asking.texts(*"abcdefgh")
    assert all(text.startswith("JudgeUnavailable: no batch is taken") for text in outcomes)
    assert server.count("create") == 4
    server.enqueued_limit = None
    assert asking.texts("a") == ["A"]


def test_batches_adapt_to_an_immediate_rejection(server, asking):
    body = json.dumps(error("Enqueued token limit reached.", "token_limit_exceeded")).encode()
    server.fails(429, "create", times=2, body=body)
    assert asking.texts(*"abcd") == list("ABCD")
    assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [1, 1, 1, 1]
    assert asking.remaining_suffixes() == []


def test_a_batch_is_repeated_in_the_dialect_that_the_model_accepts(server, asking):
    rejection = error("Use 'max_completion_tokens' instead of 'max_tokens'.", "unsupported_parameter")
    rejection["error"]["param"] = "max_tokens"
    reply_of = server.reply
    server.reply_with(lambda body: (400, rejection) if "max_tokens" in body else reply_of(body))
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batches) == 2


def test_a_model_that_accepts_no_dialect_is_a_refusal(server, asking):
    def reject_length_parameters(body):
        name = next(key for key in body if key.startswith("max"))
        rejection = error(f"Unsupported parameter: '{name}'.", "unsupported_parameter")
        return 400, rejection

    server.reply_with(reject_length_parameters)
    (outcome,) = asking.texts("a")
    assert outcome.startswith("JudgeRefused: ")
    assert len(server.batches) <= 3


def test_a_parameter_that_the_check_finds_rejected_is_in_no_batch(server, asking):
    rejection = error("`temperature` is deprecated for this model.")
    server.fails(400, "chat", times=1, body=json.dumps(rejection).encode())
    bodies = []
    server.reply_with(lambda body: bodies.append(body) or "yes")
    judge = asking.judge()
    judge.check()
    ((_, reply),) = judge.ask([request("a")])
    assert reply.text == "yes"
    assert ["temperature" in body for body in bodies] == [False]
