"""A judge that remembers: what was asked before is not asked again."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import (
    InProcess,
    Judge,
    JudgeReply,
    JudgeRequest,
    Outcome,
    RequestBroken,
    SelfChecking,
    content_key,
)
from mmie_tasks.judges.cache_store import CacheFile, Recorded, Replies, explained

# Disk full, locked for too long, damaged, deleted; a count of tokens that SQLite cannot hold.
_TROUBLE = (sqlite3.Error, OSError, OverflowError, MmieTasksError)


class CachedJudge:
    """Another judge, with a file of what it said before.

    Replies are kept, never errors. What cannot be kept is passed on all the same: trouble with the
    file is one warning in the log, and the rest of the run goes on without it.
    """

    def __init__(self, judge: Judge, file: CacheFile) -> None:
        self._judge = judge
        self._file = file
        self._given_up = False

    @property
    def signature(self) -> str:
        """The inner judge's: remembering moves no score."""
        return self._judge.signature

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def check(self) -> None:
        """Return if the file can be written and the inner judge can be used.

        Raises:
            DataBroken: The file is no cache, or of a newer version.
            SettingWrong: It cannot be opened or written.
            JudgeMisconfigured: The inner judge's.
        """
        with self._file.opened() as replies, explained(self.path):
            replies.try_writing()
        if isinstance(self._judge, SelfChecking):
            self._judge.check()

    def before_loading(self, call: Callable[[], object]) -> None:
        """Tell the inner judge, if it is computed in this process."""
        if isinstance(self._judge, InProcess):
            self._judge.before_loading(call)

    def close(self) -> None:
        """Have the inner judge give back its memory, if it is computed in this process."""
        if isinstance(self._judge, InProcess):
            self._judge.close()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give what is known at once, and ask the inner judge for the rest, all together.

        Of requests with the same content one is asked; the others get its outcome, as cached.
        """
        with ExitStack() as stack:
            replies = self._opened(stack)
            asked: dict[str, list[int]] = {}  # by content: the places of the requests
            for index, request in enumerate(requests):
                try:
                    key = content_key(request)
                except RequestBroken as error:
                    yield index, error
                    continue
                if key in asked:
                    asked[key].append(index)
                elif (reply := self._find(replies, key)) is not None:
                    yield index, reply
                else:
                    asked[key] = [index]
            if asked:
                yield from self._asked(requests, asked, replies)

    def _asked(
        self,
        requests: Sequence[JudgeRequest],
        asked: Mapping[str, Sequence[int]],
        replies: Replies | None,
    ) -> Iterator[tuple[int, Outcome]]:
        waiting = dict(enumerate(asked))
        outcomes = self._judge.ask([requests[first] for first, *_ in asked.values()])
        try:
            for place, outcome in outcomes:
                if (key := waiting.pop(place, None)) is None:
                    continue  # more than one outcome for a request: the first counts
                first, *others = asked[key]
                self._keep(replies, key, outcome)
                yield first, outcome
                for index in others:
                    yield index, _as_cached(outcome)
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()  # now, not when memory is next tidied up: it may hold connections

    def _opened(self, stack: ExitStack) -> Replies | None:
        if self._given_up:
            return None
        try:
            return stack.enter_context(self._file.opened())
        except _TROUBLE as error:
            self._give_up(error)
            return None

    def _find(self, replies: Replies | None, key: str) -> JudgeReply | None:
        if replies is None or self._given_up:
            return None
        try:
            reply = replies.find(self.signature, key)
        except _TROUBLE as error:
            self._give_up(error)
            return None
        return reply and replace(reply, cached=True)

    def _keep(self, replies: Replies | None, key: str, outcome: Outcome) -> None:
        """Write a reply, unless the inner judge has it from a record of its own."""
        if replies is None or self._given_up or not isinstance(outcome, JudgeReply):
            return
        if outcome.cached:
            return
        now_s = int(time.time())
        record = Recorded(signature=self.signature, request=key, reply=outcome, time=now_s)
        try:
            replies.put(record)
        except _TROUBLE as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._given_up = True
        path, reason = self.path, str(error).partition("\n")[0]
        logger.warning(f"The judge's cache {path} is not used any more in this run: {reason}")


def _as_cached(outcome: Outcome) -> Outcome:
    """The outcome for another request of the same content: its tokens count once."""
    return replace(outcome, cached=True) if isinstance(outcome, JudgeReply) else outcome
