"""A judging session: a benchmark's judges, the samples that wait for them, and verdicts.

A benchmark has one `BenchmarkJudge`. All benchmarks of a run that use the same judge share one
object of it, and so its budget and its check.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext
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
from mmie_tasks.judges.cache import CachedJudge, runs_in_process
from mmie_tasks.judges.choice import JudgeChoices, choose_judges, is_paper_judge, open_judge
from mmie_tasks.judges.panel_choice import ChosenJudges
from mmie_tasks.judges.registry import JudgeChoice, parse_choice, plugin_errors
from mmie_tasks.judging.deferred import DeferredRows, MetricRows
from mmie_tasks.judging.progress import Progress
from mmie_tasks.judging.requests import CheckedRequest, GradedRequest, judge_all
from mmie_tasks.record.panel import Judged, MemberResult, combine
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.signature import Panel, signature_text

SYNC_VARIABLE = "MMIE_TASKS_SYNC"
CHECK_VALID_S = 900.0
"""How long the check of a judge holds: later benchmarks of a run do not repeat it."""

_JUDGE_VARIABLES = re.compile("JUDGE|API|ENDPOINT|MODEL|BASE|MMIE|CACHE")


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


@dataclass(slots=True)
class SharedJudge:
    """A judge that everything in this process uses together, and its last check.

    Attributes:
        judge: The judge.
        name: As the user chose it, for messages.
        checked_until_s: Until when, on the monotonic clock, the last check holds.
    """

    judge: Judge
    name: str = ""
    checked_until_s: float = 0.0

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
            if not runs_in_process(self.judge):  # there, the signature may start a device
                _ = self.judge.signature
        self.checked_until_s = time.monotonic() + CHECK_VALID_S


_STOP_S = 1.0
"""How long judges are waited for that have been told to stop."""

_running: list[_JudgedBatch] = []
_one_model_lock = threading.Lock()  # of panels with several models in this process
_launcher_choices: weakref.WeakKeyDictionary[object, JudgeChoices] = weakref.WeakKeyDictionary()
_open_judges: dict[int, SharedJudge] = {}
_open_lock = threading.Lock()


def register_launcher(launcher: object, choices: JudgeChoices) -> None:
    """Use a launcher's choices as long as the launcher lives, that is for its evaluation."""
    _launcher_choices[launcher] = choices


def launcher_choices() -> JudgeChoices:
    """The choices of the newest launcher that is alive; empty without one."""
    return next(reversed(list(_launcher_choices.values())), {})


def close_judges() -> None:
    """Free the memory of every judge that runs in this process; they can be used again."""
    with _open_lock:
        judges = [entry.judge for entry in _open_judges.values()]
    for judge in judges:
        _close(judge)


def _close(judge: Judge) -> None:
    """Free a judge's memory, if it runs in this process; a failure is logged: no result may be lost
    by it.
    """
    if isinstance(judge, InProcess):
        try:
            judge.close()
        except Exception as error:  # noqa: BLE001 - a plugin, or a device that is out of order
            logger.warning(
                f"The judge's memory could not be freed: {type(error).__name__}: {error}"
            )


def stop_judging() -> str:
    """Have all judging of this process end. May be called by the handler of a signal.

    Returns:
        How many replies are stored, as a clause; "nothing is being judged" without any judging.
    """
    batches = list(_running)
    for batch in batches:
        batch.stop()
    return "; ".join(batch.stored() for batch in batches) or "nothing is being judged"


