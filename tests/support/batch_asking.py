"""A Batch API judge with a loopback server, and short waiting times.

Only the tests about giving up shorten the patience: a busy machine may stall.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import Judge, JudgeRequest, Outcome
from mmie_tasks.judges.openai.batch import BatchJudge
from mmie_tasks.judges.openai.batch_store import BatchPace, Limits
from mmie_tasks.judges.openai.settings import Settings
from support.judge_asking import settings_of

KEY = "thisisnotarealkey"  # not in the form of a key, so that only its value can be redacted
MODEL = "gpt-4o-2024-11-20"

# A process that sends its arguments as requests and prints the outcomes.
PROGRAM = """
import json, sys
from support.batch_asking import Asking
from pathlib import Path
url, folder, *texts = sys.argv[1:]
print(json.dumps(Asking(url, Path(folder)).texts(*texts)), flush=True)
"""


def fast(**more: Any) -> BatchPace:
    defaults = {"first_poll_s": 0.01, "longest_poll_s": 0.02, "patience_s": 60.0}
    return BatchPace(**(defaults | {"retries": Pace(base_s=0.01, cap_s=0.02)} | more))


IMPATIENT: dict[str, Any] = {"pace": fast(patience_s=0.3), "patience_s": 0.3}
"""For tests of a server that is down for good."""


def request(text: str, *images: Path, **more: Any) -> JudgeRequest:
    return JudgeRequest(parts=(text, *images), max_tokens=64, **more)


def outcome_text(outcome: Outcome) -> str:
    """The text of a reply, or the class of an error and its first line."""
    if isinstance(outcome, Exception):
        return f"{type(outcome).__name__}: {str(outcome).splitlines()[0]}"
    return outcome.text


@dataclass
class Asking:
    """Opens judges with one server, and sends requests."""

    url: str
    folder: Path

    def settings(self, **more: Any) -> Settings:
        environment = {"MMIE_TASKS_CACHE": str(self.folder), "OPENAI_API_KEY": KEY}
        options = {"model": MODEL, "base_url": self.url, "price": "2.5/10", "patience": 60.0}
        return replace(settings_of(environment, **options), **more)

    def judge(self, limits: Limits | None = None, pace: BatchPace | None = None, **more) -> Judge:
        return BatchJudge(self.settings(**more), limits=limits, pace=pace or fast())

    def outcomes(self, *requests: JudgeRequest, **more: Any) -> list[Outcome]:
        numbered = list(self.judge(**more).ask(requests))
        assert sorted(index for index, _ in numbered) == list(range(len(requests)))
        return [outcome for _, outcome in sorted(numbered, key=lambda pair: pair[0])]

    def texts(self, *texts: str, **more: Any) -> list[str]:
        return [outcome_text(outcome) for outcome in self.outcomes(*map(request, texts), **more)]

    def remaining_suffixes(self) -> list[str]:
        """The suffixes of the files in the folder."""
        return [path.suffix for path in sorted(self.folder.rglob("*")) if path.suffix]


@dataclass
class SeparateProcesses:
    """Sends requests in separate processes."""

    asking: Asking

    def start(self, *texts: str) -> subprocess.Popen[str]:
        tests = Path(__file__).parents[1]
        command = [sys.executable, "-c", PROGRAM, self.asking.url, str(self.asking.folder), *texts]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=tests, **pipes)

    def result(self, process: subprocess.Popen[str]) -> list[str]:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return json.loads(out)

    def killed(self, *texts: str, when: Callable[[], bool]) -> None:
        """Start a process, and kill it without warning as soon as a condition holds."""
        process = self.start(*texts)
        watch(process, when)
        process.kill()
        process.communicate(timeout=300)


def watch(process: subprocess.Popen[str], until: Callable[[], bool]) -> None:
    """Return as soon as a condition holds, while the process runs."""
    deadline = time.monotonic() + 300
    while not until():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def echo(body: dict[str, Any]) -> str:
    """The text of the request, in capitals."""
    return str(body["messages"][0]["content"][0]["text"]).upper()
