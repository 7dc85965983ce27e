"""The Batch API: what is submitted, what is read, faults, and runs that were killed."""

import base64
import json
import math
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from openai import _base_client
from support.judge_asking import ask, question_of
from support.judge_server import JudgeServer
from support.loopback import Sent, error

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.openai.batch import BatchJudge, Limits
from mmie_tasks.judges.openai.chat import Dialect, chat_body
from mmie_tasks.judges.openai.settings import OpenAIOptions

KEY = "thisisnotarealkey"  # not in the form of a key, so that only its value can be redacted
MODEL = "gpt-4o-2024-11-20"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
FAST = Limits(poll_s=0.01, patience_s=60.0)
IMPATIENT = replace(FAST, patience_s=0.15, call_retries=0)  # of a server that is down for good


def upper(body):
    return question_of(body).upper()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    """The SDK sends a call again without waiting."""
    monkeypatch.setattr(_base_client, "MAX_RETRY_DELAY", 0.01)


@pytest.fixture
def server():
    with JudgeServer(upper, check=None) as server:
        yield server


@pytest.fixture
def open_judge(server, tmp_path):
    """Opens judges that share notes."""
    environment = {"MMIE_TASKS_CACHE": str(tmp_path / "notes"), "OPENAI_API_KEY": KEY}

    def open_judge(limits=FAST, **options):
        options = {"model": MODEL, "base_url": server.url, "price_in": 2.5, **options}
        return BatchJudge(OpenAIOptions(price_out=10.0, **options), environment, limits=limits)

    return open_judge


def request(text, *images):
    return JudgeRequest(parts=(text, *images), max_tokens=64)


def outcome_text(outcome):
    """The text of a reply, or the class of an error and its first line."""
    if isinstance(outcome, Exception):
        return f"{type(outcome).__name__}: {str(outcome).splitlines()[0]}"
    return outcome.text


@pytest.fixture
def texts(open_judge):
    """Sends requests with these texts, and returns the text of each outcome."""

    def texts(*texts, limits=FAST):
        return [
            outcome_text(outcome) for outcome in ask(open_judge(limits), [*map(request, texts)])
        ]

    return texts


# Submission


