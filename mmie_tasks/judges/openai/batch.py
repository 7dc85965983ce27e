"""The `openai` judge with ``batch=true``: the provider's Batch API, at half the price.

Requests are uploaded in files, and the replies arrive within 24 hours, usually sooner. The online
judge has the same signature, so both share cached replies. A batch is noted as soon as it exists,
in a file with its name that lists the keys of its requests: the same command, run again, waits for
it, and submits only requests that are in none.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, Literal
from urllib.parse import quote, unquote

from loguru import logger

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.http.access import Access
from mmie_tasks.http.errors import Fault, fault_of, kind_of, message_of, redact
from mmie_tasks.http.sender import Pace
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
from mmie_tasks.judges.openai.chat import NoText, chat_body, open_chat, read_completion
from mmie_tasks.judges.openai.settings import OpenAIOptions
from mmie_tasks.record.signature import Signature

if TYPE_CHECKING:
    from openai import OpenAI

DISCOUNT = 0.5
"""The price of a batch, as a fraction of the online price."""

_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_OVER = ("completed", "failed", "expired", "cancelled")
_AGAIN = "run the same command again to retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider accepts, and how long to wait. Tests shorten it."""

    requests: int = 50_000  # in a file
    size_bytes: int = 190_000_000  # of a file: 200 MB less a margin of 5 %
    poll_s: float = 30.0  # between two looks at a batch
    patience_s: float = 3600.0  # how long a server may fail while a batch runs
    longest_wait_s: float = 26 * 3600.0  # the provider ends a batch after 24 hours
    call_retries: int = 6  # of the SDK, for half a minute


