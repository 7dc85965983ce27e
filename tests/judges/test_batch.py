"""Deferred rows, requests with the readers of their replies, and batches of samples."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.judged_samples import read, submit
from support.judges import FunctionJudge, echo, reply, text_of

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.judges import base
from mmie_tasks.judges.base import JudgeRefused, JudgeRequest, JudgeUnavailable
from mmie_tasks.judges.batch import judge_all
from mmie_tasks.judges.session import BenchmarkJudge


class WithJudge(BenchmarkJudge):
    """The judge of a benchmark, without a choice: this one, or the error of opening it."""

    def __init__(self, judge):
        super().__init__("", "unused")
        self._judge = judge

    def judge(self, _=None):
        if isinstance(self._judge, Exception):
            raise self._judge
        return self._judge


def test_submitting_sends_nothing_and_the_first_read_sends_all_requests_at_once():
    judge = FunctionJudge(echo)
    benchmark = WithJudge(judge)
    rows = [submit(benchmark, str(n)) for n in range(50)]
    assert judge.calls == []
    assert rows[7] == {"score": 7.0}
    assert [len(call) for call in judge.calls] == [50]
    assert rows == [{"score": float(n)} for n in range(50)]
    assert len(judge.calls) == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda row: dict(row.items()),
        lambda row: {"score": row["score"]},
        lambda row: {"score": 3.0} if "score" in row else {},
        lambda row: {**row},
        lambda row: row or {},
        lambda row: {} if row != {"score": 3.0} else row,
        lambda row: row | {},
        copy.deepcopy,
        lambda row: json.loads(json.dumps(row)),
        lambda row: pickle.loads(pickle.dumps(row)),  # noqa: S301
    ],
)
def test_every_way_of_reading_a_row_judges_first(read):
    assert read(submit(WithJudge(FunctionJudge(echo)), "3")) == {"score": 3.0}


def test_rows_gathered_from_other_processes_are_plain_dicts():
    row = submit(WithJudge(FunctionJudge(echo)), "3")
    assert type(pickle.loads(pickle.dumps(row))) is dict  # noqa: S301


def test_a_judge_that_cannot_be_opened_or_raises_costs_samples_and_not_the_run(logs):
    for judge in (ValueError("no judge"), FunctionJudge(lambda _: 1 / 0)):
        assert submit(WithJudge(judge), "3")["unscored"] == "unavailable"
    assert "ZeroDivisionError" in logs[-1]
    assert "1 samples left" in logs[-1]


def test_threads_that_submit_and_read_lose_no_sample():
    benchmark = WithJudge(FunctionJudge(echo))
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda n: submit(benchmark, str(n)), range(200)))
        points = list(threads.map(dict, rows))
    assert points == [{"score": float(n)} for n in range(200)]


# Requests and their results


def requests_of(texts):
    return [JudgeRequest(parts=(text,), max_tokens=9) for text in texts]


def is_impossible(_position, reply):
    return reply == "impossible"


def results_of(judge, *texts):
    pairs = list(judge_all(judge, requests_of(texts), is_impossible=is_impossible))
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (JudgeRefused("no"), "refused"),
        (base.ReplyEmpty("no text"), "empty_reply"),
        (base.RequestBroken("no file"), "bad_image"),
        (base.RequestUnfit("too long"), "unfit"),
        (base.OutOfBudget("spent"), "budget"),
        (base.JudgeMisconfigured("key", hint="set it"), "unavailable"),
    ],
)
def test_a_failure_is_a_reason_and_never_a_score(error, reason):
    result = results_of(FunctionJudge(lambda _: error), "1")[0]
    for verdict in (result.first_verdict(read), result.verdict(read)):
        assert isinstance(verdict, Unscored)
        assert (verdict.reason, verdict.detail) == (reason, str(error).splitlines()[0])


def test_a_reply_that_reached_its_token_limit_is_read_only_where_the_script_does():
    judge = FunctionJudge(lambda _: reply("impossible", finish="length"))
    results_of(judge, "1")
    assert len(judge.calls) == 1  # its missing end may have made it possible
    result = results_of(FunctionJudge(lambda _: reply("1", finish="length")), "1")[0]
    assert result.first_verdict(read) == result.verdict(read)
    assert result.first_verdict(read).reason == "cut_off"
    assert result.first_verdict(read, read_cut_off=True) == Scored(1)
    refused = results_of(FunctionJudge(lambda _: JudgeRefused("no")), "1")[0]
    assert refused.first_verdict(read, read_cut_off=True) == Unscored("refused", "no")


DOWN = JudgeUnavailable("down")


@pytest.mark.parametrize("second", [reply("4"), reply("impossible"), DOWN], ids=str)
def test_a_request_with_an_impossible_reply_is_sent_a_second_time_and_only_once(second):
    def say(request):
        first = reply("impossible" if request.parts[0] == "a" else "5")
        return second if request.attempt else first

    judge, outcomes = FunctionJudge(say), []
    note = lambda _, outcome: outcomes.append(outcome)  # noqa: E731
    results = dict(judge_all(judge, requests_of("ab"), note, is_impossible))
    sent = [[(text_of(one), one.attempt) for one in call] for call in judge.calls]
    assert sent == [[("a", 0), ("b", 0)], [("a", 1)]]
    assert outcomes == [reply("5"), reply("impossible"), second]
    assert results[0].reply == reply("impossible")
    assert results[0].second_reply == (None if second is DOWN else second)
    assert results[0].verdict(read) == (Scored(4) if second == reply("4") else Unscored("unparsed"))
    assert results[1].second_reply is None


class CarelessJudge(FunctionJudge):
    """Omits the first request, answers the last twice, and one that does not exist."""

    def ask(self, requests):
        for index in (len(requests) - 1, len(requests) - 1, 77, *range(1, len(requests) - 1)):
            yield index, reply(str(index))


@pytest.mark.parametrize("outcome", ["5", (0, "5"), ("0", reply("5"))])
def test_what_is_no_index_with_an_outcome_is_named(outcome):
    class WrongJudge(FunctionJudge):
        def ask(self, requests):
            yield outcome

    failure = results_of(WrongJudge(echo), "a")[0].failure
    assert "`ask` of WrongJudge yielded" in failure.detail


def test_a_request_that_a_judge_omits_is_unavailable_and_surplus_replies_are_dropped():
    results = results_of(CarelessJudge(echo), "a", "b", "c")
    assert [results[i].first_verdict(read) for i in (1, 2)] == [Scored(1), Scored(2)]
    nothing = "the judge returned neither a reply nor an error"
    assert results[0].failure == Unscored("unavailable", nothing)


def test_a_reply_has_the_length_of_its_request():
    request = JudgeRequest(parts=("345", Path("a.png")), system="12", max_tokens=9)
    ((_, result),) = judge_all(FunctionJudge(echo), [request])
    assert result.replies[0].request_characters == 5
