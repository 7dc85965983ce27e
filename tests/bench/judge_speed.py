"""Speed, CPU time and memory of the `openai` judge: ``python tests/bench/judge_speed.py``.

The judge server runs on the loopback interface in another process. It replies after a second, takes
20 requests at once, and answers 429 to the others; the judge does not know the 20.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.judge_asking import judge_of

from mmie_tasks.judges.base import Judge, JudgeRequest
from mmie_tasks.record.reply import JudgeReply

TESTS = Path(__file__).resolve().parents[1]
AT_MOST = 20
PROMPT = "Grade the response to the instruction, part by part. " * 16
ENVIRONMENT = {"OPENAI_API_KEY": "none"}


@contextmanager
def server(*arguments: str) -> Iterator[str]:
    """A judge server in another process; gives its base URL."""
    command = [sys.executable, "-m", "support.judge_server", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def images(folder: Path, n: int, size_bytes: int) -> list[Path]:
    """Files that begin like a JPEG; they are never decoded."""
    dice = random.Random(1)  # noqa: S311 - noise
    paths = [folder / f"{i}.jpg" for i in range(n)]
    for path in paths:
        path.write_bytes(b"\xff\xd8\xff" + dice.randbytes(size_bytes))
    return paths


def requests_with(paths: Sequence[Path]) -> list[JudgeRequest]:
    return [JudgeRequest(parts=(PROMPT, path), max_tokens=2000) for path in paths]


def ask_all(judge: Judge, requests: Sequence[JudgeRequest]) -> None:
    replies = [outcome for _, outcome in judge.ask(requests) if isinstance(outcome, JudgeReply)]
    assert len(replies) == len(requests), f"{len(replies)} of {len(requests)} replies"


def seconds_of_ours(requests: Sequence[JudgeRequest], *server_arguments: str) -> float:
    with server("--delay_s", "1", "--at_most", str(AT_MOST), *server_arguments) as url:
        judge = judge_of(ENVIRONMENT, model="judge-model", base_url=url)
        began = time.perf_counter()
        ask_all(judge, requests)
        return time.perf_counter() - began


def cpu_of_ours_ms(requests: Sequence[JudgeRequest]) -> float:
    with server() as url:
        judge = judge_of(ENVIRONMENT, model="judge-model", base_url=url)
        ask_all(judge, requests[:40])
        began = time.process_time()
        ask_all(judge, requests)
        return 1000 * (time.process_time() - began) / len(requests)


def peak_mib(n: int, size_bytes: int) -> float:
    """The peak memory of a fresh process that has n requests pending."""
    command = [sys.executable, __file__, "--memory", f"{n}x{size_bytes}"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.findall(r"peak ([\d.]+)", ended.stdout)[0])


def print_peak_memory(n: int, size_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, server() as url:
        judge = judge_of(ENVIRONMENT, model="judge-model", base_url=url)
        ask_all(judge, requests_with(images(Path(folder), n, size_bytes)))
    # Not getrusage: a child inherits the peak of its parent.
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(f"peak {int(peak_kib) / 1024:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.memory:
        print_peak_memory(*map(int, chosen.memory.split("x")))
        return
    n, bound = chosen.n, chosen.n / AT_MOST
    with tempfile.TemporaryDirectory() as folder:
        requests = requests_with(images(Path(folder), n, 100_000))
        print(f"{n} requests with an image of 100 kB, 1 s per reply, at most {AT_MOST} at once")
        ours = seconds_of_ours(requests)
        waiting = seconds_of_ours(requests, "--retry_after", "1")
        print(f"  ours                      {ours:6.1f} s  {ours / bound:.2f} x the bound")
        print(f"  ours, with Retry-After: 1 {waiting:6.1f} s  {waiting / bound:.2f} x the bound")
        print(f"CPU per request: {cpu_of_ours_ms(requests):.2f} ms")
    few, many = peak_mib(200, 200_000), peak_mib(2000, 200_000)
    print(f"peak memory: {few:.0f} MiB with 200 pending, {many:.0f} MiB with 2,000")


if __name__ == "__main__":
    main()
