"""What is remembered of batches while they run, so that nothing is paid for twice.

One small JSON file for each, written before anything is sent: it holds hashes of requests and the
provider's names for the batch and its files; no request, reply or key.
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
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from loguru import logger

from mmie_tasks.core.files import file_lock
from mmie_tasks.http import client as clients
from mmie_tasks.http.complaints import Complaint, complaint
from mmie_tasks.http.errors import TRY_ERRORS, Trouble, trouble_of
from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.models import Price
from mmie_tasks.judges.openai.settings import Settings, shown
from mmie_tasks.judges.openai.wire import UnusableBody, parse

VERSION = 1
KEPT_S = 30 * 24 * 3600.0
"""After so long a provider has deleted the files of a batch, and there is nothing to go back to."""


def digest_of(signature: str, keys: Iterable[str]) -> str:
    """The same for the same requests of the same judge, in any order.

    >>> digest_of("judge:x", ["b", "a"]) == digest_of("judge:x", ["a", "b"])
    True
    """
    text = "\n".join([signature, *sorted(keys)])
    return hashlib.sha256(text.encode()).hexdigest()


def _nonce() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A batch that was submitted, or was about to be.

    Attributes:
        digest: Of its requests; other processes and machines know the batch by it.
        keys: The content keys of its requests, in the order of the file.
        nonce: No other submission has it, so that a batch whose name was never heard can be found.
        begun_s: When, in seconds of the system's clock.
        input_file: The provider's name for the uploaded file, once there is one.
        batch: The provider's name for the batch, once there is one.
    """

    digest: str
    keys: tuple[str, ...]
    nonce: str = field(default_factory=_nonce)
    begun_s: float = field(default_factory=time.time)
    input_file: str | None = None
    batch: str | None = None

    def named(self, *, input_file: str | None = None, batch: str | None = None) -> Submission:
        """The same with what the provider calls it."""
        return replace(self, input_file=input_file or self.input_file, batch=batch or self.batch)


