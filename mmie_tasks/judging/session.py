"""A judging session: a benchmark's judge, the samples that wait for it, verdicts and progress.

A benchmark has one `BenchmarkJudge`. All benchmarks of a run that use the same judge share one object of it, and so its
budget and its check.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import (
    CountsRequests,
    InProcess,
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    Outcome,
    RequestCounts,
    SelfChecking,
)
from mmie_tasks.judges.choice import JudgeChoice, JudgeChoices, choose_judge, open_judge, parse_choice
from mmie_tasks.judging.deferred import DeferredRows, MetricRows
from mmie_tasks.judging.panel import Judged, MemberResult
from mmie_tasks.judging.requests import CheckedRequest, GradedRequest, JudgeResult, judge_all

SYNC_VARIABLE = "MMIE_TASKS_SYNC"
CHECK_VALID_S = 900.0
"""How long the check of a judge holds: later benchmarks of a run do not repeat it."""

_JUDGE_VARIABLES = re.compile("JUDGE|API|ENDPOINT|MODEL|BASE|MMIE|CACHE")


class Progress:
    """A progress bar, and a final log line.

    The bar shows what failed, came from the cache, is in flight and was sent again, tokens per second, and the cost
    with a forecast of the total: the mean of the replies that were paid for, for every sample that is left.

    The rate counts the input and output tokens of replies that arrived since judging began, over the time since then;
    replies from the cache do not count. The remaining time is tqdm's, from samples per second. A judge that computes
    its longest samples first becomes faster, so the remaining time is then over- rather than underestimated.

    Args:
        title: Name of the benchmark; with an empty title nothing is shown or logged.
        total: Number of samples.
        on_outcome: Called with every outcome as well.
        judge: The judge that replies, which may know how its requests are going.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        title: str,
        total: int,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        judge: Judge | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._judge = judge
        self._total = total
        self._on_outcome = on_outcome
        self._clock = clock
        self._began_s = clock()
        self._earlier_retries = 0
        self._bar: tqdm[None] | None = None
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._cost_usd: float | None = 0.0  # None as soon as the price of a reply is unknown

    def __enter__(self) -> Progress:
        self._began_s = self._clock()
        if (counts := self._request_counts()) is not None:
            self._earlier_retries = counts.retries
        if self._title:
            is_other_rank = os.environ.get("RANK", "0") != "0"  # one bar for all ranks of a run
            self._bar = tqdm(total=self._total, desc=f"Judging {self._title}", unit="sample", disable=is_other_rank)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._title:
            logger.info(f"Judged {self._title}: {self.summary()}")

    def update(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self._on_outcome(outcome)
        self._counts["requests"] += 1
        match outcome:
            case JudgeReply(cached=True):
                self._counts["cached"] += 1
            case JudgeReply(usage=usage):
                self._counts["paid"] += 1
                self._counts["input"] += usage.input_tokens
                self._counts["output"] += usage.output_tokens
                if self._cost_usd is not None:
                    self._cost_usd = None if usage.cost_usd is None else self._cost_usd + usage.cost_usd
            case JudgeError():
                self._counts["failed"] += 1
                self._failures[str(outcome).partition("\n")[0]] += 1
        if self._bar is not None:
            self._bar.total = max(self._total, self._counts["requests"])  # some are sent twice
            parts = [f"failed {self._counts['failed']}", f"cached {self._counts['cached']}"]
            if (requests := self._request_counts()) is not None:
                parts.append(f"in flight {requests.in_flight}")
            self._bar.set_postfix_str(self._joined(*parts), refresh=False)
            self._bar.update()

    def summary(self) -> str:
        """The counts that are not 0, and the most frequent failures on lines of their own."""
        counts = self._counts
        titles = {"cached": "from the cache", "failed": "failed", "input": "tokens in", "output": "tokens out"}
        parts = (f"{counts[name]:,} {title}" for name, title in titles.items() if counts[name])
        text = self._joined(f"{counts['requests']:,} requests", *parts)
        return text + "".join(f"\n  {count} x {failure}" for failure, count in self._failures.most_common(5))

    def _request_counts(self) -> RequestCounts | None:
        return self._judge.request_counts() if isinstance(self._judge, CountsRequests) else None

    def _joined(self, *parts: str) -> str:
        """The parts, and of retries, the tokens per second and the cost those that are not 0."""
        counts = self._request_counts()
        retries = counts.retries - self._earlier_retries if counts is not None else 0
        tokens = self._counts["input"] + self._counts["output"]
        elapsed_s = self._clock() - self._began_s
        rate = f"{tokens / elapsed_s:,.0f} tokens/s" if tokens and elapsed_s > 0 else ""
        cost = f"{self._cost_usd:.4f} USD" if self._cost_usd else ""
        if self._cost_usd and (left := self._total - self._counts["requests"]) > 0:
            total_usd = self._cost_usd * (1 + left / self._counts["paid"])
            cost = f"{self._cost_usd:.4f} of about {total_usd:.4f} USD"
        cost = "cost unknown" if self._cost_usd is None else cost
        sent_again = f"{retries} sent again" if retries else ""
        return ", ".join(part for part in (*parts, sent_again, rate, cost) if part)


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
        checked_until_s: Until when, on the monotonic clock, the last check holds.
    """

    judge: Judge
    checked_until_s: float = 0.0

    def check(self) -> None:
        """Check that the judge can be used, unless a check passed less than `CHECK_VALID_S` ago.

        Raises:
            JudgeMisconfigured: It cannot reply as it is set up.
            DataBroken: Its cache file is unusable.
        """
        if time.monotonic() < self.checked_until_s:
            return
        if isinstance(self.judge, SelfChecking):
            self.judge.check()
        self.checked_until_s = time.monotonic() + CHECK_VALID_S


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
        if isinstance(judge, InProcess):
            judge.close()


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
            _open_judges[key] = SharedJudge(open_judge(choice, environment))
        return _open_judges[key]


class BenchmarkJudge:
    """The judge of one benchmark, and the samples that wait for it.

    Args:
        benchmark: See below.
        default: See below.
        title: Names the benchmark in the progress bar; by default its name.
        check_setup: Checks what else judging needs, such as the official prompts; raises a `MmieTasksError`.

    Attributes:
        benchmark: The benchmark's name, as in ``--judge mmie=JUDGE``.
        default: The judge unless the user chooses another, as `choice.parse_choice` reads it.
        sync: Whether each sample is judged before ``process_results`` returns.
        on_outcome: Called with every outcome; set by the runner, which keeps a ledger of tokens.
    """

    def __init__(
        self, benchmark: str, default: str, *, title: str = "", check_setup: Callable[[], None] = lambda: None
    ) -> None:
        self.benchmark = benchmark
        self.default = default
        self.sync = False
        self.on_outcome: Callable[[Outcome], None] = lambda _: None
        self._title = title or benchmark
        self._check_setup = check_setup
        self._queue: list[tuple[PendingSample, DeferredRows]] = []
        self._queue_lock = threading.Lock()
        self._judging_lock = threading.Lock()

    def choice(self) -> JudgeChoice:
        """The judge that this run uses, and which setting chose it.

        Raises:
            SettingWrong: ``MMIE_TASKS_JUDGE`` is not a valid choice.
        """
        return choose_judge(self.benchmark, self.default, os.environ, launcher_choices())

    def judge(self) -> Judge:
        """The judge itself. Sends no request.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        return shared_judge(self.choice(), os.environ).judge

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Have a function called before the judge loads a model into this process, if it does.

        Raises:
            SettingWrong: No such judge or option, or an unusable value.
        """
        if isinstance(judge := self.judge(), InProcess):
            judge.before_loading(callback)

    def signature(self) -> str:
        """The judge's signature: everything of the judge that can move a score."""
        return self.judge().signature

    def check(self) -> None:
        """Check that the judge can be used, before anything is generated.

        A check that passed less than `CHECK_VALID_S` ago, for another benchmark or before the
        tested model was loaded, is not repeated.

        Raises:
            SettingWrong: The choice, or ``MMIE_TASKS_SYNC``, is invalid.
            JudgeMisconfigured: The judge cannot reply as it is set up.
            DataBroken: Its cache file is unusable.
        """
        is_sync(os.environ)
        self._check_setup()
        shared_judge(self.choice(), os.environ).check()

    def submit(
        self, sample: PendingSample, plain: Callable[[MetricRows], Mapping[str, object]] = lambda _: {}
    ) -> Mapping[str, object]:
        """The rows of a sample: filled in when they are read, or before this returns if `sync`.

        Args:
            sample: The sample.
            plain: Makes the plain numbers that a sample has beside its rows if `sync`, for
                ``--baseline``; by default none.
        """
        if self.sync or is_sync(os.environ):  # here, threads may judge in parallel
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

    def _judge_batch(self, batch: Sequence[tuple[PendingSample, DeferredRows]], title: str) -> None:
        """Fill in every row, whatever the judge raises.

        A judge may be code of another package. It runs as the only job of a thread: the future
        holds any exception, which then costs the samples without a result, not the run.
        """
        unjudged = dict(enumerate(batch))
        stop = threading.Event()

        def judge_until_stopped() -> None:
            requests = [sample.request for sample, _ in batch]
            judge = self.judge()
            with Progress(title, len(batch), self.on_outcome, judge) as progress:
                for index, result in judge_all(judge, requests, progress.update):
                    sample, rows = unjudged[index]
                    rows.fill(sample.make_rows(_judged(judge.signature, sample, result)))
                    del unjudged[index]
                    if stop.is_set():
                        return

        with ThreadPoolExecutor(1, thread_name_prefix="judging") as thread:
            job = thread.submit(judge_until_stopped)
            try:
                error = job.exception()
            finally:
                stop.set()  # on Ctrl-C: replies so far are in the cache, the others are not awaited
        if error is not None:
            logger.opt(exception=error).error("The judge ended early; {} samples left without a score.", len(unjudged))
        for sample, rows in unjudged.values():
            detail = f"the judge ended early: {type(error).__name__}: {error}"
            rows.fill(sample.make_rows(_judged("", sample, JudgeResult(failure=Unscored("unavailable", detail)))))


def _judged(judge: str, sample: PendingSample, result: JudgeResult) -> Judged:
    verdicts = sample.request.grade(result)
    return Judged(verdicts=verdicts, members=(MemberResult(judge=judge, result=result, verdicts=verdicts),))


def is_sync(environment: Mapping[str, str]) -> bool:
    """Whether ``MMIE_TASKS_SYNC`` asks to judge samples one by one: 0 or 1, by default 0.

    Raises:
        SettingWrong: It has another value.
    """
    text = environment.get(SYNC_VARIABLE) or "0"
    if text not in {"0", "1"}:
        hint = f"`export {SYNC_VARIABLE}=1` judges each sample at once, as `--baseline` needs it"
        raise SettingWrong(f"`{SYNC_VARIABLE}` is {text!r}; it can be 0 or 1.", hint=hint)
    return text == "1"


# Without a run

Request: TypeAlias = str | tuple[str | Path, ...]
"""A text, or texts and paths of image files in the order in which the judge reads them."""


def judge(
    name: str, requests: Request | list[Request], *, max_tokens: int = 2000, **options: object
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
        A list with one result per request, in order. ``result.reply`` has ``text``, ``model``, ``usage``,
        ``finish`` and ``cached``. Without a reply it is None, and ``result.failure`` has ``reason``
        and ``detail``: a request that fails raises nothing.

    Raises:
        MmieTasksError: The judge cannot be used as it is set up; the message has a hint.
        TypeError: A request has another form.
    """
    checked = [
        CheckedRequest(request=JudgeRequest(parts=_parts(request), max_tokens=max_tokens))
        for request in (requests if isinstance(requests, list) else [requests])
    ]
    choice = parse_choice(name, "`judge`")
    choice = replace(choice, options={**choice.options, **{key: str(value) for key, value in options.items()}})
    return judge_together(shared_judge(choice, os.environ), checked, f"with {choice.name}")


def judge_together(shared: SharedJudge, requests: Sequence[CheckedRequest], title: str) -> list[JudgeResult]:
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
        if isinstance(shared.judge, InProcess):
            shared.judge.close()
    return [results[index] for index in range(len(requests))]


def _parts(request: Request) -> tuple[str | Path, ...]:
    """The parts of a request.

    Raises:
        TypeError: It is neither a text nor a tuple of texts and paths.
    """
    parts = (request,) if isinstance(request, str) else request
    if not isinstance(parts, tuple) or not all(isinstance(part, (str, Path)) for part in parts):
        raise TypeError(
            f"A request is a text, or a tuple of texts and paths of image files; got {str(request)[:80]!r}. "
            'One request with an image: `("What does it show?", Path("a.png"))`; several: a list of such tuples.'
        )
    return parts
