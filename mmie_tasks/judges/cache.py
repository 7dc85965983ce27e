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

        def find(replies: ReplyTable, key: str) -> JudgeReply | None:
            return replies.find(self.signature, key)

        with ExitStack() as stack:
            replies = self._attempt(stack.enter_context, self._file.open())
            indices_by_key: dict[str, list[int]] = {}  # requests to send, by content
            for index, request in enumerate(requests):
                try:
                    key = content_key(request)
                except RequestBroken as error:
                    yield index, error
                    continue
                if key in indices_by_key:
                    indices_by_key[key].append(index)
                elif reply := replies and self._attempt(find, replies, key):
                    yield index, replace(reply, cached=True)
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
                duplicate = outcome
                if isinstance(outcome, JudgeReply):
                    duplicate = replace(outcome, cached=True)
                    if replies and not outcome.cached:  # it is not from a recording
                        now_s = int(time.time())
                        reply = CachedReply(self.signature, key, outcome, now_s)
                        self._attempt(replies.put, reply)
                yield first, outcome
                for index in duplicates:
                    yield index, duplicate  # its tokens count once
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()  # at once: it may hold connections

    def _attempt(self, access: Callable[..., _T], *arguments: object) -> _T | None:
        """The result of an access to the file; None from its first failure on."""
        if self._is_disabled:
            return None
        try:
            return access(*arguments)
        except _FILE_ERRORS as error:
            self._is_disabled = True
            reason = str(error).partition("\n")[0]
            logger.warning(
                f"The judge's cache {self.path} is disabled for the rest of this run: {reason}"
            )
            return None
