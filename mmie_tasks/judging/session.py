"""The judging session of an evaluation: its judges, and what they are judging at the moment.

The hooks of the runner make one session for each evaluation and hand it to the judges of its
benchmarks. Benchmarks that use the same judge share one object of it, and so its budget and its
check.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from mmie_tasks.judges.base import InProcess, Outcome
from mmie_tasks.judges.choice import JudgeChoices, open_judge
from mmie_tasks.judges.registry import JudgeChoice
from mmie_tasks.judging.batch import JudgedBatch
from mmie_tasks.judging.shared_judge import SharedJudge


class UsesSession(Protocol):
    """The judge of a benchmark: `mmie_tasks.judging.benchmark_judge.BenchmarkJudge`."""

    session: JudgingSession | None


class JudgingSession:
    """The judges of one evaluation, and what they are judging at the moment.

    Args:
        choices: The judges of ``--judge`` or of the runner's launcher; by default none.
        environment: Read when a judge is chosen or opened; by default the process's.
        on_outcome: Called with every outcome: the runner keeps a ledger of tokens.
        before_loading: Called before a judge loads a model into this process, to free memory.
    """

    def __init__(
        self,
        choices: JudgeChoices | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        before_loading: Callable[[], object] = lambda: None,
    ) -> None:
        self.choices = choices or {}
        self.environment = os.environ if environment is None else environment
        self.on_outcome = on_outcome
        self.one_model_lock = threading.Lock()  # of panels with several models in this process
        self._before_loading = before_loading
        self.batches: list[JudgedBatch] = []  # that are being judged
        self._judges: dict[tuple[str, frozenset[tuple[str, str]]], SharedJudge] = {}
        self._opening = threading.Lock()

    def open(self, choice: JudgeChoice) -> SharedJudge:
        """The judge of a choice: one object for all benchmarks, with one budget. Sends no request.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        key = (choice.name, frozenset(choice.options.items()))
        with self._opening:
            if key not in self._judges:
                shared = SharedJudge(open_judge(choice, self.environment), choice.name)
                if isinstance(judge := shared.wrapped, InProcess):
                    judge.before_loading(self._before_loading)
                self._judges[key] = shared
            return self._judges[key]

    def close(self) -> None:
        """Free the memory of every judge that runs in this process; they can be used again."""
        for shared in list(self._judges.values()):
            shared.close()

    @contextmanager
    def used_by(self, judges: Iterable[UsesSession]) -> Iterator[None]:
        """Hand the session to the judges of benchmarks, until the context ends."""
        judges = list(judges)
        for judge in judges:
            judge.session = self
        try:
            yield
        finally:
            for judge in judges:
                judge.session = None

    def stop(self) -> str:
        """Have all judging end. Takes no lock: the handler of a signal may call it.

        Returns:
            How many replies are stored, as a clause; "nothing is being judged" without any judging.
        """
        batches = list(self.batches)
        for batch in batches:
            batch.stop()
        return "; ".join(batch.stored() for batch in batches) or "nothing is being judged"


def session_without_run() -> JudgingSession:
    """The session of everything outside an evaluation; a new one when the environment changes."""
    return _session_in(frozenset(os.environ.items()))


@functools.lru_cache(maxsize=1)
def _session_in(environment: frozenset[tuple[str, str]]) -> JudgingSession:
    return JudgingSession(environment=dict(environment))
