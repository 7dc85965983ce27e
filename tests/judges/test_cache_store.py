"""The cache file: content, concurrent access, damage; and its export."""

import json
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import cache_process
from support.judges import ScriptedJudge, scripted_request
from support.recordings import cached_replies, cached_reply, jsonl

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_command import run
from mmie_tasks.judges.cache_export import export_line, read_export
from mmie_tasks.judges.cache_path import default_path
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.judges.content import content_key

KEY = "b4cf53b461772a34f94de7677947e1e6fde313e55b7dfc40ebf650e269c8d60b"
NUMBERS = [str(number) for number in range(300)]
REQUESTS = [scripted_request(text) for text in NUMBERS]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "judge" / "replies.sqlite3"


def texts(path):
    with CacheFile(path).open() as replies:
        return sorted(cached.reply.text for cached in replies.read_all())


def create_database(path, *statements):
    """A database of another program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"MMIE_TASKS_CACHE": "/m", "XDG_CACHE_HOME": "/x"}, "/m", id="ours"),
        pytest.param({"XDG_CACHE_HOME": "/x"}, "/x/mmie-tasks", id="the user's"),
    ],
)
def test_the_default_cache_is_in_our_cache_folder(environment, folder):
    assert str(default_path(environment)) == f"{folder}/judge/replies.sqlite3"


def test_only_its_owner_may_read_it(path):
    with CacheFile(path).open() as replies:
        replies.put(cached_reply("1"))
        files = list(path.parent.glob("*.sqlite3*"))
        modes = {file.name: stat.filemode(file.stat().st_mode) for file in files}
    modes.pop("replies.sqlite3.lock", None)  # nothing is in it
    assert len(modes) == 3
    assert set(modes.values()) == {"-rw-------"}


def test_nothing_of_a_request_is_in_the_file(path):
    with closing(
        CachedJudge(ScriptedJudge(), CacheFile(path)).ask([scripted_request("a secret")])
    ) as outcomes:
        next(outcomes)
    with CacheFile(path).open() as replies:  # moves SQLite's log into the file
        assert len(list(replies.read_all())) == 1
    data = path.read_bytes().replace(b"re: a secret", b"")
    assert content_key(scripted_request("a secret")).encode() in data
    assert b"secret" not in data


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=cached_replies)
def test_a_reply_is_read_as_it_was_stored(tmp_path, record):
    with CacheFile(tmp_path / "replies.sqlite3").open() as replies:
        replies.clear()
        assert replies.put(record)
        assert replies.find(record.signature, record.request_key) == record.reply
        assert list(replies.read_all(record.signature)) == [record]
        assert list(replies.read_all(f"{record.signature}!")) == []


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        pytest.param(["CREATE TABLE mine (x)"], "another program", id="another table"),
        pytest.param(["PRAGMA application_id = 5"], "another program", id="another program"),
        pytest.param(["PRAGMA user_version = 1"], "another program", id="only a version"),
        pytest.param(
            ["PRAGMA application_id = 1835886949", "PRAGMA user_version = 3"],
            "version 3.*update mmie-tasks",
            id="a newer version",
        ),
        pytest.param(
            ["PRAGMA application_id = 1835886949", "PRAGMA user_version = 1"],
            "version 1; this package reads 2",
            id="an older version",
        ),
    ],
)
def test_a_database_of_another_program_is_not_changed(path, statements, message):
    create_database(path, *statements)
    before = path.read_bytes()
    with pytest.raises(DataBroken, match=f"(?s){message}"), CacheFile(path).open():
        pass
    assert path.read_bytes() == before


def test_the_digits_of_a_cache_of_a_release_candidate_are_ignored(path):
    with CacheFile(path).open() as replies:
        replies.put(cached_reply("1"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE replies ADD COLUMN digits TEXT")
        connection.execute("UPDATE replies SET digits = '[null, -0.25]'")
    with CacheFile(path).open() as replies:
        assert replies.put(cached_reply("2"))
        assert {cached.reply.text for cached in replies.read_all()} == {"text 1", "text 2"}


def test_clearing_deletes_replies_and_makes_the_file_smaller(path):
    with CacheFile(path).open() as replies:
        replies.put(cached_reply("1", "x" * 500_000))
        replies.put(cached_reply("2"))
    assert path.stat().st_size > 500_000
    with CacheFile(path).open() as replies:
        assert replies.clear() == 2
        assert list(replies.read_all()) == []
    assert path.stat().st_size < 100_000


def test_the_key_of_a_request_does_not_change(tmp_path):
    image = tmp_path / "1.png"
    image.write_bytes(b"drawn")
    assert content_key(scripted_request("a", image)) == KEY


def test_a_file_that_is_no_database_is_not_changed(path):
    path.parent.mkdir()
    path.write_bytes(b"reply,points\n" * 99)
    match = r"(?s)not a database.*cache=off"
    with pytest.raises(DataBroken, match=match), CacheFile(path).open():
        pass
    assert path.read_bytes() == b"reply,points\n" * 99


def test_a_file_that_cannot_be_opened_is_named_with_its_path(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "replies.sqlite3"
    with pytest.raises(SettingWrong, match=str(path)), CacheFile(path).open():
        pass


def test_a_cached_reply_is_read_while_another_process_writes(path):
    file = CacheFile(path, busy_timeout_s=0.05)
    with file.open() as replies:
        replies.put(record := cached_reply("1"))
        replies._connection.execute("BEGIN IMMEDIATE")
        with file.open() as other:
            assert other.find(record.signature, record.request_key) == record.reply


def test_a_slow_reader_does_not_block_writers(path):
    file = CacheFile(path, busy_timeout_s=0.05)
    with file.open() as replies, file.open() as table:
        for number in range(50):
            replies.put(cached_reply(number))
        slowly = table.read_all()
        next(slowly)
        assert replies.put(cached_reply(50))
        assert len(list(slowly)) == 49


def test_threads_may_share_a_cache(path):
    judge = CachedJudge(ScriptedJudge(), CacheFile(path))
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(lambda: list(judge.ask(REQUESTS))) for _ in range(4)]
    assert [len(job.result()) for job in jobs] == [300, 300, 300, 300]
    assert texts(path) == sorted(f"re: {text}" for text in NUMBERS)


@pytest.mark.slow
def test_processes_may_share_a_cache_from_its_first_moment(path):
    batches = [NUMBERS[:200], NUMBERS[100:], NUMBERS[50:250]]
    with ExitStack() as stack:
        processes = [stack.enter_context(cache_process.start(path, *texts)) for texts in batches]
        for process in processes:
            assert process.stdout.readline() == "started\n"
        for process in processes:
            cache_process.go(process)
        outputs = [process.communicate() for process in processes]
    assert [errors for _, errors in outputs] == ["", "", ""]  # no process was locked out
    assert [len(out.split("\n")) for out, _ in outputs] == [201, 201, 201]
    assert texts(path) == sorted(f"re: {text}" for text in NUMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [0, 1, 2, 40])
def test_a_killed_run_loses_no_reply_and_the_next_sends_only_the_other_requests(path, lines):
    with cache_process.start(path, *NUMBERS) as process:
        cache_process.go(process)
        seen = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        seen += process.stdout.readlines()
    assert process.returncode == -9
    stored = {line.split()[1] for line in seen if line.startswith("new") and line.endswith("\n")}
    judge = ScriptedJudge()
    list(CachedJudge(judge, CacheFile(path)).ask(REQUESTS))
    sent = {text for call in judge.calls for text in call}  # none, if the run was faster
    assert len(stored) >= lines - 1
    assert len(NUMBERS) - 1 <= len(sent) + len(stored) <= len(NUMBERS)  # one is perhaps unprinted
    assert sent.isdisjoint(stored)
    assert texts(path) == sorted(f"re: {text}" for text in NUMBERS)


@pytest.mark.slow
def test_a_full_disk_loses_no_reply_and_leaves_a_usable_file(path):
    long = [f"{number} " + "x" * 60_000 for number in range(9)]
    with cache_process.start(path, *long, disk="small") as process:
        out, errors = process.communicate("go\n")
    assert out.count("new") == 9
    assert errors.count("is disabled for the rest of this run") == 1
    assert 0 < len(texts(path)) < 9


@pytest.fixture
def damaged(path):
    """A cache of which every second page is overwritten, but for the first."""
    with CacheFile(path).open() as replies:
        for text in NUMBERS:
            key = content_key(scripted_request(text))
            replies.put(replace(cached_reply(text, text=text * 2000), request_key=key))
    content = bytearray(path.read_bytes())
    for start in range(4096, len(content), 8192):
        content[start : start + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    return path


def test_damage_during_a_run_costs_no_reply_and_is_one_warning(damaged, warnings):
    outcomes = dict(CachedJudge(ScriptedJudge(), CacheFile(damaged)).ask(REQUESTS))
    for index, text in enumerate(NUMBERS):
        assert outcomes[index].text in (f"re: {text}", text * 2000)
    assert len(warnings) == 1


@pytest.mark.parametrize("arguments", [["export", "-"], ["clear"]])
def test_a_damaged_cache_is_an_error_with_a_hint(damaged, capsys, arguments):
    assert run([*arguments, "--cache", str(damaged)], {}) == 1
    message = capsys.readouterr().err
    assert f"`{damaged}` is broken" in message
    assert "hint:" in message


# The export.

FIELDS = json.loads(export_line(cached_reply("1")))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(cached_replies, max_size=3))
def test_an_export_is_read_as_it_was_written(tmp_path, records):
    assert list(read_export(jsonl(tmp_path / "r.jsonl", *records))) == records


def test_unknown_keys_blank_lines_and_a_byte_order_mark_are_ignored(tmp_path):
    path = tmp_path / "r.jsonl"
    line = json.dumps({**FIELDS, "digits": [-1], "usage": {**FIELDS["usage"], "cached": 3}})
    path.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n\n  \n" + line.encode())
    assert list(read_export(path)) == [cached_reply("1")] * 2


def usage(**changed):
    return {"usage": {**FIELDS["usage"], **changed}}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        pytest.param({"signature": None}, "`signature` is None", id="no signature"),
        pytest.param({"request": "a" * 63}, "`request` is 'aaa", id="a short key"),
        pytest.param({"finish": "filter"}, "`finish` is 'filter'", id="another finish"),
        pytest.param({"usage": None}, "`usage` is None", id="no usage"),
        pytest.param({"time": 10**18}, "`time` is 1000", id="nanoseconds"),
        pytest.param(usage(input_tokens=-3), "`input_tokens` is -3", id="tokens below nothing"),
        pytest.param(usage(cost_usd=float("nan")), "`cost_usd`", id="not a number"),
    ],
)
def test_a_line_that_is_no_reply_is_an_error_with_its_number(tmp_path, changed, problem):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(FIELDS) + "\n\n" + json.dumps({**FIELDS, **changed}) + "\n")
    with pytest.raises(DataBroken) as caught:
        list(read_export(path))
    assert f"{path}, line 3: {problem}" in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b'{"signature": "\xff"}', id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b"9" * 5000, id="a number without end"),
    ],
)
def test_a_line_that_is_no_object_is_an_error_with_its_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(DataBroken, match="line 1: "):
        list(read_export(path))
