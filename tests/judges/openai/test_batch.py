"""The Batch API: what is submitted, what is read, faults, and runs that were killed."""

import base64
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.batch_asking import FAST, IMPATIENT, KEY, MODEL, Asking, echo, outcome_text, request
from support.judge_server import JudgeServer, completion
from support.loopback import Sent, error

from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.openai.chat import Dialect, chat_body
from mmie_tasks.judges.openai.settings import OpenAIOptions

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


@pytest.fixture
def server():
    with JudgeServer(echo, check=None) as server:
        yield server


@pytest.fixture
def asking(server, tmp_path):
    return Asking(server.url, tmp_path)


# Submission


def test_a_line_is_what_the_online_judge_would_send_for_half_the_price(server, asking, tmp_path):
    server.key = KEY
    image = tmp_path / "a.png"
    image.write_bytes(PNG)
    sent, options = request("Look:", image), {"temperature": None, "max_tokens": 7}
    (reply,) = asking.outcomes(sent, **options)
    assert (reply.model, reply.usage.input_tokens, reply.usage.output_tokens) == (MODEL, 100, 10)
    assert reply.usage.cost_usd == pytest.approx((2.5 * 100 + 10 * 10) / 1e6 / 2)
    (line,) = server.batch.lines()
    assert line["custom_id"] == content_key(sent)
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"] == chat_body(sent, OpenAIOptions(model=MODEL, **options), Dialect())
    url = line["body"]["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.partition("base64,")[2]) == PNG
    assert KEY not in json.dumps(server.batch.lines()) + repr(asking.judge())


def test_any_text_is_sent_and_received_unchanged_and_equal_requests_are_sent_once(server, asking):
    server.says(lambda body: body["messages"][0]["content"][0]["text"])
    texts = ["a\nb\r\u2028\u2029\x85", "äß漢字😀", '"}{\\', "next", "next"]
    assert asking.texts(*texts) == texts
    assert (server.count("create"), len(server.batch.lines())) == (1, 4)


@pytest.mark.parametrize("limits", [{"requests": 2}, {"size_bytes": 7000}], ids=["count", "bytes"])
def test_requests_are_split_into_files_within_the_limits(server, asking, tmp_path, limits):
    limits = replace(FAST, **limits)
    server.batch.max_requests, server.batch.max_bytes = limits.requests, limits.size_bytes
    image = tmp_path / "a.png"
    image.write_bytes(PNG)
    outcomes = asking.outcomes(*(request(text, image) for text in "abcde"), limits=limits)
    assert [outcome_text(outcome) for outcome in outcomes] == list("ABCDE")
    files = [server.batch.files[batch["input_file_id"]] for batch in server.batch.batches.values()]
    assert [len(file.splitlines()) for file in files] == [2, 2, 1]


def test_a_request_that_cannot_be_sent_concerns_only_itself(asking):
    broken, fine = asking.outcomes(request("a", Path("/nowhere/none.png")), request("b"))
    assert outcome_text(broken).startswith("RequestBroken: the image")
    assert outcome_text(fine) == "B"
    large, fine = asking.texts("b" * 500, "c", limits=replace(FAST, size_bytes=500))
    assert large.startswith("RequestBroken: the request is too large for a batch")
    assert fine == "C"


# Lines


LINES = "JudgeUnavailable: the batch is completed and has no line for it; run the same command"


@pytest.mark.parametrize(
    ("says", "words"),
    [
        pytest.param(error(400, message="Bad image."), "JudgeRefused: the server", id="400"),
        pytest.param(error(429), "JudgeUnavailable: HTTP 429", id="429"),
        pytest.param(error(429, code="insufficient_quota"), "JudgeMisconfigured: ", id="quota"),
        pytest.param(error(400, message="API key not valid."), "JudgeMisconfigured: ", id="key"),
        pytest.param(error(500, message="Oops."), "JudgeUnavailable: HTTP 500: Oops.", id="500"),
        pytest.param(error(401, message=f"Wrong {KEY}."), "JudgeMisconfigured: ", id="401"),
        pytest.param({"error": {"message": "Oops."}}, "JudgeUnavailable: the server", id="200"),
        pytest.param(completion(None), "ReplyEmpty: the reply has no text", id="no-text"),
        pytest.param(completion("5", finish_reason="abort"), "JudgeUnavailable: ", id="abort"),
    ],
)
def test_a_failed_line_concerns_only_its_request_and_is_submitted_again_later(
    server, asking, says, words
):
    server.says(lambda body: says if echo(body) == "B" else echo(body))
    first, second, third = asking.texts("a", "b", "c")
    assert (first, third) == ("A", "C")
    assert second.startswith(words)
    assert KEY not in second
    server.says(echo)
    assert asking.texts("b") == ["B"]
    assert server.count("create") == 2


@pytest.mark.parametrize(
    ("tampered", "expected"),
    [
        pytest.param(lambda lines: [lines[0], lines[1][:40]], ["A", LINES], id="cut-off"),
        pytest.param(lambda lines: [*lines, lines[1].replace(b'"B"', b'"worse"')], ["A", "B"],
                     id="twice"),
        pytest.param(lambda lines: [b"", *reversed(lines), b""], ["A", "B"], id="other-order"),
        pytest.param(lambda _: [], [LINES, LINES], id="no-file"),
    ],
)  # fmt: skip
def test_broken_lines_never_crash_and_never_score(server, asking, tampered, expected):
    server.batch.tamper = tampered
    outcomes = asking.texts("a", "b")
    assert [text[: len(start)] for text, start in zip(outcomes, expected, strict=True)] == expected


# Batches


LEFT = "JudgeUnavailable: the batch ended without it"
FAILED = "JudgeUnavailable: the batch failed: Line 1 has … in it."
GONE = "JudgeUnavailable: the batch `batch_1` no longer exists"
DENIED = "JudgeMisconfigured: "


@pytest.mark.parametrize(
    ("trouble", "first", "batches"),
    [
        pytest.param(lambda s: s.batch.ends("expired", finished=1), ["A", LEFT], 2, id="expired"),
        pytest.param(
            lambda s: s.batch.ends("failed", code="x", message=f"Line 1 has {KEY} in it."),
            [FAILED, FAILED], 2, id="failed",
        ),
        pytest.param(lambda s: s.fails(404, 1, "retrieve"), [GONE, GONE], 2, id="deleted"),
        pytest.param(lambda s: s.fails(404, 1, "content"), [GONE, GONE], 2, id="deleted-file"),
        pytest.param(lambda s: s.fails(401, 1, "retrieve"), [DENIED, DENIED], 1, id="denied"),
    ],
)  # fmt: skip
def test_what_a_batch_did_not_answer_is_unavailable_and_has_a_reply_in_the_next_run(
    server, asking, trouble, first, batches
):
    trouble(server)
    outcomes = asking.texts("a", "b")
    assert [text[: len(start)] for text, start in zip(outcomes, first, strict=True)] == first
    left = [text for text, outcome in zip("ab", outcomes, strict=True) if ":" in outcome]
    assert asking.texts(*left) == [text.upper() for text in left]
    assert server.count("create") == batches


def test_a_batch_that_does_not_end_is_unavailable_until_a_later_run_waits_for_it(server, asking):
    server.batch.polls = 1_000_000
    (outcome,) = asking.texts("a", limits=replace(FAST, longest_wait_s=0.1))
    assert outcome.startswith("JudgeUnavailable: the batch is not over")
    server.batch.batches["batch_1"]["_polls"] = 0
    assert asking.texts("a") == ["A"]
    assert server.count("create") == 1


# Connections


@pytest.mark.parametrize("route", ["upload", "retrieve", "content"])
def test_an_outage_while_a_batch_runs_costs_nothing(server, asking, route):
    server.fails(503, 1, route)
    server.loses(1, route)
    if route == "retrieve":
        server.then(Sent(b"<html>Please log in"), 1, route)
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batch.batches) == 1


