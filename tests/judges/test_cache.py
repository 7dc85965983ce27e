"""Cache of judge replies: its use, its file, recordings, processes."""

import json
import sqlite3
import stat
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import cache_process
from support.judges import ScriptedJudge, scripted_reply, scripted_request
from support.recordings import cached_judge, cached_replies, cached_reply, jsonl

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.base import JudgeUnavailable, RequestBroken
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.cache_file import CacheFile, export_line, read_recording
from mmie_tasks.judges.content import content_key

A, B, C = (scripted_request(text) for text in "abc")
NUMBERS = [str(number) for number in range(300)]
REQUESTS = [scripted_request(text) for text in NUMBERS]


@pytest.fixture
def file(tmp_path):
    return CacheFile(tmp_path / "judge" / "replies.sqlite3", busy_timeout_s=0.05)


def ask(judge, file, *requests):
    return dict(outcomes_of(cached_judge(judge, file), requests))


def texts(file):
    with file.open() as replies:
        return sorted(cached.reply.text for cached in replies.read_all())


def test_a_cached_request_is_not_sent_again(file):
    first, second = ScriptedJudge(), ScriptedJudge()
    assert ask(first, file, A, B) == {0: scripted_reply("re: a"), 1: scripted_reply("re: b")}
    a, b = (scripted_reply(f"re: {text}", cached=True) for text in "ab")
    assert ask(second, file, A, B, C) == {0: a, 1: b, 2: scripted_reply("re: c")}
    assert (first.calls, second.calls) == ([["a", "b"]], [["c"]])
    ask(second, file, A, B)
    assert len(second.calls) == 1
    assert ask(ScriptedJudge(t=1), file, A) == {0: scripted_reply("re: a")}


def test_an_error_is_not_stored_and_its_request_is_sent_by_the_next_run(file, tmp_path):
    down = JudgeUnavailable("down")
    requests = [A, B, scripted_request("c", tmp_path / "none.png")]
    first, second = ScriptedJudge(script={"a": down}), ScriptedJudge()
    outcomes = ask(first, file, *requests)
    assert (outcomes[0], type(outcomes[2])) == (down, RequestBroken)
    assert ask(second, file, *requests)[0] == scripted_reply("re: a")
    assert (first.calls, second.calls) == ([["a", "b"]], [["a"]])


@pytest.mark.parametrize(
    ("outcome", "duplicates"),
    [
        pytest.param(scripted_reply("x"), scripted_reply("x", cached=True), id="a-reply"),
        pytest.param(error := JudgeUnavailable("down"), error, id="an-error"),
    ],
)
def test_requests_with_the_same_content_are_sent_once(file, tmp_path, outcome, duplicates):
    for name, content in (("1.png", b"drawn"), ("2.png", b"drawn"), ("3.png", b"other")):
        (tmp_path / name).write_bytes(content)
    requests = [scripted_request("a", tmp_path / f"{n}.png") for n in (1, 2, 1, 3)]
    judge = ScriptedJudge(script={"a": outcome})
    assert ask(judge, file, *requests) == {0: outcome, 1: duplicates, 2: duplicates, 3: outcome}
    assert judge.calls == [["a", "a"]]


def test_every_reply_is_in_the_file_before_it_is_yielded(file):
    with closing(outcomes_of(cached_judge(ScriptedJudge(), file), [A, B])) as outcomes:
        next(outcomes)
        assert ask(ScriptedJudge(), file, A)[0].cached


# Trouble with the file


@contextmanager
def changed(file, statement):
    """The cache while another process has executed a statement."""
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute(statement)
        yield


LOCK = "BEGIN IMMEDIATE"


@pytest.mark.parametrize(
    "trouble", [LOCK, "DROP TABLE judge_replies", "UPDATE judge_replies SET reply = '{}'"]
)
def test_trouble_with_the_file_loses_no_reply_and_warns_once(file, logs, trouble):
    judge = cached_judge(ScriptedJudge(), file)
    outcomes = outcomes_of(judge, [A, B, C])
    pairs = [next(outcomes)]
    with changed(file, trouble):
        pairs += outcomes
        again = A if trouble.startswith("UPDATE") else B
        (reply,) = dict(outcomes_of(judge, [again])).values()
    assert not reply.cached
    assert dict(pairs) == {index: scripted_reply(f"re: {text}") for index, text in enumerate("abc")}
    (warning,) = logs
    assert str(file.path) in warning


