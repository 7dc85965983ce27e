"""The Batch API of one server: uploads, batches and downloads, with retries."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated, TypeAlias, TypeVar

from loguru import logger
from pydantic import (
    BaseModel,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from mmie_tasks.http.client import ATTEMPT_ERRORS, blocking_client, failure_from_error
from mmie_tasks.http.errors import ServerError, UnusableBody
from mmie_tasks.http.pace import Pace
from mmie_tasks.http.rate_limit import demand_text
from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.openai.batch_files import ENDPOINT
from mmie_tasks.judges.openai.settings import Settings

NONCE = "mmie_tasks_submission"
"""Name of the nonce in the metadata of a batch."""

_NEWEST = 100  # batches in one list call
_NO_SUCH_ROUTE = (404, 405, 501)

_T = TypeVar("_T")


class Rejected(Exception):
    """The server rejects a call for good."""

    def __init__(self, error: ServerError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """Waiting times in seconds.

    Attributes:
        poll_s: Time between two polls of a batch.
        longest_wait_s: Longest wait for a batch, which the provider ends after 24 hours.
        patience_s: How long a server may fail while a batch runs. Longer than for a reply, because
            waiting loses nothing.
        list_poll_s: Time between two looks at the provider's list.
        list_lag_s: How long a new batch may be missing from the provider's list.
        retries: Waiting times between the attempts of a call.
    """

    poll_s: float = 30.0
    longest_wait_s: float = 26 * 3600.0
    patience_s: float = 3600.0
    list_poll_s: float = 10.0
    list_lag_s: float = 120.0
    retries: Pace = field(default_factory=Pace)


def _or_none(json_value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(json_value)
    except ValidationError:
        return None


_LENIENT = WrapValidator(_or_none)
"""None instead of a value of another type, because only required fields may fail a response."""

_Text: TypeAlias = Annotated[str | None, _LENIENT]
_Number: TypeAlias = Annotated[int | None, _LENIENT]


class _BatchCounts(BaseModel):
    completed: _Number = None
    failed: _Number = None


class ProviderBatch(BaseModel):
    """A batch in the provider's words, but with the status in lower case."""

    id: Annotated[str, StringConstraints(min_length=1)]
    status: Annotated[str, StringConstraints(to_lower=True)]
    output_file_id: _Text = None
    error_file_id: _Text = None
    request_counts: Annotated[_BatchCounts | None, _LENIENT] = None
    errors: object = None
    metadata: Annotated[dict[str, object] | None, _LENIENT] = None

    @property
    def is_over(self) -> bool:
        """Whether the batch has ended."""
        return self.status in ("completed", "failed", "expired", "cancelled")

    @property
    def progress(self) -> str:
        """The status and counts of requests, for the log."""
        count = self.request_counts or _BatchCounts()
        return f"{self.status}: {count.completed or 0} requests done, {count.failed or 0} failed"


class _BatchPage(BaseModel):
    data: list[Annotated[ProviderBatch | None, _LENIENT]]


class _UploadedFile(BaseModel):
    id: str


ModelT = TypeVar("ModelT", bound=BaseModel)


def _read(kind: type[ModelT], content: bytes) -> ModelT:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise UnusableBody(f"the server sent {len(content)} bytes of unknown JSON") from error


class Provider:
    """The Batch API of one server.

    Every call is retried. It raises `JudgeUnavailable` without a usable response in time,
    `Rejected` if the server rejects it for good, and KeyboardInterrupt when `stop` is set.
    """

    def __init__(self, settings: Settings, pace: BatchPace, stop: Event) -> None:
        self.address = settings.access.address
        self._settings = settings
        self._pace = pace
        self._stop = stop
        self._client = blocking_client(settings.access)
        self._batches = self._client.batches.with_raw_response

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def wait(self, seconds: float) -> None:
        """Wait; raises KeyboardInterrupt when `stop` is set."""
        if self._stop.wait(seconds):
            raise KeyboardInterrupt

    def upload(self, path: Path) -> str:
        """Upload a file, streamed from the disk; returns the provider's name for it."""

        def call() -> str:
            with path.open("rb") as file:
                files = self._client.files.with_raw_response
                response = files.create(file=("requests.jsonl", file), purpose="batch")
            return _read(_UploadedFile, response.content).id

        return self._retry(call, self._settings.patience_s)

    def create(self, input_file: str, nonce: str) -> str:
        """Create a batch of an uploaded file; returns its name.

        After a lost response, the batch is created again only if `find` does not find it.
        """

        def call() -> str:
            response = self._batches.create(
                completion_window="24h",
                endpoint=ENDPOINT,
                input_file_id=input_file,
                metadata={NONCE: nonce},
            )
            return _read(ProviderBatch, response.content).id

        return self._retry(call, self._settings.patience_s, lambda: self.find(nonce))

    def retrieve(self, name: str) -> ProviderBatch:
        """The present state of a batch."""
        return self._retry(
            lambda: _read(ProviderBatch, self._batches.retrieve(name).content),
            self._pace.patience_s,
        )

    def download(self, file: str) -> bytes:
        """The content of an output or error file."""
        files = self._client.files.with_raw_response
        return self._retry(lambda: bytes(files.content(file).content), self._pace.patience_s)

    def find(self, nonce: str) -> str | None:
        """The name of the batch with this nonce among the account's newest 100.

        Polls until the list cannot lag any more. None if no batch matches or there is no list.
        """
        logger.info(
            f"mmie-tasks: looking for a batch at {self.address} that may have been created."
        )
        end = time.monotonic() + self._pace.list_lag_s
        while True:
            is_last = time.monotonic() >= end
            try:
                page = self._retry(
                    lambda: _read(_BatchPage, self._batches.list(limit=_NEWEST).content),
                    self._settings.patience_s,
                )
            except Rejected as rejected:
                if rejected.error.status in _NO_SUCH_ROUTE:
                    return None
                raise
            for batch in filter(None, page.data):
                if (batch.metadata or {}).get(NONCE) == nonce:
                    return batch.id
            if is_last:
                return None
            self.wait(self._pace.list_poll_s)

    def _retry(
        self,
        call: Callable[[], _T],
        patience_s: float,
        find_result: Callable[[], _T | None] = lambda: None,
    ) -> _T:
        """Retry a call; `find_result` recovers the result of one whose response was lost."""
        end = time.monotonic() + patience_s
        attempts = 0
        while True:
            attempts += 1
            try:
                return call()
            except ATTEMPT_ERRORS as error:
                failure = failure_from_error(error, self._settings.access.secrets)
            if failure.error is not None and failure.kind in ("denied", "rejected"):
                raise Rejected(failure.error)
            demanded_s = max(failure.wait_s or 0.0, failure.pause_s or 0.0)
            wait_s = max(self._pace.retries.wait_s(attempts), demanded_s)
            if time.monotonic() + wait_s > end:
                reason = failure.reason
                if demanded_s > 0:
                    reason = f"{reason.rstrip('.')}; {demand_text(demanded_s, patience_s)}"
                raise JudgeUnavailable(
                    f"{self.address} gave no usable answer in {patience_s:g} s: {reason}"
                )
            self.wait(wait_s)
            if failure.kind in ("failed", "timed_out") and (result := find_result()) is not None:
                return result
