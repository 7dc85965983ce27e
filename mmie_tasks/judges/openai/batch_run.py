"""One `ask` by way of batches: submit, wait, hand on what came of it.

Nothing is paid for twice. A batch is written down before it exists (`batch_state`), so that whoever
asks for the same later, after a crash or in another process, waits for it instead of submitting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from loguru import logger

from mmie_tasks.judges.base import JudgeError, JudgeMisconfigured, JudgeUnavailable, Outcome
from mmie_tasks.judges.openai.batch_outcomes import (
    AGAIN,
    error_of,
    error_of_setup,
)
from mmie_tasks.judges.openai.batch_retry import Rejected, too_much_at_once
from mmie_tasks.judges.openai.batch_submit import give_less, submit
from mmie_tasks.judges.openai.batch_view import Batch
from mmie_tasks.judges.openai.batch_work import Means, Running, Work
from mmie_tasks.judges.openai.complaints import Complaint
from mmie_tasks.judges.openai.wire import next_dialect

_TROUBLE = (JudgeUnavailable, Rejected, OSError)


class Run:
    """One `ask`.

    Args:
        work: What is asked.
        means: What it is done with.
    """

    def __init__(self, work: Work, means: Means) -> None:
        self.work = work
        self._means = means
        self._look_s = means.pace.first_look_s
        self._end = time.monotonic() + means.pace.longest_wait_s
        self._seen: dict[str, Batch] = {}
        self._said = ""

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """One outcome for each request, by content key, as batches end. Raises nothing."""
        work = self.work
        try:
            yield from self._resumed()
            while work.waiting or work.running:
                self._submit()
                yield from self._handed_on()
                yield from self._looked_at()
        except _TROUBLE as error:
            work.fail_all(self._failure(error))
        yield from self._handed_on()

    def _handed_on(self) -> Iterator[tuple[str, Outcome]]:
        settled, self.work.settled = self.work.settled, {}
        yield from settled.items()

    def _resumed(self) -> Iterator[tuple[str, Outcome]]:
        """Take up batches of earlier runs; what one that is over did not answer waits again."""
        for submission in self._means.submissions.known():
            if submission.batch is None or self.work.waiting.keys().isdisjoint(submission.keys):
                continue
            logger.info(f"mmie-tasks: the batch `{submission.batch}` of an earlier run is used.")
            entry = self.work.start(submission)
            yield from self._looked(entry, again=True)

    def _submit(self) -> None:
        """Submit what may be submitted; trouble concerns what is in no batch yet."""
        work = self.work
        if not work.may_submit:
            return
        try:
            submit(work, self._means)
        except _TROUBLE as error:
            work.fail([*work.waiting], self._failure(error))
        self._look_s = self._means.pace.first_look_s
        self._end = time.monotonic() + self._means.pace.longest_wait_s

    def _looked_at(self) -> Iterator[tuple[str, Outcome]]:
        """Wait, then look at every batch once."""
        pace, running = self._means.pace, list(self.work.running)
        if not running:
            return
        if time.monotonic() > self._end:
            hours = pace.longest_wait_s / 3600
            raise JudgeUnavailable(f"the batch is not over after {hours:.0f} h; {AGAIN}")
        time.sleep(self._look_s)
        self._look_s = min(self._look_s * 1.5, pace.longest_look_s)
        for entry in running:
            yield from self._looked(entry)
        self._tell()

    def _looked(self, entry: Running, *, again: bool = False) -> Iterator[tuple[str, Outcome]]:
        """Look at a batch once, and hand on what came of it where it is over.

        Args:
            entry: The batch.
            again: It is of an earlier run: what it did not answer is not given up, but submitted.
        """
        provider = self._means.provider
        try:
            batch = provider.look(entry.batch)
            files = (batch.output_file, batch.error_file) if batch.over else ()
            contents = [provider.content(file) for file in files if file]
        except Rejected as rejected:
            if rejected.complaint.status != 404:
                raise
            self._gone(entry, rejected, again)
            return
        self._seen[entry.batch] = batch
        if batch.over:
            self.work.running.remove(entry)
            yield from self._over(entry, batch, contents, again)

    def _gone(self, entry: Running, rejected: Rejected, again: bool) -> None:
        """A batch or its files are not there: deleted, or of another account."""
        self.work.running.remove(entry)
        self._means.submissions.forget(entry.submission)
        if again:
            self.work.put_back(entry.requests)
        else:
            gone = f"the batch `{entry.batch}` is not there any more ({rejected}); {AGAIN}"
            self.work.fail(entry.requests, JudgeUnavailable(gone))

    def _over(
        self, entry: Running, batch: Batch, contents: Sequence[bytes], again: bool
    ) -> Iterator[tuple[str, Outcome]]:
        work = self.work
        left, back = dict(entry.requests), {}
        keys = frozenset(entry.submission.keys)
        for key, found in self._means.reading.outcomes(contents, keys):
            if key not in left:
                continue  # asked for in an earlier run, not in this one
            request, outcome = left.pop(key), self._outcome(entry, found)
            if outcome is None or (again and isinstance(outcome, JudgeUnavailable)):
                back[key] = request
            else:
                yield key, outcome
        if again or _too_much(batch):
            back |= left
        else:
            work.fail(left, _unanswered(batch))
        work.put_back(back)
        if _too_much(batch) and not again:
            give_less(work, len(keys), batch.complaint)
        yield from self._handed_on()
        self._means.submissions.settle(entry.submission, entry.requests.keys())

    def _outcome(self, entry: Running, found: Outcome | Complaint) -> Outcome | None:
        """The outcome of a request; None where it is to be asked once more in another way."""
        if not isinstance(found, Complaint):
            return found
        work, dialect = self.work, next_dialect(entry.dialect, found)
        if dialect is not None and (dialect == work.dialect or dialect not in work.tried):
            work.dialect = dialect
            return None
        return error_of(found)

    def _tell(self) -> None:
        """Say in the log how far the batches are, whenever that has changed."""
        batches = [self._seen[entry.batch] for entry in self.work.running]
        total = sum(len(entry.submission.keys) for entry in self.work.running)
        completed = sum(batch.completed for batch in batches)
        failed = sum(batch.failed for batch in batches)
        said = f"{completed} of {total} requests done, {failed} failed"
        if batches and said != self._said:
            logger.info(f"mmie-tasks: batches that are running: {len(batches)}; {said}.")
            self._said = said

    def _failure(self, error: JudgeUnavailable | Rejected | OSError) -> JudgeError:
        """What trouble means for every request it concerns."""
        match error:
            case JudgeUnavailable():
                return error
            case Rejected():
                return error_of_setup(error.complaint, self._means.provider.address)
            case OSError():
                folder = self._means.submissions.folder
                return JudgeMisconfigured(
                    f"The folder `{folder}` for batches cannot be used: {error.strerror}.",
                    hint="make room on the disk, or name another with `MMIE_TASKS_CACHE`",
                )


def _too_much(batch: Batch) -> bool:
    return batch.status == "failed" and too_much_at_once(batch.complaint)


def _unanswered(batch: Batch) -> JudgeUnavailable:
    if batch.status == "failed":
        said = batch.complaint
        return JudgeUnavailable(f"the batch failed: {said.message} ({said.code}); {AGAIN}")
    return JudgeUnavailable(f"the batch is {batch.status} and has no line for it; {AGAIN}")
