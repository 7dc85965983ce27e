"""Cache of judge replies: its use, its file, recordings, processes."""

import json
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
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
    assert ask(second, file, A, B, C) == {
        0: scripted_reply("re: a", cached=True),
        1: scripted_reply("re: b", cached=True),
        2: scripted_reply("re: c"),
    }
    assert (first.calls, second.calls) == ([["a", "b"]], [["c"]])


def test_cached_replies_come_before_any_request_is_sent(file):
    ask(ScriptedJudge(), file, B)
    judge = ScriptedJudge()
    with closing(outcomes_of(cached_judge(judge, file), [A, B])) as outcomes:
        assert next(outcomes) == (1, scripted_reply("re: b", cached=True))
        assert judge.calls == []


def test_a_judge_without_requests_to_send_is_not_called(file):
    judge = ScriptedJudge()
    assert ask(judge, file) == {}
    ask(ScriptedJudge(), file, A)
    ask(judge, file, A)
    assert judge.calls == []


def test_a_judge_with_another_signature_is_called(file):
    ask(ScriptedJudge(), file, A)
    assert ask(ScriptedJudge(t=1), file, A) == {0: scripted_reply("re: a")}


@pytest.mark.parametrize(
    ("outcome", "duplicates"),
    [
        pytest.param(
            scripted_reply("x"), scripted_reply("x", cached=True), id="whose-tokens-count-once"
        ),
        pytest.param(error := JudgeUnavailable("down"), error, id="an-error"),
    ],
)
def test_requests_with_the_same_content_are_sent_once(file, tmp_path, outcome, duplicates):
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(b"drawn")
    requests = [scripted_request("a", tmp_path / name) for name in ("1.png", "2.png", "1.png")]
    judge = ScriptedJudge(script={"a": outcome})
    assert ask(judge, file, *requests) == {0: outcome, 1: duplicates, 2: duplicates}
    assert judge.calls == [["a"]]


def test_an_error_is_not_stored(file):
    down = JudgeUnavailable("down")
    assert ask(ScriptedJudge(script={"a": down}), file, A, B)[0] is down
    judge = ScriptedJudge()
    assert ask(judge, file, A, B)[0] == scripted_reply("re: a")
    assert judge.calls == [["a"]]


def test_a_request_whose_image_cannot_be_read_is_not_sent(file, tmp_path):
    judge = ScriptedJudge()
    outcomes = ask(judge, file, scripted_request("a", tmp_path / "none.png"), B)
    assert isinstance(outcomes[0], RequestBroken)
    assert outcomes[1] == scripted_reply("re: b")
    assert judge.calls == [["b"]]


def test_every_reply_is_in_the_file_before_it_is_yielded(file):
    with closing(outcomes_of(cached_judge(ScriptedJudge(), file), [A, B])) as outcomes:
        next(outcomes)
        assert ask(ScriptedJudge(), file, A)[0].cached


def test_closing_early_closes_the_judge_and_the_file(file):
    class HoldingJudge(ScriptedJudge):
        def ask(self, requests):
            self.outcomes = super().ask(requests)  # keeps it from being garbage-collected
            return self.outcomes

    judge = HoldingJudge()
    outcomes = outcomes_of(cached_judge(judge, file), [A, B])
    next(outcomes)
    outcomes.close()
    assert judge.closed == 1
    assert not file.path.with_name(f"{file.path.name}-wal").exists()


def test_another_thread_may_consume_and_close_the_outcomes(file):
    outcomes = outcomes_of(cached_judge(ScriptedJudge(), file), [A, B, C])
    next(outcomes)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(next, outcomes).result() == (1, scripted_reply("re: b"))
        thread.submit(outcomes.close).result()


def test_the_first_of_several_outcomes_of_a_plugin_for_a_request_counts(file):
    class SurplusJudge(ScriptedJudge):
        def ask(self, requests):
            return iter([(n, scripted_reply(str(i))) for i, n in enumerate((0, 0, 7, -1))])

    assert ask(SurplusJudge(), file, A, B)[0] == scripted_reply("0")
    assert isinstance(ask(SurplusJudge(), file, B, C)[1], JudgeUnavailable)


# Trouble with the file


@contextmanager
def locked(file):
    """A process that writes without end."""
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def dropped(file):
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("DROP TABLE judge_replies")
        yield


@pytest.mark.parametrize("trouble", [locked, dropped])
def test_trouble_with_the_file_loses_no_reply_and_warns_once(file, warnings, trouble):
    judge = cached_judge(ScriptedJudge(), file)
    outcomes = outcomes_of(judge, [A, B, C])
    pairs = [next(outcomes)]
    with trouble(file):
        pairs += outcomes
        assert dict(outcomes_of(judge, [B])) == {0: scripted_reply("re: b")}
    assert dict(pairs) == {index: scripted_reply(f"re: {text}") for index, text in enumerate("abc")}
    (warning,) = warnings
    assert str(file.path) in warning


@pytest.fixture
def damaged(file):
    """A cache of which every second page is overwritten, except the first."""
    with file.open() as replies:
        for text in NUMBERS:
            key = content_key(scripted_request(text))
            signature = ScriptedJudge().storage_signature
            replies.put(
                replace(cached_reply(text, text * 2000), signature=signature, request_key=key)
            )
    content = bytearray(file.path.read_bytes())
    for start in range(4096, len(content), 8192):
        content[start : start + 4096] = b"\xff" * 4096
    file.path.write_bytes(content)
    return file


