"""Cache of judge replies: a wrapper around any judge."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import (
    HasAssets,
    InProcess,
    Judge,
    JudgeReply,
    JudgeRequest,
    Outcome,
    RequestBroken,
    SelfChecking,
    content_key,
)
from mmie_tasks.judges.cache_store import CachedReply, CacheFile, ReplyTable, named_errors

if TYPE_CHECKING:
    from mmie_tasks.hub.asset import Asset

# Disk full, locked for too long, damaged, deleted; a token count that SQLite cannot store.
_FILE_ERRORS = (sqlite3.Error, OSError, OverflowError, MmieTasksError)
_T = TypeVar("_T")


class CachedJudge:
    """A judge with a cache file of its replies.

    Replies are cached, errors never. A problem with the file loses no reply: it is logged once, as
    a warning, and the rest of the run goes without the cache.
    """

    def __init__(self, judge: Judge, file: CacheFile) -> None:
        self._judge = judge
        self._file = file
        self._is_disabled = False

    @property
    def signature(self) -> str:
        """The wrapped judge's: caching moves no score."""
        return self._judge.signature

    @property
    def path(self) -> Path:
        """Path of the cache file."""
        return self._file.path

    def check(self) -> None:
        """Return if the file can be written and the wrapped judge can be used.

        Raises:
            DataBroken: The file is no cache, or of a newer version.
            SettingWrong: It cannot be opened or written.
            JudgeMisconfigured: The wrapped judge cannot be used.
        """
        with self._file.open() as replies, named_errors(self.path):
            replies.check_writable()
        if isinstance(self._judge, SelfChecking):
            self._judge.check()

    def assets(self) -> Sequence[Asset]:
        """The assets of the wrapped judge."""
        return self._judge.assets() if isinstance(self._judge, HasAssets) else ()

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Have a function called before the wrapped judge loads a model, if it does."""
        if isinstance(self._judge, InProcess):
            self._judge.before_loading(callback)

    def close(self) -> None:
        """Free the memory of the wrapped judge, if it runs in this process."""
        if isinstance(self._judge, InProcess):
            self._judge.close()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield cached replies at once, then send all other requests together.

        Of requests with the same content one is sent; the others get its outcome, as cached.
        """
        with ExitStack() as stack:
            replies = self._attempt(lambda: stack.enter_context(self._file.open()))
            indices_by_key: dict[str, list[int]] = {}  # requests to send, by content
            for index, request in enumerate(requests):
                try:
                    key = content_key(request)
                except RequestBroken as error:
                    yield index, error
                    continue
                if key in indices_by_key:
                    indices_by_key[key].append(index)
                elif (reply := self._find(replies, key)) is not None:
                    yield index, reply
                else:
                    indices_by_key[key] = [index]
            if indices_by_key:
                yield from self._send(requests, indices_by_key, replies)

    def _send(
        self,
        requests: Sequence[JudgeRequest],
        indices_by_key: Mapping[str, Sequence[int]],
        replies: ReplyTable | None,
    ) -> Iterator[tuple[int, Outcome]]:
        pending = dict(enumerate(indices_by_key))
        outcomes = self._judge.ask([requests[first] for first, *_ in indices_by_key.values()])
        try:
            for position, outcome in outcomes:
                if (key := pending.pop(position, None)) is None:
                    continue  # a second outcome of a request, or of none: the first one counts
                first, *duplicates = indices_by_key[key]
                self._store(replies, key, outcome)
                yield first, outcome
                for index in duplicates:
                    yield index, _as_cached(outcome)
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()  # at once: it may hold connections

    def _find(self, replies: ReplyTable | None, key: str) -> JudgeReply | None:
        if replies is None:
            return None
        reply = self._attempt(lambda: replies.find(self.signature, key))
        return reply and replace(reply, cached=True)

    def _store(self, replies: ReplyTable | None, key: str, outcome: Outcome) -> None:
        """Store a reply, unless the wrapped judge has it from a recording."""
        if replies is not None and isinstance(outcome, JudgeReply) and not outcome.cached:
            cached_reply = CachedReply(
                signature=self.signature, request_key=key, reply=outcome, time_s=int(time.time())
            )
            self._attempt(lambda: replies.put(cached_reply))

    def _attempt(self, access: Callable[[], _T]) -> _T | None:
        """The result of an access to the file; None from its first failure on."""
        if self._is_disabled:
            return None
        try:
            return access()
        except _FILE_ERRORS as error:
            self._is_disabled = True
            reason = str(error).partition("\n")[0]
            logger.warning(
                f"The judge's cache {self.path} is disabled for the rest of this run: {reason}"
            )
            return None


def _as_cached(outcome: Outcome) -> Outcome:
    """The outcome for another request with the same content: its tokens count once."""
    return replace(outcome, cached=True) if isinstance(outcome, JudgeReply) else outcome
