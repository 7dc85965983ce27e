"""Rows that are filled in later, so that everything is judged together.

The runner calls ``process_results`` for every document, several at a time, and copies what it
returns into the log. Only then does it read the rows, in its main thread and before it stops a
launcher, gathers or averages (lmms-eval 0.7.3, ``evaluator.py:1378-1394``). So a row can be handed
out empty and filled in place at that reading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from loguru import logger

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import Judge, Outcome
from mmie_tasks.judging.progress import Progress
from mmie_tasks.judging.session import Judged, Question, judge_all

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_values


Row: TypeAlias = dict[str, object]
Rows: TypeAlias = Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One sample that waits for its judgement.

    Attributes:
        question: What the judge is asked.
        rows_of: Makes the sample's rows, by metric, from what came of it.
        metrics: The rows it will have for certain; more may come.
    """

    question: Question
    rows_of: Callable[[Judged], Rows]
    metrics: Sequence[str]


class DeferredRows(dict[str, object]):
    """Rows by metric. Reading them waits until they are judged; copying the dict does not.

    The runner copies it into the log with ``dict.update``, which takes the inner dicts as they
    are; they are the ones that are filled in. ``__iter__`` is not overridden: that would make the
    copying wait.
    """

    __slots__ = ("_wait",)

    def __init__(self, metrics: Sequence[str], wait: Callable[[], None]) -> None:
        super().__init__({metric: {} for metric in metrics})
        self._wait = wait

    def fill(self, rows: Rows) -> None:
        """Put the rows in, those that were handed out into their place. Waits for nothing."""
        for metric, row in rows.items():
            there = super().setdefault(metric, {})
            if isinstance(there, dict):
                there.update(row)

    def items(self) -> dict_items[str, object]:
        """As a dict's, once judged."""
        self._wait()
        return super().items()

    def values(self) -> dict_values[str, object]:
        """As a dict's, once judged."""
        self._wait()
        return super().values()

    def __getitem__(self, key: str) -> object:
        self._wait()
        return super().__getitem__(key)

    def get(self, key: str, default: object = None) -> object:
        """As a dict's, once judged."""
        self._wait()
        return super().get(key, default)

    def __reduce__(self) -> tuple[type[dict[str, object]], tuple[dict[str, object]]]:
        self._wait()
        return dict, (dict(super().items()),)


@dataclass(frozen=True, slots=True)
class _Pending:
    case: Case
    rows: DeferredRows


class Docket:
    """The samples of one benchmark that wait for their judge.

    Args:
        judge: Gives the judge when it is needed.
        title: Names the progress bar.
        report: Told of every outcome: for the runner's ledger of tokens.
    """

    def __init__(
        self, judge: Callable[[], Judge], title: str, report: Callable[[Outcome], None]
    ) -> None:
        self._judge = judge
        self._title = title
        self._report = report
        self._pending: list[_Pending] = []
        self._adding = threading.Lock()
        self._judging = threading.Lock()

    def submit(self, case: Case) -> DeferredRows:
        """Rows for a case, to be filled in when somebody reads them. Returns at once."""
        rows = DeferredRows(case.metrics, self.settle)
        with self._adding:
            self._pending.append(_Pending(case, rows))
        return rows

    def settle(self) -> None:
        """Judge all that waits, together. Never raises: the runner's run would be lost.

        Held while judging: who else comes waits, and then finds nothing left to do.
        """
        with self._judging:
            with self._adding:
                pending, self._pending = self._pending, []
            if pending:
                _settle(pending, self._judge, Progress(self._title, len(pending), self._report))

    def judge_now(self, case: Case) -> dict[str, Row]:
        """The rows of one case, judged before this returns; several threads may do so at once."""
        rows = DeferredRows(case.metrics, lambda: None)
        _settle([_Pending(case, rows)], self._judge, Progress("", 1, self._report))
        return {metric: row for metric, row in rows.items() if isinstance(row, dict)}


def _settle(pending: Sequence[_Pending], judge: Callable[[], Judge], progress: Progress) -> None:
    """Fill in every row, whatever happens.

    A judge may be somebody else's code. It runs as the one job of a thread, so that whatever it
    ends with is looked at here and costs the samples it left, not the run.
    """
    left = dict(enumerate(pending))
    stop = threading.Event()

    def work() -> None:
        questions = [one.case.question for one in pending]
        with progress:
            for index, judged in judge_all(judge(), questions, progress.saw):
                left[index].rows.fill(left[index].case.rows_of(judged))
                del left[index]
                if stop.is_set():
                    return

    with ThreadPoolExecutor(1, thread_name_prefix="judging") as thread:
        job = thread.submit(work)
        try:
            failure = job.exception()
        finally:
            stop.set()  # interrupted: what has come is in the cache, the rest is not waited for
    if failure is not None:
        logger.opt(exception=failure).error("The judge ended early; {} samples left.", len(left))
    for one in left.values():
        found = f"the judge ended early: {type(failure).__name__}: {failure}"
        one.rows.fill(one.case.rows_of(Judged(failure=Unscored("unavailable", found))))
