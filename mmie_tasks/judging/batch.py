"""A batch of samples that are judged together, by one judge or by each judge of a panel."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from loguru import logger

from mmie_tasks.core.log import traceback_text, warn
from mmie_tasks.judges.base import Outcome, Stoppable
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judging.deferred import DeferredRow, MetricRows
from mmie_tasks.judging.progress import Progress
from mmie_tasks.judging.requests import GradedRequest, ended_early, judge_all
from mmie_tasks.judging.shared_judge import OpenJudges
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.sight import LEAST_REQUESTS, unseen_pictures
from mmie_tasks.record.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSample:
    """A sample that waits for its judge.

    Attributes:
        request: The request to the judge, with the readers of its reply.
        make_rows: Makes the sample's rows, by metric, from the verdicts and replies.
        metrics: The metrics of those rows.
    """

    request: GradedRequest
    make_rows: Callable[[Judged], MetricRows]
    metrics: Sequence[str]


WaitingSamples: TypeAlias = Sequence[tuple[PendingSample, Mapping[str, DeferredRow]]]
"""Samples with the rows that are filled in once they are judged."""


class JudgedBatch:
    """Samples that are judged together; a sample's rows are filled in as soon as its last judge has
    replied.

    Judges on servers are asked at the same time, those in this process one after the other.

    Args:
        waiting: The samples.
        title: For the progress bar; empty to show none.
        one_model_lock: Held by a judge in this process while its panel has several of them.
        on_outcome: Called with every outcome, by one thread at a time.
    """

    def __init__(
        self,
        waiting: WaitingSamples,
        title: str,
        one_model_lock: threading.Lock,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self._waiting = waiting
        self._title = title
        self._one_model_lock = one_model_lock
        self._on_outcome = on_outcome
        self._stopped = threading.Event()  # set when no further reply is awaited
        self._open = OpenJudges(judges=())
        self._results: list[dict[int, Judgement]] = [{} for _ in waiting]  # by judge
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
            logger.error(
                "Judging ended early; {} samples left without a score.\n{}",
                len(self._unfilled),
                traceback_text(error),
            )
            for index in list(self._unfilled):
                self._fill(
                    index,
                    [self._member(Signature(), index, JudgeResult(failure=ended_early(error)))],
                    None,
                )

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
            logger.error(
                "{} ended early; {} samples left without its verdict.\n{}",
                name[0].upper() + name[1:],
                len(missing),
                traceback_text(error),
            )
            for index in missing:
                self._add(position, index, JudgeResult(failure=ended_early(error)))

    def _ask_judge(self, position: int) -> None:
        shared, name = self._open.judges[position], self._open.names[position]
        requests = [sample.request for sample, _ in self._waiting]
        title = f"{self._title}, {name}" if self._title and name else self._title
        models = sum(other.in_process for other in self._open.judges)
        takes_turns = shared.in_process and models > 1
        with (
            self._one_model_lock if takes_turns else nullcontext(),
            Progress(title, len(requests), self._report, shared.judge) as bar,
        ):
            try:
                if self._stopped.is_set():
                    return
                watch = _SightWatch(name or "the judge")
                for index, result in judge_all(shared.judge, requests, bar.update):
                    watch.add(result.replies)
                    shared.warn_of_others(result.replies)
                    self._add(position, index, result)
                    if self._stopped.is_set():
                        return
            finally:
                if takes_turns:
                    shared.close()  # the next model needs the memory

    def _report(self, outcome: Outcome) -> None:
        with self._lock:
            self._on_outcome(outcome)

    def _add(self, position: int, index: int, result: JudgeResult) -> None:
        """Add a judge's result; fill in the sample's rows once every judge has one."""
        judge = self._open.judges[position].judge
        member = self._member(Signature.of_judges([judge.signature]), index, result)
        with self._lock:
            self._stored += len(result.replies) * isinstance(judge, CachedJudge)
            results = {**self._results[index], position: member}
            if len(results) == len(self._open.judges):
                members = [results[number] for number in sorted(results)]
                self._fill(index, members, self._open.panel)
            self._results[index] = results

    def _member(self, judge: Signature, index: int, result: JudgeResult) -> Judgement:
        sample, _ = self._waiting[index]
        return Judgement(judge=judge, result=result, verdicts=sample.request.grade(result))

    def _fill(self, index: int, members: Sequence[Judgement], panel: Panel | None) -> None:
        sample, rows = self._waiting[index]
        judged = Judged.by(members, panel)
        for metric, row in sample.make_rows(judged).items():
            rows[metric].fill(row)
        del self._unfilled[index]


class _SightWatch:
    """Warns once, as soon as it is evident, of a judge that may not see the pictures."""

    def __init__(self, judge: str) -> None:
        self._judge = judge
        self._replies: list[JudgeReply] = []
        self._next = LEAST_REQUESTS

    def add(self, replies: Iterable[JudgeReply]) -> None:
        self._replies += replies
        if len(self._replies) < self._next:
            return
        self._next += self._next // 4
        if reason := unseen_pictures(self._replies):
            self._next = sys.maxsize
            warn(
                f"{self._judge[0].upper()}{self._judge[1:]} may not see the pictures, or its "
                f"server cuts the prompts: {reason}.",
                hint="choose a model that takes images; raise the context length of its server "
                "(Ollama: `OLLAMA_CONTEXT_LENGTH`)",
            )