class BatchJudge(Judge):
    """Sends requests through the Batch API.

    Raises:
        SettingWrong: The options choose Azure or a cost limit, which batches do not support.
    """

    Options = OpenAIOptions

    def __init__(
        self,
        options: OpenAIOptions,
        environment: Mapping[str, str],
        *,
        limits: Limits | None = None,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(options, environment)
        self.chat = open_chat(options, environment, pace or Pace())
        self.model = self.chat.options.model or ""
        if self.access.api_type == "azure" or options.max_cost is not None:
            raise SettingWrong(
                "`batch=true` works neither at Azure nor with `max_cost`: the cost of a batch is "
                "known when it is over.",
                hint="leave one of them out; `--limit` makes a run smaller",
            )
        self.limits = limits or Limits()
        self._stopped = Event()  # of the running calls

    @property
    def signature(self) -> Mapping[str, object]:
        """The signature of the online judge: the same model gives the replies."""
        return self.chat.signature

    @property
    def access(self) -> Access:
        """The judge's server."""
        return self.chat.sender.access

    def check(self, max_images: int = 0) -> None:
        """Check key, server and model with an online request; see `check.check`."""
        from mmie_tasks.judges.openai.check import check

        check(self.chat, self.signature, max_images)

    def stop(self) -> None:
        """Make every running `ask` raise KeyboardInterrupt; batches continue at the provider."""
        stopped, self._stopped = self._stopped, Event()
        stopped.set()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as batches end; equal requests are sent once."""
        if (missing_key := self.access.missing_key(JudgeMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        indices: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            try:
                indices.setdefault(content_key(request), []).append(index)
            except RequestBroken as error:  # noqa: PERF203 - concerns one request
                yield index, error
        waiting = {key: requests[same[0]] for key, same in indices.items()}
        with self.access.client(self.limits.call_retries) as client:
            run = _BatchRun(self, client, waiting, self._stopped)
            for key, outcome in run.outcomes():
                yield from ((index, outcome) for index in indices[key])


class _Notes:
    """The batches of one judge at one server: a file for each, with the keys of its requests."""

    def __init__(self, judge: BatchJudge) -> None:
        server = f"{judge.access.address}\n{Signature.of_judges([judge.signature])}"
        digest = hashlib.sha256(server.encode()).hexdigest()[:16]
        self.folder = cache_dir(judge.environment) / "judge" / "batches" / digest

    def batches(self) -> dict[str, list[str]]:
        """The keys of each batch."""
        paths = sorted(self.folder.glob("*.json"))
        return {unquote(path.stem): json.loads(path.read_bytes()) for path in paths}

    def put(self, batch: str, keys: Sequence[str]) -> None:
        """Note a batch."""
        with atomic_write(self.folder / f"{quote(batch, safe='')}.json") as part:
            part.write_text(json.dumps(keys))

    def forget(self, batch: str, taken: Mapping[str, object]) -> None:
        """Remove requests whose replies were taken; others of an earlier run stay."""
        if left := [key for key in self.batches()[batch] if key not in taken]:
            self.put(batch, left)
        else:
            (self.folder / f"{quote(batch, safe='')}.json").unlink()


class _BatchRun:
    """Submits the requests of one `ask`, waits for the batches, and reads their results."""

    def __init__(
        self, judge: BatchJudge, client: OpenAI, waiting: dict[str, JudgeRequest], stopped: Event
    ) -> None:
        import openai  # takes a second

        self._faults = (openai.OpenAIError, Fault, OSError, ValueError)
        self._chat, self._limits, self._client = judge.chat, judge.limits, client
        self._address, self._secrets = judge.access.address, judge.access.secrets
        self._waiting = waiting  # to be submitted, by content key
        self._broken: dict[str, RequestBroken] = {}
        self._running: dict[str, dict[str, JudgeRequest]] = {}  # by the name of the batch
        self._progress: dict[str, str] = {}  # the status as last logged
        self._stopped = stopped
        self._notes = _Notes(judge)
        options = judge.chat.options
        halves = {"price_in": options.price_in, "price_out": options.price_out}
        self._options = options.model_copy(
            update={name: DISCOUNT * price for name, price in halves.items() if price is not None}
        )

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """Yield the content key and outcome of each request as batches end."""
        try:
            yield from self._submit_all()
            yield from self._wait()
        except (KeyboardInterrupt, GeneratorExit):
            if self._running:
                names = ", ".join(f"`{name}`" for name in self._running)
                logger.warning(
                    f"mmie-tasks: the batches {names} go on at {self._address}. Run the same "
                    "command again to wait for them; nothing is paid for twice."
                )
            raise

    # Submission

    def _submit_all(self) -> Iterator[tuple[str, Outcome]]:
        """Find the batches of earlier runs, and submit the other requests; yield those in none."""
        try:
            for name, keys in self._notes.batches().items():
                if own := {key: self._waiting.pop(key) for key in keys if key in self._waiting}:
                    self._running[name] = own
                    logger.info(f"mmie-tasks: waiting for the batch `{name}` of an earlier run.")
            while self._waiting:
                self._submit()
        except self._faults as error:
            yield from dict.fromkeys(self._waiting, self._failure(error)).items()
        yield from self._broken.items()

    def _submit(self) -> None:
        """Create a batch of as many waiting requests as a file holds, and move them to `_running`.

        The SDK does not retry the creation: an answer that is lost would create a second batch.
        """
        import openai

        self._notes.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=self._notes.folder) as file:
            keys = self._write(file)
            if not keys:
                return
            file.seek(0)
            uploaded = self._client.files.create(file=("requests.jsonl", file), purpose="batch")
            if not isinstance(uploaded, openai.types.FileObject):  # a page, as text
                raise Fault("failed", "the server sent no file")
        batch = self._client.with_options(max_retries=0).batches.create(
            completion_window="24h", endpoint=_ENDPOINT, input_file_id=uploaded.id
        )
        if not isinstance(batch, openai.types.Batch):
            raise Fault("failed", "the server sent no batch")
        self._notes.put(batch.id, keys)
        self._running[batch.id] = {key: self._waiting.pop(key) for key in keys}
        logger.info(
            f"mmie-tasks: the batch `{batch.id}` has {len(keys)} requests and may take 24 hours. "
            "If the run is stopped meanwhile, the same command resumes it."
        )

    def _write(self, file: BinaryIO) -> list[str]:
        """Write a line per request; returns their keys. Those that are broken are moved."""
        keys: list[str] = []
        for key, request in list(self._waiting.items()):
            try:
                line = self._line(key, request)
            except RequestBroken as error:
                del self._waiting[key]
                self._broken[key] = error
                continue
            is_full = file.tell() + len(line) > self._limits.size_bytes
            if is_full or len(keys) == self._limits.requests:
                break
            file.write(line)
            keys.append(key)
        return keys

    def _line(self, key: str, request: JudgeRequest) -> bytes:
        body = chat_body(request, self._options, self._chat.dialect)
        fields = {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}
        # ASCII only: some readers break lines at other characters, too.
        line = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
        if len(line) > self._limits.size_bytes:
            raise RequestBroken(f"the request is too large for a batch: {len(line) / 1e6:.0f} MB")
        return line

    # Results

    def _wait(self) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcomes of the running batches; those of one that fails too long are errors.

        A batch stays noted until its outcomes were taken.
        """
        seen_at = began = time.monotonic()
        while self._running:
            if self._stopped.wait(self._limits.poll_s):
                raise KeyboardInterrupt
            for name, requests in list(self._running.items()):
                try:
                    outcomes = self._outcomes_of(name, requests)
                    seen_at = time.monotonic()
                except self._faults as error:
                    failure = self._failure(error)
                    is_brief = time.monotonic() - seen_at <= self._limits.patience_s
                    if is_brief and isinstance(failure, JudgeUnavailable):
                        continue
                    del self._running[name]
                    yield from dict.fromkeys(requests, failure).items()
                    continue
                if outcomes is not None:
                    del self._running[name]
                    yield from outcomes.items()
                    with suppress(OSError, ValueError):  # at worst, they are read once more
                        self._notes.forget(name, requests)
            if time.monotonic() - began > self._limits.longest_wait_s:
                late = JudgeUnavailable(f"the batch is not over; {_AGAIN}")
                yield from ((key, late) for keys in self._running.values() for key in keys)
                return

    def _outcomes_of(
        self, name: str, requests: Mapping[str, JudgeRequest]
    ) -> Mapping[str, Outcome] | None:
        """The outcome of each request of a batch; None while it is not over."""
        import openai

        try:
            batch = self._client.batches.retrieve(name)
            if not isinstance(batch, openai.types.Batch):  # the SDK passes on a page as text
                raise Fault("failed", "the server sent no batch")
            if batch.status not in _OVER:
                if self._progress.get(name) != batch.status:
                    self._progress[name] = batch.status
                    logger.info(f"mmie-tasks: the batch `{name}` is {batch.status}.")
                return None
            files = filter(None, (batch.output_file_id, batch.error_file_id))
            contents = [self._client.files.content(file).content for file in files]
        except openai.NotFoundError as error:  # deleted, or of another account
            fault = fault_of(error, self._secrets)
            gone = JudgeUnavailable(f"the batch `{name}` no longer exists ({fault}); {_AGAIN}")
            return dict.fromkeys(requests, gone)
        lines = _result_lines(contents)
        reason = f"the batch is {batch.status} and has no line for it"
        if batch.errors:
            words = redact(message_of(batch.errors.model_dump_json()), self._secrets)
            reason = f"the batch failed: {words}"
        missing = JudgeUnavailable(f"{reason}; {_AGAIN}")
        return {
            key: self._outcome(request, lines[key]) if key in lines else missing
            for key, request in requests.items()
        }

    def _outcome(self, request: JudgeRequest, line: Mapping[str, object]) -> Outcome:
        """The outcome in a line: a ``response``, or an ``error`` if the request was never run."""
        match line:
            case {"response": {"status_code": 200, "body": body}}:
                try:
                    return read_completion(body, self._options, request.schema, self._secrets)
                except Fault as fault:
                    return JudgeUnavailable(f"{fault}; {_AGAIN}")
                except NoText as error:
                    return error.outcome
            case {"response": {"status_code": int(status), **response}}:
                body = [response.get("body"), line.get("error")]  # vLLM's error is in the line
            case _:
                status, body = 0, line.get("error")
        text = json.dumps(body)
        words = redact(message_of(text), self._secrets)
        kind = kind_of(status, text) if status else "failed"
        if kind == "denied":
            message = f"The batch ran into HTTP {status}: {words}."
            return JudgeMisconfigured(message, hint="check key and model")
        if kind == "rejected":
            return JudgeRefused(f"the server would not take the request: HTTP {status}: {words}")
        reason = f"HTTP {status}: {words}" if status else f"the batch ended without it: {words}"
        return JudgeUnavailable(f"{reason}; {_AGAIN}")

    def _failure(self, error: Exception) -> JudgeError:
        """The judge error of one of `_faults`."""
        if isinstance(error, (OSError, ValueError)):
            return JudgeMisconfigured(
                f"The folder `{self._notes.folder}` for batches cannot be used: {error}.",
                hint="make room on the disk, or name another with `MMIE_TASKS_CACHE`",
            )
        fault = fault_of(error, self._secrets)
        if fault.kind in ("denied", "rejected"):
            return JudgeMisconfigured(
                f"The judge's server {self._address} accepts no batch: {fault}.",
                hint="check the key and the account, or leave `batch=true` out: not every server "
                "has a Batch API",
            )
        return JudgeUnavailable(f"{self._address} gave no usable answer: {fault}; {_AGAIN}")


def _result_lines(contents: Sequence[bytes]) -> dict[str, dict[str, object]]:
    """The lines of result files by content key; the first counts, and others are skipped."""
    lines: dict[str, dict[str, object]] = {}
    for text in b"\n".join(contents).split(b"\n"):
        with suppress(ValueError, RecursionError):
            match json.loads(text):
                case {"custom_id": str(key), **fields}:
                    lines.setdefault(key, {str(name): value for name, value in fields.items()})
    return lines
