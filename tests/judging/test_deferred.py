from __future__ import annotations

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from loguru import logger
from support.judges import SayingJudge, echo, reply, text_of

from mmie_tasks.judges.base import Judge, JudgeRequest, JudgeUnavailable, Outcome
from mmie_tasks.judging.deferred import Case, DeferredRows, Docket, Rows
from mmie_tasks.judging.session import Judged, Question


def rows_of(judged: Judged) -> Rows:
    if judged.reply is None:
        assert judged.failure is not None
        return {"points": {"unscored": judged.failure.reason}, "failed": {"why": "x"}}
    return {"points": {"score": float(judged.reply.text)}}


def case(text: str) -> Case:
    question = Question(request=JudgeRequest(parts=(text,), max_tokens=9))
    return Case(question=question, rows_of=rows_of, metrics=("points",))


def docket(judge: Judge, seen: list[Outcome] | None = None) -> Docket:
    return Docket(lambda: judge, "", (seen if seen is not None else []).append)


def test_submitting_asks_nobody_and_the_first_reading_asks_for_all_at_once() -> None:
    judge = SayingJudge(echo)
    waiting = docket(judge)
    rows = [waiting.submit(case(str(n))) for n in range(50)]
    assert judge.calls == []
    assert dict(rows[7].items()) == {"points": {"score": 7.0}}
    assert [len(call) for call in judge.calls] == [50]
    assert [row["points"] for row in rows] == [{"score": float(n)} for n in range(50)]
    assert len(judge.calls) == 1


def test_a_copy_made_before_is_filled_in_too_and_is_json() -> None:
    waiting = docket(SayingJudge(echo))
    rows, logged = waiting.submit(case("3")), {}
    logged.update(rows)
    assert logged == {"points": {}}
    waiting.settle()
    assert json.dumps(logged) == '{"points": {"score": 3.0}}'


def test_a_row_that_is_known_late_is_there_when_read() -> None:
    rows = docket(SayingJudge(lambda _: JudgeUnavailable("down"))).submit(case("3"))
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
def test_however_rows_are_read_they_are_judged_first(read: object) -> None:
    assert read(docket(SayingJudge(echo)).submit(case("3"))) == {"score": 3.0}  # type: ignore[operator]


def test_what_is_gathered_from_other_processes_are_plain_dicts() -> None:
    rows = docket(SayingJudge(echo)).submit(case("3"))
    assert type(pickle.loads(pickle.dumps(rows))) is dict  # noqa: S301


def test_a_judge_that_breaks_costs_what_it_left_and_not_the_run() -> None:
    def say(request: JudgeRequest) -> Outcome:
        if text_of(request) == "1":
            raise ZeroDivisionError("in somebody's judge")
        return reply(text_of(request))

    waiting, lines = docket(SayingJudge(say)), []
    rows = [waiting.submit(case(str(n))) for n in range(4)]
    sink = logger.add(lambda message: lines.append(str(message)))
    found = [row["points"] for row in rows]
    logger.remove(sink)
    assert found == [{"unscored": "unavailable"}] * 2 + [{"score": 2.0}, {"score": 3.0}]
    assert "ZeroDivisionError" in "".join(lines)
    assert "2 samples left" in "".join(lines)


def test_a_judge_that_cannot_even_be_opened_leaves_all_unscored() -> None:
    def no_judge() -> Judge:
        raise ValueError("no judge")

    rows = Docket(no_judge, "", lambda _: None).submit(case("3"))
    assert rows["points"] == {"unscored": "unavailable"}


def test_several_threads_that_submit_and_read_lose_nothing() -> None:
    waiting = docket(SayingJudge(echo))
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda n: waiting.submit(case(str(n))), range(200)))
        read = list(threads.map(lambda row: row["points"], rows))
    assert read == [{"score": float(n)} for n in range(200)]


def test_judging_at_once_gives_plain_rows_and_runs_side_by_side() -> None:
    together = threading.Barrier(4, timeout=60)  # breaks unless four are judged at the same time

    def say(request: JudgeRequest) -> Outcome:
        together.wait()
        return reply(text_of(request))

    now = docket(SayingJudge(say))
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda n: now.judge_now(case(str(n))), range(4)))
    assert rows == [{"points": {"score": float(n)}} for n in range(4)]
    assert not any(isinstance(row, DeferredRows) for row in rows)


def test_every_outcome_is_reported() -> None:
    seen: list[Outcome] = []
    waiting = docket(SayingJudge(echo), seen)
    waiting.submit(case("3"))
    waiting.settle()
    assert seen == [reply("3")]
