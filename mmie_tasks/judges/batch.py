"""Judges samples together: deferred rows, requests with the readers of their replies, and a batch.

The runner requests the rows of each sample in turn, but a judge is fast only when it gets all
requests together. So `process_results` returns rows that wait: the first read of a row's fields
starts the judging of all samples. The runner reads no fields before it aggregates or gathers rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.log import traceback_text
from mmie_tasks.core.verdict import Unscored, UnscoredReason, Verdicts
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeRefused,
    JudgeRequest,
    Outcome,
    OutOfBudget,
    ReplyEmpty,
    RequestBroken,
    RequestUnfit,
    close_judge,
)
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.progress import Progress
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.signature import Signature

STOP_S = 1.0
"""How long to wait for judges after a stop."""

MetricRow: TypeAlias = dict[str, object]
MetricRows: TypeAlias = Mapping[str, MetricRow]

_REASONS: Mapping[type[JudgeError], UnscoredReason] = {
    JudgeRefused: "refused",
    ReplyEmpty: "empty_reply",
    RequestBroken: "bad_image",
    RequestUnfit: "unfit",
    OutOfBudget: "budget",
}
"""Why a sample is unscored after a judge's error; ``unavailable`` after any other."""


def _reading(name: str) -> Any:  # noqa: ANN401 - a method of dict
    read = getattr(dict, name)

    def read_after_judging(row: DeferredRow, *args: object) -> object:
        row.wait()
        return read(row, *args)

    return read_after_judging


class DeferredRow(dict[str, object]):
    """A sample's row in one metric; every read waits until it is filled in.

    Args:
        wait: Returns when the row is filled in.
    """

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], None]) -> None:
        # The json encoder writes a dict of length 0 (in its C struct) without calling `items`.
        super().__init__(waits=True)
        self._wait: Callable[[], None] | None = wait

    def fill(self, row: MetricRow) -> None:
        """Fills in the row; reads no longer wait."""
        self.clear()
        self.update(row)
        self._wait = None

    def wait(self) -> None:
        """Waits until the row is filled in; it is empty if judging was stopped."""
        if self._wait is not None:
            self._wait()
        if self._wait is not None:
            self.clear()

    __contains__ = _reading("__contains__")
    __eq__ = _reading("__eq__")
    __getitem__ = _reading("__getitem__")
    __iter__ = _reading("__iter__")  # dict() and ** call `keys` only where this is overridden
    __len__ = _reading("__len__")
    __ne__ = _reading("__ne__")
    __or__ = _reading("__or__")
    __repr__ = _reading("__repr__")
    copy = _reading("copy")
    get = _reading("get")
    items = _reading("items")
    keys = _reading("keys")
    values = _reading("values")

    def __reduce__(self) -> tuple[type[MetricRow], tuple[MetricRow]]:
        return dict, (dict(self),)


