"""Providers with lower limits, and models with other request parameters."""

import json

from support.batch_asking import request
from support.batch_handler import error


def test_a_provider_that_has_too_many_requests_enqueued_is_a_failure_with_its_reason(
    server, asking
):
    server.enqueued_limit = 3
    outcomes = asking.texts(*"abcd")
    assert all(text.startswith("JudgeUnavailable: the batch failed: ") for text in outcomes)
    assert server.count("create") == 1
    server.enqueued_limit = None
    assert asking.texts("a") == ["A"]


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
