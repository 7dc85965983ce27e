"""Runs that end while they are judged: answers and replies are kept."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path

from support.judge_server import Body, JudgeServer
from support.loopback import HANG, Sent
from support.mmie_data import contents
from support.mmie_judge import by_category
from support.mmie_seam import N, evaluate, printed, samples
from support.runner import Workplace, write
from support.sketch import write_users

from mmie_tasks.answers.saved import read_answers

ONE_AT_A_TIME = ",max_concurrency=1"
CLOCK = """
from lmms_eval import utils

utils.get_datetime_str = lambda timezone="": "20260102_030405"
MANIFESTS = ()
"""


def ends(
    workplace: Workplace,
    number: signal.Signals,
    judge: JudgeServer,
    after: int,
    sent: list[float] | None = None,
) -> Callable[[Body], str | Sent]:
    """Replies of a judge, which gets silent when so many are stored, and the run a signal; the time
    is added to `sent`.
    """

    def says(body: Body) -> str | Sent:
        if len(judge) == after + 1:
            workplace.wait_for_replies(after)
            if sent is not None:
                sent.append(time.monotonic())
            for pid in workplace.pids("fork_server.py"):
                os.kill(pid, number)
            return HANG
        return by_category(body)

    return says


def begin_all_runs_in_one_second(workplace: Workplace) -> None:
    """Stop the clock that names the files of a run, as for jobs of an array."""
    write(workplace.plugins / "stopped_clock.py", CLOCK)
    workplace.install_entry_point("lmms_eval.models", "clock", "stopped_clock:MANIFESTS")


def saved(workplace: Workplace, task: str = "mmie") -> list[Path]:
    return sorted((workplace.folder / "out").rglob(f"*_answers_{task}.jsonl"))


def test_a_run_that_ctrl_c_ends_is_scored_from_what_it_left(  # noqa: PLR0915 - one run
    workplace: Workplace, judge: JudgeServer
) -> None:
    begin_all_runs_in_one_second(workplace)
    users = write_users(workplace.folder / "users", local="A local one")
    sent: list[float] = []
    judge.says(ends(workplace, signal.SIGINT, judge, 2, sent))
    tasks = ("--tasks", "mmie,local", "--include_path", str(users))
    with JudgeServer("It ends well.") as writer:
        model_args = f"model=writer,base_url={writer.url},max_retries=1"
        model = ("--model", "openai", "--model_args", model_args)
        ended = evaluate(workplace, *model, *tasks, url=judge.url + ONE_AT_A_TIME)
        assert len(writer) == N + 4
    assert ended.status == 130, ended.output
    assert time.monotonic() - sent[0] < 60  # the judge is silent for longer
    (line,) = (line for line in ended.output.splitlines() if "stopped" in line)
    assert f" 2 of {N} replies are stored" in line
    assert "`--model predictions --model_args model=writer,path=out/writer`" in line
    assert "Traceback" not in ended.output
    (path,), (local,) = saved(workplace), saved(workplace, "local")
    answers = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [answer["resps"] for answer in answers] == [["It ends well."]] * N
    assert local.read_text(encoding="utf-8").count("\n") == 4  # a task of the runner's own kind
    judge.says(by_category)
    (options,) = set(re.findall(r"`(--model predictions --model_args \S+)`", ended.output))
    result = evaluate(workplace, *shlex.split(options), *tasks, url=judge.url)
    assert result.status == 0, result.output
    assert printed(result)["coverage"] == 100.0
    assert len(judge) == N + 1  # one was in flight
    assert {line["filtered_resps"] for line in samples(workplace)} == {"It ends well."}
    assert path in saved(workplace)  # and that of the second run
    assert [folder.name for folder in (workplace.folder / "out").iterdir()] == ["writer"]
    assert re.search(r"^mmie +writer ", result.output, re.MULTILINE)


def test_the_first_process_saves_the_answers_of_all_before_the_first_request(
    workplace: Workplace, judge: JudgeServer
) -> None:
    judge.says(ends(workplace, signal.SIGKILL, judge, 2))
    evaluate(workplace, url=judge.url + ONE_AT_A_TIME, processes=2)
    assert len(judge) <= 2 + 2  # one of each process was in flight
    answers = read_answers(saved(workplace)).answers
    assert {answer.id for answer in answers} == {sample_id for sample_id, _, _ in contents(N)}
    assert len(answers) == N
