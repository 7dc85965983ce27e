"""The command ``mmie-tasks cache``."""

import pytest
from support.recordings import cached_reply, jsonl

from mmie_tasks.judges.cache_command import run
from mmie_tasks.judges.cache_export import read_export
from mmie_tasks.judges.cache_store import CacheFile, default_path

ALL = ["text 1", "text 1", "text 2"]
OTHER = "judge:openai|model:m"


@pytest.fixture
def environment(tmp_path):
    return {"MMIE_TASKS_CACHE": str(tmp_path / "ours")}


@pytest.fixture
def cache(environment):
    """A cache with a reply of one judge and two of another."""
    path = default_path(environment)
    with CacheFile(path).open() as replies:
        replies.put(cached_reply("1"))
        replies.put(cached_reply("1", signature=OTHER, cost_usd=None, time_s=1_600_000_000))
        replies.put(cached_reply("2", signature=OTHER))
    return path


def texts_in(path):
    with CacheFile(path).open() as replies:
        return sorted(cached.reply.text for cached in replies.read_all())


@pytest.mark.usefixtures("cache")
def test_stats_are_by_judge(environment, capsys):
    assert run(["stats"], environment) == 0
    first, second = capsys.readouterr().out.split("\n\n")[1:]
    assert first.startswith(f"{OTHER}\n  replies  2, ")
    assert "tokens   14 in, 6 out" in first
    assert "cost     0.25 USD for 1 of them; of the others unknown\n" in first
    assert "time     2020-09-13 to 20" in first
    assert "cost     0.25 USD\n  time     2023-11-14 to 2023-11-14" in second


def test_control_characters_in_a_signature_are_escaped(tmp_path, capsys):
    with CacheFile(tmp_path / "c").open() as replies:
        replies.put(cached_reply("1", signature="\x1b[2J\ud800"))
    assert run(["stats", "--cache", str(tmp_path / "c")], {}) == 0
    assert r"\x1b[2J\ud800" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["stats"], 0, id="stats"),
        pytest.param(["export", "-"], 1, id="export"),
        pytest.param(["prune", "--judge", "x", "--yes"], 0, id="prune"),
    ],
)
def test_a_missing_cache_is_reported_and_not_created(environment, capsys, arguments, status):
    assert run(arguments, environment) == status
    output = capsys.readouterr()
    assert f"There is no cache at {default_path(environment)}" in output.out + output.err
    assert not default_path(environment).exists()


def test_an_export_can_be_imported_elsewhere(environment, cache, tmp_path, capsys):
    target, other = tmp_path / "r.jsonl", tmp_path / "other.sqlite3"
    assert run(["export", str(target)], environment) == 0
    assert run(["import", str(target), "--cache", str(other)], environment) == 0
    assert "Exported 3 replies" in (out := capsys.readouterr().out)
    assert "Imported 3 replies" in out
    with CacheFile(cache).open() as first, CacheFile(other).open() as second:
        assert list(first.read_all()) == list(second.read_all())


@pytest.mark.usefixtures("cache")
def test_export_writes_to_standard_output(environment, tmp_path, capsys):
    assert run(["export", "-"], environment) == 0
    (tmp_path / "r.jsonl").write_text(capsys.readouterr().out)
    assert len(list(read_export(tmp_path / "r.jsonl"))) == 3


def test_an_export_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, capsys):
    damaged, target = tmp_path / "damaged", tmp_path / "r.jsonl"
    with CacheFile(damaged).open() as replies:
        for number in range(200):
            replies.put(cached_reply(number, "x" * 999))
    half = damaged.stat().st_size // 2
    damaged.write_bytes(damaged.read_bytes()[:half] + b"\xff" * half)
    target.write_text("old")
    assert run(["export", str(target), "--cache", str(damaged)], {}) == 1
    assert str(damaged) in capsys.readouterr().err
    assert target.read_text() == "old"
    assert {path.name for path in tmp_path.glob("*r.jsonl*")} == {"r.jsonl"}


@pytest.mark.usefixtures("cache")
def test_an_export_to_a_missing_folder_fails(environment, tmp_path, capsys):
    assert run(["export", str(tmp_path / "none" / "r.jsonl")], environment) == 1
    assert "r.jsonl` cannot be written" in capsys.readouterr().err


def test_import_keeps_existing_replies_and_counts_them(environment, cache, tmp_path, capsys):
    records = (
        cached_reply("1"),  # cached
        cached_reply("1", "otherwise", signature=OTHER),  # cached, with another text
        cached_reply("3"),
        cached_reply("4"),
    )
    assert run(["import", str(jsonl(tmp_path / "r.jsonl", *records))], environment) == 0
    out = capsys.readouterr().out
    assert "Imported 2 replies that were not" in out
    assert "1 were in it already" in out
    assert "1 more are in it with another text, which stays" in out
    assert texts_in(cache) == ["text 1", "text 1", "text 2", "text 3", "text 4"]


def test_another_cache_can_be_imported(environment, cache, tmp_path):
    other = tmp_path / "other.sqlite3"
    assert run(["import", str(cache), "--cache", str(other)], environment) == 0
    assert texts_in(other) == texts_in(cache)


def test_a_broken_line_imports_nothing(environment, cache, tmp_path, capsys):
    path = jsonl(tmp_path / "r.jsonl", cached_reply("3"))
    path.write_text(path.read_text() + "{}\n")
    assert run(["import", str(path)], environment) == 1
    assert "line 2" in capsys.readouterr().err
    assert texts_in(cache) == ALL


@pytest.mark.parametrize(
    ("part", "remaining"),
    [
        pytest.param("model:m", ["text 1"], id="a judge"),
        pytest.param("judge:", [], id="all judges"),
        pytest.param("MODEL:M", ALL, id="no such judge"),
    ],
)
def test_prune_deletes_the_replies_of_the_named_judges(environment, cache, capsys, part, remaining):
    deleted = f"{3 - len(remaining)} repl"
    assert run(["prune", "--judge", part], environment) == 0
    assert f"would delete {deleted}" in capsys.readouterr().out
    assert len(texts_in(cache)) == 3
    assert run(["prune", "--judge", part, "--yes"], environment) == 0
    assert f"Deleted {deleted}" in capsys.readouterr().out
    assert texts_in(cache) == remaining


def test_prune_refuses_an_empty_judge_which_would_be_all_of_them(environment, cache, capsys):
    assert run(["prune", "--yes", "--judge", ""], environment) == 1
    assert "`--judge` is empty" in capsys.readouterr().err
    assert len(texts_in(cache)) == 3


def test_pruning_makes_the_file_smaller(environment, cache):
    with CacheFile(cache).open() as replies:
        replies.put(cached_reply("3", "x" * 500_000, signature="big"))
    assert cache.stat().st_size > 500_000
    assert run(["prune", "--judge", "big", "--yes"], environment) == 0
    assert cache.stat().st_size < 100_000
