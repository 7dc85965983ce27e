"""The judge with a cache: processes that are killed, and processes that share one. Real sockets."""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.judge_asking import judge_at, question_of, requests
from support.judge_server import completion

from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile

AT_ONCE = 4
SCRIPT = f"""
import sys, time
from pathlib import Path
from support.judge_asking import judge_at, requests
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile

url, path, count, pause_s = sys.argv[1:]
judge = judge_at(url, max_concurrency={AT_ONCE})
judge = CachedJudge(judge, CacheFile(Path(path)))
print("started", flush=True)
sys.stdin.readline()
for index, outcome in judge.ask(requests(int(count))):
    print(index, outcome.text, flush=True)
    time.sleep(float(pause_s))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.sqlite3"


def test_an_absurd_usage_counts_as_none_and_the_reply_is_stored(server, path):
    server.says(
        {**completion("5"), "usage": {"prompt_tokens": 10**30, "completion_tokens": 10**30}}
    )
    for is_cached in (False, True):
        replies = [
            reply
            for _, reply in CachedJudge(judge_at(server.url), CacheFile(path)).ask(requests(3))
        ]
        assert [(reply.cached, reply.usage.input_tokens) for reply in replies] == [
            (is_cached, 0)
        ] * 3
    assert len(server) == 3


def start(server, path, count, pause_s=0.0):
    """A process that waits for a line, then asks, with a pause after every outcome."""
    command = [sys.executable, "-c", SCRIPT, server.url, str(path), str(count), str(pause_s)]
    pipe, folder = subprocess.PIPE, Path(__file__).parents[2]
    process = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "started\n"
    return process


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def stored(path):
    with CacheFile(path).open() as replies:
        return len(list(replies.read_all()))


def test_a_killed_process_loses_at_most_the_replies_in_flight(server, path):
    with start(server, path, 60, pause_s=60) as process:  # it handles one reply, and no more
        go(process)
        wait_until(lambda: server.statuses[200] >= 40)
        process.kill()
    received = server.statuses[200]
    assert received - stored(path) <= AT_ONCE
    outcomes = dict(CachedJudge(judge_at(server.url), CacheFile(path)).ask(requests(60)))
    assert len(outcomes) == 60
    assert len(server) <= 60 + AT_ONCE


def test_two_processes_share_the_replies_that_arrive(server, path):
    server.says(lambda body: f"reply to {question_of(body)}")
    server.delay_s = 0.02
    with ExitStack() as stack:
        processes = [stack.enter_context(start(server, path, 150)) for _ in range(2)]
        go(processes[0])
        wait_until(lambda: len(server) >= 50)
        go(processes[1])
        outputs = [process.communicate()[0] for process in processes]
    every_reply = sorted(f"{index} reply to question {index}" for index in range(150))
    assert [sorted(output.splitlines()) for output in outputs] == [every_reply] * 2
    assert len(server) <= 300 - 50 + AT_ONCE


def test_a_reply_that_another_process_stored_meanwhile_is_not_requested(server, path):
    judge = CachedJudge(judge_at(server.url, max_concurrency=1), CacheFile(path))
    running = judge.ask(requests(3))
    next(running)
    sent = len(server)
    rest = CachedJudge(judge_at(server.url), CacheFile(path))
    list(rest.ask(requests(3)))
    assert [outcome.text for _, outcome in running] == ["5"] * 2
    assert len(server) <= sent + 3
