"""Judging sessions: the judges of a run, the samples that wait for them, and verdicts.

A benchmark has one `BenchmarkJudge`. The hooks of the runner make one `JudgingSession` for each
evaluation and hand it to the benchmarks' judges. Benchmarks that use the same judge share one
object of it, and so its budget and its check.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from loguru import logger

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.options import choice_setting
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import (
    InProcess,
    Judge,
    JudgeRequest,
    Outcome,
    SelfChecking,
    SettlesSignature,
    Stoppable,
)
from mmie_tasks.judges.cache import CachedJudge, unwrapped
from mmie_tasks.judges.choice import JudgeChoices, choose_judges, is_paper_judge, open_judge
from mmie_tasks.judges.panel_choice import ChosenJudges
from mmie_tasks.judges.registry import JudgeChoice, parse_choice, plugin_errors
from mmie_tasks.judging.deferred import DeferredRows, MetricRows, RowsWithPlainScore
from mmie_tasks.judging.progress import Progress
from mmie_tasks.judging.requests import CheckedRequest, GradedRequest, judge_all
from mmie_tasks.record.panel import Judged, MemberResult, combine
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.signature import Panel, signature_text

SYNC_VARIABLE = "MMIE_TASKS_SYNC"
CHECK_VALID_S = 900.0
"""How long the check of a judge holds: later benchmarks of a run do not repeat it."""

_STOP_S = 1.0
"""How long judges are waited for that have been told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSample:
    """A sample that waits for its judge.

    Attributes:
        request: The request to the judge, with the readers of its reply.
        make_rows: Makes the sample's rows, by metric, from the verdicts and replies.
        metrics: The metrics that the sample has in any case; there may be more.
    """

    request: GradedRequest
    make_rows: Callable[[Judged], MetricRows]
    metrics: Sequence[str]


_Waiting: TypeAlias = Sequence[tuple[PendingSample, DeferredRows]]


@dataclass(slots=True)
class SharedJudge:
    """A judge that all benchmarks of a session use together, and its last check.

    Attributes:
        judge: The judge.
        name: As the user chose it, for messages.
        checked_until_s: Until when, on the monotonic clock, the last check holds.
    """

    judge: Judge
    name: str = ""
    checked_until_s: float = 0.0

    @property
    def wrapped(self) -> Judge:
        """The judge without the cache around it."""
        return unwrapped(self.judge)

    @property
    def in_process(self) -> bool:
        """Whether its model runs in this process and takes its memory."""
        return isinstance(self.wrapped, InProcess)

    def check(self) -> None:
        """Check that the judge can be used, unless a check passed less than `CHECK_VALID_S` ago.

        Raises:
            JudgeMisconfigured: It cannot reply as it is set up, or, of another package, it raised
                anything else.
            DataBroken: Its cache file is unusable.
        """
        if time.monotonic() < self.checked_until_s:
            return
        with plugin_errors(self.name):
            if isinstance(self.judge, SelfChecking):
                self.judge.check()
            if not self.in_process:  # there, the signature may start a device
                _ = self.judge.signature
        self.checked_until_s = time.monotonic() + CHECK_VALID_S

    def close(self) -> None:
        """Free the judge's memory if it runs in this process; it can be used again.

        A failure is logged: no result may be lost by it.
        """
        if isinstance(judge := self.wrapped, InProcess):
            try:
                judge.close()
            except Exception as error:  # noqa: BLE001 - a plugin, or a device that is out of order
                logger.warning(
                    f"The judge's memory could not be freed: {type(error).__name__}: {error}"
                )


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
        self.batches: list[_JudgedBatch] = []  # that are being judged
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
    def used_by(self, judges: Iterable[BenchmarkJudge]) -> Iterator[None]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJudges:
    """The judges of a benchmark, opened.

    Attributes:
        judges: One, or those of the panel in order.
        names: A short name for each, for log lines; one empty name without a panel.
        panel: How several judges make one verdict; None for a single judge.
    """

    judges: tuple[SharedJudge, ...]
    names: tuple[str, ...] = ("",)
    panel: Panel | None = None

    @property
    def signature(self) -> str:
        """Everything of the judges that can move a score."""
        signatures = [shared.judge.signature for shared in self.judges]
        return signature_text(*([self.panel.signature] if self.panel else []), *signatures)