def test_damage_during_a_run_costs_no_reply_and_is_one_warning(damaged, warnings):
    outcomes = ask(ScriptedJudge(), damaged, *REQUESTS)
    for index, text in enumerate(NUMBERS):
        assert outcomes[index].text in (f"re: {text}", text * 2000)
    assert len(warnings) == 1


def test_a_stored_text_that_is_not_a_reply_costs_no_reply_and_is_one_warning(file, warnings):
    ask(ScriptedJudge(), file, A)
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("UPDATE judge_replies SET reply = '{}'")
    assert ask(ScriptedJudge(), file, A) == {0: scripted_reply("re: a")}
    assert len(warnings) == 1


def test_a_check_creates_the_file_and_stops_for_one_that_cannot_be_written(file):
    file.check()
    assert texts(file) == []
    with locked(file), pytest.raises(SettingWrong, match="locked"):
        file.check()


def test_a_file_that_is_no_database_is_not_changed(file):
    file.path.parent.mkdir()
    file.path.write_bytes(b"reply,points\n" * 99)
    with pytest.raises(DataBroken, match=r"(?s)not a database.*cache=off"):
        file.check()
    assert file.path.read_bytes() == b"reply,points\n" * 99


def test_a_file_that_cannot_be_opened_is_named_with_its_path(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingWrong, match=str(tmp_path / "file")):
        CacheFile(tmp_path / "file" / "replies.sqlite3").check()


# The file


def test_only_its_owner_may_read_it(file):
    with file.open() as replies:
        replies.put(cached_reply("1"))
        files = [path for path in file.path.parent.iterdir() if path.suffix != ".lock"]
        assert {stat.filemode(path.stat().st_mode) for path in files} == {"-rw-------"}
        assert len(files) == 3


def test_nothing_of_a_request_is_in_the_file(file):
    request = scripted_request("a secret")
    ask(ScriptedJudge(script={"a secret": scripted_reply("re")}), file, request)
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


def test_clearing_makes_the_file_smaller(file):
    with file.open() as replies:
        replies.put(cached_reply("1", "x" * 500_000))
    with file.open() as replies:
        assert replies.clear() == 1
    assert file.path.stat().st_size < 100_000


def test_a_reader_and_a_writer_do_not_wait_for_each_other(file):
    with file.open() as replies, file.open() as table:
        for number in range(50):
            replies.put(cached_reply(number))
        slowly = table.read_all()
        next(slowly)
        assert replies.put(record := cached_reply(50))
        assert len(list(slowly)) == 49
        with locked(file):
            assert table.find(record.signature, record.request_key) == record.reply


# Threads and processes


def test_threads_may_share_a_cache(tmp_path):
    file = CacheFile(tmp_path / "replies.sqlite3")
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(ask, ScriptedJudge(), file, *REQUESTS) for _ in range(4)]
    assert [len(job.result()) for job in jobs] == [300, 300, 300, 300]
    assert texts(file) == sorted(f"re: {text}" for text in NUMBERS)


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
@pytest.mark.parametrize("lines", [0, 2, 40])
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


@pytest.mark.slow
def test_a_full_disk_loses_no_reply_and_leaves_a_usable_file(file):
    long = [f"{number} " + "x" * 60_000 for number in range(9)]
    with cache_process.start(file.path, *long, disk="small") as process:
        out, errors = process.communicate("go\n")
    assert out.count("new") == 9
    assert errors.count("is disabled for the rest of this run") == 1
    assert 0 < len(texts(file)) < 9


# Recordings

FIELDS = json.loads(export_line(cached_reply("1")))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(cached_replies, max_size=3))
def test_an_export_is_read_as_it_was_written(tmp_path, records):
    assert list(read_recording(jsonl(tmp_path / "r.jsonl", *records))) == records


def test_unknown_keys_and_blank_lines_are_ignored(tmp_path):
    path = tmp_path / "r.jsonl"
    line = json.dumps({**FIELDS, "digits": [-1], "usage": {**FIELDS["usage"], "cached": 3}})
    path.write_text(f"{line}\r\n\n  \n{line}")
    assert list(read_recording(path)) == [cached_reply("1")] * 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(json.dumps({**FIELDS, "finish": "filter"}), "`finish`", id="finish"),
        pytest.param(json.dumps({**FIELDS, "text": None}), "`text`", id="no-text"),
        pytest.param(json.dumps({**FIELDS, "time": None}), "", id="no-time"),
        pytest.param('{"signature": ""}', "`text`", id="no-key"),
        pytest.param("[]", "dictionary", id="a-list"),
        pytest.param("{", "", id="cut-off"),
        pytest.param('{"signature": "\xff"}', "", id="not-utf-8"),
        pytest.param("[" * 100_000, "", id="nested-without-end"),
    ],
)
def test_a_line_that_is_not_a_reply_is_an_error_with_its_number(tmp_path, line, problem):
    path = tmp_path / "r.jsonl"
    path.write_bytes(f"{json.dumps(FIELDS)}\n\n{line}\n".encode("latin-1"))
    with pytest.raises(DataBroken, match=f"r.jsonl, line 3: .*{problem}"):
        list(read_recording(path))
