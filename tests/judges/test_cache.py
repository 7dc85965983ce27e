"""Cache of judge replies."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from support.judges import SIGNATURE, ScriptedJudge, scripted_reply, scripted_request

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeUnavailable, RequestBroken
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.record.reply import Usage

A, B, C = (scripted_request(text) for text in "abc")


@pytest.fixture
def file(tmp_path):
    return CacheFile(tmp_path / "replies.sqlite3", busy_timeout_s=0.05)


class StoreJudge(ScriptedJudge):
    """Uses the store, as the `openai` judge does."""

    def ask_with_store(self, requests, store):
        for index, outcome in self.ask(requests):
            reply = store.find(index)
            if reply is None:
                store.put(index, outcome)
            yield index, reply or outcome


def outcomes_of(judge, file, *requests):
    return dict(CachedJudge(judge, file).ask(requests))


@pytest.mark.parametrize("kind", [ScriptedJudge, StoreJudge])
def test_a_cached_request_is_not_sent_again(file, kind):
    first, second = kind(), kind()
    assert outcomes_of(first, file, A, B) == {
        0: scripted_reply("re: a"),
        1: scripted_reply("re: b"),
    }
    assert outcomes_of(second, file, A, B, C) == {
        0: scripted_reply("re: a", cached=True),
        1: scripted_reply("re: b", cached=True),
        2: scripted_reply("re: c"),
    }
    assert (first.calls, second.calls) == ([["a", "b"]], [["c"]])


@pytest.mark.parametrize("kind", [ScriptedJudge, StoreJudge])
def test_a_reply_that_cannot_be_stored_leaves_the_cache_to_the_others(file, warnings, kind):
    absurd = replace(scripted_reply("re: b"), usage=Usage(input_tokens=10**30))
    assert outcomes_of(kind(script={"b": absurd}), file, A, B, C)[1] == absurd
    (warning,) = warnings
    assert "A reply is not stored" in warning
    judge = kind()
    assert outcomes_of(judge, file, A, B, C)[2] == scripted_reply("re: c", cached=True)
    assert judge.calls == [["b"]]


def test_cached_replies_come_before_any_request_is_sent(file):
    outcomes_of(ScriptedJudge(), file, B)
    judge = ScriptedJudge()
    outcomes = CachedJudge(judge, file).ask([A, B])
    assert next(outcomes) == (1, scripted_reply("re: b", cached=True))
    assert judge.calls == []
    outcomes.close()


def test_a_judge_without_requests_to_send_is_not_called(file):
    judge = ScriptedJudge()
    assert outcomes_of(judge, file) == {}
    outcomes_of(ScriptedJudge(), file, A)
    outcomes_of(judge, file, A)
    assert judge.calls == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(scripted_request("a", max_tokens=65), id="a longer reply is allowed"),
        pytest.param(scripted_request("a", attempt=1), id="a second attempt"),
        pytest.param(scripted_request("a", ""), id="it has another part"),
    ],
)
def test_a_different_request_is_sent(file, other):
    outcomes_of(ScriptedJudge(), file, A)
    judge = ScriptedJudge()
    outcomes_of(judge, file, other)
    assert judge.calls == [["a"]]


def test_a_judge_with_another_signature_is_called(file):
    outcomes_of(ScriptedJudge(), file, A)
    judge = ScriptedJudge(signature=f"{SIGNATURE}|t:1")
    assert outcomes_of(judge, file, A) == {0: scripted_reply("re: a")}
    assert CachedJudge(judge, file).signature == f"{SIGNATURE}|t:1"


def test_an_error_is_passed_on_and_its_request_sent_again_next_time(file):
    down = JudgeUnavailable("down")
    assert outcomes_of(ScriptedJudge(script={"a": down}), file, A, B)[0] is down
    judge = ScriptedJudge()
    assert outcomes_of(judge, file, A, B)[0] == scripted_reply("re: a")
    assert judge.calls == [["a"]]


@pytest.mark.parametrize(
    ("outcome", "duplicates"),
    [
        pytest.param(
            scripted_reply("x"),
            scripted_reply("x", cached=True),
            id="a reply, whose tokens count once",
        ),
        pytest.param(error := JudgeUnavailable("down"), error, id="an error"),
    ],
)
@pytest.mark.parametrize("kind", [ScriptedJudge, StoreJudge])
def test_requests_with_the_same_content_are_sent_once(file, tmp_path, kind, outcome, duplicates):
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(b"drawn")
    requests = [scripted_request("a", tmp_path / name) for name in ("1.png", "2.png", "1.png")]
    judge = kind(script={"a": outcome})
    assert outcomes_of(judge, file, *requests) == {0: outcome, 1: duplicates, 2: duplicates}
    assert judge.calls == [["a"]]


def test_an_image_counts_with_its_bytes_and_not_with_its_path(file, tmp_path):
    image = tmp_path / "1.png"
    for content, call_count in ((b"drawn", 1), (b"drawn", 0), (b"drawn again", 1)):
        image.write_bytes(content)
        judge = ScriptedJudge()
        outcomes_of(judge, file, scripted_request("a", image))
        assert len(judge.calls) == call_count


def test_a_request_whose_image_cannot_be_read_is_not_sent(file, tmp_path):
    judge = ScriptedJudge()
    outcomes = outcomes_of(judge, file, scripted_request("a", tmp_path / "none.png"), B)
    assert isinstance(outcomes[0], RequestBroken)
    assert outcomes[1] == scripted_reply("re: b")
    assert judge.calls == [["b"]]


def test_every_reply_is_in_the_file_before_it_is_yielded(file):
    outcomes = CachedJudge(ScriptedJudge(), file).ask([A, B])
    next(outcomes)
    judge = ScriptedJudge()
    assert outcomes_of(judge, file, A)[0].cached
    outcomes.close()


def test_closing_early_closes_the_wrapped_judge_and_closes_the_file(file):
    class HoldingJudge(ScriptedJudge):
        def ask(self, requests):
            self.outcomes = super().ask(requests)  # keeps it from being garbage-collected
            return self.outcomes

    judge = HoldingJudge()
    outcomes = CachedJudge(judge, file).ask([A, B])
    next(outcomes)
    outcomes.close()
    assert judge.closed == 1
    assert not file.path.with_name(f"{file.path.name}-wal").exists()


def test_another_thread_may_consume_and_close_the_outcomes(file):
    outcomes = CachedJudge(ScriptedJudge(), file).ask([A, B, C])
    next(outcomes)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(next, outcomes).result() == (1, scripted_reply("re: b"))
        thread.submit(outcomes.close).result()
    assert outcomes_of(ScriptedJudge(), file, B)[0].cached


def test_a_reply_that_the_wrapped_judge_marks_as_cached_is_not_stored(file):
    outcomes_of(ScriptedJudge(script={"a": scripted_reply("x", cached=True)}), file, A)
    judge = ScriptedJudge()
    outcomes_of(judge, file, A)
    assert judge.calls == [["a"]]


def test_the_first_of_several_outcomes_for_a_request_counts(file):
    class SurplusJudge(ScriptedJudge):
        def ask(self, requests):
            return iter(
                [
                    (0, scripted_reply("1")),
                    (0, scripted_reply("2")),
                    (7, scripted_reply("3")),
                    (-1, scripted_reply("4")),
                ]
            )

    assert list(CachedJudge(SurplusJudge(), file).ask([A])) == [(0, scripted_reply("1"))]


def locked(file):
    """A process that writes without end."""
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return closing(other)


def deleted(file):
    for path in file.path.parent.iterdir():
        path.unlink()
    return closing(sqlite3.connect(":memory:"))


def damaged(file):
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("DROP TABLE replies")
    return closing(sqlite3.connect(":memory:"))


@pytest.mark.parametrize("kind", [ScriptedJudge, StoreJudge])
@pytest.mark.parametrize("trouble", [locked, deleted, damaged])
def test_trouble_with_the_file_loses_no_reply_and_warns_once(file, warnings, trouble, kind):
    cached = CachedJudge(kind(), file)
    outcomes = cached.ask([A, B, C])
    pairs = [next(outcomes)]
    with trouble(file):
        pairs += outcomes
        again = dict(cached.ask([B]))
    assert dict(pairs) == {
        0: scripted_reply("re: a"),
        1: scripted_reply("re: b"),
        2: scripted_reply("re: c"),
    }
    assert again == {0: scripted_reply("re: b")}
    assert len(warnings) == 1
    assert str(file.path) in warnings[0]


def test_a_file_that_cannot_be_opened_loses_no_reply_and_warns_once(file, warnings):
    file.path.write_bytes(b"not a database, but longer than a header " * 9)
    cached = CachedJudge(ScriptedJudge(), file)
    assert dict(cached.ask([A])) == dict(cached.ask([A])) == {0: scripted_reply("re: a")}
    assert len(warnings) == 1


def test_a_check_creates_the_file_and_sends_nothing(file):
    judge = ScriptedJudge()
    CachedJudge(judge, file).check()
    assert file.path.exists()
    assert judge.calls == []


def test_a_check_stops_for_a_file_that_cannot_be_written(file):
    CachedJudge(ScriptedJudge(), file).check()
    with locked(file), pytest.raises(SettingWrong, match="locked"):
        CachedJudge(ScriptedJudge(), file).check()


def test_a_check_includes_the_wrapped_judges(file):
    class KeylessJudge(ScriptedJudge):
        def check(self, max_images: int = 0):
            raise JudgeMisconfigured("no key", hint="set one")

    with pytest.raises(JudgeMisconfigured, match="no key"):
        CachedJudge(KeylessJudge(), file).check()