class BenchmarkJudge:
    """The judge of one benchmark, or its panel of judges, and the samples that wait for it.

    Args:
        benchmark: See below.
        default: See below.
        title: Names the benchmark in the progress bar; by default its name.
        paper: The judge of the benchmark's paper, in the form of `default`; by default that. See
            `is_paper_judge`.
        check_setup: Checks what else judging needs, such as the official prompts; raises a
            `MmieTasksError`.

    Attributes:
        benchmark: The benchmark's name, as in ``--judge mmie=JUDGE``.
        default: The judge unless the user chooses another, as `choice.parse_choice` reads it.
        session: The session of the evaluation, set by the runner's hooks; None outside one.
        sync: Whether each sample is judged before ``process_results`` returns.
    """

    def __init__(
        self,
        benchmark: str,
        default: str,
        *,
        title: str = "",
        paper: str = "",
        check_setup: Callable[[], None] = lambda: None,
    ) -> None:
        self.benchmark = benchmark
        self.default = default
        self.session: JudgingSession | None = None
        self.sync = False
        self._title = title or benchmark
        self._paper = paper
        self._check_setup = check_setup
        self._queue: list[tuple[PendingSample, DeferredRows]] = []
        self._queue_lock = threading.Lock()
        self._judging_lock = threading.Lock()

    @property
    def _session(self) -> JudgingSession:
        return self.session or session_without_run()

    def choices(self) -> ChosenJudges:
        """The judges that this run uses, and which setting chose them; as `choose_judges`."""
        session = self._session
        return choose_judges(self.benchmark, self.default, session.environment, session.choices)

    def judges(self) -> OpenJudges:
        """The judges themselves; raises as `choose_judges` and `JudgingSession.open`."""
        chosen = self.choices()
        judges = tuple(map(self._session.open, chosen.judges))
        if chosen.panel is None:
            return OpenJudges(judges=judges)
        names = []
        for number, choice in enumerate(chosen.judges, start=1):
            model = Path(choice.options.get("model", "")).name  # of a path, the last part
            name = f"{choice.name}:{model}" if model else choice.name
            names.append(f"judge {number} of {len(judges)} ({name})")
        return OpenJudges(judges=judges, names=tuple(names), panel=chosen.panel)

    def signature(self) -> str:
        """Everything of the judge or panel that can move a score, and whether it is the paper's
        judge.
        """
        signature = self.judges().signature
        is_papers = is_paper_judge(self.choices(), signature, self.default, self._paper)
        return signature_text(signature, paper_judge="yes" if is_papers else "no")

    def machine(self) -> str | None:
        """What computed the replies of judges in this process; None if nothing did."""
        machines = [
            judge.machine()
            for judge in (shared.wrapped for shared in self.judges().judges)
            if isinstance(judge, SettlesSignature)
        ]
        return "; ".join(filter(None, machines)) or None

    def check(self) -> None:
        """Check that every judge can be used, before anything is generated.

        Raises:
            SettingWrong: A choice, or ``MMIE_TASKS_SYNC``, is invalid, or a judge is in a panel
                twice.
            MmieTasksError: As `check_setup` and `SharedJudge.check`.
        """
        self.check_setup()
        judges = self.judges().judges
        for shared in judges:
            shared.check()
        if len(judges) == 1:
            return
        # The signature of a judge in this process may start its device, and the tested model may
        # still have to fork: such judges are compared by their options only, where the panel is
        # read.
        signatures = [shared.judge.signature for shared in judges if not shared.in_process]
        if len(set(signatures)) < len(signatures):
            raise SettingWrong(
                "Two judges of the panel are the same: they differ in options that change no "
                "reply.",
                hint="another judge, or another model",
            )

    def check_setup(self) -> None:
        """Check what judging needs beside the judges, such as the official prompts.

        Raises:
            MmieTasksError: It is missing or broken, or ``MMIE_TASKS_SYNC`` is invalid.
        """
        _ = self._is_sync
        self._check_setup()

    @property
    def _is_sync(self) -> bool:
        hint = f"`export {SYNC_VARIABLE}=1` judges each sample at once, as `--baseline` needs it"
        return self.sync or choice_setting(os.environ, SYNC_VARIABLE, "0", "1", hint=hint) == "1"

    def submit(
        self,
        sample: PendingSample,
        plain: Callable[[MetricRows], Mapping[str, object]] = lambda _: {},
    ) -> Mapping[str, object]:
        """The rows of a sample: filled in when they are read, or before this returns if `sync`.

        Args:
            sample: The sample.
            plain: Makes the plain score that a sample's log has next to its rows if `sync`, for
                ``--baseline``; by default none.
        """
        if self._is_sync:  # here, threads may judge in parallel
            deferred_rows = DeferredRows(sample.metrics, lambda: None)
            self._judge_batch([(sample, deferred_rows)], title="")
            rows = {name: row for name, row in deferred_rows.items() if isinstance(row, dict)}
            return RowsWithPlainScore(rows, plain(rows))
        deferred_rows = DeferredRows(sample.metrics, self.judge_pending)
        with self._queue_lock:
            self._queue.append((sample, deferred_rows))
        return deferred_rows

    def judge_pending(self) -> None:
        """Judge all samples of the queue together. Never raises: the run would be lost.

        A second thread waits until the first has judged; then the queue is empty.
        """
        with self._judging_lock:
            with self._queue_lock:
                waiting, self._queue = self._queue, []
            if waiting:
                self._judge_batch(waiting, self._title)

    def _judge_batch(self, waiting: _Waiting, title: str) -> None:
        """Fill in every row, whatever a judge raises.

        Judging has a thread of its own, because Ctrl-C does not reach a thread that waits for a
        server.
        """
        session = self._session
        batch = _JudgedBatch(waiting, title, session)
        thread = ThreadPoolExecutor(1, thread_name_prefix="judging")
        job = thread.submit(batch.judge, self.judges)
        session.batches.append(batch)
        try:
            job.result()
        except KeyboardInterrupt:  # replies so far are in the cache, the others are not awaited
            batch.stop()
            wait([job], _STOP_S)
            raise
        finally:
            session.batches.remove(batch)
            thread.shutdown(wait=False)  # its only job is done, or not awaited


