"""A judge that replays recorded replies."""

import hashlib
import os
import shutil
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.judges import SIGNATURE, ScriptedJudge, scripted_reply, scripted_request
from support.recordings import any_reply, cached_reply, jsonl

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.base import JudgeUnavailable, RequestBroken
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_command import run
from mmie_tasks.judges.cache_path import default_path
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.replay import ReplayJudge, ReplayOptions

A, B, C = (scripted_request(text) for text in "abc")
OTHER = "judge:scripted|model:drawn-2|t:1"


@pytest.fixture(params=["cache", "jsonl", "cache called jsonl"])
def record(request, tmp_path):
    """Sends requests to a cached judge, and returns the recording of its replies."""
    cache = tmp_path / "replies.sqlite3"

    def recording(*requests, judge=None):
        list(CachedJudge(judge or ScriptedJudge(), CacheFile(cache)).ask(requests))
        if request.param == "cache":
            return cache
        path = tmp_path / "recording.jsonl"
        if request.param == "jsonl":
            assert run(["export", str(path), "--cache", str(cache)], {}) == 0
        else:
            shutil.copy(cache, path)
        return path

    return recording


def test_recorded_replies_are_replayed_and_no_others(record):
    judge = ReplayJudge(record(A, B))
    outcomes = dict(judge.ask([B, C, A]))
    assert outcomes[0] == scripted_reply("re: b", cached=True)
    assert outcomes[2] == scripted_reply("re: a", cached=True)
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert "not in the recording" in str(outcomes[1])


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recorded=any_reply, text=st.text())
def test_a_replayed_reply_equals_the_recorded_one(tmp_path, recorded, text):
    shutil.rmtree(tmp_path / "c", ignore_errors=True)
    cache, exported = tmp_path / "c" / "replies.sqlite3", tmp_path / "recording.jsonl"
    judge = CachedJudge(ScriptedJudge(script={text: recorded}), CacheFile(cache))
    assert list(judge.ask([scripted_request(text)])) == [(0, recorded)]
    assert run(["export", str(exported), "--cache", str(cache)], {}) == 0
    for recording in (cache, exported):
        [(_, replayed)] = ReplayJudge(recording).ask([scripted_request(text)])
        assert replayed.cached
        assert (replayed.text, replayed.model, replayed.finish) == (
            recorded.text,
            recorded.model,
            recorded.finish,
        )
        assert replayed.usage == recorded.usage


def test_the_signature_has_a_digest_of_the_recording(record):
    recording = record(A, B)
    lines = sorted(
        f'["{content_key(request)}", "re: {request.parts[0]}", "stop"]\n' for request in (A, B)
    )
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()[:12]
    assert ReplayJudge(recording).signature == f"{SIGNATURE}|replayed:{digest}"


def test_the_signature_changes_with_a_reply_and_not_with_time_or_cost(tmp_path):
    def signature(*records):
        return ReplayJudge(jsonl(tmp_path / "r.jsonl", *records)).signature

    first, second = cached_reply("1"), cached_reply("2")
    assert signature(first, second) == signature(second, first)
    assert signature(first) == signature(cached_reply("1", time_s=5, cost_usd=None))
    assert len({signature(first), signature(second), signature(cached_reply("1", "other"))}) == 3


def test_a_request_whose_image_cannot_be_read_is_broken(record, tmp_path):
    [(_, outcome)] = ReplayJudge(record(A)).ask([scripted_request("a", tmp_path / "none.png")])
    assert isinstance(outcome, RequestBroken)


def test_replaying_does_not_change_the_recording(record):
    path = record(A)
    before = {file: file.stat().st_mtime_ns for file in path.parent.iterdir()}
    list(ReplayJudge(path).ask([A, B]))
    assert {file: file.stat().st_mtime_ns for file in path.parent.iterdir()} == before


def test_a_cache_that_another_run_is_filling_can_be_replayed(tmp_path):
    path = tmp_path / "replies.sqlite3"
    running = CachedJudge(ScriptedJudge(), CacheFile(path)).ask([A, B])
    next(running)
    assert dict(ReplayJudge(path).ask([A])) == {0: scripted_reply("re: a", cached=True)}
    running.close()


