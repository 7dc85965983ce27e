from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judges import FunctionJudge, echo, reply, text_of

from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.judges.base import (
    Judge,
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
from mmie_tasks.judges.batch import GradedRequest, judge_all
from mmie_tasks.record.reply import JudgeResult


def checked(text: str) -> GradedRequest:
    request = JudgeRequest(parts=(text,), max_tokens=9)
    return GradedRequest(request=request, is_impossible=lambda text: text == "impossible")


def read(text: str) -> Verdict:
    return Scored(float(text)) if text.isdigit() else Unscored("unparsed")


def results_of(judge: object, *texts: str) -> dict[int, JudgeResult]:
    pairs = list(judge_all(judge, [checked(text) for text in texts]))  # type: ignore[arg-type]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_every_request_gets_its_own_reply_and_all_are_sent_at_once() -> None:
    judge = FunctionJudge(echo)
    results = results_of(judge, "1", "2", "x")
    verdicts = [results[i].first_verdict(read) for i in range(3)]
    assert verdicts == [Scored(1), Scored(2), Unscored("unparsed")]
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
    result = results_of(FunctionJudge(lambda _: error), "1")[0]
    for verdict in (result.first_verdict(read), result.verdict(read)):
        assert isinstance(verdict, Unscored)
        assert (verdict.reason, verdict.detail) == (reason, str(error).splitlines()[0])


def test_a_reply_that_reached_its_token_limit_is_not_read() -> None:
    result = results_of(FunctionJudge(lambda _: reply("1", finish="length")), "1")[0]
    assert result.first_verdict(read) == result.verdict(read)
    assert result.first_verdict(read).reason == "cut_off"  # type: ignore[union-attr]


def test_a_reply_that_reached_its_token_limit_is_read_where_the_script_does() -> None:
    result = results_of(FunctionJudge(lambda _: reply("1", finish="length")), "1")[0]
    assert result.first_verdict(read, read_cut_off=True) == Scored(1)
    refused = results_of(FunctionJudge(lambda _: JudgeRefused("no")), "1")[0]
    assert refused.first_verdict(read, read_cut_off=True) == Unscored("refused", "no")


def test_a_request_with_an_impossible_reply_is_sent_a_second_time_and_only_once() -> None:
    judge = FunctionJudge(lambda request: reply("impossible" if request.parts[0] == "a" else "5"))
    results = results_of(judge, "a", "b")
    assert [[(text_of(r), r.attempt) for r in call] for call in judge.calls] == [
        [("a", 0), ("b", 0)],
        [("a", 1)],
    ]
    assert results[0].second_reply == reply("impossible")
    assert results[1].second_reply is None


def test_the_verdict_is_of_the_second_reply_and_the_first_verdict_of_the_first() -> None:
    judge = FunctionJudge(lambda request: reply("4" if request.attempt else "impossible"))
    result = results_of(judge, "a")[0]
    assert result.verdict(read) == Scored(4)
    assert result.first_verdict(read) == Unscored("unparsed")


def test_a_second_request_that_fails_leaves_the_first_reply() -> None:
    down = JudgeUnavailable("down")
    judge = FunctionJudge(lambda request: down if request.attempt else reply("impossible"))
    result = results_of(judge, "a")[0]
    assert result.reply == reply("impossible")
    assert result.verdict(read) == Unscored("unparsed")


class CarelessJudge(Judge):
    """Omits the first request, answers the last twice, and one that does not exist."""

    signature: Mapping[str, object] = {"judge": "careless"}

    def __init__(self) -> None: ...

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        for index in (len(requests) - 1, len(requests) - 1, 77, *range(1, len(requests) - 1)):
            yield index, reply(str(index))


def test_a_request_that_a_judge_omits_is_unavailable_and_surplus_replies_are_dropped() -> None:
    results = results_of(CarelessJudge(), "a", "b", "c")
    assert [results[i].first_verdict(read) for i in (1, 2)] == [Scored(1), Scored(2)]
    assert results[0].failure == Unscored(
        "unavailable", "the judge returned neither a reply nor an error"
    )


def test_every_outcome_is_reported_those_of_second_requests_too() -> None:
    outcomes: list[Outcome] = []
    judge = FunctionJudge(lambda request: reply("4" if request.attempt else "impossible"))
    list(judge_all(judge, [checked("a")], lambda _, outcome: outcomes.append(outcome)))
    assert outcomes == [reply("impossible"), reply("4")]


@given(st.lists(st.sampled_from(["1", "x", "impossible", "down"])))
def test_any_mixture_of_replies_gives_one_result_per_request(texts: list[str]) -> None:
    def say(request: JudgeRequest) -> Outcome:
        text = text_of(request)
        return JudgeUnavailable("down") if text == "down" else reply(text)

    results = results_of(FunctionJudge(say), *texts)
    scored = [isinstance(results[i].verdict(read), Scored) for i in range(len(texts))]
    assert scored == [text == "1" for text in texts]


def test_a_reply_has_the_length_of_its_request() -> None:
    request = JudgeRequest(parts=("345", Path("a.png")), system="12", max_tokens=9)
    judge = FunctionJudge(lambda _: reply("5"))
    ((_, result),) = judge_all(judge, [GradedRequest(request=request)])
    assert result.replies[0].request_characters == 5
