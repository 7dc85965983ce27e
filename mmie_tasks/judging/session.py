"""The judging session of an evaluation: its judges, waiting samples and running batches.

The runner's hooks create one session per evaluation and pass it to the judges of the benchmarks.
Benchmarks with the same judge share one judge object, with its budget and its check. Everything
outside an evaluation uses `session_without_run`.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Mapping

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.log import warn
from mmie_tasks.judges.base import Judge, JudgeMisconfigured, Outcome, close_judge
from mmie_tasks.judges.choice import ChosenJudges, JudgeChoices, choose_judges, open_judge
from mmie_tasks.judges.openai.settings import OWN_ADDRESS_HINT
from mmie_tasks.judges.other_models import warn_of_others
from mmie_tasks.judges.panel import PanelJudge
from mmie_tasks.judges.registry import plugin_errors
from mmie_tasks.judging.batch import JudgedBatch, PendingSample, WaitingSamples
from mmie_tasks.judging.deferred import DeferredRow
from mmie_tasks.judging.served_model import ServedModel, shared_server
from mmie_tasks.record.reply import JudgeReply

CHECK_VALID_S = 900.0
"""How long a judge's check is valid, so that later benchmarks of a run do not repeat it."""


class JudgingSession:
    """The judges, waiting samples and running batches of one evaluation.

    Args:
        choices: The judges from ``--judge`` or the runner's launcher; by default none.
        environment: The environment for choosing and opening judges. By default it is a copy of
            the process's, so that a judge and its budget stay the same during the evaluation.
        on_outcome: Called with every outcome, for the runner's count of tokens.
        before_loading: Called before a judge loads a model into this process, to free memory.
        tested: The tested model if it is on a server; None otherwise.

    Attributes:
        batches: The running batches, and those that were stopped.
        judging: A lock, held while waiting samples are judged.
    """

    def __init__(
        self,
        choices: JudgeChoices | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        before_loading: Callable[[], object] = lambda: None,
        tested: ServedModel | None = None,
    ) -> None:
        self.choices = choices or {}
        self.environment = dict(os.environ) if environment is None else environment
        self.on_outcome = on_outcome
        self.tested = tested
        self.batches: list[JudgedBatch] = []
        self.judging = threading.Lock()
        self._before_loading = before_loading
        self._chosen: dict[object, ChosenJudges] = {}
        self._judges: dict[object, Judge] = {}
        self._checks: dict[int, tuple[float, int]] = {}  # by judge: valid until, images
        self._warned: set[tuple[int, str]] = set()  # judges with other models that reply for them
        self._waiting: dict[str, list[tuple[PendingSample, Mapping[str, DeferredRow]]]] = {}
        self._lock = threading.RLock()

    def choose(self, benchmark: str, default: str) -> ChosenJudges:
        """The result of `choose_judges`, cached because every sample needs it."""
        key = (benchmark, default, self._environment_key())
        if key not in self._chosen:
            self._chosen[key] = choose_judges(benchmark, default, self.environment, self.choices)
        return self._chosen[key]

    def open(self, choice: Choice) -> Judge:
        """The judge of a choice, opened once per environment. Sends no request.

        Raises:
            SettingWrong: There is no such judge or option, or a value is invalid.
        """
        key = (choice.name, frozenset(choice.options.items()), self._environment_key())
        with self._lock:
            if (opened := self._judges.get(key)) is None:
                opened = self._judges[key] = open_judge(choice, self.environment)
                opened.before_loading(self._before_loading)
            return opened

    def open_chosen(self, chosen: ChosenJudges) -> Judge:
        """The judge or panel of a benchmark."""
        members = [self.open(choice) for choice in chosen.judges]
        if len(members) == 1:
            return members[0]
        with self._lock:
            return self._judges.setdefault(tuple(map(id, members)), PanelJudge(members))

    def _environment_key(self) -> object:
        return frozenset(self.environment.items())

    def check(self, judge: Judge, max_images: int = 0) -> None:
        """Checks that a judge, or every judge of a panel, is usable.

        A check that passed less than `CHECK_VALID_S` ago, with as many images, is not repeated.
        Warns if the judge's server comes from the tested model's setting.

        Args:
            judge: A judge that this session opened.
            max_images: The most images in a request.

        Raises:
            JudgeMisconfigured: The judge cannot reply as set up, the tested model's server does not
                have it, or a plugin judge raised any error.
            DataBroken: The judge's cache file is unusable.
            SettingWrong: A panel has the same judge twice.
        """
        for member in judge.members:
            until_s, images = self._checks.get(id(member), (0.0, 0))
            if time.monotonic() >= until_s or max_images > images:
                self._check(member, max_images)
                self._checks[id(member)] = (time.monotonic() + CHECK_VALID_S, max_images)
        # The signature of a judge in this process may start its device before the tested model
        # forks. Such judges are compared by their options only, when they are chosen.
        signatures = [member.signature for member in judge.members if not member.in_process]
        if len(set(signatures)) < len(signatures):
            raise SettingWrong(
                "Two judges of the panel are the same: they differ in the port of a server, or in "
                "options that change no reply.",
                hint="another judge, or another model",
            )

    def _check(self, judge: Judge, max_images: int) -> None:
        shared = shared_server(judge, self.tested)
        if shared:
            warn(f"{shared}.", hint=OWN_ADDRESS_HINT)
        with plugin_errors(judge.name):
            judge.check(max_images)
            if shared and judge.access is not None:
                judge.access.check_listed(judge.model, JudgeMisconfigured, OWN_ADDRESS_HINT)
            if not judge.in_process:
                _ = judge.signature

    def add_outcome(self, judge: Judge, outcome: Outcome) -> None:
        """Reports an outcome, and warns once about each other model that replies for a judge."""
        self.on_outcome(outcome)
        if isinstance(outcome, JudgeReply) and (id(judge), outcome.model) not in self._warned:
            self._warned.add((id(judge), outcome.model))
            warn_of_others(judge.signature, [outcome.model])

    def add(self, benchmark: str, sample: PendingSample, rows: Mapping[str, DeferredRow]) -> None:
        """Adds a waiting sample."""
        with self._lock:
            self._waiting.setdefault(benchmark, []).append((sample, rows))

    def take(self, benchmark: str) -> WaitingSamples:
        """Removes and returns the waiting samples of a benchmark."""
        with self._lock:
            return self._waiting.pop(benchmark, [])

    def close(self) -> None:
        """Frees the memory of judges in this process, which can be used again."""
        for judge in list(self._judges.values()):
            close_judge(judge)

    def stop(self) -> str:
        """Stops all judging. Takes no lock.

        Returns:
            A clause that says how many replies are stored, or "nothing is being judged".
        """
        batches = list(self.batches)
        for batch in batches:
            batch.stop()
        return "; ".join(batch.stored() for batch in batches) or "nothing is being judged"


@functools.cache
def session_without_run() -> JudgingSession:
    """The session of everything in this process outside an evaluation.

    It follows changes of the environment, as a notebook expects.
    """
    return JudgingSession(environment=os.environ)
