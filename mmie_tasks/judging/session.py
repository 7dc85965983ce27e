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
"""How long the check of a judge holds: later benchmarks of a run do not repeat it."""


class JudgingSession:
    """The judges of one evaluation, the samples that wait for them, and what they are judging.

    Args:
        choices: The judges of ``--judge`` or of the runner's launcher; by default none.
        environment: Read when a judge is chosen or opened; by default the process's, as it is now,
            so that a judge stays what it was at the start, with one budget.
        on_outcome: Called with every outcome: the runner keeps a ledger of tokens.
        before_loading: Called before a judge loads a model into this process, to free memory.
        sync: Whether each sample is judged before ``process_results`` returns.
        tested: The tested model, if it is on a server, which may be the judge's, too.

    Attributes:
        batches: What is being judged.
        judging: Held while the samples that wait are judged.
    """

    def __init__(
        self,
        choices: JudgeChoices | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        before_loading: Callable[[], object] = lambda: None,
        sync: bool = False,
        tested: ServedModel | None = None,
    ) -> None:
        self.choices = choices or {}
        self.environment = dict(os.environ) if environment is None else environment
        self.on_outcome = on_outcome
        self.sync = sync
        self.tested = tested
        self.batches: list[JudgedBatch] = []
        self.judging = threading.Lock()
        self._before_loading = before_loading
        self._chosen: dict[object, ChosenJudges] = {}
        self._judges: dict[object, Judge] = {}
        self._checks: dict[int, tuple[float, int]] = {}  # by judge: valid until, pictures
        self._warned: set[tuple[int, str]] = set()  # of these models that reply for a judge
        self._waiting: dict[str, list[tuple[PendingSample, Mapping[str, DeferredRow]]]] = {}
        self._lock = threading.RLock()

    def choose(self, benchmark: str, default: str) -> ChosenJudges:
        """The judges of a benchmark, as `choose_judges`; looked up for each sample, so kept."""
        key = (benchmark, default, self._environment_key())
        if key not in self._chosen:
            self._chosen[key] = choose_judges(benchmark, default, self.environment, self.choices)
        return self._chosen[key]

    def open(self, choice: Choice) -> Judge:
        """The judge of a choice: one object for all benchmarks, with one budget. Sends no request.

        It is opened anew if the environment has changed since.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        key = (choice.name, frozenset(choice.options.items()), self._environment_key())
        with self._lock:
            if (opened := self._judges.get(key)) is None:
                opened = self._judges[key] = open_judge(choice, self.environment)
                opened.before_loading(self._before_loading)
            return opened

    def open_chosen(self, chosen: ChosenJudges) -> Judge:
        """The judge of a benchmark, or the panel of its judges; raises as `open`."""
        members = [self.open(choice) for choice in chosen.judges]
        if chosen.panel is None:
            return members[0]
        key = (*map(id, members), chosen.panel)
        with self._lock:
            return self._judges.setdefault(key, PanelJudge(members, chosen.panel))

    def _environment_key(self) -> object:
        return frozenset(self.environment.items())

    def check(self, judge: Judge, max_images: int = 0) -> None:
        """Check that a judge, or every judge of a panel, can be used.

        A check with as many pictures that passed less than `CHECK_VALID_S` ago is not repeated. The
        log warns of a server that is the judge's only because it is the tested model's.

        Args:
            judge: Opened by this session.
            max_images: The most pictures that a request has.

        Raises:
            JudgeMisconfigured: It cannot reply as it is set up, or the tested model's server does
                not have it, or, of another package, it raised anything else.
            DataBroken: Its cache file is unusable.
            SettingWrong: A panel has the same judge twice.
        """
        for member in judge.members:
            until_s, images = self._checks.get(id(member), (0.0, 0))
            if time.monotonic() >= until_s or max_images > images:
                self._check(member, max_images)
                self._checks[id(member)] = (time.monotonic() + CHECK_VALID_S, max_images)
        # The signature of a judge in this process may start its device, and the tested model may
        # still have to fork: such judges are compared by their options only, where they are chosen.
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
                from mmie_tasks.http.model_list import check_listed  # and the OpenAI SDK: a second

                check_listed(judge.access, judge.model, JudgeMisconfigured, OWN_ADDRESS_HINT)
            if not judge.in_process:
                _ = judge.signature

    def add_outcome(self, judge: Judge, outcome: Outcome) -> None:
        """Report an outcome of a judge, and warn once of each other model that replies for it."""
        self.on_outcome(outcome)
        if isinstance(outcome, JudgeReply) and (id(judge), outcome.model) not in self._warned:
            self._warned.add((id(judge), outcome.model))
            warn_of_others(judge.signature, [outcome.model])

    def add(self, benchmark: str, sample: PendingSample, rows: Mapping[str, DeferredRow]) -> None:
        """Let a sample of a benchmark wait."""
        with self._lock:
            self._waiting.setdefault(benchmark, []).append((sample, rows))

    def take(self, benchmark: str) -> WaitingSamples:
        """The samples of a benchmark that wait; afterwards none does."""
        with self._lock:
            return self._waiting.pop(benchmark, [])

    def close(self) -> None:
        """Free the memory of every judge that runs in this process; they can be used again."""
        for judge in list(self._judges.values()):
            close_judge(judge)

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

    What is set when a judge is asked holds, as a notebook expects.
    """
    return JudgingSession(environment=os.environ)