CALLS = ("upload", "create")
DOWN, PAGE = error(503), Sent(b"<html>Please log in")


@pytest.mark.parametrize(
    ("sent", "words", "routes"),
    [
        pytest.param(DOWN, "http://127", ("upload", "create", "retrieve", "content"), id="down"),
        pytest.param(error(401, message=f"Wrong {KEY}."), "HTTP 401", CALLS, id="401"),
        pytest.param(error(404), "HTTP 404", CALLS, id="no-batch-api"),
        pytest.param(PAGE, "the server sent no", CALLS, id="page"),
    ],
)
def test_a_server_that_takes_no_batch_or_stays_down_is_given_up_for_all_requests(
    server, asking, sent, words, routes
):
    for route in routes:
        server.then(sent, math.inf, route)
        outcomes = asking.texts(*"abcd", limits=replace(IMPATIENT, requests=2))
        assert all(text.startswith("Judge") and words in text for text in outcomes)
        assert not any(KEY in text for text in outcomes)
        server.faults.clear()
    assert asking.texts(*"abcd") == list("ABCD")
    assert len(server.batch.lines()) == 4


# Runs that were killed or stopped


@pytest.mark.parametrize(
    ("route", "done", "batches"),
    [
        pytest.param("upload", True, 1, id="after-the-upload"),
        pytest.param("create", False, 1, id="before-the-batch"),
        pytest.param("create", True, 2, id="batch-made-and-not-noted"),  # the page says so
        pytest.param("content", False, 1, id="while-fetching"),
    ],
)
def test_a_run_that_was_killed_pays_once_unless_its_batch_was_not_noted_yet(
    server, asking, route, done, batches
):
    held = server.holds(route, done=done)
    asking.killed("a", "b", when=held.reached.is_set)
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batch.batches) == batches
    assert asking.notes == []


def test_a_run_that_is_stopped_waits_for_no_poll_and_a_later_one_goes_on(server, asking, logs):
    server.batch.polls = 1_000
    judge = asking.judge()
    server.before["retrieve"] = judge.stop
    with pytest.raises(KeyboardInterrupt):
        list(judge.ask([request("a")]))
    assert "`batch_1` go on at http://127.0.0.1" in "".join(logs)
    server.before.clear()
    server.batch.batches["batch_1"]["_polls"] = 0
    assert asking.texts("a") == ["A"]
    assert server.count("create") == 1


def test_a_batch_whose_creation_was_not_confirmed_is_not_created_again(server, asking):
    server.loses(1, "create")
    assert asking.texts("a")[0].startswith("JudgeUnavailable: ")
    assert len(server.batch.batches) == 1
