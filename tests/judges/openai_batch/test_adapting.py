"""Providers with lower limits, and models with other request parameters."""

import json

from support.batch_asking import request
from support.batch_handler import error
from support.judge_server import reporting


def test_a_provider_that_has_too_many_requests_enqueued_is_a_failure_with_its_reason(
    server, asking
):
    server.enqueued_limit = 3
    outcomes = asking.texts(*"abcd")
    assert all(text.startswith("JudgeUnavailable: the batch failed: ") for text in outcomes)
    assert server.count("create") == 1
    server.enqueued_limit = None
    assert asking.texts("a") == ["A"]


def test_a_parameter_that_the_model_does_not_accept_is_a_refusal_with_its_name(server, asking):
    rejection = error("Unsupported parameter: 'max_tokens'.", "unsupported_parameter")
    server.reply_with((400, rejection))
    (outcome,) = asking.texts("a")
    assert outcome.startswith("JudgeRefused: ")
    assert "max_tokens" in outcome
    assert len(server.batches) == 1


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


def test_another_error_of_a_line_leaves_the_log_probabilities(server, asking):
    broken = error("bad image")
    server.reply_with(
        lambda body: (400, broken) if "bad" in str(body) else (200, reporting("5")(body))
    )
    good, bad = asking.outcomes(request("a", wants_digits=True), request("bad", wants_digits=True))
    assert len(good.digits) == 1
    assert "bad image" in str(bad)
    assert len(server.batches) == 1


def test_requests_for_log_probabilities_are_split_into_batches_whose_results_fit_into_memory(
    server, asking
):
    requests = [request(str(number), wants_digits=True) for number in range(1001)]
    assert len(asking.outcomes(*requests)) == 1001
    asking.outcomes(*(request(str(number)) for number in range(1001)))
    assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [
        1000,
        1,
        1001,
    ]
