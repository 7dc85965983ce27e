"""The judging session of an evaluation: its judges, the samples that wait for them, and what they
are judging at the moment.

The hooks of the runner make one session for each evaluation and hand it to the judges of its
benchmarks. Benchmarks that use the same judge share one object of it, and so its budget and its
check. Everything outside an evaluation has one session: `session_without_run`.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from mmie_tasks.judges.base import InProcess, Outcome
from mmie_tasks.judges.choice import JudgeChoices, open_judge
from mmie_tasks.judges.registry import JudgeChoice
from mmie_tasks.judging.batch import JudgedBatch
from mmie_tasks.judging.read_variables import ReadVariables
from mmie_tasks.judging.sample_queue import SampleQueue
from mmie_tasks.judging.served_model import ServedModel
from mmie_tasks.judging.shared_judge import SharedJudge


class UsesSession(Protocol):
    """The judge of a benchmark: `mmie_tasks.judging.benchmark_judge.BenchmarkJudge`."""

    session: JudgingSession | None


@dataclass(frozen=True, slots=True)
class _OpenedJudge:
    shared: SharedJudge
    variables: ReadVariables  # that were read when it was opened


class JudgingSession:
    """The judges of one evaluation, the samples that wait for them, and what they are judging.

    Args:
        choices: The judges of ``--judge`` or of the runner's launcher; by default none.
        environment: Read when a judge is chosen or opened; by default the process's.
        on_outcome: Called with every outcome: the runner keeps a ledger of tokens.
        before_loading: Called before a judge loads a model into this process, to free memory.
        reopens_judges: Whether a judge is opened anew when a variable that it has read has another
            value. In an evaluation a judge stays what it was at the start, with one budget.
        sync: Whether each sample is judged before ``process_results`` returns.
        tested: The tested model, if it is on a server, which may be the judge's, too.
    """

    def __init__(
        self,
        choices: JudgeChoices | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        before_loading: Callable[[], object] = lambda: None,
        reopens_judges: bool = False,
        sync: bool = False,
        tested: ServedModel | None = None,
    ) -> None:
        self.choices = choices or {}
        self.environment = os.environ if environment is None else environment
        self.on_outcome = on_outcome
        self.one_model_lock = threading.Lock()  # of panels with several models in this process
        self.sync = sync
        self.tested = tested
        self._before_loading = before_loading
        self.batches: list[JudgedBatch] = []  # that are being judged
        self._reopens_judges = reopens_judges
        self._judges: dict[tuple[str, frozenset[tuple[str, str]]], _OpenedJudge] = {}
        self._queues: dict[UsesSession, SampleQueue] = {}
        self._opening = threading.Lock()

    def open(self, choice: JudgeChoice) -> SharedJudge:
        """The judge of a choice: one object for all benchmarks, with one budget. Sends no request.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        key = (choice.name, frozenset(choice.options.items()))
        with self._opening:
            opened = self._judges.get(key)
            if opened is not None and not (
                self._reopens_judges and opened.variables.have_changed()
            ):
                return opened.shared
            variables = ReadVariables(self.environment)
            shared = SharedJudge(open_judge(choice, variables), choice.name)
            if isinstance(judge := shared.wrapped, InProcess):
                judge.before_loading(self._before_loading)
            self._judges[key] = _OpenedJudge(shared, variables)
            return shared

    def queue(self, judge: UsesSession) -> SampleQueue:
        """The samples that wait for the judge of a benchmark."""
        return self._queues.setdefault(judge, SampleQueue())

    def close(self) -> None:
        """Free the memory of every judge that runs in this process; they can be used again."""
        for opened in list(self._judges.values()):
            opened.shared.close()

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


@functools.cache
def session_without_run() -> JudgingSession:
    """The session of everything in this process that is outside an evaluation.

    What is set when a judge is asked holds, as a notebook expects: ``MMIE_TASKS_JUDGE`` is read at
    each call, and a judge that was opened before is used again only if the variables that it has
    read, such as its API key, still have the same values. Other variables change nothing. A judge
    of another package that reads ``os.environ`` itself is not opened anew.
    """
    return JudgingSession(reopens_judges=True)
