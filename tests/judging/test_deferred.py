from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest
from support.judges import FunctionJudge, echo, reply, text_of

from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.judges.base import Judge, JudgeRequest, JudgeUnavailable, Outcome
from mmie_tasks.judging.batch import PendingSample
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.deferred import DeferredRows, MetricRows, RowsWithPlainScore
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.judging.shared_judge import OpenJudges, SharedJudge
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.reply import JudgeResult


def grade(result: JudgeResult) -> Verdicts:
    verdict = result.verdict(lambda text: Scored(float(text)))
    return Verdicts(official=verdict, robust=verdict)


def make_rows(judged: Judged) -> MetricRows:
    match judged.verdicts.official:
        case Unscored(reason=reason):
            return {"points": {"unscored": reason}, "failed": {"why": "x"}}
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

    def judges(self, _: JudgingSession | None = None) -> OpenJudges:
        if isinstance(self._judge, Exception):
            raise self._judge
        return OpenJudges(judges=(SharedJudge(self._judge),))


def submit(benchmark: BenchmarkJudge, text: str) -> DeferredRows:
    rows = benchmark.submit(sample(text), plain=lambda _: {})
    assert isinstance(rows, DeferredRows)
    return rows


def test_submitting_sends_nothing_and_the_first_read_sends_all_requests_at_once() -> None:
    judge = FunctionJudge(echo)
    benchmark = WithJudge(judge)
    rows = [submit(benchmark, str(n)) for n in range(50)]
    assert judge.calls == []
    assert dict(rows[7].items()) == {"points": {"score": 7.0}}
    assert [len(call) for call in judge.calls] == [50]
    assert [row["points"] for row in rows] == [{"score": float(n)} for n in range(50)]
    assert len(judge.calls) == 1


def test_a_copy_made_before_judging_is_filled_in_too_and_is_json() -> None:
    benchmark = WithJudge(FunctionJudge(echo))
    rows, logged = submit(benchmark, "3"), {}
    logged.update(rows)
    assert logged == {"points": {}}
    assert rows["points"] == {"score": 3.0}
    assert json.dumps(logged) == '{"points": {"score": 3.0}}'


def test_dict_update_copies_a_subclass_of_dict_without_calling_its_methods() -> None:
    """What `DeferredRows` relies on of CPython."""

    class Unreadable(dict[str, int]):
        def keys(self) -> NoReturn:
            raise AssertionError("read while it was copied")

        items = values = __getitem__ = get = keys  # type: ignore[assignment]

    class Iterating(Unreadable):
        def __iter__(self) -> Iterator[str]:
            return super().__iter__()

    logged: dict[str, int] = {}
    logged.update(Unreadable(points=3))
    assert logged == {"points": 3}
    with pytest.raises(AssertionError, match="while it was copied"):
        logged.update(Iterating(points=4))


def test_a_row_that_only_judging_adds_is_there_when_read() -> None:
    rows = submit(WithJudge(FunctionJudge(lambda _: JudgeUnavailable("down"))), "3")
    assert dict(rows.items()) == {"points": {"unscored": "unavailable"}, "failed": {"why": "x"}}


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda rows: dict(rows.items())["points"], id="items"),
        pytest.param(lambda rows: next(iter(rows.values())), id="values"),
        pytest.param(lambda rows: rows["points"], id="getitem"),
        pytest.param(lambda rows: rows.get("points"), id="get"),
        pytest.param(lambda rows: pickle.loads(pickle.dumps(rows))["points"], id="pickle"),  # noqa: S301
    ],
)
def test_every_way_of_reading_rows_judges_first(read: object) -> None:
    assert read(submit(WithJudge(FunctionJudge(echo)), "3")) == {"score": 3.0}  # type: ignore[operator]


def test_rows_gathered_from_other_processes_are_plain_dicts() -> None:
    rows = submit(WithJudge(FunctionJudge(echo)), "3")
    assert type(pickle.loads(pickle.dumps(rows))) is dict  # noqa: S301


def test_a_judge_that_raises_costs_its_remaining_samples_and_not_the_run(logs: list[str]) -> None:
    def reply_or_raise(request: JudgeRequest) -> Outcome:
        if text_of(request) == "1":
            raise ZeroDivisionError("in a judge of another package")
        return reply(text_of(request))

    benchmark = WithJudge(FunctionJudge(reply_or_raise))
    rows = [submit(benchmark, str(n)) for n in range(4)]
    points = [row["points"] for row in rows]
    assert points == [{"unscored": "unavailable"}] * 2 + [{"score": 2.0}, {"score": 3.0}]
    assert "ZeroDivisionError" in "".join(logs)
    assert "2 samples left" in "".join(logs)


def test_a_judge_that_cannot_be_opened_leaves_all_samples_unscored() -> None:
    rows = submit(WithJudge(ValueError("no judge")), "3")
    assert rows["points"] == {"unscored": "unavailable"}


def test_threads_that_submit_and_read_lose_no_sample() -> None:
    benchmark = WithJudge(FunctionJudge(echo))
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda n: submit(benchmark, str(n)), range(200)))
        points = list(threads.map(lambda row: row["points"], rows))
    assert points == [{"score": float(n)} for n in range(200)]


def test_synchronous_judging_gives_plain_rows_and_runs_in_parallel() -> None:
    barrier = threading.Barrier(4, timeout=60)  # breaks unless four are judged at the same time

    def reply_together(request: JudgeRequest) -> Outcome:
        barrier.wait()
        return reply(text_of(request))

    benchmark = WithJudge(FunctionJudge(reply_together))
    benchmark.session = JudgingSession(sync=True)
    with ThreadPoolExecutor(4) as threads:
        submitted = threads.map(lambda n: benchmark.submit(sample(str(n)), lambda _: {}), range(4))
        rows = list(submitted)
    assert rows == [{"points": {"score": float(n)}} for n in range(4)]
    assert not any(isinstance(row, DeferredRows) for row in rows)


def test_a_plain_score_is_copied_into_the_log_and_is_not_a_row() -> None:
    rows, logged = RowsWithPlainScore({"points": {"points": 3.0}}, {"score": 0.5}), {}
    logged.update(rows)
    assert logged == {"score": 0.5, "points": {"points": 3.0}}
    assert dict(rows.items()) == {"points": {"points": 3.0}}