def test_a_line_is_the_online_request_for_half_the_price(server, open_judge, tmp_path):
    server.key = KEY
    image = tmp_path / "a.png"
    image.write_bytes(PNG)
    sent, options = request("Look:", image), {"temperature": None, "max_tokens": 7}
    (reply,) = ask(open_judge(**options), [sent])
    assert (reply.model, reply.usage.input_tokens, reply.usage.output_tokens) == (MODEL, 100, 10)
    assert reply.usage.cost_usd == pytest.approx((2.5 * 100 + 10 * 10) / 1e6 / 2)
    (line,) = server.batch.lines()
    assert line["custom_id"] == content_key(sent)
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"] == chat_body(sent, OpenAIOptions(model=MODEL, **options), Dialect())
    url = line["body"]["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.partition("base64,")[2]) == PNG
    assert KEY not in json.dumps(server.batch.lines()) + repr(open_judge())


def test_any_text_is_sent_and_received_unchanged_and_equal_requests_are_sent_once(server, texts):
    server.says(question_of)
    sent = ["a\nb\r\u2028\u2029\x85", "äß漢字😀", '"}{\\', "next", "next"]
    assert texts(*sent) == sent
    assert (server.count("create"), len(server.batch.lines())) == (1, 4)


@pytest.mark.parametrize("limits", [{"requests": 2}, {"size_bytes": 7000}], ids=["count", "bytes"])
def test_requests_are_split_into_files_within_the_limits(server, open_judge, tmp_path, limits):
    image = tmp_path / "a.png"
    image.write_bytes(PNG)
    judge = open_judge(replace(FAST, **limits))
    outcomes = ask(judge, [request(text, image) for text in "abcde"])
    assert [outcome.text for outcome in outcomes] == list("ABCDE")
    files = [server.batch.files[batch["input_file_id"]] for batch in server.batch.batches.values()]
    assert [len(file.splitlines()) for file in files] == [2, 2, 1]
    assert max(map(len, files)) <= limits.get("size_bytes", math.inf)


def test_a_request_that_cannot_be_sent_concerns_only_itself(open_judge, texts):
    broken, fine = ask(open_judge(), [request("a", Path("/nowhere/none.png")), request("b")])
    assert outcome_text(broken).startswith("RequestBroken: the image")
    assert fine.text == "B"
    large, fine = texts("b" * 500, "c", limits=replace(FAST, size_bytes=500))
    assert large.startswith("RequestBroken: the request is too large for a batch")
    assert fine == "C"


# Lines and batches

NO_LINE = "JudgeUnavailable: the batch is completed and has no line for it; run the same command"
LEFT = "JudgeUnavailable: the batch ended without it"
FAILED = "JudgeUnavailable: the batch failed: Line 1 has … in it."
GONE = "JudgeUnavailable: the batch `batch_1` no longer exists"
DENIED = "JudgeMisconfigured: "


def replies(sent):
    """The reply to the second request is this one."""
    return lambda server: server.says(lambda body: sent if upper(body) == "B" else upper(body))


def changes(lines):
    return lambda server: setattr(server.batch, "tamper", lines)


def one_twice(lines):
    return [*lines, lines[1].replace(b'"B"', b'"worse"')]


def fails_with_a_key(server):
    server.batch.ends("failed", code="x", message=f"Line 1 has {KEY} in it.")


REFUSED, ANSWERED_500 = "JudgeRefused: the server", "JudgeUnavailable: HTTP 500: Oops."
NO_JUDGE, NO_TEXT = "JudgeUnavailable: the server", "ReplyEmpty: the reply has no text"


@pytest.mark.parametrize(
    ("trouble", "first", "batches"),
    [
        pytest.param(replies(error(400, message="Bad image.")), ["A", REFUSED], 2, id="400"),
        pytest.param(replies(error(401, message=f"Wrong {KEY}.")), ["A", DENIED], 2, id="401"),
        pytest.param(replies(error(500, message="Oops.")), ["A", ANSWERED_500], 2, id="500"),
        pytest.param(replies({"error": {"message": "Oops."}}), ["A", NO_JUDGE], 2, id="200"),
        pytest.param(replies(""), ["A", NO_TEXT], 2, id="no-text"),
        pytest.param(changes(lambda lines: [lines[0], lines[1][:40]]), ["A", NO_LINE], 2, id="cut"),
        pytest.param(changes(one_twice), ["A", "B"], 1, id="line-twice"),
        pytest.param(changes(lambda _: []), [NO_LINE, NO_LINE], 2, id="no-file"),
        pytest.param(lambda s: s.batch.ends("expired", finished=1), ["A", LEFT], 2, id="expired"),
        pytest.param(fails_with_a_key, [FAILED, FAILED], 2, id="failed"),
        pytest.param(lambda s: s.fails(404, 1, "retrieve"), [GONE, GONE], 2, id="deleted"),
        pytest.param(lambda s: s.fails(404, 1, "content"), [GONE, GONE], 2, id="deleted-file"),
        pytest.param(lambda s: s.fails(401, 1, "retrieve"), [DENIED, DENIED], 1, id="denied"),
    ],
)
def test_the_next_run_has_what_a_batch_did_not_answer(server, texts, trouble, first, batches):
    trouble(server)
    outcomes = texts("a", "b")
    assert [text[: len(start)] for text, start in zip(outcomes, first, strict=True)] == first
    assert KEY not in "".join(outcomes)
    changes(list)(server)
    server.says(upper)
    left = [text for text, outcome in zip("ab", outcomes, strict=True) if ":" in outcome]
    assert texts(*left) == [text.upper() for text in left]
    assert server.count("create") == batches


def test_a_batch_that_does_not_end_is_unavailable_until_a_later_run_waits_for_it(server, texts):
    server.batch.polls = 1_000_000
    (outcome,) = texts("a", limits=replace(FAST, longest_wait_s=0.1))
    assert outcome.startswith("JudgeUnavailable: the batch is not over")
    server.batch.polls = 0
    assert texts("a") == ["A"]
    assert server.count("create") == 1


# Connections

DOWN, PAGE = error(503), Sent(b"<html>Please log in")
CALLS = ("upload", "create")


def test_an_outage_while_a_batch_runs_costs_nothing(server, texts):
    for route in ("upload", "retrieve", "content"):
        server.fails(503, 1, route)
        server.loses(1, route)
    server.then(PAGE, 1, "retrieve")
    assert texts("a", "b") == ["A", "B"]
    assert len(server.batch.batches) == 1


@pytest.mark.parametrize(
    ("sent", "words", "routes"),
    [
        pytest.param(DOWN, "http://127", (*CALLS, "retrieve", "content"), id="down"),
        pytest.param(error(401, message=f"Wrong {KEY}."), "HTTP 401", CALLS, id="401"),
        pytest.param(PAGE, "the server sent no", CALLS, id="page"),
    ],
)
def test_a_server_that_takes_no_batch_is_given_up(server, texts, sent, words, routes):
    for route in routes:
        server.then(sent, math.inf, route)
        outcomes = texts(*"abcd", limits=replace(IMPATIENT, requests=2))
        assert all(text.startswith("Judge") and words in text for text in outcomes)
        assert not any(KEY in text for text in outcomes)
        server.faults.clear()
    assert texts(*"abcd") == list("ABCD")
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
    server, texts, tmp_path, route, done, batches
):
    """A thread that hangs in a call leaves what a process that is killed there leaves."""
    held = server.holds(route, done=done)
    killed = threading.Thread(target=texts, args=("a", "b"), kwargs={"limits": IMPATIENT})
    with ExitStack() as stack:
        killed.start()
        stack.callback(killed.join)
        stack.callback(server.stop)
        assert held.reached.wait(60)
        assert texts("a", "b") == ["A", "B"]
        assert len(server.batch.batches) == batches
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_stopped_run_waits_for_no_poll_and_can_go_on(server, open_judge, texts, logs):
    server.batch.polls = 1_000_000
    judge = open_judge()
    server.before["retrieve"] = judge.stop
    with pytest.raises(KeyboardInterrupt):
        list(judge.ask([request("a")]))
    assert "`batch_1` go on at http://127.0.0.1" in "".join(logs)
    server.before.clear()
    server.batch.polls = 0
    assert texts("a") == ["A"]
    assert server.count("create") == 1


def test_a_batch_whose_creation_was_not_confirmed_is_not_created_again(server, texts):
    server.loses(1, "create")
    assert texts("a")[0].startswith("JudgeUnavailable: ")
    assert len(server.batch.batches) == 1
