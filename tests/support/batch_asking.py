"""A Batch API judge with a loopback server, and short waiting times.

Only the tests about giving up shorten the patience: a busy machine may stall.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from loguru import logger

from mmie_tasks.http.pace import Pace
from mmie_tasks.judges.base import Judge, JudgeRequest, Outcome
from mmie_tasks.judges.openai.batch import BatchJudge
from mmie_tasks.judges.openai.batch_files import Limits
from mmie_tasks.judges.openai.batch_provider import BatchPace
from mmie_tasks.judges.openai.settings import Settings
from support.hub_process import FORKS
from support.judge_asking import settings_of

KEY = "thisisnotarealkey"  # not in the form of a key, so that only its value can be redacted
MODEL = "gpt-4o-2024-11-20"


def fast(**more: Any) -> BatchPace:
    defaults = {"poll_s": 0.01, "patience_s": 60.0, "list_lag_s": 0.1, "list_poll_s": 0.05}
    return BatchPace(**(defaults | {"retries": Pace(base_s=0.01, cap_s=0.02)} | more))


IMPATIENT: dict[str, Any] = {"pace": fast(patience_s=0.15), "patience_s": 0.15}
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
        options = {"model": MODEL, "base_url": self.url, "patience": 60.0}
        settings = settings_of(environment, price_in=2.5, price_out=10.0, **options)
        names = ("api_key", "api_type", "base_url")
        access = {name: more.pop(name) for name in names if name in more}
        return replace(settings, access=replace(settings.access, **access), **more)

    def judge(self, limits: Limits | None = None, pace: BatchPace | None = None, **more) -> Judge:
        return BatchJudge(self.settings(**more), limits=limits, pace=pace or fast())

    def outcomes(self, *requests: JudgeRequest, **more: Any) -> list[Outcome]:
        numbered = list(self.judge(**more).ask(requests))
        assert sorted(index for index, _ in numbered) == list(range(len(requests)))
        return [outcome for _, outcome in sorted(numbered, key=lambda pair: pair[0])]

    def texts(self, *texts: str, **more: Any) -> list[str]:
        return [outcome_text(outcome) for outcome in self.outcomes(*map(request, texts), **more)]

    def remaining_suffixes(self) -> list[str]:
        """The suffixes of the files in the folder, without locks."""
        suffixes = [path.suffix for path in sorted(self.folder.rglob("*"))]
        return [suffix for suffix in suffixes if suffix not in ("", ".lock")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A process that sends requests; the lines of its log and then their texts come through a
    pipe.
    """

    process: BaseProcess
    messages: Connection


@dataclass
class SeparateProcesses:
    """Sends requests in separate processes, forks of one that has imported the client."""

    asking: Asking

    def start(self, *texts: str) -> Sending:
        received, sent = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=_send, args=(sent, self.asking, texts))
        process.start()
        sent.close()
        return Sending(process=process, messages=received)

    def result(self, sending: Sending) -> list[str]:
        while isinstance(texts := sending.messages.recv(), str):
            pass  # a line of the log
        sending.process.join(timeout=300)
        return texts

    def killed(self, *texts: str, when: Callable[[], bool]) -> None:
        """Start a process, and kill it without warning as soon as a condition holds."""
        sending = self.start(*texts)
        watch(sending, when)
        sending.process.kill()
        sending.process.join(timeout=300)
        assert sending.process.exitcode == -signal.SIGKILL


def _send(messages: Connection, asking: Asking, texts: Sequence[str]) -> None:
    """What a separate process does: it passes on the lines it logs, and at the end the texts."""
    logger.remove()
    logger.add(lambda line: messages.send(str(line)))
    messages.send(asking.texts(*texts))


def watch(sending: Sending, until: Callable[[], bool]) -> None:
    """Return as soon as a condition holds, while the process runs."""
    deadline = time.monotonic() + 300
    while not until():
        assert sending.process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def echo(body: dict[str, Any]) -> str:
    """The text of the request, in capitals."""
    return str(body["messages"][0]["content"][0]["text"]).upper()
