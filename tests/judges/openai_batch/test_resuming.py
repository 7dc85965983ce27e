"""Killed at any moment, or run by two processes at once: nothing is paid for twice."""

import json
import threading

import pytest
from support.batch_asking import request, watch

from mmie_tasks.judges.openai.batch_files import Limits


@pytest.mark.parametrize(
    ("route", "done"),
    [
        pytest.param("upload", True, id="after-the-upload"),
        pytest.param("create", False, id="before-the-batch"),
        pytest.param("create", True, id="batch-made-and-not-written-down"),
        pytest.param("content", False, id="while-fetching"),
    ],
)
def test_a_killed_process_pays_once(server, asking, processes, route, done):
    held = server.holds(route, done=done)
    processes.killed("a", "b", when=held.reached.is_set)
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batch.batches) == 1
    assert asking.remaining_suffixes() == []


def test_replies_to_requests_of_an_earlier_run_are_kept(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a secret", "b", "c", when=held.reached.is_set)
    (note,) = asking.folder.rglob("*.json")
    assert sorted(json.loads(note.read_text())[0]) == ["batch", "begun_s", "keys", "nonce"]
    assert "secret" not in note.read_text()
    assert asking.texts("b", "d") == ["B", "D"]
    assert asking.remaining_suffixes() == [".json"]
    assert asking.texts("a secret", "c") == ["A SECRET", "C"]
    assert asking.remaining_suffixes() == []
    assert [batch["request_counts"]["total"] for batch in server.batch.batches.values()] == [3, 1]


@pytest.mark.parametrize(
    ("ended", "first"),
    [
        pytest.param({"status": "expired", "finished": 1}, ["A", "JudgeUnavailable"], id="expired"),
        pytest.param({"status": "failed"}, ["JudgeUnavailable"] * 2, id="failed"),
        pytest.param(None, ["JudgeUnavailable"] * 2, id="of-another-account"),
    ],
)
def test_what_the_batch_of_an_earlier_run_left_over_is_submitted_by_the_run_after_it(
    server, asking, processes, ended, first
):
    held = server.holds("retrieve")
    processes.killed("a", "b", when=held.reached.is_set)
    if ended is None:
        server.batch.batches.clear()
    else:
        vars(server.batch.batches["batch_1"]["_ending"]).update(ended)
    left = [text.partition(":")[0] for text in asking.texts("a", "b")]
    assert left == first
    assert server.count("create") == 1
    kept = [text for text, outcome in zip("ab", left, strict=True) if outcome != text.upper()]
    assert asking.texts(*kept) == [text.upper() for text in kept]
    assert server.count("create") == 2


def test_closing_the_iterator_names_the_running_batches(server, asking, logs):
    server.batch.polls = 3
    outcomes = asking.judge(limits=Limits(requests=1)).ask([request("a"), request("b")])
    next(outcomes)
    outcomes.close()
    assert "`batch_2` go on at" in "".join(logs)
    assert asking.texts("a", "b") == ["A", "B"]
    assert server.count("create") == 2


def test_a_run_that_is_stopped_names_the_running_batch_and_waits_for_no_poll(server, asking, logs):
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


def test_two_processes_with_the_same_requests_share_a_batch(server, processes):
    uploading, go_on = threading.Event(), threading.Event()
    server.before["upload"] = lambda: (uploading.set(), go_on.wait(timeout=300))
    server.batch.polls = 1_000_000
    first = processes.start("a", "b")
    assert uploading.wait(timeout=300)
    second = processes.start("b", "a")
    assert "Another process is submitting a batch" in second.messages.recv()
    go_on.set()
    watch(second, until=lambda: len({request.port for request in server.calls("retrieve")}) == 2)
    server.batch.batches["batch_1"]["_polls"] = 0
    assert [processes.result(process) for process in (first, second)] == [["A", "B"], ["B", "A"]]
    assert (server.count("upload"), server.count("create")) == (1, 1)


def test_an_unreadable_note_is_an_error_and_stays_unchanged(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a", when=held.reached.is_set)
    (note,) = asking.folder.rglob("*.json")
    note.write_text("{")
    (outcome,) = asking.texts("b")
    assert outcome.startswith("JudgeMisconfigured: ")
    assert str(note) in outcome
    assert note.read_text() == "{"
    assert len(server.batch.batches) == 1
