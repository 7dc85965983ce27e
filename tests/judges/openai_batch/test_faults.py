"""Faults of a request, of a batch, of the connection, and permanent ones."""

import json
import math
import shutil
import time

import pytest
from support.batch_api import shown
from support.batch_asking import IMPATIENT, KEY, echo, fast, request
from support.judge_server import completion
from support.loopback import HANG_UP, Sent, sends

from mmie_tasks.judges.openai.batch_files import Limits


def error(message, code=""):
    return {"error": {"message": message, "type": "error", "code": code, "param": None}}


LINES = "JudgeUnavailable: the batch is completed and has no line for it; run the same command"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(400, error("Bad image."), "JudgeRefused: the server", id="400"),
        pytest.param(429, error("Slow down."), "JudgeUnavailable: HTTP 429", id="429"),
        pytest.param(429, error("", "insufficient_quota"), "JudgeMisconfigured: ", id="quota"),
        pytest.param(400, [error("API key not valid.")], "JudgeMisconfigured: ", id="400-key"),
        pytest.param(500, error("Oops."), "JudgeUnavailable: HTTP 500", id="500"),
        pytest.param(500, [error("Oops.")], "JudgeUnavailable: HTTP 500: Oops.;", id="list"),
        pytest.param(200, error("Oops."), "JudgeUnavailable: the server sent JSON", id="200"),
        pytest.param(503, "<html>", "JudgeUnavailable: HTTP 503", id="a-page"),
        pytest.param(401, error(f"Wrong key {KEY}."), "JudgeMisconfigured: ", id="401"),
    ],
)
def test_a_failed_line_concerns_only_its_request(server, asking, status, body, words):
    server.says(lambda request: sends(body, status) if echo(request) == "B" else echo(request))
    first, second, third = asking.texts("a", "b", "c")
    assert (first, third) == ("A", "C")
    assert second.startswith(words)
    assert KEY not in second


@pytest.mark.parametrize(
    ("tampered", "expected"),
    [
        pytest.param(lambda lines: [lines[0], lines[1][:40]], ["A", LINES], id="cut-off"),
        pytest.param(
            lambda lines: [lines[0], lines[1].replace(b'"custom_id": "', b'"custom_id": "x')],
            ["A", LINES],
            id="of-no-request",
        ),
        pytest.param(
            lambda lines: [*lines, lines[1].replace(b'"B"', b'"worse"')], ["A", "B"], id="twice"
        ),
        pytest.param(lambda lines: [b"", *reversed(lines), b""], ["A", "B"], id="other-order"),
        pytest.param(lambda _: [], [LINES, LINES], id="no-file"),
    ],
)
def test_broken_lines_never_crash_and_never_score(server, asking, tampered, expected):
    server.batch.tamper = tampered
    outcomes = asking.texts("a", "b")
    assert [text[: len(start)] for text, start in zip(outcomes, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            {"response": {"status_code": 400, "body": None}, "error": {"message": "Too long."}},
            "JudgeRefused: the server would not take the request: HTTP 400: Too long.",
            id="next-to-a-response",
        ),
        pytest.param(
            {"response": {"status_code": 500}, "error": {"object": "error", "message": "Oops."}},
            "JudgeUnavailable: HTTP 500: Oops.",
            id="without-a-body",
        ),
        pytest.param(
            {"response": None, "error": "Oops."},
            "JudgeUnavailable: the batch ended without it: Oops.",
            id="string",
        ),
        pytest.param(
            {"response": None, "error": [{"code": "batch_failed", "message": "Oops."}]},
            "JudgeUnavailable: the batch ended without it: Oops. (batch_failed)",
            id="list",
        ),
    ],
)
def test_the_error_of_a_line_is_read_in_every_form(server, asking, fields, words):
    server.batch.tamper = lambda lines: [json.dumps(json.loads(lines[0]) | fields).encode()]
    (outcome,) = asking.texts("a")
    assert outcome.startswith(words)


def test_the_finished_requests_of_an_expired_batch_count(server, asking):
    server.batch.ends("expired", finished=1)
    done, left = asking.texts("a", "b")
    assert done == "A"
    assert left.startswith("JudgeUnavailable: the batch ended without it")
    assert asking.texts("b") == ["B"]
    assert server.count("create") == 2


def test_a_failed_batch_is_reported_with_its_reason_and_not_resumed(server, asking):
    server.batch.ends("failed", code="invalid_json_line", message=f"Line 1 has {KEY} in it.")
    (failed,) = asking.texts("a")
    assert failed.startswith("JudgeUnavailable: the batch failed: Line 1 has … in it.")
    assert asking.texts("a") == ["A"]


ROUTES = ["upload", "create", "list", "retrieve", "content"]


@pytest.mark.parametrize("route", ROUTES)
def test_transient_errors_cost_nothing(server, asking, route):
    if route == "list":  # only requested after the response to `create` was lost
        server.loses(1, "create")
    server.fails(503, 1, route)
    server.loses(1, route)
    if route != "content":
        server.then(Sent(b"<html>Please log in"), 1, route)
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batch.batches) == 1


def test_after_a_lost_answer_a_batch_is_looked_for_until_the_list_shows_it(server, asking):
    server.loses(1, "create")
    server.then(sends({"data": []}), 2, "list")
    began = time.monotonic()
    assert asking.texts("a", "b", pace=fast(list_lag_s=60.0)) == ["A", "B"]
    assert time.monotonic() - began < 30
    assert (server.count("create"), server.count("list")) == (1, 3)


