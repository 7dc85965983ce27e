"""The `openai` judge with ``batch=true``: the provider's Batch API, at half the price.

Requests are uploaded in files, and the replies arrive within 24 hours, usually sooner. The online
judge has the same signature, so both share cached replies. Running the same command again resumes
an interrupted run and pays for nothing twice: every batch is noted before it is created
(`batch_note`), and later runs wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event

from loguru import logger

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.http.access import Access
from mmie_tasks.http.errors import UnusableBody, read_server_error, redact
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.openai.batch_files import Limits, read_result_lines, write_requests
from mmie_tasks.judges.openai.batch_note import BatchNote, Submission
from mmie_tasks.judges.openai.batch_provider import BatchPace, Provider, Rejected
from mmie_tasks.judges.openai.chat_request import chat_body
from mmie_tasks.judges.openai.check import check
from mmie_tasks.judges.openai.completion import PoorReply, Price, read_completion
from mmie_tasks.judges.openai.dialect import Adaptations
from mmie_tasks.judges.openai.settings import Settings
from mmie_tasks.record.signature import signature_text

DISCOUNT = 0.5
"""The price of a batch, as a fraction of the online price."""

_AGAIN = "run the same command again to retry"
_FAULTS = (JudgeUnavailable, Rejected, OSError, DataBroken)


class BatchJudge(Judge):
    """Sends requests through the Batch API.

    Raises:
        SettingWrong: The settings choose Azure or a cost limit, which batches do not support.
    """

    def __init__(
        self, settings: Settings, *, limits: Limits | None = None, pace: BatchPace | None = None
    ) -> None:
        if settings.access.api_type == "azure":
            raise SettingWrong(
                "`batch=true` is not supported at Azure, where batches are another service.",
                hint="leave `batch=true` out",
            )
        if settings.max_cost_usd is not None:
            raise SettingWrong(
                "`max_cost` cannot be kept with `batch=true`: a batch is paid for as a whole, and "
                "its cost is known when it is over.",
                hint="leave one of them out; `--limit` makes a run smaller",
            )
        self.settings = settings
        self.model = settings.model
        self.limits = limits or Limits()
        self.pace = pace or BatchPace()
        self.adaptations = Adaptations(dialect=settings.dialect)
        self._stop = Event()  # stops the running calls

    @property
    def signature(self) -> Mapping[str, object]:
        """The signature of the online judge: the same model gives the replies."""
        return self.settings.signature

    @property
    def access(self) -> Access:
        """The judge's server."""
        return self.settings.access

    def check(self, max_images: int = 0) -> None:
        """Check key, server and model with an online request; see `check.check`."""
        check(
            self.settings,
            max_images=max_images,
            pace=self.pace.retries,
            adaptations=self.adaptations,
        )

    def stop(self) -> None:
        """Make every running `ask` raise KeyboardInterrupt; batches continue at the provider."""
        stopped, self._stop = self._stop, Event()
        stopped.set()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as batches end; equal requests are sent once."""
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
        with closing(Provider(self.settings, self.pace, self._stop)) as provider:
            run = _BatchRun(self, waiting, provider)
            try:
                for key, outcome in run.outcomes():
                    yield from ((index, outcome) for index in indices_by_key[key])
            except (KeyboardInterrupt, GeneratorExit):
                if run.running:
                    names = ", ".join(f"`{entry.name}`" for entry in run.running)
                    logger.warning(
                        f"mmie-tasks: the batches {names} go on at {provider.address}. Run the "
                        "same command again to wait for them; nothing is paid for twice."
                    )
                raise


@dataclass(slots=True, kw_only=True)
class _RunningBatch:
    """A batch that this run waits for, with this run's requests in it by content key."""

    name: str
    submission: Submission
    requests: Mapping[str, JudgeRequest]
    progress: str = ""  # as last logged