class Submissions:
    """The submissions to one server for one judge, in a folder that nobody else may read.

    Args:
        root: The folder of all of them.
        server: Its address, without credentials.
        signature: Of the judge.
    """

    def __init__(self, root: Path, *, server: str, signature: str) -> None:
        self._about = {"version": VERSION, "server": server, "signature": signature}
        name = hashlib.sha256(f"{server}\n{signature}".encode()).hexdigest()[:16]
        self.folder = root / name

    def prepared(self) -> AbstractContextManager[None]:
        """Only one process submits at a time.

        Raises:
            OSError: The folder cannot be made or written.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return file_lock(self.folder / ".lock", "submitting a batch")

    def known(self) -> list[Submission]:
        """All that are remembered, the oldest first; a file that cannot be read is left alone."""
        found = list(self._read())
        return sorted(found, key=lambda submission: submission.begun_s)

    def remember(self, submission: Submission) -> None:
        """Write it down, whole or not at all.

        Raises:
            OSError: The disk is full, or not ours.
        """
        path = self._path(submission)
        part = path.with_suffix(".part")
        text = json.dumps(self._about | asdict(submission))
        part.touch(mode=0o600)
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def forget(self, submission: Submission) -> None:
        """It is over and its replies were handed on; or it never came to be."""
        self._path(submission).unlink(missing_ok=True)

    def settle(self, submission: Submission, keys: Collection[str]) -> None:
        """These of its requests were handed on; without others it is forgotten.

        Others are there where an earlier run asked for more: their replies are paid for.
        """
        try:
            known = parsed(self._path(submission).read_text(encoding="utf-8"))
            if left := tuple(key for key in known.keys if key not in keys):
                self.remember(replace(known, keys=left))
            else:
                self.forget(submission)
        except FileNotFoundError:
            return  # another process was faster
        except (OSError, ValueError) as error:
            # The replies are there. At worst they are fetched once more, for nothing.
            logger.warning(f"mmie-tasks: `{self._path(submission)}` cannot be updated: {error}")

    def new_file(self) -> Path:
        """A path for a file to upload. What a killed process left there is removed.

        Only for the one whose turn it is.
        """
        for left in self.folder.glob("*.jsonl"):
            left.unlink(missing_ok=True)
        path = self.folder / f"{_nonce()}.jsonl"
        path.touch(mode=0o600)
        return path

    def _path(self, submission: Submission) -> Path:
        return self.folder / f"{submission.digest[:16]}-{submission.nonce}.json"

    def _read(self) -> Iterator[Submission]:
        for path in self.folder.glob("*.json"):
            try:
                submission = parsed(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # another process has just finished with it
            except (OSError, ValueError) as error:
                logger.warning(f"mmie-tasks: `{path}` is no record of a batch, ignored: {error}")
                continue
            if time.time() - submission.begun_s < KEPT_S:
                yield submission
            else:
                path.unlink(missing_ok=True)


def parsed(text: str) -> Submission:
    """Read one file.

    Raises:
        ValueError: It is not what `Submissions.remember` writes.
    """
    match json.loads(text):
        case {
            "version": 1,
            "digest": str(digest),
            "keys": [*keys],
            "nonce": str(nonce),
            "begun_s": int() | float() as begun_s,
            "input_file": str() | None as input_file,
            "batch": str() | None as batch,
        } if all(isinstance(key, str) for key in keys):
            return Submission(
                digest=digest,
                keys=tuple(keys),
                nonce=nonce,
                begun_s=begun_s,
                input_file=input_file,
                batch=batch,
            )
        case _:
            raise ValueError("fields are missing or of another type")


# The files of the Batch API: requests on their way there, outcomes on their way back.

ENDPOINT: Final = "/v1/chat/completions"

Body: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider takes in one file: 50,000 requests and 200 MB, less a margin of 5 %."""

    requests: int = 50_000
    size_bytes: int = 190_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What went into one file.

    Attributes:
        keys: The requests in it, in order.
        broken: The requests that cannot be sent, and why.
    """

    keys: tuple[str, ...] = ()
    broken: Mapping[str, RequestBroken] = field(default_factory=dict)


def write_part(
    path: Path,
    requests: Mapping[str, JudgeRequest],
    body_of: Callable[[JudgeRequest], Body],
    limits: Limits,
) -> Part:
    """Write as many of the requests into a file as it may hold, one image in memory at a time.

    Args:
        path: Its access rights stay as they are.
        requests: By content key, which becomes their name.
        body_of: Makes the body; it may raise `RequestBroken`.
        limits: What the file may hold.

    Raises:
        OSError: The disk is full, or not ours.
    """
    written: list[str] = []
    broken: dict[str, RequestBroken] = {}
    room = limits.size_bytes
    with path.open("wb") as file:
        for key, request in requests.items():
            if len(written) == limits.requests:
                break
            try:
                line = request_line(key, body_of(request), limits)
            except RequestBroken as error:
                broken[key] = error
                continue
            if len(line) > room:
                break
            room -= file.write(line)
            written.append(key)
    return Part(keys=tuple(written), broken=broken)


def request_line(key: str, body: Body, limits: Limits) -> bytes:
    """One request as a line, ASCII only: some readers break lines at other characters, too.

    Raises:
        RequestBroken: It is larger than a whole file may be.
    """
    asked = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
    line = json.dumps(asked, separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > limits.size_bytes:
        size = f"{len(line) / 1e6:.0f} MB, and a batch takes {limits.size_bytes / 1e6:.0f} MB"
        raise RequestBroken(f"the request is too large for a batch: {size}")
    return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of an output or error file.

    Attributes:
        key: Which request it belongs to.
        status: HTTP status; None where the request was never run.
        body: What the server answered; of a request that was never run, why.
    """

    key: str
    status: int | None
    body: object


def read_lines(content: bytes) -> Iterator[Line | None]:
    """The lines of an output or error file; None for each that is broken."""
    for line in content.split(b"\n"):
        if line.strip():
            yield _line(line)


def _line(text: bytes) -> Line | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"custom_id": str(key), "response": {"status_code": int(status), "body": body}}:
            return Line(key=key, status=status, body=body)
        case {"custom_id": str(key), "error": dict() as error}:
            return Line(key=key, status=None, body={"error": error})
        case _:
            return None


# Trying a call again while that may help.
#
# * JudgeUnavailable   no usable answer for as long as we have patience
# * Rejected           a definite no, with the server's words

_T = TypeVar("_T")

_NO_ENTRY = (401, 403)
_NO_ENTRY_TRIES = 3  # gateways say it by mistake; a wait of hours must not end for that


