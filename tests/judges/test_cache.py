"""A judge that remembers."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from loguru import logger
from support.telling_judge import SIGNATURE, TellingJudge, reply, request

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.base import (
    JudgeMisconfigured,
    JudgeReply,
    JudgeUnavailable,
    RequestBroken,
    Usage,
)
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile

A, B, C = (request(text) for text in "abc")


@pytest.fixture
def file(tmp_path):
    return CacheFile(tmp_path / "replies.sqlite3", busy_timeout_s=0.05)


@pytest.fixture
def warnings():
    lines = []
    number = logger.add(lines.append, level="WARNING", format="{message}")
    yield lines
    logger.remove(number)


def asked_of(judge, file, *requests):
    return dict(CachedJudge(judge, file).ask(requests))


def test_what_was_asked_before_is_not_asked_again(file):
    first, second = TellingJudge(), TellingJudge()
    assert asked_of(first, file, A, B) == {0: reply("re: a"), 1: reply("re: b")}
    assert asked_of(second, file, A, B, C) == {
        0: reply("re: a", cached=True),
        1: reply("re: b", cached=True),
        2: reply("re: c"),
    }
    assert (first.asked, second.asked) == ([["a", "b"]], [["c"]])


def test_known_replies_come_before_anything_is_asked(file):
    asked_of(TellingJudge(), file, B)
    judge = TellingJudge()
    outcomes = CachedJudge(judge, file).ask([A, B])
    assert next(outcomes) == (1, reply("re: b", cached=True))
    assert judge.asked == []
    outcomes.close()


def test_a_judge_that_has_nothing_to_do_is_not_called(file):
    judge = TellingJudge()
    assert asked_of(judge, file) == {}
    asked_of(TellingJudge(), file, A)
    asked_of(judge, file, A)
    assert judge.asked == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(request("a", max_tokens=65), id="a longer reply is allowed"),
        pytest.param(request("a", attempt=1), id="it is asked once more"),
        pytest.param(request("a", ""), id="it has another part"),
    ],
)
def test_another_request_is_asked(file, other):
    asked_of(TellingJudge(), file, A)
    judge = TellingJudge()
    asked_of(judge, file, other)
    assert judge.asked == [["a"]]


def test_another_judge_is_asked(file):
    asked_of(TellingJudge(), file, A)
    judge = TellingJudge(signature=f"{SIGNATURE}|t:1")
    assert asked_of(judge, file, A) == {0: reply("re: a")}
    assert CachedJudge(judge, file).signature == f"{SIGNATURE}|t:1"


def test_an_error_is_passed_on_and_asked_again_next_time(file):
    down = JudgeUnavailable("down")
    assert asked_of(TellingJudge(says={"a": down}), file, A, B)[0] is down
    judge = TellingJudge()
    assert asked_of(judge, file, A, B)[0] == reply("re: a")
    assert judge.asked == [["a"]]


@pytest.mark.parametrize(
    ("said", "others"),
    [
        pytest.param(reply("x"), reply("x", cached=True), id="a reply, whose tokens count once"),
        pytest.param(error := JudgeUnavailable("down"), error, id="an error"),
    ],
)
def test_requests_of_the_same_content_are_asked_once(file, tmp_path, said, others):
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(b"drawn")
    requests = [request("a", tmp_path / name) for name in ("1.png", "2.png", "1.png")]
    judge = TellingJudge(says={"a": said})
    assert asked_of(judge, file, *requests) == {0: said, 1: others, 2: others}
    assert judge.asked == [["a"]]


def test_an_image_counts_with_its_bytes_and_not_with_its_path(file, tmp_path):
    image = tmp_path / "1.png"
    for content, times_asked in ((b"drawn", 1), (b"drawn", 0), (b"drawn again", 1)):
        image.write_bytes(content)
        judge = TellingJudge()
        asked_of(judge, file, request("a", image))
        assert len(judge.asked) == times_asked


def test_a_request_whose_image_cannot_be_read_is_not_asked(file, tmp_path):
    judge = TellingJudge()
    outcomes = asked_of(judge, file, request("a", tmp_path / "none.png"), B)
    assert isinstance(outcomes[0], RequestBroken)
    assert outcomes[1] == reply("re: b")
    assert judge.asked == [["b"]]


def test_each_reply_is_in_the_file_before_it_is_given(file):
    outcomes = CachedJudge(TellingJudge(), file).ask([A, B])
    next(outcomes)
    judge = TellingJudge()
    assert asked_of(judge, file, A)[0].cached
    outcomes.close()


def test_ending_early_ends_the_inner_judge_and_closes_the_file(file):
    class Holding(TellingJudge):
        def ask(self, requests):
            self.outcomes = super().ask(requests)  # so that it does not end by being forgotten
            return self.outcomes

    judge = Holding()
    outcomes = CachedJudge(judge, file).ask([A, B])
    next(outcomes)
    outcomes.close()
    assert judge.closed == 1
    assert not file.path.with_name(f"{file.path.name}-wal").exists()


def test_another_thread_may_read_the_rest_and_end_it(file):
    outcomes = CachedJudge(TellingJudge(), file).ask([A, B, C])
    next(outcomes)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(next, outcomes).result() == (1, reply("re: b"))
        thread.submit(outcomes.close).result()
    assert asked_of(TellingJudge(), file, B)[0].cached


def test_what_the_inner_judge_remembers_itself_is_not_kept_twice(file):
    asked_of(TellingJudge(says={"a": reply("x", cached=True)}), file, A)
    judge = TellingJudge()
    asked_of(judge, file, A)
    assert judge.asked == [["a"]]


def test_of_several_outcomes_for_a_request_the_first_counts(file):
    class Babbling(TellingJudge):
        def ask(self, requests):
            return iter([(0, reply("1")), (0, reply("2")), (7, reply("3")), (-1, reply("4"))])

    assert list(CachedJudge(Babbling(), file).ask([A])) == [(0, reply("1"))]


def held(file):
    """Somebody writes, and does not come to an end."""
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


@pytest.mark.parametrize("trouble", [held, deleted, damaged])
def test_trouble_with_the_file_loses_no_reply_and_warns_once(file, warnings, trouble):
    judge = TellingJudge()
    cached = CachedJudge(judge, file)
    outcomes = cached.ask([A, B, C])
    got = [next(outcomes)]
    with trouble(file):
        got += outcomes
        again = dict(cached.ask([B]))
    assert dict(got) == {0: reply("re: a"), 1: reply("re: b"), 2: reply("re: c")}
    assert again == {0: reply("re: b")}
    assert len(warnings) == 1
    assert str(file.path) in warnings[0]


def test_a_file_that_cannot_be_opened_loses_no_reply_and_warns_once(file, warnings):
    file.path.write_bytes(b"not a database, but longer than a header " * 9)
    cached = CachedJudge(TellingJudge(), file)
    assert dict(cached.ask([A])) == dict(cached.ask([A])) == {0: reply("re: a")}
    assert len(warnings) == 1


def test_a_number_of_tokens_that_cannot_be_kept_loses_no_reply(file, warnings):
    huge = JudgeReply(text="x", model="m", usage=Usage(input_tokens=2**80))
    assert asked_of(TellingJudge(says={"a": huge}), file, A) == {0: huge}
    assert len(warnings) == 1


def test_a_check_makes_the_file_and_asks_nothing(file):
    judge = TellingJudge()
    CachedJudge(judge, file).check()
    assert file.path.exists()
    assert judge.asked == []


def test_a_check_stops_for_a_file_that_is_no_cache(file):
    file.path.write_bytes(b"not a database, but longer than a header " * 9)
    with pytest.raises(DataBroken, match="cache=off"):
        CachedJudge(TellingJudge(), file).check()


def test_a_check_stops_for_a_file_that_cannot_be_written(file):
    CachedJudge(TellingJudge(), file).check()
    with held(file), pytest.raises(SettingWrong, match="locked"):
        CachedJudge(TellingJudge(), file).check()


def test_a_check_is_also_the_inner_judges(file):
    class Keyless(TellingJudge):
        def check(self):
            raise JudgeMisconfigured("no key", hint="set one")

    with pytest.raises(JudgeMisconfigured, match="no key"):
        CachedJudge(Keyless(), file).check()