class _BatchRun:
    """Submits the requests of one `ask`, waits for the batches, and reads their results."""

    def __init__(
        self, judge: BatchJudge, waiting: dict[str, JudgeRequest], provider: Provider
    ) -> None:
        settings = judge.settings
        self.running: list[_RunningBatch] = []
        self._waiting = waiting  # to be submitted
        self._settings = settings
        price = settings.price
        self._price = (
            None
            if price is None
            else Price(input_usd=DISCOUNT * price.input_usd, output_usd=DISCOUNT * price.output_usd)
        )
        self._dialect = judge.adaptations.dialect
        self._limits, self._pace = judge.limits, judge.pace
        self._provider = provider
        self._note = BatchNote(
            settings.cache_dir / "judge" / "batches",
            server=provider.address,
            signature=signature_text(**settings.signature),
        )

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """Yield the content key and outcome of each request as batches end."""
        unsent: dict[str, JudgeError] = {}
        try:
            # One process at a time, so that two do not submit the same requests.
            with self._note.lock():
                for submission in self._note.load():
                    if not self._waiting.keys().isdisjoint(submission.keys):
                        self._resume(submission)
                while self._waiting:
                    unsent |= self._submit_file()
        except _FAULTS as error:
            unsent |= dict.fromkeys(self._waiting, self._judge_error(error))
        yield from unsent.items()
        end = time.monotonic() + self._pace.longest_wait_s
        try:
            while self.running:
                if time.monotonic() > end:
                    hours = self._pace.longest_wait_s / 3600
                    raise JudgeUnavailable(f"the batch is not over after {hours:.0f} h; {_AGAIN}")
                self._provider.wait(self._pace.poll_s)
                for entry in list(self.running):
                    yield from self._inspect(entry)
        except _FAULTS as error:
            keys = [key for entry in self.running for key in entry.requests]
            self.running.clear()
            yield from dict.fromkeys(keys, self._judge_error(error)).items()

    def _resume(self, submission: Submission) -> None:
        """Wait for a noted batch; an entry without a name was left by a killed process."""
        if submission.batch is None:
            submission.batch = self._provider.find(submission.nonce)
            if submission.batch is None:
                self._note.remove(submission, submission.keys)
                return
            self._note.put(submission)
        self._start(submission, submission.batch)
        logger.info(f"mmie-tasks: waiting for the batch `{submission.batch}` of an earlier run.")

    def _submit_file(self) -> Mapping[str, RequestBroken]:
        """Create a batch of waiting requests; returns the requests that cannot be sent."""
        path = self._note.path.with_suffix(".jsonl")
        try:
            content = write_requests(
                path,
                self._waiting,
                lambda request: chat_body(request, self._settings, self._dialect),
                self._limits,
            )
            for key in content.broken:
                del self._waiting[key]
            if not content.keys:
                return content.broken
            input_file = self._provider.upload(path)
        finally:
            path.unlink(missing_ok=True)
        submission = Submission(keys=content.keys)
        self._note.put(submission)
        try:
            name = submission.batch = self._provider.create(input_file, submission.nonce)
        except Rejected:
            self._note.remove(submission, submission.keys)
            raise
        self._note.put(submission)
        self._start(submission, name)
        logger.info(
            f"mmie-tasks: the batch `{name}` has {len(submission.keys)} requests and may take 24 "
            "hours. If the run is stopped meanwhile, the same command resumes it."
        )
        return content.broken

    def _start(self, submission: Submission, name: str) -> None:
        """Wait for a batch that has some of the waiting requests."""
        requests = {key: self._waiting.pop(key) for key in submission.keys if key in self._waiting}
        self.running.append(_RunningBatch(name=name, submission=submission, requests=requests))

    def _inspect(self, entry: _RunningBatch) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcomes of a batch if it is over; the note keeps it until all are taken."""
        try:
            batch = self._provider.retrieve(entry.name)
            if batch.progress != entry.progress:
                logger.info(f"mmie-tasks: the batch `{entry.name}` is {batch.progress}.")
                entry.progress = batch.progress
            if not batch.is_over:
                return
            files = filter(None, (batch.output_file_id, batch.error_file_id))
            contents = [self._provider.download(file) for file in files]
        except Rejected as rejected:
            if rejected.error.status != 404:
                raise
            # The batch was deleted, or belongs to another account.
            contents, reason = [], f"the batch `{entry.name}` no longer exists ({rejected})"
        else:
            reason = f"the batch is {batch.status} and has no line for it"
            if batch.status == "failed":
                error = read_server_error(0, batch.errors, self._settings.access.secrets)
                reason = f"the batch failed: {error.cause}"
        lines = read_result_lines(contents, set(entry.submission.keys))
        missing = JudgeUnavailable(f"{reason}; {_AGAIN}")
        self.running.remove(entry)
        for key, request in entry.requests.items():
            yield key, self._outcome(request, lines[key]) if key in lines else missing
        self._forget(entry)

    def _forget(self, entry: _RunningBatch) -> None:
        try:
            with self._note.lock():
                self._note.remove(entry.submission, entry.requests.keys())
        except (OSError, DataBroken) as error:
            # At worst the replies are downloaded once more, at no cost.
            logger.warning(f"mmie-tasks: `{self._note.path}` cannot be updated: {error}")

    def _outcome(self, request: JudgeRequest, line: Mapping[str, object]) -> Outcome:
        """The outcome in a line of `read_result_lines`."""
        match line:
            case {"response": {"status_code": 200, "body": body}}:
                try:
                    return read_completion(
                        body,
                        model=self._settings.model,
                        price=self._price,
                        has_schema=request.schema is not None,
                    )
                except UnusableBody as unusable:
                    reason = redact(str(unusable), self._settings.access.secrets)
                    return JudgeUnavailable(f"{reason}; {_AGAIN}")
                except PoorReply as poor:
                    return poor.outcome
            case {"response": {"status_code": int(status), **response}}:
                body = [response.get("body"), line.get("error")]  # vLLM's error is in the line
            case _:
                status, body = 0, line  # the request was never run
        error = read_server_error(status, body, self._settings.access.secrets)
        if status in (401, 403, 404) or error.is_quota or error.is_key:
            return JudgeMisconfigured(f"The batch ran into {error}.", hint="check key and model")
        if status in (400, 413, 422):
            return JudgeRefused(f"the server would not take the request: {error}")
        reason = f"the batch ended without it: {error.cause}" if status == 0 else str(error)
        return JudgeUnavailable(f"{reason}; {_AGAIN}")

    def _judge_error(self, error: Exception) -> JudgeError:
        """The judge error for one of `_FAULTS`."""
        match error:
            case JudgeUnavailable():
                return error
            case DataBroken():
                return JudgeMisconfigured(error.message, hint=error.hint)
            case OSError():
                return JudgeMisconfigured(
                    f"The folder `{self._note.path.parent}` for batches cannot be used: "
                    f"{error.strerror}.",
                    hint="make room on the disk, or name another with `MMIE_TASKS_CACHE`",
                )
        return JudgeMisconfigured(
            f"The judge's server {self._provider.address} accepts no batch: {error}.",
            hint="check the key and the account, or leave `batch=true` out: not every server has "
            "a Batch API",
        )