class Rejected(Exception):
    """The server says no, and would say it again."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(str(complaint))
        self.complaint = complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """How long and how often, in seconds.

    Attributes:
        first_look_s: Before a batch is looked at for the first time; then ever longer.
        longest_look_s: At most so long between two looks.
        longest_wait_s: For a batch to be over; the provider ends it after 24 hours.
        patience_s: How long a batch is waited for while the server answers nothing at all. Longer
            than for a reply: hours were waited already, and nothing is lost by waiting.
        tries: Between the tries of a call.
    """

    first_look_s: float = 5.0
    longest_look_s: float = 60.0
    longest_wait_s: float = 26 * 3600.0
    patience_s: float = 3600.0
    tries: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """How calls to one server are tried again.

    Attributes:
        address: The server's, as it may stand in a message.
        secrets: What must not stand in a message.
        pace: How long is waited between two tries.
    """

    address: str
    secrets: Sequence[str]
    pace: Pace

    def tried(
        self,
        call: Callable[[], _T],
        patience_s: float,
        already: Callable[[], _T | None] = lambda: None,
    ) -> _T:
        """Call until it works.

        Args:
            call: Makes one HTTP request and reads the answer.
            patience_s: How long.
            already: Asked before each new try whether the last one worked without our knowing.

        Raises:
            JudgeUnavailable: It did not work in this time.
            Rejected: It never will.
        """
        end = time.monotonic() + patience_s
        for tries in count(1):
            try:
                return call()
            except TRY_ERRORS as error:
                trouble = trouble_of(error, self.secrets)
            if trouble.said is not None and _definite(trouble, trouble.said, tries):
                raise Rejected(trouble.said)
            asked_s = max(trouble.wait_s or 0.0, trouble.pause_s or 0.0)
            wait_s = max(self.pace.wait_s(tries), asked_s)
            if time.monotonic() + wait_s > end:
                raise JudgeUnavailable(
                    f"{self.address} gave no usable answer in {patience_s:g} s: {trouble.why}"
                )
            time.sleep(wait_s)
            if (found := already()) is not None:
                return found
        raise AssertionError  # `count` has no end


def _definite(trouble: Trouble, said: Complaint, tries: int) -> bool:
    """Whether the server would say the same again."""
    if said.status in _NO_ENTRY:
        return tries >= _NO_ENTRY_TRIES
    return trouble.kind in ("setup", "content") or too_much_at_once(said)


def too_much_at_once(said: Complaint) -> bool:
    """Whether more is enqueued than the provider takes from this account at a time."""
    return "token_limit_exceeded" in said.code or "enqueued" in said.message.lower()


# What a provider says of a batch, put up with whatever is left out.

DIGEST, NONCE = "mmie_tasks", "mmie_tasks_submission"
"""Under which names `Submission.digest` and `Submission.nonce` are written on a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as the provider describes it.

    Attributes:
        name: What the provider calls it.
        status: In its words; `over` says whether it will change again.
        output_file: The file with the replies, where there is one.
        error_file: The file with the failures, where there is one.
        completed: Requests that have a reply.
        failed: Requests that failed.
        complaint: Why the batch as a whole failed.
        marks: What we wrote on it.
    """

    name: str
    status: str
    output_file: str | None = None
    error_file: str | None = None
    completed: int = 0
    failed: int = 0
    complaint: Complaint
    marks: Mapping[str, object]

    @property
    def over(self) -> bool:
        """It will not change again."""
        return self.status in ("completed", "failed", "expired", "cancelled")


def batch_of(said: object, secrets: Sequence[str]) -> Batch:
    """Read a batch.

    Raises:
        UnusableBody: It has no name or no status.
    """
    fields = mapping(said)
    counts = mapping(fields.get("request_counts"))
    failures = sequence(mapping(fields.get("errors")).get("data"))
    status = _text(fields.get("status"))
    if status is None:
        raise UnusableBody("the server sent a batch without a status")
    return Batch(
        name=name_of(fields),
        status=status.lower(),
        output_file=_text(fields.get("output_file_id")),
        error_file=_text(fields.get("error_file_id")),
        completed=_number(counts.get("completed")),
        failed=_number(counts.get("failed")),
        complaint=complaint(0, next(iter(failures), {}), secrets),
        marks=mapping(fields.get("metadata")),
    )


def name_of(said: object) -> str:
    """The provider's name for a file or batch.

    Raises:
        UnusableBody: There is none.
    """
    name = _text(mapping(said).get("id"))
    if name is None:
        raise UnusableBody("the server sent JSON without an `id`")
    return name


def mapping(value: object) -> Mapping[str, object]:
    """A JSON object; an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """A JSON array; an empty one where it is something else."""
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# The calls of the Batch API. Every one may raise what `batch_retry` names.

_PAGES = 10