def judge_all(
    judge: Judge,
    requests: Sequence[JudgeRequest],
    on_outcome: Callable[[int, Outcome], None] = lambda _index, _outcome: None,
    is_impossible: Callable[[int, str], bool] = lambda _index, _reply: False,
) -> Iterator[tuple[int, JudgeResult]]:
    """Sends all requests at once and yields each index with its result when it is complete.

    Args:
        judge: The judge. A panel has one result per judge and request, with the indices of
            `Judge.ask`.
        requests: The requests.
        on_outcome: Called with every index and outcome, including those of second requests.
        is_impossible: Whether the text of the reply to a request, given by its position, has an
            impossible verdict, such as more points than the scale has. The request is then sent
            once more.
    """
    first_replies: dict[int, JudgeReply] = {}
    for index, outcome in outcomes_of(judge, requests):
        position = index % len(requests)
        outcome = _with_length(outcome, requests[position])
        on_outcome(index, outcome)
        if isinstance(outcome, JudgeError):
            yield index, JudgeResult(failure=unscored(outcome))
        elif outcome.finish == "stop" and is_impossible(position, outcome.text):
            first_replies[index] = outcome
        else:
            yield index, JudgeResult(reply=outcome)
    for position, member in enumerate(judge.members):
        indices = [index for index in first_replies if index // len(requests) == position]
        again = [replace(requests[index % len(requests)], attempt=1) for index in indices]
        for number, outcome in outcomes_of(member, again, judge.title(position)):
            index, outcome = indices[number], _with_length(outcome, again[number])
            on_outcome(index, outcome)
            second_reply = outcome if isinstance(outcome, JudgeReply) else None
            yield index, JudgeResult(reply=first_replies[index], second_reply=second_reply)
        if again and member.in_process and len(judge.members) > 1:
            close_judge(member)  # the next model needs the memory


def unscored(error: JudgeError) -> Unscored:
    """The verdict for a judge's error: the reason, and the first line of the message."""
    reasons = (reason for kind, reason in _REASONS.items() if isinstance(error, kind))
    return Unscored(next(reasons, "unavailable"), first_line(error))


def _with_length(outcome: Outcome, request: JudgeRequest) -> Outcome:
    if isinstance(outcome, JudgeError):
        return outcome
    texts = (part for part in (request.system, *request.parts) if isinstance(part, str))
    return replace(outcome, request_characters=sum(map(len, texts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSample:
    """A sample that waits for its judge.

    Attributes:
        request: The request.
        is_impossible: Whether a reply's text has an impossible verdict; see `judge_all`.
        grade: Reads all verdicts, on the benchmark's own scale.
        make_rows: Makes a row for each of `metrics`, from what each judge says.
        metrics: The names of the rows.
    """

    request: JudgeRequest
    is_impossible: Callable[[str], bool] = lambda _: False
    grade: Callable[[JudgeResult], Verdicts]
    make_rows: Callable[[Sequence[Judgement]], MetricRows]
    metrics: Sequence[str]


WaitingSamples: TypeAlias = Sequence[tuple[PendingSample, Mapping[str, DeferredRow]]]
"""Samples with their unfilled rows."""


class JudgedBatch:
    """Judges samples together; fills in a sample's rows when its last judge has replied.

    Args:
        waiting: The samples.
        title: The progress bar's title; empty for no bar.
        on_outcome: Called with every outcome and its judge.
    """

    def __init__(
        self, waiting: WaitingSamples, title: str, on_outcome: Callable[[Judge, Outcome], None]
    ) -> None:
        self._waiting = waiting
        self._title = title
        self._on_outcome = on_outcome
        self._ends_at_s = inf  # when no further reply is stored
        self._judge: Judge | None = None
        self._results: list[dict[int, Judgement]] = [{} for _ in waiting]  # by judge
        self._unfilled = dict.fromkeys(range(len(waiting)))
        self._stored = 0  # replies that are in a cache

    def stop(self) -> None:
        """Stops waiting for replies; those that have arrived are still stored. Takes no lock."""
        self._ends_at_s = time.monotonic() + STOP_S
        if self._judge is not None:
            self._judge.stop()

    def stored(self) -> str:
        """A clause that says how many replies are in a cache."""
        members = self._judge.members if self._judge is not None else ()
        total = len(self._waiting) * len(members)
        if total and not any(member.cache for member in members):
            return f"none of {total:,} replies is stored, because there is no cache"
        return f"{self._stored:,} of {total:,} replies are stored"

    def judge(self, open_judge: Callable[[], Judge]) -> None:
        """Opens the judge and judges every sample; after an error, the others are unscored."""
        try:
            self._judge = open_judge()
            self._ask(self._judge)
        except Exception as error:  # noqa: BLE001 - a plugin: its samples are lost, not the run
            logger.error(
                "Judging ended early; {} samples left without a score.\n{}",
                len(self._unfilled),
                traceback_text(error),
            )
            detail = f"judging ended early: {type(error).__name__}: {error}"
            result = JudgeResult(failure=Unscored("unavailable", detail))
            for index in list(self._unfilled):
                self._fill(index, [self._judgement(Signature(), index, result)])

    def _ask(self, judge: Judge) -> None:
        members, count = judge.members, len(self._waiting)
        with ExitStack() as stack:
            bars = [
                stack.enter_context(Progress(self._bar_title(judge, position), count, member))
                for position, member in enumerate(members)
            ]

            def report(index: int, outcome: Outcome) -> None:
                bars[index // count].update(outcome)
                self._on_outcome(members[index // count], outcome)

            def is_impossible(position: int, reply: str) -> bool:
                return self._waiting[position][0].is_impossible(reply)

            requests = [sample.request for sample, _ in self._waiting]
            for index, result in judge_all(judge, requests, report, is_impossible):
                if time.monotonic() > self._ends_at_s:
                    return
                position, sample = divmod(index, count)
                self._add(judge, position, sample, result)

    def _bar_title(self, judge: Judge, position: int) -> str:
        if not self._title or len(judge.members) == 1:
            return self._title
        return f"{self._title}, {judge.title(position)}"

    def _add(self, judge: Judge, position: int, index: int, result: JudgeResult) -> None:
        """Adds a judge's result, and fills in the sample's rows after the last judge's."""
        member, results = judge.members[position], self._results[index]
        self._stored += len(result.replies) * (member.cache is not None)
        signature = Signature.of_judges([member.signature])
        results[position] = self._judgement(signature, index, result)
        if len(results) == len(judge.members):
            self._fill(index, [results[number] for number in sorted(results)])

    def _judgement(self, judge: Signature, index: int, result: JudgeResult) -> Judgement:
        sample, _ = self._waiting[index]
        return Judgement(judge=judge, result=result, verdicts=sample.grade(result))

    def _fill(self, index: int, judgements: Sequence[Judgement]) -> None:
        sample, rows = self._waiting[index]
        for metric, row in sample.make_rows(judgements).items():
            rows[metric].fill(row)
        del self._unfilled[index]