class _JudgedBatch:
    """Samples that are judged together; a sample's rows are filled in as soon as its last judge has
    replied.

    Judges on servers are asked at the same time, those in this process one after the other.
    """

    def __init__(self, waiting: _Waiting, title: str, session: JudgingSession) -> None:
        self._waiting = waiting
        self._title = title
        self._session = session
        self._stopped = threading.Event()  # set when no further reply is awaited
        self._open = OpenJudges(judges=())
        self._results: list[dict[int, MemberResult]] = [{} for _ in waiting]  # by judge
        self._unfilled = dict.fromkeys(range(len(waiting)))
        self._stored = 0  # replies that are in a cache
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Await no further reply, from any thread. Takes no lock: a signal may call it."""
        self._stopped.set()
        for shared in self._open.judges:
            if isinstance(judge := shared.wrapped, Stoppable):
                judge.stop()

    def stored(self) -> str:
        """How many replies are in a cache, as a clause."""
        total = len(self._waiting) * len(self._open.judges)
        if total and not any(isinstance(shared.judge, CachedJudge) for shared in self._open.judges):
            return f"none of {total:,} replies is stored, because there is no cache"
        return f"{self._stored:,} of {total:,} replies are stored"

    def judge(self, open_judges: Callable[[], OpenJudges]) -> None:
        """Open the judges and ask each about every sample; those in this process share a thread.

        An error leaves the samples that are left without a score.
        """
        try:
            self._open = open_judges()
            judges = self._open.judges
            with ThreadPoolExecutor(1) as in_turn, ThreadPoolExecutor(len(judges)) as together:
                jobs = [
                    (in_turn if shared.in_process else together).submit(self._ask, position)
                    for position, shared in enumerate(judges)
                ]
                for job in jobs:
                    job.result()
        except Exception as error:  # noqa: BLE001 - a plugin: its samples are lost, not the run
            logger.opt(exception=error).error(
                "Judging ended early; {} samples left without a score.", len(self._unfilled)
            )
            for index in list(self._unfilled):
                self._fill(index, [self._member("", index, _ended_early(error))], None)

    def _ask(self, position: int) -> None:
        """Ask a judge about every sample; one that raises loses only its own verdicts."""
        try:
            self._ask_judge(position)
        except Exception as error:  # noqa: BLE001 - a plugin
            if self._stopped.is_set():
                return
            missing = [
                index for index, results in enumerate(self._results) if position not in results
            ]
            name = self._open.names[position] or "the judge"
            logger.opt(exception=error).error(
                "{} ended early; {} samples left without its verdict.",
                name[0].upper() + name[1:],
                len(missing),
            )
            for index in missing:
                self._add(position, index, _ended_early(error))

    def _ask_judge(self, position: int) -> None:
        shared, name = self._open.judges[position], self._open.names[position]
        requests = [sample.request for sample, _ in self._waiting]
        title = f"{self._title}, {name}" if self._title and name else self._title
        models = sum(other.in_process for other in self._open.judges)
        takes_turns = shared.in_process and models > 1
        with (
            self._session.one_model_lock if takes_turns else nullcontext(),
            Progress(title, len(requests), self._report, shared.judge) as bar,
        ):
            try:
                if self._stopped.is_set():
                    return
                for index, result in judge_all(shared.judge, requests, bar.update):
                    self._add(position, index, result)
                    if self._stopped.is_set():
                        return
            finally:
                if takes_turns:
                    shared.close()  # the next model needs the memory

    def _report(self, outcome: Outcome) -> None:
        with self._lock:
            self._session.on_outcome(outcome)

    def _add(self, position: int, index: int, result: JudgeResult) -> None:
        """Add a judge's result; fill in the sample's rows once every judge has one."""
        judge = self._open.judges[position].judge
        member = self._member(judge.signature, index, result)
        with self._lock:
            self._stored += len(result.replies) * isinstance(judge, CachedJudge)
            results = {**self._results[index], position: member}
            if len(results) == len(self._open.judges):
                members = [results[number] for number in sorted(results)]
                self._fill(index, members, self._open.panel)
            self._results[index] = results

    def _member(self, judge: str, index: int, result: JudgeResult) -> MemberResult:
        sample, _ = self._waiting[index]
        return MemberResult(judge=judge, result=result, verdicts=sample.request.grade(result))

    def _fill(self, index: int, members: Sequence[MemberResult], panel: Panel | None) -> None:
        verdicts = combine(members, panel) if panel else members[0].verdicts
        sample, rows = self._waiting[index]
        rows.fill(sample.make_rows(Judged(verdicts=verdicts, members=tuple(members), panel=panel)))
        del self._unfilled[index]


def _ended_early(error: Exception) -> JudgeResult:
    detail = f"the judge ended early: {type(error).__name__}: {error}"
    return JudgeResult(failure=Unscored("unavailable", detail))


# Without a run

RequestContent: TypeAlias = str | tuple[str | Path, ...]
"""A text, or texts and paths of image files in the order in which the judge reads them."""


def judge(
    name: str,
    requests: RequestContent | list[RequestContent],
    *,
    max_tokens: int = 2000,
    **options: object,
) -> list[JudgeResult]:
    """Ask a judge one request, or many at once, without a run of lmms-eval.

    Replies are cached as in a run: a repeated request costs nothing. The judge is checked before
    the first request, at most every 15 minutes; a judge that runs in this process is closed
    afterwards, so pass it all requests together.

    Args:
        name: ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``, as for ``--judge``.
        requests: One request is a text (`str`), or a tuple of texts and image files:
            ``("What does it show?", Path("a.png"))``. A list holds any number of requests. A `str`
            is always text, a `Path` always an image file, which is sent byte for byte.
        max_tokens: The longest reply, in tokens of the judge.
        **options: Options of the judge, as of ``--judge_args``: ``base_url="http://HOST:8000/v1"``.

    Returns:
        A list with one result per request, in order. ``result.reply`` has ``text``, ``model``,
        ``usage``, ``finish`` and ``cached``. Without a reply it is None, and ``result.failure`` has
        ``reason`` and ``detail``: a request that fails raises nothing.

    Raises:
        MmieTasksError: The judge cannot be used as it is set up; the message has a hint.
        TypeError: A request has another form.
    """
    checked = [
        CheckedRequest(request=JudgeRequest(parts=_parts(request), max_tokens=max_tokens))
        for request in (requests if isinstance(requests, list) else [requests])
    ]
    choice = parse_choice(name, "`judge`")
    choice = replace(
        choice, options={**choice.options, **{key: str(value) for key, value in options.items()}}
    )
    return judge_together(session_without_run().open(choice), checked, f"with {choice.name}")


def judge_together(
    shared: SharedJudge, requests: Sequence[CheckedRequest], title: str
) -> list[JudgeResult]:
    """Check a judge and send it requests, with a progress bar; close it if it runs in this process.

    Args:
        shared: The judge.
        requests: Any number; the judge gets them together.
        title: For the progress bar.

    Returns:
        One result per request, in order.

    Raises:
        MmieTasksError: The judge cannot be used as it is set up.
    """
    shared.check()
    try:
        with Progress(title, len(requests), judge=shared.judge) as progress:
            results = dict(judge_all(shared.judge, requests, progress.update))
    finally:
        shared.close()
    return [results[index] for index in range(len(requests))]


def _parts(request: RequestContent) -> tuple[str | Path, ...]:
    """The parts of a request; raises TypeError if it is neither a text nor a tuple of texts and
    paths.
    """
    parts = (request,) if isinstance(request, str) else request
    if not isinstance(parts, tuple) or not all(isinstance(part, (str, Path)) for part in parts):
        raise TypeError(
            "A request is a text, or a tuple of texts and paths of image files; got "
            f"{str(request)[:80]!r}. "
            'One request with an image: `("What does it show?", Path("a.png"))`; several: a list '
            "of such tuples."
        )
    return parts
