"""A batch of samples that are judged together, by one judge or a panel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from loguru import logger

from mmie_tasks.core.log import traceback_text
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import Judge, Outcome
from mmie_tasks.judging.deferred import DeferredRow, MetricRows
from mmie_tasks.judging.progress import Progress
from mmie_tasks.judging.requests import GradedRequest, judge_all
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSample:
    """A sample that waits for its judge; `make_rows` makes a row for each of `metrics`."""

    request: GradedRequest
    make_rows: Callable[[Judged], MetricRows]
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
        self._stopped = threading.Event()  # set when no further reply is awaited
        self._judge: Judge | None = None
        self._results: list[dict[int, Judgement]] = [{} for _ in waiting]  # by judge
        self._unfilled = dict.fromkeys(range(len(waiting)))
        self._stored = 0  # replies that are in a cache

    def stop(self) -> None:
        """Stops waiting for replies. Takes no lock."""
        self._stopped.set()
        if self._judge is not None:
            self._judge.stop()

    def stored(self) -> str:
        """A clause that says how many replies are in a cache."""
        members = self._judge.members if self._judge is not None else ()
        total = len(self._waiting) * len(members)
        if total and not any(member.cache_file for member in members):
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
                self._fill(index, [self._member(Signature(), index, result)])

    def _ask(self, judge: Judge) -> None:
        members, count = judge.members, len(self._waiting)
        titles = [judge.title(position) for position in range(len(members))]
        with ExitStack() as stack:
            bars = [
                stack.enter_context(Progress(self._bar_title(judge, title), count, member))
                for title, member in zip(titles, members, strict=True)
            ]

            def report(index: int, outcome: Outcome) -> None:
                bars[index // count].update(outcome)
                self._on_outcome(members[index // count], outcome)

            requests = [sample.request for sample, _ in self._waiting]
            for index, result in judge_all(judge, requests, report):
                if self._stopped.is_set():
                    return
                position, sample = divmod(index, count)
                self._add(judge, position, sample, result)

    def _bar_title(self, judge: Judge, member: str) -> str:
        return f"{self._title}, {member}" if self._title and len(judge.members) > 1 else self._title

    def _add(self, judge: Judge, position: int, index: int, result: JudgeResult) -> None:
        """Adds a judge's result, and fills in the sample's rows after the last judge's."""
        member, results = judge.members[position], self._results[index]
        self._stored += len(result.replies) * (member.cache_file is not None)
        results[position] = self._member(Signature.of_judges([member.signature]), index, result)
        if len(results) == len(judge.members):
            self._fill(index, [results[number] for number in sorted(results)])

    def _member(self, judge: Signature, index: int, result: JudgeResult) -> Judgement:
        sample, _ = self._waiting[index]
        return Judgement(judge=judge, result=result, verdicts=sample.request.grade(result))

    def _fill(self, index: int, members: Sequence[Judgement]) -> None:
        sample, rows = self._waiting[index]
        judged = Judged.by(members)
        for metric, row in sample.make_rows(judged).items():
            rows[metric].fill(row)
        del self._unfilled[index]
