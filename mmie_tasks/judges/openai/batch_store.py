"""Batches on disk and at the provider: submission records, request and result files, API calls.

A submission record is a small JSON file, written before anything is sent, so that a run that was killed finds its batch
again. It holds hashes of requests and the provider's names for the batch and its files; no request, reply or key.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from loguru import logger
from pydantic import TypeAdapter

from mmie_tasks.core.files import atomic_write, file_lock
from mmie_tasks.http.access import public_address
from mmie_tasks.http.client import (
    ATTEMPT_ERRORS,
    ServerError,
    UnusableBody,
    blocking_client,
    failure_of,
    json_count,
    json_list,
    json_object,
    parse_json,
    read_server_error,
)
from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import JudgeRequest, JudgeUnavailable, RequestBroken
from mmie_tasks.judges.openai.settings import Settings

RETENTION_S = 30 * 24 * 3600.0
"""After this time a provider has deleted the files of a batch, and its record is useless."""

ENDPOINT: Final = "/v1/chat/completions"
NONCE = "mmie_tasks_submission"
"""Metadata name under which a batch carries `Submission.nonce`."""

_MAX_PAGES = 10
_DENIED = (401, 403)
_DENIED_ATTEMPTS = 3  # a gateway may deny by mistake, and hours of waiting must not end for that

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A batch that was submitted, or was about to be.

    Attributes:
        keys: The content keys of its requests, in the order of the file.
        nonce: Unique, so that a batch is found at the provider even if its name never arrived.
        begun_s: When, in seconds since 1970.
        input_file: The provider's name for the uploaded file, if it was uploaded.
        batch: The provider's name for the batch, if it was created.
        version: Of the record.
    """

    keys: tuple[str, ...]
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    begun_s: float = field(default_factory=time.time)
    input_file: str | None = None
    batch: str | None = None
    version: Literal[1] = 1


def parse_submission(text: str) -> Submission:
    """Parse a submission record.

    Raises:
        ValueError: `SubmissionStore.save` did not write it.
    """
    return TypeAdapter(Submission).validate_json(text, strict=True)


class SubmissionStore:
    """The records of one judge's submissions to one server, in a folder only its owner may read.

    Args:
        root: The folder of all stores.
        server: The server's address, without credentials.
        signature: The judge's.
    """

    def __init__(self, root: Path, *, server: str, signature: str) -> None:
        self._header = {"server": server, "signature": signature}
        self.folder = root / hashlib.sha256(f"{server}\n{signature}".encode()).hexdigest()[:16]

    def lock(self) -> AbstractContextManager[None]:
        """Hold the right to submit: one process at a time.

        Raises:
            OSError: The folder cannot be created or written.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return file_lock(self.folder / ".lock", "submitting a batch")

    def load(self) -> list[Submission]:
        """All submissions, oldest first. Deletes expired records, skips unreadable ones."""
        submissions = []
        for path in self.folder.glob("*.json"):
            try:
                submission = parse_submission(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # another process has just deleted it
            except (OSError, ValueError) as error:
                logger.warning(f"mmie-tasks: `{path}` is no record of a batch, ignored: {error}")
                continue
            if time.time() - submission.begun_s < RETENTION_S:
                submissions.append(submission)
            else:
                path.unlink(missing_ok=True)
        return sorted(submissions, key=lambda submission: submission.begun_s)

    def save(self, submission: Submission) -> Submission:
        """Write the record atomically, and return the submission.

        Raises:
            OSError: The disk is full, or the folder cannot be written.
        """
        with atomic_write(self._path(submission)) as part:
            part.touch(mode=0o600)
            with part.open("w", encoding="utf-8") as file:
                json.dump(self._header | asdict(submission), file)
                file.flush()
                os.fsync(file.fileno())
        return submission

    def delete(self, submission: Submission) -> None:
        """Delete the record of a batch that is finished or never existed."""
        self._path(submission).unlink(missing_ok=True)

    def remove_keys(self, submission: Submission, keys: Collection[str]) -> None:
        """Remove requests from the record, and delete it if none is left.

        Some are left if an earlier run had more requests: their replies are paid for.
        """
        try:
            record = parse_submission(self._path(submission).read_text(encoding="utf-8"))
            if remaining := tuple(key for key in record.keys if key not in keys):
                self.save(replace(record, keys=remaining))
            else:
                self.delete(submission)
        except FileNotFoundError:
            return  # another process was faster
        except (OSError, ValueError) as error:
            # The replies have arrived. At worst they are downloaded once more, at no cost.
            logger.warning(f"mmie-tasks: `{self._path(submission)}` cannot be updated: {error}")

    def new_request_file(self) -> Path:
        """A path for a file to upload; call it under `lock`. Deletes those of killed processes."""
        for leftover in self.folder.glob("*.jsonl"):
            leftover.unlink(missing_ok=True)
        path = self.folder / f"{secrets.token_hex(8)}.jsonl"
        path.touch(mode=0o600)
        return path

    def _path(self, submission: Submission) -> Path:
        # Earlier versions wrote a digest before the nonce.
        return next(self.folder.glob(f"*{submission.nonce}.json"), self.folder / f"{submission.nonce}.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider accepts in one file: 50,000 requests and 200 MB, less a margin of 5 %."""

    requests: int = 50_000
    size_bytes: int = 190_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFile:
    """The content of a request file.

    Attributes:
        keys: The requests in it, in order.
        broken: The requests that cannot be sent, and why.
    """

    keys: tuple[str, ...] = ()
    broken: Mapping[str, RequestBroken] = field(default_factory=dict)


