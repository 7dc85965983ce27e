from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judges import SayingJudge, echo, reply, text_of

from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestBroken,
    RequestUnfit,
)
from mmie_tasks.judging.session import Judged, Question, judge_all


def question(text: str) -> Question:
    request = JudgeRequest(parts=(text,), max_tokens=9)
    return Question(request=request, impossible=lambda said: said == "impossible")


def read(text: str) -> Verdict:
    return Scored(float(text)) if text.isdigit() else Unscored("unparsed")


def judged(judge: object, *texts: str) -> dict[int, Judged]:
    pairs = list(judge_all(judge, [question(text) for text in texts]))  # type: ignore[arg-type]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_every_question_gets_its_own_reply_and_all_are_asked_at_once() -> None:
    judge = SayingJudge(echo)
    found = judged(judge, "1", "2", "x")
    assert [found[i].first(read) for i in range(3)] == [Scored(1), Scored(2), Unscored("unparsed")]
    assert [len(call) for call in judge.calls] == [3]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(JudgeUnavailable("down"), "unavailable", id="down"),
        pytest.param(JudgeRefused("no"), "refused", id="refused"),
        pytest.param(RequestBroken("no file"), "bad_image", id="no-file"),
        pytest.param(RequestUnfit("too long"), "unfit", id="too-long"),
        pytest.param(OutOfBudget("spent"), "budget", id="budget"),
        pytest.param(JudgeMisconfigured("key", hint="set it"), "unavailable", id="key"),
    ],
)
def test_a_failure_is_a_reason_and_never_a_score(error: JudgeError, reason: str) -> None:
    found = judged(SayingJudge(lambda _: error), "1")[0]
    for verdict in (found.first(read), found.best(read)):
        assert isinstance(verdict, Unscored)
        assert (verdict.reason, verdict.detail) == (reason, str(error).splitlines()[0])


def test_a_reply_that_ran_into_its_limit_is_not_read() -> None:
    found = judged(SayingJudge(lambda _: reply("1", finish="length")), "1")[0]
    assert found.first(read) == found.best(read)
    assert found.first(read).reason == "cut_off"  # type: ignore[union-attr]


def test_a_reply_that_ran_into_its_limit_is_read_where_the_script_does() -> None:
    found = judged(SayingJudge(lambda _: reply("1", finish="length")), "1")[0]
    assert found.first(read, unfinished=True) == Scored(1)
    down = judged(SayingJudge(lambda _: JudgeRefused("no")), "1")[0]
    assert down.first(read, unfinished=True) == Unscored("refused", "no")


def test_an_impossible_reply_is_asked_for_once_more_and_only_once() -> None:
    judge = SayingJudge(lambda request: reply("impossible" if request.parts[0] == "a" else "5"))
    found = judged(judge, "a", "b")
    assert [[(text_of(r), r.attempt) for r in call] for call in judge.calls] == [
        [("a", 0), ("b", 0)],
        [("a", 1)],
    ]
    assert found[0].second == reply("impossible")
    assert found[1].second is None


def test_the_second_reply_counts_where_asking_twice_is_allowed() -> None:
    judge = SayingJudge(lambda request: reply("4" if request.attempt else "impossible"))
    found = judged(judge, "a")[0]
    assert found.best(read) == Scored(4)
    assert found.first(read) == Unscored("unparsed")


def test_a_second_asking_that_fails_leaves_the_first_reply() -> None:
    down = JudgeUnavailable("down")
    judge = SayingJudge(lambda request: down if request.attempt else reply("impossible"))
    found = judged(judge, "a")[0]
    assert found.reply == reply("impossible")
    assert found.best(read) == Unscored("unparsed")


class Careless:
    """Leaves out the first request, answers the last twice, and one that nobody asked."""

    signature = "judge:careless"

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        for index in (len(requests) - 1, len(requests) - 1, 77, *range(1, len(requests) - 1)):
            yield index, reply(str(index))


def test_what_a_judge_leaves_out_is_unavailable_and_what_it_adds_is_dropped() -> None:
    found = judged(Careless(), "a", "b", "c")
    assert [found[i].first(read) for i in (1, 2)] == [Scored(1), Scored(2)]
    assert found[0].failure == Unscored(
        "unavailable", "the judge gave neither a reply nor an error"
    )


def test_every_outcome_is_watched_also_the_second_ones() -> None:
    seen: list[Outcome] = []
    judge = SayingJudge(lambda request: reply("4" if request.attempt else "impossible"))
    list(judge_all(judge, [question("a")], seen.append))
    assert seen == [reply("impossible"), reply("4")]


@given(st.lists(st.sampled_from(["1", "x", "impossible", "down"])))
def test_any_mixture_has_one_result_for_each(texts: list[str]) -> None:
    def say(request: JudgeRequest) -> Outcome:
        text = text_of(request)
        return JudgeUnavailable("down") if text == "down" else reply(text)

    found = judged(SayingJudge(say), *texts)
    scored = [isinstance(found[i].best(read), Scored) for i in range(len(texts))]
    assert scored == [text == "1" for text in texts]
