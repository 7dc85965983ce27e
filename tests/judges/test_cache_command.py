"""The command ``mmie-tasks cache``."""

import time

import pytest
from support.recordings import jsonl, some_reply

from mmie_tasks.judges.cache_command import run
from mmie_tasks.judges.cache_store import CacheFile, default_path, read_records

ALL = ["text 1", "text 1", "text 2"]
DAY_S = 24 * 60 * 60
OTHER = "judge:openai|model:m"


@pytest.fixture
def environment(tmp_path):
    return {"MMIE_TASKS_CACHE": str(tmp_path / "ours")}


@pytest.fixture
def cache(environment):
    """A cache with a reply of one judge and two of another."""
    path = default_path(environment)
    with CacheFile(path).opened() as replies:
        replies.put(some_reply("1"))
        replies.put(some_reply("1", signature=OTHER, cost_usd=None, time=1_600_000_000))
        replies.put(some_reply("2", signature=OTHER, time=int(time.time()) - 2 * DAY_S))
    return path


def held(path):
    with CacheFile(path).opened_to_read() as replies:
        return sorted(each.reply.text for each in replies.each())


@pytest.mark.usefixtures("cache")
def test_stats_are_by_judge(environment, capsys):
    assert run(["stats"], environment) == 0
    first, second = capsys.readouterr().out.split("\n\n")[1:]
    assert first.startswith(f"{OTHER}\n  replies  2, ")
    assert "tokens   14 in, 6 out" in first
    assert "cost     0.25 USD for 1 of them; of the others unknown\n" in first
    assert "time     2020-09-13 to 20" in first
    assert "cost     0.25 USD\n  time     2023-11-14 to 2023-11-14" in second


def test_stats_of_replies_of_unknown_cost(tmp_path, environment, capsys):
    with CacheFile(tmp_path / "c").opened() as replies:
        replies.put(some_reply("1", cost_usd=None))
    assert run(["stats", "--cache", str(tmp_path / "c")], environment) == 0
    assert "cost     unknown" in capsys.readouterr().out


def test_a_signature_that_would_move_the_cursor_is_shown_as_it_is_spelt(tmp_path, capsys):
    with CacheFile(tmp_path / "c").opened() as replies:
        replies.put(some_reply("1", signature="\x1b[2J\ud800"))
    assert run(["stats", "--cache", str(tmp_path / "c")], {}) == 0
    assert r"\x1b[2J\ud800" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["stats"], 0, id="stats"),
        pytest.param(["export", "-"], 1, id="export"),
        pytest.param(["prune", "--older-than", "1d", "--yes"], 0, id="prune"),
    ],
)
def test_a_cache_that_is_not_there_is_said_to_be_missing_and_not_made(
    environment, capsys, arguments, status
):
    assert run(arguments, environment) == status
    said = capsys.readouterr()
    assert f"There is no cache at {default_path(environment)}" in said.out + said.err
    assert not default_path(environment).exists()


def test_what_is_exported_can_be_imported_elsewhere(environment, cache, tmp_path, capsys):
    target, other = tmp_path / "r.jsonl", tmp_path / "other.sqlite3"
    assert run(["export", str(target)], environment) == 0
    assert run(["import", str(target), "--cache", str(other)], environment) == 0
    assert "Exported 3 replies" in (out := capsys.readouterr().out)
    assert "Imported 3 replies" in out
    with CacheFile(cache).opened_to_read() as one, CacheFile(other).opened_to_read() as two:
        assert list(one.each()) == list(two.each())


@pytest.mark.usefixtures("cache")
def test_export_writes_to_standard_output(environment, tmp_path, capsys):
    assert run(["export", "-"], environment) == 0
    (tmp_path / "r.jsonl").write_text(capsys.readouterr().out)
    assert len(list(read_records(tmp_path / "r.jsonl"))) == 3


def test_an_export_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, capsys):
    damaged, target = tmp_path / "damaged", tmp_path / "r.jsonl"
    with CacheFile(damaged).opened() as replies:
        for number in range(200):
            replies.put(some_reply(number, "x" * 999))
    half = damaged.stat().st_size // 2
    damaged.write_bytes(damaged.read_bytes()[:half] + b"\xff" * half)
    target.write_text("old")
    assert run(["export", str(target), "--cache", str(damaged)], {}) == 1
    assert str(damaged) in capsys.readouterr().err
    assert target.read_text() == "old"
    assert {each.name for each in tmp_path.glob("*r.jsonl*")} == {"r.jsonl"}


