"""A Batch API judge with a loopback server, and short waiting times."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mmie_tasks.http.sender import Pace
from mmie_tasks.judges.base import Judge, JudgeRequest, Outcome
from mmie_tasks.judges.openai.batch import BatchJudge, Limits
from mmie_tasks.judges.openai.settings import OpenAIOptions
from support.hub_process import FORKS

KEY = "thisisnotarealkey"  # not in the form of a key, so that only its value can be redacted
MODEL = "gpt-4o-2024-11-20"
FAST = Limits(poll_s=0.01, patience_s=60.0)
IMPATIENT = replace(FAST, patience_s=0.15, call_retries=0)
"""For tests of a server that is down for good."""


def request(text: str, *images: Path) -> JudgeRequest:
    return JudgeRequest(parts=(text, *images), max_tokens=64)


def outcome_text(outcome: Outcome) -> str:
    """The text of a reply, or the class of an error and its first line."""
    if isinstance(outcome, Exception):
        return f"{type(outcome).__name__}: {str(outcome).splitlines()[0]}"
    return outcome.text


@dataclass
class Asking:
    """Opens judges with one server, and sends requests; `folder` is that of the cache."""

    url: str
    folder: Path

    def judge(self, limits: Limits = FAST, key: str | None = KEY, **options: Any) -> Judge:
        environment = {
            "MMIE_TASKS_CACHE": str(self.folder),
            **({"OPENAI_API_KEY": key} if key else {}),
        }
        options = {"model": MODEL, "base_url": self.url, "patience": 0.1, **options}
        options = {"price_in": 2.5, "price_out": 10.0, "batch": True, **options}
        return BatchJudge(
            OpenAIOptions(**options), environment, limits=limits, pace=Pace(check_s=(0.01,))
        )

    def outcomes(self, *requests: JudgeRequest, **more: Any) -> list[Outcome]:
        numbered = list(self.judge(**more).ask(requests))
        assert sorted(index for index, _ in numbered) == list(range(len(requests)))
        return [outcome for _, outcome in sorted(numbered, key=lambda pair: pair[0])]

    def texts(self, *texts: str, **more: Any) -> list[str]:
        return [outcome_text(outcome) for outcome in self.outcomes(*map(request, texts), **more)]

    @property
    def notes(self) -> list[Path]:
        """The files in the folder."""
        return [path for path in sorted(self.folder.rglob("*")) if path.is_file()]

    def killed(self, *texts: str, when: Callable[[], bool]) -> None:
        """Send requests in another process, and kill it without warning when a condition holds."""
        _, sent = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=_send, args=(sent, self, texts))
        process.start()
        deadline = time.monotonic() + 300
        while not when():
            assert process.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.kill()
        process.join(timeout=300)
        assert process.exitcode == -signal.SIGKILL


def _send(pipe: Connection, asking: Asking, texts: Sequence[str]) -> None:
    pipe.send(asking.texts(*texts))


def echo(body: dict[str, Any]) -> str:
    """The text of the request, in capitals."""
    return str(body["messages"][0]["content"][0]["text"]).upper()