def test_the_check_stops_for_a_file_that_is_no_cache_or_cannot_be_written(file, tmp_path):
    file.check()
    assert texts(file) == []
    with changed(file, LOCK), pytest.raises(SettingWrong, match="locked"):
        file.check()
    table = tmp_path / "table.csv"
    table.write_bytes(b"reply,points\n" * 99)
    with pytest.raises(DataBroken, match=r"(?s)not a database.*cache=off"):
        CacheFile(table).check()
    assert table.read_bytes() == b"reply,points\n" * 99
    with pytest.raises(SettingWrong, match=str(table)):
        CacheFile(table / "replies.sqlite3").check()


# The file


def test_only_its_owner_may_read_it_and_nothing_of_a_request_is_in_it(file):
    request = scripted_request("a secret")
    ask(ScriptedJudge(script={"a secret": scripted_reply("re")}), file, request)
    with file.open() as replies:
        replies.put(cached_reply("1"))
        files = [path for path in file.path.parent.iterdir() if path.suffix != ".lock"]
        assert {stat.filemode(path.stat().st_mode) for path in files} == {"-rw-------"}
        assert len(files) == 3
    assert content_key(request).encode() in file.path.read_bytes()
    assert b"secret" not in file.path.read_bytes()


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=cached_replies)
def test_a_reply_is_read_as_it_was_stored_until_it_is_removed(tmp_path, record):
    with CacheFile(tmp_path / "replies.sqlite3").open() as replies:
        replies.clear()
        assert replies.put(record)
        assert not replies.put(replace(record, reply=scripted_reply("a later one")))
        assert replies.find(record.signature, record.request_key) == record.reply
        assert list(replies.read_all()) == [record]
        replies.remove(record.signature, record.request_key)
        assert list(replies.read_all()) == []


# Threads and processes


@pytest.mark.slow
def test_processes_may_share_a_cache_from_its_first_moment(file):
    batches = [NUMBERS[:200], NUMBERS[100:], NUMBERS[50:250]]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(cache_process.start(file.path, *texts)) for texts in batches
        ]
        for process in processes:
            assert process.stdout.readline() == "started\n"
        for process in processes:
            cache_process.go(process)
        outputs = [process.communicate() for process in processes]
    assert [errors for _, errors in outputs] == ["", "", ""]  # no process was locked out
    assert [len(out.split("\n")) for out, _ in outputs] == [201, 201, 201]
    assert texts(file) == sorted(f"re: {text}" for text in NUMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [0, 40])
def test_a_killed_run_loses_no_reply_and_the_next_sends_only_the_other_requests(file, lines):
    with cache_process.start(file.path, *NUMBERS) as process:
        cache_process.go(process)
        seen = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        seen += process.stdout.readlines()
    assert process.returncode == -9
    stored = {line.split()[1] for line in seen if line.startswith("new") and line.endswith("\n")}
    judge = ScriptedJudge()
    ask(judge, CacheFile(file.path), *REQUESTS)
    sent = {text for call in judge.calls for text in call}  # none, if the run was faster
    assert len(stored) >= lines - 1
    assert len(NUMBERS) - 1 <= len(sent) + len(stored) <= len(NUMBERS)  # one is perhaps unprinted
    assert sent.isdisjoint(stored)
    assert texts(file) == sorted(f"re: {text}" for text in NUMBERS)


# Recordings

FIELDS = json.loads(export_line(cached_reply("1")))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(cached_replies, max_size=3))
def test_an_export_is_read_as_it_was_written(tmp_path, records):
    assert list(read_recording(jsonl(tmp_path / "r.jsonl", *records))) == records


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(json.dumps({**FIELDS, "finish": "filter"}), id="finish"),
        pytest.param(json.dumps({**FIELDS, "text": None}), id="no-text"),
        pytest.param("[]", id="a-list"),
        pytest.param('{"signature": "\xff"}', id="not-utf-8"),
        pytest.param("[" * 100_000, id="nested-without-end"),
    ],
)
def test_a_line_that_is_not_a_reply_is_an_error_with_its_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    fine = json.dumps({**FIELDS, "unknown": [-1]})
    path.write_bytes(f"{fine}\r\n \n{line}\n".encode("latin-1"))
    replies = read_recording(path)
    assert next(replies) == cached_reply("1")
    with pytest.raises(DataBroken, match=r"r.jsonl, line 3: "):
        next(replies)
