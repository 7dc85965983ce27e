"""Cache of judge replies: a wrapper around any judge."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeRequest,
    Outcome,
    RequestBroken,
    RequestCounts,
)
from mmie_tasks.judges.cache_store import CachedReply, CacheFile, ReplyTable, named_errors
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.reply import JudgeReply

if TYPE_CHECKING:
    from mmie_tasks.http.access import Access
    from mmie_tasks.hub.asset import Asset

# Disk full, locked for too long, damaged, deleted.
_FILE_ERRORS = (sqlite3.Error, OSError, MmieTasksError)


class CachedJudge(Judge):
    """A judge with a cache file of its replies; errors are never cached.

    The key of a reply is `Judge.storage_signature` (the signature, and a server with its port) and
    `content_key` of its request (a hash of texts, image bytes, token limit and attempt).

    A problem with the file loses no reply: it is logged once as a warning, and the rest of the run
    does without the cache.
    """

    def __init__(self, judge: Judge, file: CacheFile) -> None:
        self.judge = judge
        self.name, self.model, self.in_process = judge.name, judge.model, judge.in_process
        self._file = file
        self._is_disabled = False

    @property
    def signature(self) -> str:
        """The wrapped judge's signature: caching moves no score."""
        return self.judge.signature

    @property
    def access(self) -> Access | None:
        """The wrapped judge's server."""
        return self.judge.access

    @property
    def cache_file(self) -> Path:
        """Path of the cache file."""
        return self._file.path

    def check(self, max_images: int = 0) -> None:
        """Check the wrapped judge, and first that the file can be written.

        Raises DataBroken or SettingWrong if the file cannot be used; see `CacheFile.open`.
        """
        with self._file.open() as replies, named_errors(self.cache_file):
            replies.check_writable()
        self.judge.check(max_images)

    def assets(self) -> Sequence[Asset]:
        """The wrapped judge's assets."""
        return self.judge.assets()

    def counts(self) -> RequestCounts | None:
        """The wrapped judge's counts."""
        return self.judge.counts()

    def stop(self) -> None:
        """Stop the wrapped judge."""
        self.judge.stop()

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Register a function to call before the wrapped judge loads a model."""
        self.judge.before_loading(callback)

    def settle(self) -> None:
        """Settle the wrapped judge's signature."""
        self.judge.settle()

    def machine(self) -> str | None:
        """The wrapped judge's machine."""
        return self.judge.machine()

    def close(self) -> None:
        """Free the wrapped judge's memory."""
        self.judge.close()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield cached replies at once, then send all other requests together.

        Requests with the same content are sent once; the repeats get the first outcome, marked as
        cached. A reply that the judge has not stored itself is stored before it is yielded.
        """
        with ExitStack() as stack:
            replies = self._open(stack)
            store = _Store(replies, self.judge.storage_signature, self._disable)
            indices_by_key: dict[str, list[int]] = {}  # requests to send, by content
            for index, request in enumerate(requests):
                try:
                    key = content_key(request)
                except RequestBroken as error:
                    yield index, error
                    continue
                if key in indices_by_key:
                    indices_by_key[key].append(index)
                elif (reply := store.find_key(key)) is not None:
                    yield index, reply
                else:
                    indices_by_key[key] = [index]
            if indices_by_key and self._settle(store.signature):
                store = _Store(
                    None if self._is_disabled else replies,
                    self.judge.storage_signature,
                    self._disable,
                )
                for key in list(indices_by_key):
                    if (reply := store.find_key(key)) is not None:
                        yield from ((index, reply) for index in indices_by_key.pop(key))
            if indices_by_key:
                store.keys = list(indices_by_key)
                yield from self._send(requests, list(indices_by_key.values()), store)

    def _settle(self, before: str) -> bool:
        """Settle the judge's signature; returns whether it differs from `before`."""
        with suppress(JudgeError):  # `ask` raises it again, for each request
            self.judge.settle()
        return self.judge.storage_signature != before

    def _send(
        self, requests: Sequence[JudgeRequest], indices: Sequence[Sequence[int]], store: _Store
    ) -> Iterator[tuple[int, Outcome]]:
        """Send the first request of each group of equal ones."""
        first_requests = [requests[first] for first, *_ in indices]
        outcomes = self.judge.ask(first_requests)
        pending = dict(enumerate(indices))
        try:
            for position, outcome in outcomes:
                if position not in pending:
                    continue  # a second outcome, or an unknown index: the first outcome counts
                first, *duplicates = pending.pop(position)
                if isinstance(outcome, JudgeReply):
                    outcome = replace(outcome, request_key=store.keys[position])
                    store.put(position, outcome)
                yield first, outcome
                if isinstance(outcome, JudgeReply):
                    outcome = replace(outcome, cached=True)  # its tokens count once
                yield from ((index, outcome) for index in duplicates)
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()  # at once: it may hold connections

    def _open(self, stack: ExitStack) -> ReplyTable | None:
        if self._is_disabled:
            return None
        try:
            return stack.enter_context(self._file.open())
        except _FILE_ERRORS as error:
            self._disable(error)
            return None

    def _disable(self, error: Exception) -> None:
        self._is_disabled = True
        reason = first_line(error)
        logger.warning(
            f"The judge's cache {self.cache_file} is disabled for the rest of this run: {reason}"
        )


class _Store:
    """The cache during one `ask`, until the file fails."""

    def __init__(
        self, replies: ReplyTable | None, signature: str, disable: Callable[[Exception], None]
    ) -> None:
        self.keys: Sequence[str] = ()  # content keys of the requests to send, in order
        self._stored: set[int] = set()
        self._replies = replies
        self.signature = signature
        self._disable = disable

    def find(self, index: int) -> Outcome | None:
        return self.find_key(self.keys[index])

    def find_key(self, key: str) -> JudgeReply | None:
        """The reply to the request with this content key, marked as cached."""
        if self._replies is None:
            return None
        try:
            reply = self._replies.find(self.signature, key)
        except _FILE_ERRORS as error:
            self._fail(error)
            return None
        return None if reply is None else replace(reply, cached=True, request_key=key)

    def put(self, index: int, reply: Outcome) -> None:
        """Store a reply unless it is stored already."""
        if self._replies is None or not isinstance(reply, JudgeReply) or reply.cached:
            return
        if index in self._stored:
            return
        self._stored.add(index)
        cached = CachedReply(self.signature, self.keys[index], reply, int(time.time()))
        try:
            self._replies.put(cached)
        except OverflowError as error:  # a token count that SQLite cannot store
            logger.warning(f"A reply is not stored in the judge's cache: {error}")
        except _FILE_ERRORS as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._replies = None
        self._disable(error)