class Provider:
    """The Batch API of one server."""

    def __init__(self, settings: Settings, pace: BatchPace) -> None:
        self._settings = settings
        self._pace = pace
        self.address = shown(settings.base_urls[0])
        self._trying = Trying(address=self.address, secrets=settings.secrets, pace=pace.tries)
        self._client = clients.client(settings, settings.base_urls[0], settings.timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def upload(self, path: Path) -> str:
        """Upload a file, read from the disk as it is sent, and give the provider's name for it."""

        def call() -> str:
            with path.open("rb") as file:
                files = self._client.files.with_raw_response
                answer = files.create(file=("requests.jsonl", file), purpose="batch")
                return name_of(parse(answer.content))

        return self._trying.tried(call, self._settings.patience_s)

    def create(self, submission: Submission) -> Batch:
        """Make a batch of an uploaded file; never a second one where the first answer got lost."""
        marks = {DIGEST: submission.digest, NONCE: submission.nonce}

        def call() -> Batch:
            answer = self._client.batches.with_raw_response.create(
                completion_window="24h",
                endpoint=ENDPOINT,
                input_file_id=submission.input_file or "",
                metadata=marks,
            )
            return self._read(parse(answer.content))

        return self._trying.tried(call, self._settings.patience_s, lambda: self.find(submission))

    def look(self, name: str) -> Batch:
        """A batch as it is now."""

        def call() -> Batch:
            answer = self._client.batches.with_raw_response.retrieve(name)
            return self._read(parse(answer.content))

        return self._trying.tried(call, self._pace.patience_s)

    def content(self, file: str) -> bytes:
        """An output or error file: text only, so it is read in one piece."""

        def call() -> bytes:
            return bytes(self._client.files.with_raw_response.content(file).content)

        return self._trying.tried(call, self._pace.patience_s)

    def find(self, submission: Submission) -> Batch | None:
        """The batch of a submission whose answer was never heard, where there is one."""
        marked = (batch for batch in self._all() if batch.marks.get(NONCE) == submission.nonce)
        return next(marked, None)

    def running(self) -> dict[str, Batch]:
        """Every batch of ours that is not over, also of other machines, by its digest."""
        marked = ((batch.marks.get(DIGEST), batch) for batch in self._all() if not batch.over)
        return {digest: batch for digest, batch in marked if isinstance(digest, str)}

    def _all(self) -> Iterator[Batch]:
        """The newest thousand batches of the account; none at a server that cannot list them."""
        after: str | None = None
        for _ in range(_PAGES):
            try:
                page = self._page(after)
            except Rejected as rejected:
                if rejected.complaint.status in (404, 405, 501):
                    return
                raise
            batches = [self._read(found) for found in sequence(page.get("data"))]
            yield from batches
            if not batches or page.get("has_more") is not True:
                return
            after = batches[-1].name

    def _page(self, after: str | None) -> Mapping[str, object]:
        def call() -> Mapping[str, object]:
            batches = self._client.batches.with_raw_response
            answer = batches.list(limit=100, extra_query={"after": after} if after else None)
            return mapping(parse(answer.content))

        return self._trying.tried(call, self._settings.patience_s)

    def _read(self, said: object) -> Batch:
        return batch_of(said, self._settings.secrets)


# What the lines of a finished batch say about its requests.

AGAIN = "run the same command again to ask once more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How lines are read.

    Attributes:
        model: Who was asked.
        price: Of a batch, per million tokens.
        secrets: What must not stand in a message.
    """

    model: str
    price: Price | None
    secrets: Sequence[str]

    def outcomes(
        self, contents: Sequence[bytes], asked: frozenset[str]
    ) -> Iterator[tuple[str, Outcome | Complaint]]:
        """One outcome for each request at most; its first line counts.

        Lines that cannot be read, that belong to no request or to one that had a line already,
        are counted in the log and mean nothing.

        Args:
            contents: The output file, then the error file.
            asked: The keys of the requests in the batch.
        """
        seen: set[str] = set()
        ignored = 0
        for line in (line for content in contents for line in read_lines(content)):
            if line is None or line.key in seen or line.key not in asked:
                ignored += 1
                continue
            seen.add(line.key)
            yield line.key, self._outcome(line)
        if ignored:
            logger.warning(
                f"mmie-tasks: {ignored} lines of a batch's files were ignored: broken, twice there "
                "or of no request in it"
            )

    def _outcome(self, line: Line) -> Outcome | Complaint:
        if line.status != 200:
            return complaint(line.status or 0, line.body, self.secrets)
        try:
            return wire.outcome(line.body, model=self.model, price=self.price)
        except wire.UnusableBody as error:
            return JudgeUnavailable(f"{error}; {AGAIN}")


def error_of(said: Complaint) -> JudgeError:
    """What the failure of one request means; status 0 is a request that was never run."""
    if said.status in (400, 413, 422):
        kind = "a content filter" if said.of_content else "the server"
        return JudgeRefused(f"{kind} would not take the request: {said}")
    if said.status in (401, 403, 404) or said.of_quota:
        return JudgeMisconfigured(f"The batch ran into {said}.", hint="check key and model")
    where = f"the batch ended without it ({said.code})" if said.status == 0 else str(said)
    return JudgeUnavailable(f"{where}; {AGAIN}")


def error_of_setup(said: Complaint, address: str) -> JudgeMisconfigured:
    """What it means that the server will not have a batch at all."""
    message = f"The judge's server {address} will have no batch: {said}."
    match said.status:
        case 401 | 403:
            hint = "look at the key, and at what it may do"
        case 404 | 405 | 501:
            hint = "ask without `batch=true`: not every server has a Batch API"
        case _:
            hint = "look at the account's page, or ask without `batch=true`"
    return JudgeMisconfigured(message, hint=hint)
