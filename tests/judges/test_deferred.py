from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.judges import FunctionJudge, echo, reply, text_of

from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.judges.base import Judge, JudgeRequest, Outcome
from mmie_tasks.judges.batch import DeferredRow, GradedRequest, MetricRows, PendingSample
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.reply import JudgeResult


def grade(result: JudgeResult) -> Verdicts:
    verdict = result.verdict(lambda text: Scored(float(text)))
    return Verdicts(official=verdict, robust=verdict)


def make_rows(judged: Judged) -> MetricRows:
    match judged.verdicts.official:
        case Unscored(reason=reason):
            return {"points": {"unscored": reason}}
        case Scored(points=points):
            return {"points": {"score": points}}


def sample(text: str) -> PendingSample:
    request = GradedRequest(request=JudgeRequest(parts=(text,), max_tokens=9), grade=grade)
    return PendingSample(request=request, make_rows=make_rows, metrics=("points",))


class WithJudge(BenchmarkJudge):
    """The judge of a benchmark, without a choice: this one, or the error of opening it."""

    def __init__(self, judge: Judge | Exception) -> None:
        super().__init__("", "unused")
        self._judge = judge

    def judge(self, _: JudgingSession | None = None) -> Judge:
        if isinstance(self._judge, Exception):
            raise self._judge
        return self._judge


def submit(benchmark: BenchmarkJudge, text: str) -> DeferredRow:
    row = benchmark.submit(sample(text))["points"]
    assert isinstance(row, DeferredRow)
    return row


def test_submitting_sends_nothing_and_the_first_read_sends_all_requests_at_once() -> None:
    judge = FunctionJudge(echo)
    benchmark = WithJudge(judge)
    rows = [submit(benchmark, str(n)) for n in range(50)]
    assert judge.calls == []
    assert rows[7] == {"score": 7.0}
    assert [len(call) for call in judge.calls] == [50]
    assert rows == [{"score": float(n)} for n in range(50)]
    assert len(judge.calls) == 1


def test_the_rows_of_a_sample_may_be_read_before_the_next_sample_is_submitted() -> None:
    """The order of lmms-eval before its pull request 1477: nothing reads what is in a row."""
    judge = FunctionJudge(echo)
    benchmark = WithJudge(judge)
    table, log = [], []
    for n in range(50):
        rows = benchmark.submit(sample(str(n)))
        logged: dict[str, object] = {"doc_id": n}
        logged.update(rows)
        log.append(logged)
        table += [row for _, row in rows.items()]
    assert judge.calls == []
    assert [row["score"] for row in table if isinstance(row, dict)] == list(range(50))
    assert [len(call) for call in judge.calls] == [50]
    assert json.loads(json.dumps(log[3])) == {"doc_id": 3, "points": {"score": 3.0}}


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda row: dict(row.items()), id="items"),
        pytest.param(lambda row: dict(zip(row.keys(), row.values(), strict=True)), id="keys"),
        pytest.param(lambda row: {"score": row["score"]}, id="getitem"),
        pytest.param(lambda row: {"score": row.get("score")}, id="get"),
        pytest.param(lambda row: {"score": 3.0} if "score" in row else {}, id="contains"),
        pytest.param(dict, id="dict"),
        pytest.param(lambda row: {**row}, id="unpacked"),
        pytest.param(lambda row: dict.fromkeys(row, 3.0), id="iter"),
        pytest.param(lambda row: row or {}, id="bool"),
        pytest.param(lambda row: row, id="equal"),
        pytest.param(lambda row: {} if row != {"score": 3.0} else row, id="unequal"),
        pytest.param(lambda row: row | {}, id="or"),
        pytest.param(lambda row: row.copy(), id="copy"),
        pytest.param(lambda row: eval(repr(row)), id="repr"),  # noqa: S307
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda row: json.loads(json.dumps(row)), id="json"),
        pytest.param(lambda row: json.loads(json.dumps(row, indent=1)), id="json in Python"),
        pytest.param(lambda row: pickle.loads(pickle.dumps(row)), id="pickle"),  # noqa: S301
    ],
)
def test_every_way_of_reading_a_row_judges_first(read: Callable[[DeferredRow], object]) -> None:
    assert read(submit(WithJudge(FunctionJudge(echo)), "3")) == {"score": 3.0}


def test_rows_gathered_from_other_processes_are_plain_dicts() -> None:
    row = submit(WithJudge(FunctionJudge(echo)), "3")
    assert type(pickle.loads(pickle.dumps(row))) is dict  # noqa: S301


def test_a_judge_that_raises_costs_its_remaining_samples_and_not_the_run(logs: list[str]) -> None:
    def reply_or_raise(request: JudgeRequest) -> Outcome:
        if text_of(request) == "1":
            raise ZeroDivisionError("in a judge of another package")
        return reply(text_of(request))

    benchmark = WithJudge(FunctionJudge(reply_or_raise))
    rows = [submit(benchmark, str(n)) for n in range(4)]
    assert rows == [{"unscored": "unavailable"}] * 2 + [{"score": 2.0}, {"score": 3.0}]
    assert "ZeroDivisionError" in "".join(logs)
    assert "2 samples left" in "".join(logs)


def test_a_judge_that_cannot_be_opened_leaves_all_samples_unscored() -> None:
    assert submit(WithJudge(ValueError("no judge")), "3") == {"unscored": "unavailable"}


def test_threads_that_submit_and_read_lose_no_sample() -> None:
    benchmark = WithJudge(FunctionJudge(echo))
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda n: submit(benchmark, str(n)), range(200)))
        points = list(threads.map(dict, rows))
    assert points == [{"score": float(n)} for n in range(200)]