@pytest.mark.usefixtures("cache")
def test_an_export_to_where_nothing_can_be_written_fails(environment, tmp_path, capsys):
    assert run(["export", str(tmp_path / "none" / "r.jsonl")], environment) == 1
    assert "r.jsonl` cannot be written" in capsys.readouterr().err


def test_import_keeps_what_is_there_and_says_so(environment, cache, tmp_path, capsys):
    records = (
        some_reply("1"),  # there
        some_reply("1", "otherwise", signature=OTHER),  # there, with another text
        some_reply("3"),
        some_reply("4"),
    )
    assert run(["import", str(jsonl(tmp_path / "r.jsonl", *records))], environment) == 0
    out = capsys.readouterr().out
    assert "Imported 2 replies that were not" in out
    assert "1 were there already" in out
    assert "1 more are there with another text, which was kept" in out
    assert held(cache) == ["text 1", "text 1", "text 2", "text 3", "text 4"]


def test_another_cache_can_be_imported(environment, cache, tmp_path):
    other = tmp_path / "other.sqlite3"
    assert run(["import", str(cache), "--cache", str(other)], environment) == 0
    assert held(other) == held(cache)


def test_a_broken_line_imports_nothing(environment, cache, tmp_path, capsys):
    path = jsonl(tmp_path / "r.jsonl", some_reply("3"))
    path.write_text(path.read_text() + "{}\n")
    assert run(["import", str(path)], environment) == 1
    assert "line 2" in capsys.readouterr().err
    assert held(cache) == ALL


def test_a_file_that_is_not_there_cannot_be_imported(environment, tmp_path, capsys):
    assert run(["import", str(tmp_path / "none.jsonl")], environment) == 1
    assert "none.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("criteria", "left"),
    [
        pytest.param(["--older-than", "90d"], ["text 2"], id="age in days"),
        pytest.param(["--older-than", "36h"], [], id="age in hours"),
        pytest.param(["--older-than", "1w"], ["text 2"], id="age in weeks"),
        pytest.param(["--older-than", "999999999w"], ALL, id="age beyond all clocks"),
        pytest.param(["--judge", "model:m"], ["text 1"], id="a judge"),
        pytest.param(["--judge", "MODEL:M"], ALL, id="no such judge"),
        pytest.param(["--judge", "openai", "--older-than", "9w"], ["text 1", "text 2"], id="both"),
    ],
)
def test_prune_deletes_what_meets_the_criteria(environment, cache, capsys, criteria, left):
    would = f"{3 - len(left)} repl"
    assert run(["prune", *criteria], environment) == 0
    assert f"would delete {would}" in capsys.readouterr().out
    assert len(held(cache)) == 3
    assert run(["prune", *criteria, "--yes"], environment) == 0
    assert f"Deleted {would}" in capsys.readouterr().out
    assert held(cache) == left


@pytest.mark.parametrize("criteria", [[], ["--judge", ""]])
def test_prune_without_criteria_refuses(environment, cache, capsys, criteria):
    assert run(["prune", "--yes", *criteria], environment) == 1
    assert "not told what to delete" in capsys.readouterr().err
    assert len(held(cache)) == 3


def test_pruning_makes_the_file_smaller(environment, cache):
    with CacheFile(cache).opened() as replies:
        replies.put(some_reply("3", "x" * 500_000, signature="big"))
    assert cache.stat().st_size > 500_000
    assert run(["prune", "--judge", "big", "--yes"], environment) == 0
    assert cache.stat().st_size < 100_000


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no action"),
        pytest.param(["empty"], id="no such action"),
        pytest.param(["export"], id="no file"),
        pytest.param(["prune", "--older-than", "90"], id="no unit"),
        pytest.param(["prune", "--older-than", "-1d"], id="the future"),
    ],
)
def test_what_it_does_not_know_it_refuses(environment, capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        run(arguments, environment)
    assert caught.value.code == 2
    assert "usage: mmie-tasks cache" in capsys.readouterr().err