def test_a_batch_that_was_never_created_is_created_when_no_list_has_it(server, asking):
    server.then(HANG_UP, 1, "create")
    began = time.monotonic()
    assert asking.texts("a", pace=fast(list_lag_s=0.5)) == ["A"]
    assert time.monotonic() - began >= 0.5
    assert (len(server.batch.batches), server.count("create")) == (1, 2)
    assert server.count("list") > 1


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"status": "COMPLETED"}, id="upper-case"),
        pytest.param({"request_counts": {"completed": None, "failed": 0.5}}, id="counts"),
        pytest.param({"request_counts": 1, "error_file_id": 7}, id="numbers"),
        pytest.param({"errors": []}, id="errors"),
        pytest.param({"errors": {"data": None}, "metadata": []}, id="no-messages"),
    ],
)
def test_an_odd_field_of_a_batch_that_is_over_costs_no_reply(asking, monkeypatch, odd):
    monkeypatch.setattr(
        "support.batch_api.shown",
        lambda batch: shown(batch) | (odd if batch["status"] == "completed" else {}),
    )
    pace = fast(longest_wait_s=30.0, patience_s=5.0)
    assert asking.texts("a", pace=pace) == ["A"]


def test_an_unreadable_batch_of_somebody_else_hides_no_other_one(server, asking):
    server.loses(1, "create")
    server.before["list"] = lambda: server.batch.batches.update(foreign={"id": None, "status": 7})
    assert asking.texts("a") == ["A"]
    assert server.count("create") == 1


def test_a_batch_that_does_not_end_is_unavailable_until_a_later_run_waits_for_it(server, asking):
    server.batch.polls = 1_000_000
    (outcome,) = asking.texts("a", pace=fast(longest_wait_s=0.1))
    assert outcome.startswith("JudgeUnavailable: the batch is not over after ")
    server.batch.batches["batch_1"]["_polls"] = 0
    assert asking.texts("a") == ["A"]
    assert server.count("create") == 1


def test_a_server_that_cannot_list_batches_can_be_used(server, asking):
    server.then(HANG_UP, 1, "create")
    server.fails(404, math.inf, "list")
    assert asking.texts("a") == ["A"]
    assert server.count("list") == 1


@pytest.mark.parametrize("route", ["upload", "create"])
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(401, error(f"Wrong {KEY}."), "accepts no batch: HTTP 401", id="401"),
        pytest.param(429, error("Pay.", "insufficient_quota"), "Pay.", id="quota"),
    ],
)
def test_a_server_that_accepts_no_batch_is_misconfigured(
    server, asking, route, status, body, words
):
    server.then(sends(body, status), math.inf, route)
    outcomes = asking.texts("a", "b")
    assert all(text.startswith("JudgeMisconfigured: ") and words in text for text in outcomes)
    assert not any(KEY in text for text in outcomes)
    assert server.count(route) == 1


@pytest.mark.parametrize("route", ROUTES)
def test_a_server_that_stays_down_is_given_up_for_all_requests_at_once(server, asking, route):
    if route == "list":
        server.loses(1, "create")
    server.fails(503, math.inf, route)
    outcomes = asking.texts(*"abcd", limits=Limits(requests=1), **IMPATIENT)
    assert all(text.startswith("JudgeUnavailable: http://127.0.0.1:") for text in outcomes)
    assert len({request.path for request in server.calls(route)}) == 1


def test_a_batch_created_during_an_outage_is_found_later(server, asking):
    server.loses(math.inf, "create")
    server.before["create"] = lambda: server.fails(503, math.inf, "list")
    (down,) = asking.texts("a", **IMPATIENT)
    assert down.startswith("JudgeUnavailable: ")
    server.faults.clear()
    server.before.clear()
    assert asking.texts("a") == ["A"]
    assert len(server.batch.batches) == 1


def test_a_deleted_batch_is_an_error_and_is_submitted_again_later(server, asking):
    server.before["retrieve"] = server.batch.batches.clear
    (outcome,) = asking.texts("a")
    assert outcome.startswith("JudgeUnavailable: the batch `batch_1` no longer exists")
    server.before.clear()
    assert asking.texts("a") == ["A"]


def test_an_unwritable_folder_is_an_error(server, asking):
    (asking.folder / "judge").write_text("a file")
    (outcome,) = asking.texts("a")
    assert outcome.startswith("JudgeMisconfigured: The folder `")
    assert server.count("upload") == 0


def test_a_folder_that_is_lost_while_a_batch_runs_costs_no_reply(server, asking, logs):
    def lose():
        folder = asking.folder / "judge" / "batches"
        shutil.rmtree(folder)
        folder.write_text("a file")

    server.before["content"] = lose
    assert asking.texts("a") == ["A"]
    assert "cannot be updated" in "".join(logs)


def test_a_reply_that_an_error_ended_is_unavailable_and_submitted_again_by_the_next_run(
    server, asking
):
    server.says(completion("5", model="m", finish_reason="abort"))
    (unavailable,) = asking.texts("a")
    assert unavailable.startswith("JudgeUnavailable: ")
    assert "`abort`" in unavailable
    server.says(echo)
    assert asking.texts("a") == ["A"]
    assert server.count("create") == 2


def test_a_provider_that_has_too_many_requests_enqueued_is_a_failure_with_its_reason(
    server, asking
):
    server.batch.enqueued_limit = 3
    outcomes = asking.texts(*"abcd")
    assert all(text.startswith("JudgeUnavailable: the batch failed: ") for text in outcomes)
    assert server.count("create") == 1


def test_a_parameter_that_the_check_finds_rejected_is_in_no_batch(server, asking):
    rejection = error("`temperature` is deprecated for this model.")
    server.then(sends(rejection, 400), 1, "chat")
    judge = asking.judge()
    judge.check()
    assert len(list(judge.ask([request("a")]))) == 1
    assert ["temperature" in line["body"] for line in server.batch.lines()] == [False]
