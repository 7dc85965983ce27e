"""Runs that end while they are judged: the answers are kept, and Ctrl-C waits for no judge."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.judge_server import Body, JudgeServer
from support.loopback import HANG, Sent
from support.mmie_judge import by_category
from support.mmie_seam import KEY, TABLE, N, evaluate, printed, samples
from support.runner import CommandResult, Workplace, write
from support.sketch import write_users

ONE_AT_A_TIME = ",max_concurrency=1"
CLOCK = """
from lmms_eval import utils

utils.get_datetime_str = lambda timezone="": "20260102_030405"
MANIFESTS = ()
"""


@pytest.fixture
def writer() -> Iterator[JudgeServer]:
    """The tested model's server."""
    with JudgeServer("It ends well.") as server:
        yield server


def run(workplace: Workplace, writer: JudgeServer, judge: JudgeServer, *more: str) -> CommandResult:
    """A run of a model behind a server; the judge gets one request at a time."""
    return evaluate(
        workplace,
        *("--model", "openai", "--model_args", f"model=writer,base_url={writer.url},max_retries=1"),
        *more,
        url=judge.url + ONE_AT_A_TIME,
    )


def score(
    workplace: Workplace, judge: JudgeServer, ended: CommandResult, *more: str
) -> CommandResult:
    """The next run, with the options that the one before has printed."""
    (options,) = set(re.findall(r"`(--model predictions --model_args \S+)`", ended.output))
    return evaluate(workplace, *shlex.split(options), *more, url=judge.url)


def ends(
    workplace: Workplace, number: signal.Signals, judge: JudgeServer, after: int
) -> Callable[[Body], str | Sent]:
    """Replies of a judge, which gets silent when so many are stored, and the run a signal."""

    def says(body: Body) -> str | Sent:
        if len(judge) == after + 1:
            workplace.wait_for_replies(after)
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


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="kill-9"),
        pytest.param(signal.SIGINT, 130, id="ctrl-c"),
    ],
)
def test_an_ended_run_is_scored_from_what_it_left(
    workplace: Workplace,
    judge: JudgeServer,
    writer: JudgeServer,
    number: signal.Signals,
    status: int,
) -> None:
    begin_all_runs_in_one_second(workplace)
    users = write_users(workplace.folder / "users", local="A local one")
    tasks = ("--tasks", "mmie,local", "--include_path", str(users))
    judge.says(ends(workplace, number, judge, 2))
    result = run(workplace, writer, judge, *tasks)
    assert result.status == status, result.output
    if number == signal.SIGINT:
        (line,) = (line for line in result.output.splitlines() if "stopped" in line)
        assert f" 2 of {N} replies are stored" in line
        assert "`--model predictions --model_args model=writer,path=out/writer`" in line
    assert len(writer) == N + 4
    (path,), (local,) = saved(workplace), saved(workplace, "local")
    answers = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [answer["resps"] for answer in answers] == [["It ends well."]] * N
    assert local.read_text(encoding="utf-8").count("\n") == 4  # a task of the runner's own kind
    judge.says(by_category)
    result = score(workplace, judge, result, *tasks)
    assert result.status == 0, result.output
    assert printed(result)["coverage"] == 100.0
    assert len(writer) == N + 4  # the tested model is not asked again
    assert len(judge) == N + 1  # one was in flight
    assert {line["filtered_resps"] for line in samples(workplace)} == {"It ends well."}
    assert saved(workplace) == [path]  # of the run that ended; the next one has its log
    assert [folder.name for folder in (workplace.folder / "out").iterdir()] == ["writer"]
    assert re.search(r"^mmie +writer ", result.output, re.MULTILINE)


def test_each_process_saves_its_answers(workplace: Workplace, judge: JudgeServer) -> None:
    judge.says(ends(workplace, signal.SIGKILL, judge, 2))
    ended = evaluate(workplace, url=judge.url + ONE_AT_A_TIME, processes=2)
    names = [path.name.partition("_rank") for path in saved(workplace)]
    assert [rank[0] for _, _, rank in names] == ["0", "1"]
    assert len({(date, rank[1:]) for date, _, rank in names}) == 1  # of one run
    judge.says(by_category)
    result = score(workplace, judge, ended)
    assert TABLE.items() <= printed(result).items(), result.output


def test_saved_answers_of_two_processes_are_removed_when_the_samples_are_logged(
    workplace: Workplace, judge: JudgeServer
) -> None:
    seen: list[list[Path]] = []

    def says(body: Body) -> str:
        seen.append(saved(workplace))
        return by_category(body)

    judge.says(says)
    result = evaluate(workplace, url=judge.url, processes=2)
    assert result.status == 0, result.output
    assert [len(paths) for paths in seen] == [2] * N  # before the first request
    assert saved(workplace) == []
    assert len(samples(workplace)) == N


def run_with(
    workplace: Workplace, judge: JudgeServer, *options: str, key: str = KEY
) -> CommandResult:
    """A run with these options alone for what it saves."""
    return workplace.run(
        *("lmms-eval", "--model", "predictions", "--model_args", "path=answers.json"),
        *("--tasks", "mmie"),
        *(
            "--launcher_args",
            f"name=openai,model=judge-model,base_url={judge.url},prompts=words.json",
        ),
        *options,
        MMIE_DATA="data",
        OPENAI_API_KEY=key,
    )


def test_without_logged_samples_the_answers_stay_and_the_last_line_names_them(
    workplace: Workplace, judge: JudgeServer
) -> None:
    output = run_with(workplace, judge, "--output_path", "out").output
    (path,) = saved(workplace)
    assert str(path.relative_to(workplace.folder)) in output.rstrip().splitlines()[-1]
    assert output.index("without `--log_samples`") < output.index("Running generate_until")


def test_what_will_be_lost_is_said_once_and_before_the_judge_is_asked_anything(
    workplace: Workplace, judge: JudgeServer
) -> None:
    result = run_with(workplace, judge, key="wrong")
    assert result.status == 1
    assert result.output.count("without `--output_path`") == 1
    assert result.output.index("without `--output_path`") < result.output.index("correct the key")


DEAF = """
import time
from pathlib import Path

from mmie_tasks.extend import Judge

class Deaf(Judge):
    signature = "judge:deaf|model:deaf"

    def ask(self, requests):
        Path("asked").touch()
        time.sleep(1_000)
        yield from ()
"""


def test_ctrl_c_does_not_wait_for_a_judge_that_cannot_be_stopped(workplace: Workplace) -> None:
    write(workplace.plugins / "deaf.py", DEAF)
    workplace.install_entry_point("mmie_tasks.judges", "deaf", "deaf:Deaf")
    interrupted_at = math.nan

    def interrupt() -> None:
        nonlocal interrupted_at
        while not (workplace.folder / "asked").exists():
            time.sleep(0.05)
        interrupted_at = time.monotonic()
        (pid,) = workplace.pids("fork_server.py")
        os.kill(pid, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = evaluate(workplace, "--launcher_args", "name=deaf,prompts=words.json")
    thread.join()
    assert result.status == 130, result.output
    assert time.monotonic() - interrupted_at < 10
    assert "0 of 6 replies are stored" in result.output
