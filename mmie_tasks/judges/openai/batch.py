"""The `openai` judge with ``batch=true``: the provider's Batch API, at half the price.

All requests go to the provider in files, and the replies arrive within 24 hours, usually sooner.
The signature is that of the online judge, so cached replies of one serve the other. An interrupted
run resumes when the same command is run again, and pays for nothing twice: every submission is
recorded before its batch exists (`batch_store`), and later runs wait for that batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from loguru import logger

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.access import public_address
from mmie_tasks.http.client import ServerError, UnusableBody, read_server_error
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
    content_key,
)
from mmie_tasks.judges.openai.batch_store import (
    Batch,
    BatchPace,
    Limits,
    Provider,
    Rejected,
    ResultLine,
    Submission,
    SubmissionStore,
    is_too_much,
    read_results,
    write_requests,
)
from mmie_tasks.judges.openai.settings import Adaptations, Dialect, Settings, dialect_of
from mmie_tasks.judges.openai.wire import NoText, chat_body, check, next_dialect, read_completion, top_logprobs_of

DISCOUNT = 0.5
"""The price of a batch, as a fraction of the price of the same requests sent online."""

_MAX_REQUESTS_WITH_LOGPROBS = 1000  # in one batch, whose results are read into memory: 200 KB each
_AGAIN = "run the same command again to retry"
_FAULTS = (JudgeUnavailable, Rejected, OSError)


class BatchJudge:
    """Sends requests through the Batch API.

    Args:
        settings: As for the online judge.
        limits: Of one request file.
        pace: Waiting times.

    Raises:
        SettingWrong: A setting that the Batch API does not support.
    """

    def __init__(self, settings: Settings, *, limits: Limits | None = None, pace: BatchPace | None = None) -> None:
        if settings.access.api_type == "azure":
            raise SettingWrong(
                "`batch=true` is not supported at Azure, where batches are another service.",
                hint="leave `batch=true` out",
            )
        if len(settings.access.base_urls) > 1:
            raise SettingWrong(
                f"`batch=true` was given with {len(settings.access.base_urls)} base URLs.",
                hint="give one: a batch runs on one server",
            )
        if settings.max_cost_usd is not None:
            raise SettingWrong(
                "`max_cost` cannot be kept with `batch=true`: a batch is paid for as a whole, and "
                "its cost is known when it is over.",
                hint="leave one of them out; `--limit` makes a run smaller",
            )
        self.settings = settings
        self._limits = limits or Limits()
        self._pace = pace or BatchPace()
        self._adaptations = Adaptations()

    @property
    def signature(self) -> str:
        """That of the online judge: the same model gives the replies."""
        return self.settings.signature

    def check(self) -> None:
        """Return if key, server and model can be used: see `wire.check`. Creates no batch.

        Raises:
            JudgeMisconfigured: They cannot.
        """
        check(self.settings, pace=self._pace.retries, adaptations=self._adaptations)

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome per request, with its index, as batches end.

        Equal requests are sent once.
        """
        if (missing_key := self.settings.access.missing_key(JudgeMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        indices_by_key: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            try:
                indices_by_key.setdefault(content_key(request), []).append(index)
            except RequestBroken as error:  # noqa: PERF203 - concerns one request
                yield index, error
        if not indices_by_key:
            return
        waiting = {key: requests[indices[0]] for key, indices in indices_by_key.items()}
        with closing(Provider(self.settings, self._pace)) as provider:
            dialect = self._adaptations.dialects.get(provider.address, dialect_of(self.settings.model))
            run = _BatchRun(waiting, self.settings, self._limits, self._pace, provider, dialect)
            try:
                for key, outcome in run.outcomes():
                    yield from ((index, outcome) for index in indices_by_key[key])
            except (KeyboardInterrupt, GeneratorExit):
                if names := ", ".join(f"`{entry.batch}`" for entry in run.running):
                    logger.warning(
                        f"mmie-tasks: the batches {names} go on at {provider.address}. Run the "
                        "same command again to wait for them; nothing is paid for twice."
                    )
                raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningBatch:
    """A batch that this run waits for, with those of its requests that belong to this run, by content key."""

    submission: Submission
    requests: Mapping[str, JudgeRequest]
    dialect: Dialect
    # An earlier run or another process submitted it: requests without a reply are submitted again, not given up.
    is_earlier: bool

    @property
    def batch(self) -> str:
        """The provider's name for it."""
        return self.submission.batch or ""


class _BatchRun:
    """Submits the requests of one `ask`, waits for the batches, and reads their results.

    Every request is in one of three states: waiting to be submitted, in a running batch, or done.
    """

    def __init__(
        self,
        waiting: dict[str, JudgeRequest],
        settings: Settings,
        limits: Limits,
        pace: BatchPace,
        provider: Provider,
        dialect: Dialect,
    ) -> None:
        if any(top_logprobs_of(request, settings, dialect) for request in waiting.values()):
            limits = replace(limits, requests=min(limits.requests, _MAX_REQUESTS_WITH_LOGPROBS))
        self.running: list[_RunningBatch] = []
        self._waiting = waiting
        self._done: dict[str, Outcome] = {}
        self._settings = settings
        self._limits = limits
        self._pace = pace
        self._provider = provider
        self._store = SubmissionStore(
            settings.cache_dir / "judge" / "batches",
            server=public_address(settings.access.base_urls[0]),
            signature=settings.signature,
        )
        self._price = settings.price.times(DISCOUNT) if settings.price else None
        self._dialect = dialect
        self._tried_dialects: set[Dialect] = set()
        self._one_batch_at_a_time = False
        self._states: dict[str, Batch] = {}
        self._progress = ""
        self._restart_timers()

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """One outcome per request, with its content key, as batches end. Raises nothing."""
        try:
            while self._waiting or self.running:
                if self._may_submit():
                    self._submit()
                yield from self._take_done()
                yield from self._poll()
        except _FAULTS as error:
            keys = [key for entry in self.running for key in entry.requests]
            self.running.clear()
            self._fail([*self._waiting, *keys], self._judge_error(error))
        yield from self._take_done()

    def _take_done(self) -> Iterator[tuple[str, Outcome]]:
        done, self._done = self._done, {}
        yield from done.items()

    def _fail(self, keys: Iterable[str], error: JudgeError) -> None:
        for key in keys:
            self._waiting.pop(key, None)
            self._done[key] = error

    def _restart_timers(self) -> None:
        self._poll_s = self._pace.first_poll_s
        self._end = time.monotonic() + self._pace.longest_wait_s

    def _start(self, submission: Submission, *, is_earlier: bool = False) -> None:
        """Wait for a batch, which has some of the waiting requests."""
        requests = {key: self._waiting.pop(key) for key in submission.keys if key in self._waiting}
        self.running.append(
            _RunningBatch(submission=submission, requests=requests, dialect=self._dialect, is_earlier=is_earlier)
        )
        self._tried_dialects.add(self._dialect)

    def _may_submit(self) -> bool:
        return bool(self._waiting) and not (self._one_batch_at_a_time and self.running)

    def _submit(self) -> None:
        """Wait for batches of earlier runs and other processes, and submit the other requests.

        Only one process at a time does this, so that two do not submit the same requests. So a
        submission without a batch is that of a killed process.
        """
        try:
            with self._store.lock():
                for submission in self._store.load():
                    if self._waiting.keys().isdisjoint(submission.keys):
                        continue
                    if submission.batch is None:
                        batch = self._provider.find(submission)
                        if batch is None:
                            self._store.delete(submission)
                            continue
                        submission = self._store.save(replace(submission, batch=batch.name))
                    # A batch whose record could not be deleted is not read for ever.
                    self._start(submission, is_earlier=submission.batch not in self._states)
                    logger.info(f"mmie-tasks: waiting for the batch `{submission.batch}` of an earlier run.")
                while self._may_submit():
                    self._submit_file()
        except _FAULTS as error:
            self._fail([*self._waiting], self._judge_error(error))
        self._restart_timers()

    def _submit_file(self) -> None:
        """Write a file with waiting requests, upload it, and create its batch."""
        path = self._store.new_request_file()
        try:
            content = write_requests(
                path, self._waiting, lambda request: chat_body(request, self._settings, self._dialect), self._limits
            )
            for key, error in content.broken.items():
                self._fail([key], error)
            if not content.keys:
                return
            submission = self._store.save(Submission(keys=content.keys))
            try:
                input_file = self._provider.upload(path)
            except (JudgeUnavailable, Rejected):
                self._store.delete(submission)
                raise
        finally:
            path.unlink(missing_ok=True)
        submission = self._store.save(replace(submission, input_file=input_file))
        try:
            batch = self._provider.create(submission)
        except Rejected as rejected:
            self._store.delete(submission)
            if not is_too_much(rejected.error):
                raise
            self._submit_less(len(submission.keys), rejected.error)
            return
        self._start(self._store.save(replace(submission, batch=batch.name)))
        logger.info(
            f"mmie-tasks: the batch `{batch.name}` has {len(submission.keys)} requests and may "
            "take 24 hours. If the run is stopped meanwhile, the same command resumes it."
        )

    def _submit_less(self, request_count: int, error: ServerError) -> None:
        """Continue after a batch of this many requests exceeded the provider's limit.

        First submit one batch at a time; if a single batch is too large, halve its requests.
        """
        if not self.running:
            if request_count == 1:
                self._fail([*self._waiting], JudgeUnavailable(f"no batch is taken: {error.message}; {_AGAIN}"))
                return
            self._limits = replace(self._limits, requests=request_count // 2)
        self._one_batch_at_a_time = True
        logger.info(f"mmie-tasks: the provider takes no more batches for now ({error.message}).")

    def _poll(self) -> Iterator[tuple[str, Outcome]]:
        """Wait, inspect every running batch once, and log how far they are if that changed."""
        entries = list(self.running)
        if not entries:
            return
        if time.monotonic() > self._end:
            raise JudgeUnavailable(f"the batch is not over after {self._pace.longest_wait_s / 3600:.0f} h; {_AGAIN}")
        time.sleep(self._poll_s)
        self._poll_s = min(self._poll_s * 1.5, self._pace.longest_poll_s)
        for entry in entries:
            yield from self._inspect(entry)
        batches = [self._states[entry.batch] for entry in self.running]
        total = sum(len(entry.submission.keys) for entry in self.running)
        completed = sum(batch.completed for batch in batches)
        progress = f"{completed} of {total} requests done, {sum(batch.failed for batch in batches)} failed"
        if batches and progress != self._progress:
            logger.info(f"mmie-tasks: running batches: {len(batches)}; {progress}.")
            self._progress = progress

    def _inspect(self, entry: _RunningBatch) -> Iterator[tuple[str, Outcome]]:
        """Retrieve a batch once, and its results if it is over."""
        try:
            batch = self._provider.retrieve(entry.batch)
            files = (batch.output_file, batch.error_file) if batch.is_over else ()
            contents = [self._provider.download(file) for file in files if file]
        except Rejected as rejected:
            if rejected.error.status != 404:
                raise
            # Deleted, or of another account.
            self.running.remove(entry)
            self._store.delete(entry.submission)
            if entry.is_earlier:
                self._waiting = {**entry.requests, **self._waiting}
            else:
                reason = f"the batch `{entry.batch}` no longer exists ({rejected}); {_AGAIN}"
                self._fail(entry.requests, JudgeUnavailable(reason))
            return
        self._states[entry.batch] = batch
        if batch.is_over:
            self.running.remove(entry)
            yield from self._read_results(entry, batch, contents)

    def _read_results(
        self, entry: _RunningBatch, batch: Batch, contents: Sequence[bytes]
    ) -> Iterator[tuple[str, Outcome]]:
        unanswered, retries = dict(entry.requests), {}
        for line in read_results(contents, entry.submission.keys):
            if line.key not in unanswered:
                continue  # requested by an earlier run, not by this one
            request, outcome = unanswered.pop(line.key), self._outcome(entry, line)
            if outcome is None or (entry.is_earlier and isinstance(outcome, JudgeUnavailable)):
                retries[line.key] = request
            else:
                yield line.key, outcome
        too_much = batch.status == "failed" and is_too_much(batch.error)
        if entry.is_earlier or too_much:
            retries |= unanswered
        else:
            reason = f"the batch is {batch.status} and has no line for it"
            if batch.status == "failed":
                reason = f"the batch failed: {batch.error.message} ({batch.error.code})"
            self._fail(unanswered, JudgeUnavailable(f"{reason}; {_AGAIN}"))
        self._waiting = {**retries, **self._waiting}  # before all others
        if too_much and not entry.is_earlier:
            self._submit_less(len(entry.submission.keys), batch.error)
        yield from self._take_done()
        self._store.remove_keys(entry.submission, entry.requests.keys())

    def _outcome(self, entry: _RunningBatch, line: ResultLine) -> Outcome | None:
        """The outcome of a request; None to submit it again in another dialect."""
        if line.status == 200:
            try:
                return read_completion(line.body, model=self._settings.model, price=self._price)
            except UnusableBody as unusable:
                return JudgeUnavailable(f"{unusable}; {_AGAIN}")
            except NoText as refused:
                return JudgeRefused(str(refused))
        error = read_server_error(line.status or 0, line.body, self._settings.access.secrets)
        dialect = next_dialect(entry.dialect, error)
        if dialect is not None and (dialect == self._dialect or dialect not in self._tried_dialects):
            self._dialect = dialect
            return None
        return _request_error(error)

    def _judge_error(self, error: JudgeUnavailable | Rejected | OSError) -> JudgeError:
        """The judge error of every request that a fault concerns."""
        if isinstance(error, JudgeUnavailable):
            return error
        if isinstance(error, OSError):
            return JudgeMisconfigured(
                f"The folder `{self._store.folder}` for batches cannot be used: {error.strerror}.",
                hint="make room on the disk, or name another with `MMIE_TASKS_CACHE`",
            )
        hint = "check the account, or leave `batch=true` out"
        if error.error.status in (401, 403):
            hint = "check the key and its permissions"
        elif error.error.status in (404, 405, 501):
            hint = "leave `batch=true` out: not every server has a Batch API"
        return JudgeMisconfigured(f"The judge's server {self._provider.address} accepts no batch: {error}.", hint=hint)


def _request_error(error: ServerError) -> JudgeError:
    """The judge error of one request; status 0 means that it was never run."""
    if error.status in (400, 413, 422):
        subject = "a content filter" if error.is_content_filter else "the server"
        return JudgeRefused(f"{subject} would not take the request: {error}")
    if error.status in (401, 403, 404) or error.is_quota:
        return JudgeMisconfigured(f"The batch ran into {error}.", hint="check key and model")
    reason = f"the batch ended without it ({error.code})" if error.status == 0 else str(error)
    return JudgeUnavailable(f"{reason}; {_AGAIN}")
