"""The file that keeps replies: what it holds, who may have it open, and what it survives."""

import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from hypothesis import HealthCheck, given, settings
from support import asking
from support.recordings import recordings, some_reply
from support.telling_judge import TellingJudge, reply, request

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.base import content_key
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile, Selection, default_path

NUMBERS = [str(number) for number in range(300)]
QUESTIONS = [request(text) for text in NUMBERS]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "judge" / "replies.sqlite3"


def texts(path):
    with CacheFile(path).opened() as replies:
        return sorted(each.reply.text for each in replies.each())


def asked_of_another(path):
    return dict(CachedJudge(TellingJudge(), CacheFile(path)).ask([request("a")]))


def settled(path, *statements):
    """A file of SQLite's, made by somebody else."""
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
def test_the_usual_cache_is_in_our_cache_folder(environment, folder):
    assert str(default_path(environment)) == f"{folder}/judge/replies.sqlite3"


def test_only_its_owner_may_read_it(path):
    with CacheFile(path).opened() as replies:
        replies.put(some_reply("1"))
        beside = list(path.parent.glob("*.sqlite3*"))
        modes = {each.name: stat.filemode(each.stat().st_mode) for each in beside}
    del modes["replies.sqlite3.lock"]  # nothing is in it
    assert len(modes) == 3
    assert set(modes.values()) == {"-rw-------"}


def test_nothing_of_a_request_is_in_the_file(path):
    with closing(CachedJudge(TellingJudge(), CacheFile(path)).ask([request("a secret")])) as asked:
        next(asked)
    with CacheFile(path).opened() as replies:
        replies.delete(Selection(judge="nobody"))
    data = path.read_bytes().replace(b"re: a secret", b"")
    assert content_key(request("a secret")).encode() in data
    assert b"secret" not in data


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=recordings)
def test_a_reply_comes_out_as_it_went_in(tmp_path, record):
    with CacheFile(tmp_path / "replies.sqlite3").opened() as replies:
        replies.delete(Selection())
        assert replies.put(record)
        assert replies.find(record.signature, record.request) == record.reply
        assert list(replies.each(record.signature)) == [record]
        assert list(replies.each(f"{record.signature}!")) == []


def test_a_reply_that_is_there_stays(path):
    with CacheFile(path).opened() as replies:
        assert replies.put(some_reply("1", text="old"))
        assert not replies.put(some_reply("1", text="new"))
    assert texts(path) == ["old"]


def test_an_empty_file_becomes_a_cache(path):
    path.parent.mkdir()
    path.touch()
    with CacheFile(path).opened() as replies:
        replies.put(some_reply("1"))
    assert texts(path) == ["text 1"]


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        pytest.param(["CREATE TABLE mine (x)"], "another program", id="another table"),
        pytest.param(["PRAGMA application_id = 5"], "another program", id="another program"),
        pytest.param(["PRAGMA user_version = 1"], "another program", id="only a version"),
        pytest.param(
            ["PRAGMA application_id = 1835886949", "PRAGMA user_version = 2"],
            "version 2.*update mmie-tasks",
            id="a newer version",
        ),
    ],
)
def test_a_database_that_is_not_ours_is_left_alone(path, statements, message):
    settled(path, *statements)
    before = path.read_bytes()
    for opened in (CacheFile(path).opened, CacheFile(path).opened_to_read):
        with pytest.raises(DataBroken, match=f"(?s){message}"), opened():
            pass
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(path):
    path.parent.mkdir()
    path.write_bytes(b"reply,points\n" * 99)
    match = r"(?s)not a database.*cache=off"
    with pytest.raises(DataBroken, match=match), CacheFile(path).opened():
        pass
    assert path.read_bytes() == b"reply,points\n" * 99


@pytest.mark.parametrize("opened", ["opened", "opened_to_read"])
def test_what_cannot_be_opened_is_said_with_its_path(tmp_path, opened):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "replies.sqlite3"
    with pytest.raises(SettingWrong, match=str(path)), getattr(CacheFile(path), opened)():
        pass