def test_a_recording_that_cannot_be_written_can_be_replayed(record):
    path = record(A)
    path.chmod(stat.S_IREAD)
    path.parent.chmod(stat.S_IREAD | stat.S_IEXEC)
    try:
        assert dict(ReplayJudge(path).ask([A])) == {0: scripted_reply("re: a", cached=True)}
    finally:
        path.parent.chmod(stat.S_IRWXU)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param({"signature": SIGNATURE}, "re: a", id="a signature"),
        pytest.param({"signature": OTHER}, "else", id="another signature"),
        pytest.param({"signature": "t:1"}, "else", id="a part of a signature"),
        pytest.param({"model": "drawn-1"}, "re: a", id="the model in the signature"),
        pytest.param({"model": "drawn-2-dated"}, "else", id="the model in the replies"),
        pytest.param({"signature": "judge", "model": "drawn-2"}, "else", id="both"),
    ],
)
def test_options_select_one_of_several_judges(record, options, text):
    record(A)
    judge = ScriptedJudge(OTHER, script={"a": scripted_reply("else", model="drawn-2-dated")})
    replay = ReplayJudge(record(A, judge=judge), **options)
    replay.check()
    [(_, outcome)] = replay.ask([A])
    assert outcome.text == text


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="no options"),
        pytest.param({"signature": "judge:scripted"}, id="a part that both have"),
        pytest.param({"signature": "none"}, id="no such signature"),
        pytest.param({"model": "drawn"}, id="no such model"),
        pytest.param({"signature": OTHER, "model": "drawn-1"}, id="of another model"),
    ],
)
def test_options_that_do_not_select_one_judge_stop_and_list_the_judges(record, options):
    record(A)
    third = scripted_reply("x", model="drawn-3")
    path = record(A, B, judge=ScriptedJudge(OTHER, script={"a": third, "b": third}))
    with pytest.raises(SettingWrong) as caught:
        ReplayJudge(path, **options).check()
    assert f"{SIGNATURE} (drawn-1: 1)" in str(caught.value)
    assert f"{OTHER} (drawn-3: 2)" in str(caught.value)


def test_a_signature_that_is_part_of_another_can_be_selected(tmp_path):
    records = cached_reply("1"), cached_reply("1", "longer", signature=f"{SIGNATURE}|t:1")
    replay = ReplayJudge(jsonl(tmp_path / "r.jsonl", *records), signature=SIGNATURE)
    assert replay.signature.startswith(f"{SIGNATURE}|replayed:")


def test_only_the_selected_models_replies_are_replayed(tmp_path):
    path = jsonl(
        tmp_path / "r.jsonl", cached_reply("1"), cached_reply("2", model="m-2", signature="judge:s")
    )
    recording = jsonl(
        tmp_path / "b.jsonl", *(cached_reply(m, model=m, signature="judge:s") for m in ("a", "b"))
    )
    assert ReplayJudge(path, model="m-2").signature.startswith("judge:s|replayed:")
    assert ReplayJudge(recording, model="a").signature != ReplayJudge(recording).signature


def test_two_replies_to_one_request_stop(tmp_path):
    path = jsonl(tmp_path / "r.jsonl", cached_reply("1", "one"), cached_reply("1", "another"))
    with pytest.raises(DataBroken, match=str(path)):
        ReplayJudge(path).check()


def test_several_recordings_are_replayed_together(tmp_path):
    first, second = (jsonl(tmp_path / f"{name}.jsonl", cached_reply(name)) for name in "12")
    joined = ReplayJudge.open(ReplayOptions(path=f"{first};{second}"), {})
    judge_of_both = ReplayJudge(
        jsonl(tmp_path / "both.jsonl", cached_reply("1"), cached_reply("2"))
    )
    assert joined.signature == judge_of_both.signature != ReplayJudge(first).signature
    with pytest.raises(SettingWrong, match="no recording"):
        ReplayJudge.open(ReplayOptions(path=f"{first};{tmp_path / 'none'}"), {})


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(None, SettingWrong, id="a folder"),
        pytest.param(b"", SettingWrong, id="empty"),
        pytest.param(b"reply,points\n", DataBroken, id="a table"),
        pytest.param(b"SQLite format 3\0 and then nothing", DataBroken, id="damaged"),
    ],
)
def test_a_file_that_is_no_recording_is_an_error_without_advice_to_delete_it(
    tmp_path, content, error
):
    path = tmp_path / "recording"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(error, match=str(path)) as caught:
        ReplayJudge(path).check()
    assert "delete" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_recording_that_may_not_be_read_stops(tmp_path):
    path = jsonl(tmp_path / "r.jsonl", cached_reply("1"))
    path.chmod(0)
    with pytest.raises(SettingWrong, match=str(path)):
        ReplayJudge(path).check()


def test_without_a_path_the_default_cache_is_replayed(tmp_path):
    environment = {"MMIE_TASKS_CACHE": str(tmp_path)}
    with pytest.raises(SettingWrong, match="no recording"):
        ReplayJudge.open(ReplayOptions(), environment)
    list(CachedJudge(ScriptedJudge(), CacheFile(default_path(environment))).ask([A]))
    assert len(list(ReplayJudge.open(ReplayOptions(), environment).ask([A]))) == 1
