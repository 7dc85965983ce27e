"""A judge that replays recorded replies."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from support.judges import ScriptedJudge, scripted_reply, scripted_request
from support.recordings import cached_judge, cached_reply, jsonl

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.base import JudgeRequest, JudgeUnavailable, ReplySchema, RequestBroken
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.cache_file import default_path, export_line
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.replay import ReplayJudge, ReplayOptions

A, B, C = (scripted_request(text) for text in "abc")
OLDER, NEWER = "judge:scripted|model:drawn-1", "judge:scripted|model:drawn-1|t:1"
CANDIDATE = Path(__file__).parents[1] / "golden" / "cache_export_4f3f6b95.jsonl"


def test_recorded_replies_are_replayed_and_no_others(tmp_path):
    path = tmp_path / "recorded" / "replies"
    list(outcomes_of(cached_judge(ScriptedJudge(), path), [A, B]))
    path.chmod(stat.S_IREAD)
    path.parent.chmod(stat.S_IREAD | stat.S_IEXEC)
    try:
        outcomes = dict(
            ReplayJudge(path).ask([B, C, A, scripted_request("a", tmp_path / "none.png")])
        )
    finally:
        path.parent.chmod(stat.S_IRWXU)
    assert outcomes[0] == scripted_reply("re: b", cached=True)
    assert outcomes[2] == scripted_reply("re: a", cached=True)
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert "not in the recording" in str(outcomes[1])
    assert isinstance(outcomes[3], RequestBroken)


def test_an_export_of_an_older_tree_is_replayed(tmp_path):
    """Made by `mmie-tasks cache export` of the commit in its name."""
    image = tmp_path / "i.png"
    image.write_bytes(b"drawn")
    schema = ReplySchema(name="n", parameters="{}")
    requests = [
        JudgeRequest(parts=("a",), max_tokens=64),
        JudgeRequest(parts=("a", image), max_tokens=64, system="s", schema=schema),
        JudgeRequest(parts=("b",), max_tokens=64, attempt=1),
    ]
    judge = ReplayJudge(CANDIDATE)
    replies = [outcome for _, outcome in judge.ask(requests)]
    assert [reply.text for reply in replies] == [f"reply {n} \ud83d \u00e9" for n in range(3)]
    assert [reply.finish for reply in replies] == ["stop", "stop", "length"]
    assert [reply.usage.input_tokens for reply in replies] == [1, 10, 100]
    names = {"judge": "openai", "model": "gpt-4o", "t": "0", "host": "127.0.0.1"}
    assert judge.signature == {**names, "replayed": judge.signature["replayed"]}
    [(_, reply)] = ReplayJudge(CANDIDATE, signature="mmie_score").ask(requests[:1])
    assert reply.text == "4"


def test_the_signature_changes_with_a_reply_and_not_with_time_or_cost(tmp_path):
    def signature(*records):
        return ReplayJudge(jsonl(tmp_path / "r.jsonl", *records)).signature

    first, second = cached_reply("1"), cached_reply("2")
    assert signature(first, second) == signature(second, first)
    assert signature(first) == signature(cached_reply("1", time_s=5, cost_usd=None))
    digests = [signature(first), signature(second), signature(cached_reply("1", "other"))]
    assert len({digest["replayed"] for digest in digests}) == 3


@pytest.fixture
def two_judges(tmp_path):
    """An older judge with replies to A, B and C, and a newer one with replies to A and B."""
    keys = {text: content_key(request) for text, request in zip("abc", (A, B, C), strict=True)}
    old, new = cached_reply(1, "old", signature=OLDER, time_s=5), cached_reply(1, "new", time_s=9)
    new = replace(new, signature=NEWER)
    records = [replace(old, request_key=keys[text]) for text in "abc"]
    records += [replace(new, request_key=keys[text]) for text in "ab"]
    return jsonl(tmp_path / "r.jsonl", *records)


@pytest.mark.parametrize(
    ("signature", "requests", "text"),
    [
        pytest.param("", [A, B], "new", id="the-newest-that-has-all"),
        pytest.param("", [B, C], "old", id="only-the-older-has-all"),
        pytest.param("", [C, scripted_request("d")], "old", id="none-has-all-one-has-more"),
        pytest.param(OLDER, [A], "old", id="a-signature-that-is-part-of-another"),
        pytest.param("t:1", [A, C], "new", id="a-part-of-a-signature"),
        pytest.param("scripted", [A], "new", id="a-part-that-both-have"),
    ],
)
def test_the_newest_judge_with_all_requests_is_replayed(two_judges, signature, requests, text):
    judge = ReplayJudge(two_judges, signature=signature)
    texts = [reply.text for _, reply in judge.ask(requests) if not isinstance(reply, Exception)]
    assert set(texts) == {text}
    assert ("t" in judge.signature) == (text == "new")
    list(judge.ask([A]))  # such as a second request
    assert ("t" in judge.signature) == (text == "new")


TWICE = "".join(export_line(cached_reply("1", text)) for text in ("one", "another")).encode()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(None, SettingWrong, id="a folder"),
        pytest.param(b"", SettingWrong, id="empty"),
        pytest.param(b"reply,points\n", DataBroken, id="a table"),
        pytest.param(b"SQLite format 3\0 and then nothing", DataBroken, id="damaged"),
        pytest.param(TWICE, DataBroken, id="two replies to one request"),
    ],
)
def test_what_is_no_recording_is_an_error_without_advice_to_delete_it(tmp_path, content, error):
    path = tmp_path / "recording"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(error, match=str(path)) as caught:
        ReplayJudge(path).check()
    assert "delete" not in str(caught.value)


def test_without_a_path_the_default_cache_is_replayed(tmp_path):
    environment = {"MMIE_TASKS_CACHE": str(tmp_path)}
    with pytest.raises(SettingWrong, match="no recording"):
        ReplayJudge.open(ReplayOptions(), environment)
    list(outcomes_of(cached_judge(ScriptedJudge(), default_path(environment)), [A]))
    assert len(list(ReplayJudge.open(ReplayOptions(), environment).ask([A]))) == 1
