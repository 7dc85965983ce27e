"""The cache of replies between a judge and its callers; `cache_file` has the file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.log import traceback_text, warn
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.cache_file import CACHE_HINT, CachedReply, ReplyTable
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.reply import JudgeReply


def outcomes_of(
    judge: Judge, requests: Sequence[JudgeRequest], name: str = ""
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of requests, exactly one for each index of `Judge.ask`.

    With a cache, cached replies come first, and all other requests are then sent together, those
    with equal content once. A reply is in the cache before it is yielded. A problem with the file
    is one warning, and the rest of the run goes without the cache.

    If a plugin's judge raises or skips requests, they get `JudgeUnavailable`. The log calls the
    judge `name`, or by default its title.
    """
    if not requests:
        return
    missing = dict.fromkeys(range(len(requests) * len(judge.members)))
    reason = "the judge returned neither a reply nor an error"
    outcomes = _cached_outcomes(judge, requests) if judge.cache else _asked(judge, requests)
    try:
        for index, outcome in outcomes:
            if index in missing:
                del missing[index]
                yield index, outcome
    except Exception as error:  # noqa: BLE001 - a plugin: its replies are lost, not the run
        reason = f"the judge ended early: {type(error).__name__}: {error}"
        name = name or judge.title(0)
        logger.error(
            "{} ended early; {} samples left without its verdict.\n{}",
            name[0].upper() + name[1:],
            len(missing),
            traceback_text(error),
        )
    finally:
        _close(outcomes)
    for index in missing:
        yield index, JudgeUnavailable(reason)


def _asked(judge: Judge, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
    """What `Judge.ask` yields; raises TypeError for what is no index with its outcome."""
    outcomes = judge.ask(requests)
    try:
        for pair in outcomes:
            match pair:
                case (int(), JudgeReply() | JudgeError()):
                    yield pair
                case _:
                    raise TypeError(
                        f"`ask` of {type(judge).__name__} yielded {pair!r:.200}, not an index with "
                        "a `JudgeReply` or `JudgeError`"
                    )
    finally:
        _close(outcomes)


def _cached_outcomes(
    judge: Judge, requests: Sequence[JudgeRequest]
) -> Iterator[tuple[int, Outcome]]:
    indices_by_key: dict[str, list[int]] = {}
    for index, request in enumerate(requests):
        try:
            indices_by_key.setdefault(content_key(request), []).append(index)
        except RequestBroken as error:  # noqa: PERF203 - concerns one request
            yield index, error
    with ExitStack() as stack:
        cache = _OpenCache(judge, stack)
        yield from cache.take_replies(indices_by_key)
        if not indices_by_key:
            return
        first_requests = [requests[first] for first, *_ in indices_by_key.values()]
        outcomes = _asked(judge, first_requests)
        try:
            yield from cache.store(outcomes, indices_by_key)
        finally:
            _close(outcomes)


def _close(outcomes: Iterator[object]) -> None:
    """Close a generator at once: it may hold connections."""
    if isinstance(outcomes, Generator):
        outcomes.close()


class _OpenCache:
    """The cache of a judge during one call, until its file fails."""

    def __init__(self, judge: Judge, stack: ExitStack) -> None:
        self._judge = judge
        self._replies: ReplyTable | None = None
        with self._closed_by_errors():
            if judge.cache:
                self._replies = stack.enter_context(judge.cache.open())

    def take_replies(self, indices_by_key: dict[str, list[int]]) -> Iterator[tuple[int, Outcome]]:
        """Yield the replies under the judge's signature, and remove their requests."""
        signature = self._judge.storage_signature
        for key in list(indices_by_key):
            reply: JudgeReply | None = None
            with self._closed_by_errors():
                reply = self._replies.find(signature, key) if self._replies else None
            if reply is not None:
                reply = replace(reply, cached=True, request_key=key)
                yield from ((index, reply) for index in indices_by_key.pop(key))

    def store(
        self, outcomes: Iterator[tuple[int, Outcome]], indices_by_key: Mapping[str, list[int]]
    ) -> Iterator[tuple[int, Outcome]]:
        """Store replies as they arrive, then yield them, also for all requests with equal content.

        The index of an outcome is the position of its key.
        """
        groups = dict(enumerate(indices_by_key.items()))
        for position, outcome in outcomes:
            if position not in groups:
                continue  # a second outcome, or an unknown index
            key, (first, *duplicates) = groups.pop(position)
            if isinstance(outcome, JudgeReply):
                outcome = replace(outcome, request_key=key)
                self._put(key, outcome)
            yield first, outcome
            if isinstance(outcome, JudgeReply):
                outcome = replace(outcome, cached=True)  # its tokens count once
            yield from ((index, outcome) for index in duplicates)

    def _put(self, key: str, reply: JudgeReply) -> None:
        """Store a reply, unless the judge has it from a recording."""
        with self._closed_by_errors():
            if self._replies and not reply.cached:
                signature, time_s = self._judge.storage_signature, int(time.time())
                self._replies.put(CachedReply(signature, key, reply, time_s))

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """Go on without the file after an error: disk full, locked for too long, damaged."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, MmieTasksError) as error:
            path, self._judge.cache, self._replies = self._judge.cache, None, None
            if path is not None:
                problem = f"is disabled for the rest of this run: {first_line(error)}"
                warn(f"The judge's cache {path.path} {problem}", hint=CACHE_HINT)
