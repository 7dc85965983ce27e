"""Killed at any moment, or run by two processes at once: nothing is paid for twice."""

import json
import threading

import pytest
from support.batch_asking import outcome_text, request, watch

from mmie_tasks.judges.openai.batch_note import RETENTION_S
from mmie_tasks.judges.openai.batch_provider import Limits


def reaches(fault):
    return fault.reached.is_set


MOMENTS = {
    "before-the-upload": ("upload", False, 1),
    "after-the-upload": ("upload", True, 1),
    "before-the-batch": ("create", False, 1),
    "batch-made-and-not-written-down": ("create", True, 1),
    "while-waiting": ("retrieve", False, 1),
    "while-fetching": ("content", False, 1),
}


@pytest.mark.parametrize(
    ("route", "done", "batches"), [pytest.param(*m, id=name) for name, m in MOMENTS.items()]
)
def test_a_killed_process_pays_once(server, asking, processes, route, done, batches):
    held = server.holds(route, done=done)
    processes.killed("a", "b", when=reaches(held))
    assert asking.texts("a", "b") == ["A", "B"]
    assert len(server.batches) == batches
    assert asking.remaining_suffixes() == []


def test_after_a_kill_before_a_batch_was_requested_none_is_looked_for(server, asking, processes):
    held = server.holds("upload")
    processes.killed("a", when=reaches(held))
    assert asking.texts("a") == ["A"]
    assert server.count("list") == 0


def test_after_a_kill_only_requests_without_a_batch_are_submitted(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a", "b", when=reaches(held))
    assert asking.texts("b", "c", "a") == ["B", "C", "A"]
    assert [line["body"]["messages"][0]["content"][0]["text"] for line in server.lines()] == [
        *("a", "b", "c")
    ]


def test_replies_to_requests_of_an_earlier_run_are_kept(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a", "b", "c", when=reaches(held))
    assert asking.texts("b") == ["B"]
    assert asking.remaining_suffixes() == [".json"]
    assert asking.texts("a", "c") == ["A", "C"]
    assert asking.remaining_suffixes() == []
    assert server.count("create") == 1


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
    processes.killed("a", "b", when=reaches(held))
    if ended is None:
        server.batches.clear()
    else:
        vars(server.batches["batch_1"]["_ending"]).update(ended)
    left = [text.partition(":")[0] for text in asking.texts("a", "b")]
    assert left == first
    assert server.count("create") == 1
    kept = [text for text, outcome in zip("ab", left, strict=True) if outcome != text.upper()]
    assert asking.texts(*kept) == [text.upper() for text in kept]
    assert server.count("create") == 2


def test_closing_the_iterator_names_the_running_batches(server, asking, logs):
    server.polls = 3
    outcomes = asking.judge(limits=Limits(requests=1)).ask([request("a"), request("b")])
    next(outcomes)
    outcomes.close()
    assert "`batch_2` go on at" in "".join(logs)
    assert asking.texts("a", "b") == ["A", "B"]
    assert server.count("create") == 2


def test_a_run_that_is_stopped_names_the_running_batch_and_waits_for_no_poll(server, asking, logs):
    server.polls = 1_000
    judge = asking.judge()
    server.before["retrieve"] = judge.stop
    with pytest.raises(KeyboardInterrupt):
        list(judge.ask([request("a")]))
    assert "`batch_1` go on at http://127.0.0.1" in "".join(logs)
    server.before.clear()
    server.batches["batch_1"]["_polls"] = 0
    assert asking.texts("a") == ["A"]
    assert server.count("create") == 1


def test_two_processes_with_the_same_requests_share_a_batch(server, processes):
    uploading, go_on = threading.Event(), threading.Event()
    server.before["upload"] = lambda: (uploading.set(), go_on.wait(timeout=300))
    server.polls = 1_000_000
    first = processes.start("a", "b")
    assert uploading.wait(timeout=300)
    second = processes.start("b", "a")
    assert "Another process is submitting a batch" in second.messages.recv()
    go_on.set()
    watch(second, until=lambda: len(server.callers.get("retrieve", ())) == 2)
    server.batches["batch_1"]["_polls"] = 0
    assert [processes.result(process) for process in (first, second)] == [["A", "B"], ["B", "A"]]
    assert (server.count("upload"), server.count("create")) == (1, 1)


def test_a_finished_batch_is_not_used_again(server, asking):
    assert asking.texts("a") == ["A"]
    server.reply_with("another")
    assert asking.texts("a") == ["another"]


def test_batches_of_another_judge_are_not_waited_for(server, asking):
    server.polls = 3
    outcomes = asking.judge(limits=Limits(requests=1)).ask([request("a"), request("b")])
    next(outcomes)
    outcomes.close()
    again = asking.texts("a", "b", temperature=1.0, limits=Limits(requests=1))
    assert again == ["A", "B"]
    assert server.count("create") == 4


def test_an_unreadable_note_is_an_error_and_stays_unchanged(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a", when=reaches(held))
    (note,) = asking.folder.rglob("*.json")
    note.write_text("{")
    (outcome,) = asking.texts("b")
    assert outcome.startswith("JudgeMisconfigured: ")
    assert str(note) in outcome
    assert note.read_text() == "{"
    assert len(server.batches) == 1


def test_a_note_older_than_the_providers_files_is_deleted(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a", when=reaches(held))
    (record,) = asking.folder.rglob("*.json")
    (entry,) = json.loads(record.read_text())
    server.batches["batch_1"]["status"] = "completed"
    record.write_text(json.dumps([entry | {"begun_s": entry["begun_s"] - RETENTION_S - 1}]))
    assert asking.texts("a") == ["A"]
    assert asking.remaining_suffixes() == []
    assert len(server.batches) == 2
    assert [path for route, path in server.calls if route == "retrieve"].count(
        "GET /v1/batches/batch_1"
    ) == 1  # by the process that was killed


def test_a_note_holds_no_request_and_no_key(server, asking, processes):
    held = server.holds("retrieve")
    processes.killed("a secret question", when=reaches(held))
    (record,) = asking.folder.rglob("*.json")
    (entry,) = json.loads(record.read_text())
    assert sorted(entry) == ["batch", "begun_s", "keys", "nonce"]
    assert "secret" not in record.read_text()
    assert outcome_text(asking.outcomes(request("a secret question"))[0]) == "A SECRET QUESTION"
