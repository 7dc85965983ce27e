"""The command ``mmie-tasks cache``."""

import pytest
from support.recordings import cached_reply

from mmie_tasks.judges.cache_command import run
from mmie_tasks.judges.cache_file import CacheFile, default_path, read_recording

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


def test_a_missing_cache_is_reported_and_not_created(environment, tmp_path, capsys):
    for arguments in (["export", "-"], ["clear"]):
        assert run(arguments, environment) == 1
        assert f"There is no cache at {default_path(environment)}" in capsys.readouterr().err
    assert not default_path(environment).exists()
    assert run(["path", "--cache", str(tmp_path / "c")], environment) == 0
    assert run(["path"], environment) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'c'}\n{default_path(environment)}\n"
    for arguments in (["export"], ["clear", "f"], ["paht"]):
        with pytest.raises(SystemExit, match="2"):
            run(arguments, {})


def test_an_export_has_all_replies_or_those_of_a_judge(environment, cache, tmp_path, capsys):
    target = tmp_path / "r.jsonl"
    assert run(["export", str(target)], environment) == 0
    assert capsys.readouterr().out == f"Exported 3 replies to {target}.\n"
    with CacheFile(cache).open() as replies:
        assert list(read_recording(target)) == list(replies.read_all())
    assert run(["export", "-"], environment) == 0
    assert capsys.readouterr().out == target.read_text()
    assert run(["export", str(target), "--judge", "openai"], environment) == 0
    assert {cached.signature for cached in read_recording(target)} == {OTHER}
    assert run(["export", str(tmp_path / "none"), "--judge", "opnai"], environment) == 1
    assert f"  {OTHER}\n" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_clear_removes_all_replies_and_no_other_file(environment, cache, tmp_path, capsys):
    assert run(["clear"], environment) == 0
    assert capsys.readouterr().out == f"Removed 3 replies from {cache}.\n"
    with CacheFile(cache).open() as replies:
        assert list(replies.read_all()) == []
    (tmp_path / "r.csv").write_text("reply,points\n" * 99)
    assert run(["clear", "--cache", str(tmp_path / "r.csv")], {}) == 1
    assert (tmp_path / "r.csv").read_text() == "reply,points\n" * 99