def shared_judge(choice: JudgeChoice, environment: Mapping[str, str]) -> SharedJudge:
    """The judge of a choice: one object for all benchmarks of a run, with one budget.

    A judge is opened again where an environment variable changed that judges may read.

    Raises:
        SettingWrong: No such judge or option, or an unusable value.
    """
    variables = {pair for pair in environment.items() if _JUDGE_VARIABLES.search(pair[0])}
    key = hash((choice.name, frozenset(choice.options.items()), frozenset(variables)))
    with _open_lock:
        if key not in _open_judges:
            _open_judges[key] = SharedJudge(open_judge(choice, environment), choice.name)
        return _open_judges[key]


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
        sync: Whether each sample is judged before ``process_results`` returns.
        on_outcome: Called with every outcome, by one thread at a time; set by the runner, which
            keeps a ledger of tokens.
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
        self.sync = False
        self.on_outcome: Callable[[Outcome], None] = lambda _: None
        self._title = title or benchmark
        self._paper = paper
        self._check_setup = check_setup
        self._queue: list[tuple[PendingSample, DeferredRows]] = []
        self._queue_lock = threading.Lock()
        self._judging_lock = threading.Lock()

    def choices(self) -> ChosenJudges:
        """The judges that this run uses, and which setting chose them.

        Raises:
            SettingWrong: ``MMIE_TASKS_JUDGE`` is not a valid choice, or the panel is invalid.
        """
        return choose_judges(self.benchmark, self.default, os.environ, launcher_choices())

    def judges(self) -> OpenJudges:
        """The judges themselves. Sends no request.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        chosen = self.choices()
        judges = tuple(shared_judge(choice, os.environ) for choice in chosen.judges)
        if chosen.panel is None:
            return OpenJudges(judges=judges)
        count = len(judges)
        models = [
            Path(choice.options.get("model", "")).name for choice in chosen.judges
        ]  # of a path, the last part
        names = tuple(
            f"judge {number} of {count} ({':'.join(filter(None, (choice.name, model)))})"
            for number, (choice, model) in enumerate(
                zip(chosen.judges, models, strict=True), start=1
            )
        )
        return OpenJudges(judges=judges, names=names, panel=chosen.panel)

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Have a function called before a judge loads a model into this process, if it does.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        for shared in self.judges().judges:
            if isinstance(judge := shared.judge, InProcess):
                judge.before_loading(callback)

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
            for judge in (shared.judge for shared in self.judges().judges)
            if isinstance(judge, CachedJudge | SettlesSignature)
        ]
        return "; ".join(filter(None, machines)) or None

    def check(self) -> None:
        """Check that every judge can be used, before anything is generated.

        A check that passed less than `CHECK_VALID_S` ago, for another benchmark or before the
        tested model was loaded, is not repeated.

        Raises:
            SettingWrong: The choice, or ``MMIE_TASKS_SYNC``, is invalid, or a panel has a judge
                twice.
            JudgeMisconfigured: A judge cannot reply as it is set up.
            DataBroken: Its cache file is unusable.
        """
        self.check_setup()
        judges = self.judges().judges
        for shared in judges:
            shared.check()
        # The signature of a judge in this process may start its device, and the tested model may
        # still have to fork: such judges are compared by their options only, where the panel is
        # read.
        elsewhere = [
            shared.judge
            for shared in judges
            if len(judges) > 1 and not runs_in_process(shared.judge)
        ]
        if len({judge.signature for judge in elsewhere}) < len(elsewhere):
            message = (
                "Two judges of the panel are the same: they differ in options that change no reply."
            )
            raise SettingWrong(message, hint="another judge, or another model")

    def check_setup(self) -> None:
        """Check what judging needs beside the judges, such as the official prompts.

        Raises:
            MmieTasksError: It is missing or broken, or ``MMIE_TASKS_SYNC`` is invalid.
        """
        _is_sync(os.environ)
        self._check_setup()

    def submit(
        self,
        sample: PendingSample,
        plain: Callable[[MetricRows], Mapping[str, object]] = lambda _: {},
    ) -> Mapping[str, object]:
        """The rows of a sample: filled in when they are read, or before this returns if `sync`.

        Args:
            sample: The sample.
            plain: Makes the plain numbers that a sample has beside its rows if `sync`, for
                ``--baseline``; by default none.
        """
        if self.sync or _is_sync(os.environ):  # here, threads may judge in parallel
            deferred_rows = DeferredRows(sample.metrics, lambda: None)
            self._judge_batch([(sample, deferred_rows)], title="")
            rows = {name: row for name, row in deferred_rows.items() if isinstance(row, dict)}
            return {**plain(rows), **rows}
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
                batch, self._queue = self._queue, []
            if batch:
                self._judge_batch(batch, self._title)

    def _judge_batch(
        self, pending: Sequence[tuple[PendingSample, DeferredRows]], title: str
    ) -> None:
        """Fill in every row, whatever a judge raises.

        Judging has a thread of its own, because Ctrl-C does not reach a thread that waits for a
        server.
        """
        batch = _JudgedBatch(pending, title, self.on_outcome)
        thread = ThreadPoolExecutor(1, thread_name_prefix="judging")
        job = thread.submit(batch.judge, self.judges)
        _running.append(batch)
        try:
            job.result()
        except KeyboardInterrupt:  # replies so far are in the cache, the others are not awaited
            batch.stop()
            wait([job], _STOP_S)
            raise
        finally:
            _running.remove(batch)
            thread.shutdown(wait=False)  # its only job is done, or not awaited


class _JudgedBatch:
    """Samples that are judged together; a sample's rows are filled in as soon as its last judge has
    replied.

    Judges on servers are asked at the same time, those in this process one after the other.
    """

    def __init__(
        self,
        pending: Sequence[tuple[PendingSample, DeferredRows]],
        title: str,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self._stopped = threading.Event()  # set when no further reply is awaited
        self._pending = pending
        self._title = title
        self._on_outcome = on_outcome
        self._open = OpenJudges(judges=())
        self._members: list[dict[int, MemberResult]] = [
            {} for _ in pending
        ]  # by sample, then by judge
        self._unfilled = dict.fromkeys(range(len(pending)))
        self._stored = 0  # replies that are in a cache
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Await no further reply, from any thread. Takes no lock: a signal may call it."""
        self._stopped.set()
        for shared in self._open.judges:
            if isinstance(judge := shared.judge, Stoppable):
                judge.stop()

    def stored(self) -> str:
        """How many replies are in a cache, as a clause."""
        total = len(self._pending) * len(self._open.judges)
        if total and not any(isinstance(shared.judge, CachedJudge) for shared in self._open.judges):
            return f"none of {total:,} replies is stored, because there is no cache"
        return f"{self._stored:,} of {total:,} replies are stored"

    def judge(self, open_judges: Callable[[], OpenJudges]) -> None:
        """Open the judges and ask them. An error leaves the samples that are left without a
        score.
        """
        try:
            self._judge(open_judges())
        except Exception as error:  # noqa: BLE001 - a plugin: its samples are lost, not the run
            self._give_up(error)

    def _judge(self, open_judges: OpenJudges) -> None:
        """Ask every judge about every sample, each in a thread; those in this process share one."""
        self._open = open_judges
        if self._stopped.is_set():
            return
        with ExitStack() as threads:
            shared_thread = threads.enter_context(ThreadPoolExecutor(1))
            jobs: list[Future[None]] = []
            for position, shared in enumerate(open_judges.judges):
                thread = (
                    shared_thread
                    if runs_in_process(shared.judge)
                    else threads.enter_context(ThreadPoolExecutor(1))
                )
                jobs.append(thread.submit(self._ask_or_give_up, position))
            for job in jobs:
                job.result()

    def _give_up(self, error: Exception) -> None:
        """Fill in the rows that are left without a score, because of an error outside a judge."""
        logger.opt(exception=error).error(
            "Judging ended early; {} samples left without a score.", len(self._unfilled)
        )
        for index in self._unfilled:
            sample, rows = self._pending[index]
            result = _ended_early(error)
            member = MemberResult(judge="", result=result, verdicts=sample.request.grade(result))
            rows.fill(sample.make_rows(Judged(verdicts=member.verdicts, members=(member,))))

    def _ask_or_give_up(self, position: int) -> None:
        try:
            self._ask_judge(position)
        except Exception as error:  # noqa: BLE001 - a plugin: only its own verdicts are lost
            if self._stopped.is_set():
                return
            missing = [
                index for index, members in enumerate(self._members) if position not in members
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
        judge, name = self._open.judges[position].judge, self._open.names[position]
        requests = [sample.request for sample, _ in self._pending]
        title = f"{self._title}, {name}" if self._title and name else self._title
        closes = sum(
            runs_in_process(shared.judge) for shared in self._open.judges
        ) > 1 and runs_in_process(judge)
        with (
            _one_model_lock if closes else nullcontext(),
            Progress(title, len(requests), self._report, judge) as bar,
        ):
            try:
                if self._stopped.is_set():
                    return
                for index, result in judge_all(judge, requests, bar.update):
                    self._add(position, index, result)
                    if self._stopped.is_set():
                        return
            finally:
                if closes:
                    _close(judge)  # the next model needs the memory

    def _report(self, outcome: Outcome) -> None:
        with self._lock:
            self._on_outcome(outcome)

    def _add(self, position: int, index: int, result: JudgeResult) -> None:
        """Add a judge's result; fill in the sample's rows once every judge has one."""
        sample, rows = self._pending[index]
        judge, panel = self._open.judges[position].judge.signature, self._open.panel
        member = MemberResult(judge=judge, result=result, verdicts=sample.request.grade(result))
        with self._lock:
            self._stored += len(result.replies) * isinstance(
                self._open.judges[position].judge, CachedJudge
            )
            by_position = {**self._members[index], position: member}
            members = tuple(by_position[number] for number in sorted(by_position))
            judged: Judged | None = None
            if panel is None:
                judged = Judged(verdicts=member.verdicts, members=members)
            elif len(members) == len(self._open.judges):
                judged = Judged(verdicts=combine(members, panel), members=members, panel=panel)
            if judged is not None:
                rows.fill(sample.make_rows(judged))
                del self._unfilled[index]
            self._members[index] = by_position


def _ended_early(error: Exception) -> JudgeResult:
    detail = f"the judge ended early: {type(error).__name__}: {error}"
    return JudgeResult(failure=Unscored("unavailable", detail))


def _is_sync(environment: Mapping[str, str]) -> bool:
    """Whether ``MMIE_TASKS_SYNC``, 0 or 1, asks to judge samples one by one; raises `SettingWrong`
    for other values.
    """
    hint = f"`export {SYNC_VARIABLE}=1` judges each sample at once, as `--baseline` needs it"
    return choice_setting(environment, SYNC_VARIABLE, "0", "1", hint=hint) == "1"


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
    return judge_together(shared_judge(choice, os.environ), checked, f"with {choice.name}")


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
        _close(shared.judge)
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