def test_reading_leaves_nothing_behind(path):
    with CacheFile(path).opened() as replies:
        replies.put(some_reply("1"))
    before = {each: each.stat().st_mtime_ns for each in path.parent.iterdir()}
    with CacheFile(path).opened_to_read() as replies:
        assert [each.reply.text for each in replies.each()] == ["text 1"]
    assert {each: each.stat().st_mtime_ns for each in path.parent.iterdir()} == before


def test_reading_works_while_another_holds_the_file_and_writes(path):
    file = CacheFile(path, busy_timeout_s=0.05)
    with file.opened() as replies, file.opened() as other:
        replies.put(some_reply("1"))
        other._connection.execute("BEGIN IMMEDIATE")
        with file.opened_to_read() as read:
            assert [each.reply.text for each in read.each()] == ["text 1"]


def test_what_is_known_is_found_while_another_writes(path):
    file = CacheFile(path, busy_timeout_s=0.05)
    with file.opened() as replies:
        replies.put(record := some_reply("1"))
        replies._connection.execute("BEGIN IMMEDIATE")
        with file.opened() as other:
            assert other.find(record.signature, record.request) == record.reply


def test_a_reader_writes_nothing(path):
    with CacheFile(path).opened() as replies, CacheFile(path).opened_to_read() as read:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            read.put(some_reply("1"))
        assert list(replies.each()) == []


def test_a_file_that_changes_under_a_lone_reader_is_not_trusted(path):
    with CacheFile(path).opened() as replies:
        replies.put(some_reply("1"))
    match = "changed while it was read"
    with pytest.raises(DataBroken, match=match), CacheFile(path).opened_to_read():
        assert asked_of_another(path) == {0: reply("re: a")}


def test_a_reader_that_reads_slowly_keeps_no_writer_waiting(path):
    file = CacheFile(path, busy_timeout_s=0.05)
    with file.opened() as replies, file.opened_to_read() as read:
        for number in range(50):
            replies.put(some_reply(number))
        slowly = read.each()
        next(slowly)
        assert replies.put(some_reply(50))
        assert len(list(slowly)) == 49


def test_threads_may_share_a_cache(path):
    judge = CachedJudge(TellingJudge(), CacheFile(path))
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(lambda: list(judge.ask(QUESTIONS))) for _ in range(4)]
    assert [len(job.result()) for job in jobs] == [300, 300, 300, 300]
    assert texts(path) == sorted(f"re: {text}" for text in NUMBERS)


def test_processes_may_share_a_cache_from_its_first_moment(path):
    mine = [NUMBERS[:200], NUMBERS[100:], NUMBERS[50:250]]
    with ExitStack() as stack:
        processes = [stack.enter_context(asking.start(path, *each)) for each in mine]
        for each in processes:
            assert each.stdout.readline() == "started\n"
        for each in processes:
            asking.go(each)
        said = [each.communicate() for each in processes]
    assert [errors for _, errors in said] == ["", "", ""]  # no warning: nobody was locked out
    assert [len(out.split("\n")) for out, _ in said] == [201, 201, 201]
    assert texts(path) == sorted(f"re: {text}" for text in NUMBERS)


@pytest.mark.parametrize("lines", [0, 1, 2, 40])
def test_a_killed_run_keeps_what_it_had_and_the_next_asks_only_the_rest(path, lines):
    with asking.start(path, *NUMBERS) as process:
        asking.go(process)
        seen = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        seen += process.stdout.readlines()
    assert process.returncode == -9
    had = {line.split()[1] for line in seen if line.startswith("asked") and line.endswith("\n")}
    judge = TellingJudge()
    list(CachedJudge(judge, CacheFile(path)).ask(QUESTIONS))
    asked = set(judge.asked[0])
    assert len(had) >= lines - 1
    assert len(NUMBERS) - 1 <= len(asked) + len(had) <= len(NUMBERS)  # one was perhaps not said
    assert asked.isdisjoint(had)
    assert texts(path) == sorted(f"re: {text}" for text in NUMBERS)


def test_a_full_disk_loses_no_reply_and_leaves_a_file_that_opens(path):
    long = [f"{number} " + "x" * 60_000 for number in range(9)]
    with asking.start(path, *long, disk="small") as process:
        out, errors = process.communicate("go\n")
    assert out.count("asked") == 9
    assert errors.count("is not used any more in this run") == 1
    assert 0 < len(texts(path)) < 9