def write_requests(
    path: Path,
    requests: Mapping[str, JudgeRequest],
    body_of: Callable[[JudgeRequest], Mapping[str, object]],
    limits: Limits,
) -> RequestFile:
    """Write as many requests as fit into a file, with one image in memory at a time.

    Args:
        path: Keeps its access rights.
        requests: By content key, which becomes the request's name in the batch.
        body_of: The body of a request; may raise `RequestBroken`.
        limits: Of the file.

    Raises:
        OSError: The disk is full, or the file cannot be written.
    """
    keys: list[str] = []
    broken: dict[str, RequestBroken] = {}
    free_bytes = limits.size_bytes
    with path.open("wb") as file:
        for key, request in requests.items():
            if len(keys) == limits.requests:
                break
            try:
                body = body_of(request)
            except RequestBroken as error:
                broken[key] = error
                continue
            # A line of ASCII: some readers break lines at other characters too.
            fields = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            line = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
            if len(line) > limits.size_bytes:
                size = f"{len(line) / 1e6:.0f} MB, and a batch takes {limits.size_bytes / 1e6:.0f} MB"
                broken[key] = RequestBroken(f"the request is too large for a batch: {size}")
                continue
            if len(line) > free_bytes:
                break
            free_bytes -= file.write(line)
            keys.append(key)
    return RequestFile(keys=tuple(keys), broken=broken)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLine:
    """A line of an output or error file.

    Attributes:
        key: The content key of the request.
        status: HTTP status; None if the request was never run.
        body: The response; of a request that was never run, the error.
    """

    key: str
    status: int | None
    body: object


def read_results(contents: Sequence[bytes], keys: Iterable[str]) -> Iterator[ResultLine]:
    """The first line of every request in the output and error files of a batch.

    Unreadable, repeated and unknown lines are counted in the log.

    Args:
        contents: The output file, then the error file.
        keys: The content keys of the requests in the batch.
    """
    without_line = set(keys)
    ignored = 0
    for text in filter(bytes.strip, b"\n".join(contents).split(b"\n")):
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        match fields:
            case {"custom_id": str(key), "response": {"status_code": int(status), "body": body}} if key in without_line:
                line = ResultLine(key=key, status=status, body=body)
            case {"custom_id": str(key), "error": dict() as error} if key in without_line:
                line = ResultLine(key=key, status=None, body={"error": error})
            case _:
                ignored += 1
                continue
        without_line.remove(line.key)
        yield line
    if ignored:
        logger.warning(
            f"mmie-tasks: {ignored} lines of a batch's files were ignored: unreadable, repeated, or of no request in it"
        )


