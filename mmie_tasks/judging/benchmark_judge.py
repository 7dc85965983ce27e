"""The judge or panel of a benchmark: how it is chosen, checked and used."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.choice import ChosenJudges, is_paper_judge
from mmie_tasks.judging.batch import JudgedBatch, PendingSample, WaitingSamples
from mmie_tasks.judging.deferred import DeferredRow, MetricRows
from mmie_tasks.judging.served_model import judges_itself
from mmie_tasks.judging.session import JudgingSession, session_without_run
from mmie_tasks.record.signature import Signature

_STOP_S = 1.0
"""How long to wait for judges after a stop."""


class BenchmarkJudge:
    """The judge or panel of one benchmark.

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
        return session.open_chosen(self.choices(session))

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
            wait([job], _STOP_S)
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
