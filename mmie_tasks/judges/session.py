"""The judging session of an evaluation, and the judge of a benchmark in it.

The runner's hooks create one session per evaluation and pass it to the judges of the benchmarks.
Benchmarks with the same judge share one judge object, with its budget and its check. Everything
outside an evaluation uses `session_without_run`.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.log import warn
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge, JudgeMisconfigured, Outcome, close_judge
from mmie_tasks.judges.batch import (
    STOP_S,
    DeferredRow,
    JudgedBatch,
    MetricRows,
    PendingSample,
    WaitingSamples,
)
from mmie_tasks.judges.choice import (
    ChosenJudges,
    JudgeChoices,
    choose_judges,
    is_paper_judge,
    open_judge,
)
from mmie_tasks.judges.openai.settings import OWN_ADDRESS_HINT
from mmie_tasks.judges.other_models import warn_of_others
from mmie_tasks.judges.panel import PanelJudge
from mmie_tasks.judges.served_model import ServedModel, judges_itself, shared_server
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import Signature

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

    def open(self, choice: Choice, benchmark: str = "") -> Judge:
        """The judge of a choice, opened once per environment. Sends no request.

        A judge whose replies are not cached, such as `replay`, is opened for each benchmark: a
        recording may hold another judge's replies for each.

        Raises:
            SettingWrong: There is no such judge or option, or a value is invalid.
        """
        key = (choice.name, frozenset(choice.options.items()), self._environment_key())
        with self._lock:
            opened = self._judges.get(key) or self._judges.get((*key, benchmark))
            if opened is None:
                opened = open_judge(choice, self.environment)
                self._judges[key if opened.is_cached else (*key, benchmark)] = opened
                opened.before_loading(self._before_loading)
            return opened

    def open_chosen(self, chosen: ChosenJudges, benchmark: str) -> Judge:
        """The judge or panel of a benchmark."""
        members = [self.open(choice, benchmark) for choice in chosen.judges]
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
        signatures = [
            Signature.of_judges([member.signature])
            for member in judge.members
            if not member.in_process
        ]
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
        with registry.plugin_errors(judge.name):
            if judge.cache is not None:
                judge.cache.check()
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


class BenchmarkJudge:
    """The judge or panel of one benchmark: how it is chosen, checked and used.

    Args:
        benchmark: The benchmark's name, as in ``--judge mmie=JUDGE``.
        default: The default judge, in the form that `parse_choice` reads.
        title: The title of the progress bar; by default the benchmark's name.
        paper: The paper's judge; by default `default`. See `is_paper_judge`.
        max_images: The most images in a request. The check before a run sends images, so that a
            server that refuses them stops the run.

    Attributes:
        session: The session of the evaluation, with its judges and waiting samples, set by the
            runner's hooks; None outside one. It is an attribute because the runner calls
            ``process_results`` with only a sample, in its own threads (``evaluator.py``,
            ``_thread_map_ordered``).
    """

    def __init__(
        self, benchmark: str, default: str, *, title: str = "", paper: str = "", max_images: int = 0
    ) -> None:
        self.benchmark = benchmark
        self.default = default
        self.session: JudgingSession | None = None
        self.max_images = max_images
        self._title = title or benchmark
        self._paper = paper

    @property
    def _session(self) -> JudgingSession:
        return self.session or session_without_run()

    def choices(self, session: JudgingSession | None = None) -> ChosenJudges:
        """The result of `choose_judges` for a session, by default the current one."""
        return (session or self._session).choose(self.benchmark, self.default)

    def judge(self, session: JudgingSession | None = None) -> Judge:
        """The judge or panel of a session, by default the current one.

        Raises:
            SettingWrong: There is no such judge or option, or a value is invalid.
        """
        session = session or self._session
        return session.open_chosen(self.choices(session), self.benchmark)

    def signature(self) -> Signature:
        """The signature, with ``paper_judge``, and ``judges_itself`` for a judge under test."""
        judge, tested = self.judge(), self._session.tested
        signature = Signature.of_judges([one.signature for one in judge.members])
        is_papers = is_paper_judge(self.choices(), signature, self.default, self._paper)
        fields = {"paper_judge": "yes" if is_papers else "no"}
        ones = (judges_itself(member, tested) for member in judge.members)
        if itself := next(filter(None, ones), None):
            fields["judges_itself"] = itself.replace("|", " ")
        return replace(signature, benchmark=fields)

    def machine(self) -> str | None:
        """The machine that computed replies in this process; None if there are none."""
        return self.judge().machine()

    def check(self) -> None:
        """Checks that every judge is usable, before anything is generated.

        Raises:
            SettingWrong: A choice is invalid, or a panel has a judge twice.
            MmieTasksError: A judge is unusable.
        """
        self._session.check(self.judge(), self.max_images)

    def submit(self, sample: PendingSample) -> MetricRows:
        """Rows of a sample that are filled in when they are read."""
        session = self._session
        judge_pending = functools.partial(self._judge_pending, session)
        rows = {metric: DeferredRow(judge_pending) for metric in sample.metrics}
        session.add(self.benchmark, sample, rows)
        return rows

    def _judge_pending(self, session: JudgingSession) -> None:
        """Judges all waiting samples of a session; never raises, or the run would be lost."""
        with session.judging:
            if waiting := session.take(self.benchmark):
                self._judge_batch(session, waiting)

    def _judge_batch(self, session: JudgingSession, waiting: WaitingSamples) -> None:
        # Judging has its own thread: Ctrl-C does not reach a thread that waits for a server.
        batch = JudgedBatch(waiting, self._title, session.add_outcome)
        thread = ThreadPoolExecutor(1, thread_name_prefix="judging")
        job = thread.submit(batch.judge, functools.partial(self.judge, session))
        session.batches.append(batch)
        try:
            job.result()
        except KeyboardInterrupt:  # replies so far are in the cache; the others are not waited for
            batch.stop()
            wait([job], STOP_S)
            raise
        finally:
            thread.shutdown(wait=False)  # its only job is done or given up
        session.batches.remove(batch)  # a stopped one stays, for `JudgingSession.stop`


@contextmanager
def judging_in(session: JudgingSession, judges: Iterable[BenchmarkJudge]) -> Iterator[None]:
    """Sets the session of the judges until the context ends."""
    judges = list(judges)
    for judge in judges:
        judge.session = session
    try:
        yield
    finally:
        for judge in judges:
            judge.session = None