class Rejected(Exception):
    """The server rejects a call, and would reject it again."""

    def __init__(self, error: ServerError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """Waiting times in seconds.

    Attributes:
        first_poll_s: Before the first poll of a batch; the intervals then grow.
        longest_poll_s: The longest interval between two polls.
        longest_wait_s: For a batch to end; the provider ends it after 24 hours.
        patience_s: How long a server may fail while a batch runs. Longer than for a reply: hours
            were waited already, and waiting loses nothing.
        retries: Between the attempts of a call.
    """

    first_poll_s: float = 5.0
    longest_poll_s: float = 60.0
    longest_wait_s: float = 26 * 3600.0
    patience_s: float = 3600.0
    retries: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as the provider describes it; optional fields may be missing.

    Attributes:
        name: The provider's name.
        status: In the provider's words.
        output_file: The file with the replies, if there is one.
        error_file: The file with the errors, if there is one.
        completed: Requests with a reply.
        failed: Requests that failed.
        error: Why the batch as a whole failed.
        metadata: As sent at its creation.
    """

    name: str
    status: str
    output_file: str | None = None
    error_file: str | None = None
    completed: int = 0
    failed: int = 0
    error: ServerError
    metadata: Mapping[str, object]

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.status in ("completed", "failed", "expired", "cancelled")


def read_batch(json_value: object, secrets: Sequence[str]) -> Batch:
    """Read a batch.

    Raises:
        UnusableBody: It has no name or no status.
    """
    fields = json_object(json_value)
    counts = json_object(fields.get("request_counts"))
    errors = json_list(json_object(fields.get("errors")).get("data"))
    status = _text(fields.get("status"))
    if status is None:
        raise UnusableBody("the server sent a batch without a status")
    return Batch(
        name=_name(fields),
        status=status.lower(),
        output_file=_text(fields.get("output_file_id")),
        error_file=_text(fields.get("error_file_id")),
        completed=json_count(counts.get("completed")),
        failed=json_count(counts.get("failed")),
        error=read_server_error(0, next(iter(errors), {}), secrets),
        metadata=json_object(fields.get("metadata")),
    )


def _name(json_value: object) -> str:
    name = _text(json_object(json_value).get("id"))
    if name is None:
        raise UnusableBody("the server sent JSON without an `id`")
    return name


def _text(json_value: object) -> str | None:
    return json_value if isinstance(json_value, str) and json_value else None


def is_too_much(error: ServerError) -> bool:
    """Whether the account has more requests enqueued than the provider accepts at a time."""
    return "token_limit_exceeded" in error.code or "enqueued" in error.message.lower()


class Provider:
    """The Batch API of one server.

    Every call is retried, and raises `JudgeUnavailable` if the server gives no usable response in
    time, or `Rejected` if it rejects the call for good.
    """

    def __init__(self, settings: Settings, pace: BatchPace) -> None:
        self.address = public_address(settings.access.base_urls[0])
        self._settings = settings
        self._pace = pace
        self._client = blocking_client(settings.access, settings.access.base_urls[0])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def upload(self, path: Path) -> str:
        """Upload a file, streamed from the disk, and return the provider's name for it."""

        def call() -> str:
            with path.open("rb") as file:
                files = self._client.files.with_raw_response
                return _name(parse_json(files.create(file=("requests.jsonl", file), purpose="batch").content))

        return self._retry(call, self._settings.patience_s)

    def create(self, submission: Submission) -> Batch:
        """Create a batch of an uploaded file; never a second one after a lost response."""

        def call() -> Batch:
            response = self._client.batches.with_raw_response.create(
                completion_window="24h",
                endpoint=ENDPOINT,
                input_file_id=submission.input_file or "",
                metadata={NONCE: submission.nonce},
            )
            return self._read(response.content)

        return self._retry(call, self._settings.patience_s, lambda: self.find(submission))

    def retrieve(self, name: str) -> Batch:
        """A batch in its present state."""
        batches = self._client.batches.with_raw_response
        return self._retry(lambda: self._read(batches.retrieve(name).content), self._pace.patience_s)

    def download(self, file: str) -> bytes:
        """The content of an output or error file."""
        files = self._client.files.with_raw_response
        return self._retry(lambda: bytes(files.content(file).content), self._pace.patience_s)

    def find(self, submission: Submission) -> Batch | None:
        """The batch with the submission's nonce, among the account's newest thousand.

        None if there is none, or if the server cannot list batches.
        """
        client, query = self._client.batches.with_raw_response, dict[str, str]()

        def page_of_batches() -> Mapping[str, object]:
            return json_object(parse_json(client.list(limit=100, extra_query=query).content))

        for _ in range(_MAX_PAGES):
            try:
                page = self._retry(page_of_batches, self._settings.patience_s)
            except Rejected as rejected:
                if rejected.error.status in (404, 405, 501):
                    return None
                raise
            batches = [read_batch(entry, self._settings.access.secrets) for entry in json_list(page.get("data"))]
            for batch in batches:
                if batch.metadata.get(NONCE) == submission.nonce:
                    return batch
            if not batches or page.get("has_more") is not True:
                return None
            query["after"] = batches[-1].name
        return None

    def _read(self, content: bytes) -> Batch:
        return read_batch(parse_json(content), self._settings.access.secrets)

    def _retry(
        self, call: Callable[[], _T], patience_s: float, find_result: Callable[[], _T | None] = lambda: None
    ) -> _T:
        """Call until it succeeds; `find_result` gives the result of an attempt whose response was lost."""
        end = time.monotonic() + patience_s
        attempts = 0
        while True:
            attempts += 1
            try:
                return call()
            except ATTEMPT_ERRORS as error:
                failure = failure_of(error, self._settings.access.secrets)
            if failure.error is not None and (
                attempts >= _DENIED_ATTEMPTS
                if failure.error.status in _DENIED
                else failure.kind in ("denied", "rejected") or is_too_much(failure.error)
            ):
                raise Rejected(failure.error)
            wait_s = max(self._pace.retries.wait_s(attempts), failure.wait_s or 0.0, failure.pause_s or 0.0)
            if time.monotonic() + wait_s > end:
                raise JudgeUnavailable(f"{self.address} gave no usable answer in {patience_s:g} s: {failure.reason}")
            time.sleep(wait_s)
            if (result := find_result()) is not None:
                return result
