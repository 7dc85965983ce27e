"""Providers with lower limits, and models with other request parameters."""

import json

import pytest
from support.batch_asking import request
from support.batch_handler import error
from support.judge_server import reporting


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


@pytest.mark.parametrize(("at_most", "batches"), [pytest.param(5, 2, id="fewer"), pytest.param(0, 3, id="none")])
def test_a_batch_is_repeated_with_the_log_probabilities_that_the_model_reports(server, asking, at_most, batches):
    rejection = error("Requested sample logprobs is greater than max allowed")
    server.reply_with(
        lambda body: (400, rejection) if body.get("top_logprobs", 0) > at_most else (200, reporting("5")(body))
    )
    replies = asking.outcomes(request("a", wants_digits=True), request("b", wants_digits=True), request("c"))
    assert [reply.text for reply in replies] == ["5"] * 3
    assert [len(reply.digits or ()) for reply in replies] == [1 if at_most else 0] * 2 + [0]
    assert len(server.batches) == batches


def test_another_error_of_a_line_leaves_the_log_probabilities(server, asking):
    broken = error("bad image")
    server.reply_with(lambda body: (400, broken) if "bad" in str(body) else (200, reporting("5")(body)))
    good, bad = asking.outcomes(request("a", wants_digits=True), request("bad", wants_digits=True))
    assert len(good.digits) == 1
    assert "bad image" in str(bad)
    assert len(server.batches) == 1


def test_requests_for_log_probabilities_are_split_into_batches_whose_results_fit_into_memory(server, asking):
    requests = [request(str(number), wants_digits=True) for number in range(1001)]
    assert len(asking.outcomes(*requests)) == 1001
    asking.outcomes(*(request(str(number)) for number in range(1001)))
    assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [1000, 1, 1001]
