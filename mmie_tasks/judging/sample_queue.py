"""The samples of a benchmark that wait until they are judged together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from mmie_tasks.judging.batch import PendingSample, WaitingSamples
from mmie_tasks.judging.deferred import DeferredRow


class SampleQueue:
    """The samples of one benchmark that wait for its judge, in one session."""

    def __init__(self) -> None:
        self._waiting: list[tuple[PendingSample, Mapping[str, DeferredRow]]] = []
        self._adding = threading.Lock()
        self._judging = threading.Lock()

    def add(self, sample: PendingSample, rows: Mapping[str, DeferredRow]) -> None:
        """Let a sample wait."""
        with self._adding:
            self._waiting.append((sample, rows))

    def judge(self, judge_batch: Callable[[WaitingSamples], None]) -> None:
        """Judge all samples that wait, together; nothing if none does.

        A second thread waits until the first has judged; then the queue is empty.

        Args:
            judge_batch: Fills in the rows of samples.
        """
        with self._judging:
            with self._adding:
                waiting, self._waiting = self._waiting, []
            if waiting:
                judge_batch(waiting)
