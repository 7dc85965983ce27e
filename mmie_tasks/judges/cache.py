"""Cache of judge replies: a wrapper around any judge."""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from loguru import logger

from mmie_tasks.core.errors import DataBroken, MmieTasksError, SettingWrong
from mmie_tasks.core.files import atomic_write, readable_size
from mmie_tasks.judges.base import (
    CountsRequests,
    HasAssets,
    InProcess,
    Judge,
    JudgeReply,
    JudgeRequest,
    Outcome,
    RequestBroken,
    RequestCounts,
    SelfChecking,
    UsesStore,
    content_key,
)
from mmie_tasks.judges.cache_store import (
    READ_HINT,
    CachedReply,
    CacheFile,
    JudgeTotals,
    ReplyTable,
    Reservations,
    default_path,
    export_line,
    log_path,
    named_errors,
    read_recording,
)

if TYPE_CHECKING:
    from mmie_tasks.hub.asset import Asset


MAX_CHECK_S = 3.0
"""How many seconds a cache file is searched for damage before a run."""

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
        self._access = _Access(file.path)

    @property
    def signature(self) -> str:
        """The wrapped judge's: caching moves no score."""
        return self._judge.signature

    @property
    def path(self) -> Path:
        """Path of the cache file."""
        return self._file.path

    def check(self) -> None:
        """Return if the file is sound and can be written, and the wrapped judge can be used.

        Damage is searched for at most for `MAX_CHECK_S`.

        Raises:
            DataBroken: The file is no cache, of a newer version, or damaged.
            SettingWrong: It cannot be opened or written.
            JudgeMisconfigured: The wrapped judge cannot be used.
        """
        with self._file.open() as replies, named_errors(self.path):
            replies.check(MAX_CHECK_S)
        if isinstance(self._judge, SelfChecking):
            self._judge.check()

    def assets(self) -> Sequence[Asset]:
        """The assets of the wrapped judge."""
        return self._judge.assets() if isinstance(self._judge, HasAssets) else ()

    def request_counts(self) -> RequestCounts | None:
        """Those of the wrapped judge."""
        return self._judge.request_counts() if isinstance(self._judge, CountsRequests) else None

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

        Of requests with the same content one is sent; the others get its outcome, as cached. A judge that uses a store
        stores replies on arrival, and sends nothing that another process is sending or has sent meanwhile; replies of
        other judges are stored before they are yielded.
        """
        with ExitStack() as stack:
            replies = self._access(stack.enter_context, self._file.open())
            store = _Store(self._access, self._access(lambda: self.signature) or "", replies)
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
            if indices_by_key:
                store.keys = list(indices_by_key)
                yield from self._send(requests, list(indices_by_key.values()), store, stack)

    def _send(
        self, requests: Sequence[JudgeRequest], indices: Sequence[Sequence[int]], store: _Store, stack: ExitStack
    ) -> Iterator[tuple[int, Outcome]]:
        """Send the first of the requests with each content."""
        first_requests = [requests[first] for first, *_ in indices]
        uses_store = isinstance(self._judge, UsesStore)
        if isinstance(self._judge, UsesStore):
            store.reserve_in(stack, self.path)
            outcomes = self._judge.ask_with_store(first_requests, store)
        else:
            outcomes = self._judge.ask(first_requests)
        pending = dict(enumerate(indices))
        try:
            for position, outcome in outcomes:
                if position not in pending:
                    continue  # a second outcome of a request, or of none: the first one counts
                first, *duplicates = pending.pop(position)
                if not uses_store:
                    store.finish(position, outcome)
                yield first, outcome
                if isinstance(outcome, JudgeReply):
                    outcome = replace(outcome, cached=True)  # its tokens count once
                yield from ((index, outcome) for index in duplicates)
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()  # at once: it may hold connections


def runs_in_process(judge: Judge) -> bool:
    """Whether a judge's model runs in this process and takes its memory; a cache around the judge does not count."""
    return isinstance(judge._judge if isinstance(judge, CachedJudge) else judge, InProcess)


class _Access:
    """Runs accesses to a cache file until the first one that fails, which is logged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_disabled = False

    def __call__(self, access: Callable[..., _T], *arguments: object) -> _T | None:
        """The result of an access; None from the first failure on."""
        if self._is_disabled:
            return None
        try:
            return access(*arguments)
        except _FILE_ERRORS as error:
            self._is_disabled = True
            reason = str(error).partition("\n")[0]
            logger.warning(f"The judge's cache {self._path} is disabled for the rest of this run: {reason}")
            return None


class _Store:
    """The cache as a `ReplyStore` for the requests of one call.

    Attributes:
        keys: The content keys of the requests to send, in their order.
    """

    def __init__(self, access: _Access, signature: str, replies: ReplyTable | None) -> None:
        self.keys: Sequence[str] = ()
        self._access = access
        self._signature = signature
        self._replies = replies
        self._reservations: Reservations | None = None

    def reserve_in(self, stack: ExitStack, path: Path) -> None:
        """Reserve requests from now on, until the stack is closed."""
        if (reservations := self._access(Reservations, path)) is not None:
            stack.callback(reservations.close)
            self._reservations = reservations

    def reserve(self, index: int) -> bool:
        return self._reservations is None or self._reservations.add(self._signature, self.keys[index])

    def find(self, index: int) -> Outcome | None:
        return self.find_key(self.keys[index])

    def find_key(self, key: str) -> JudgeReply | None:
        """The reply to the request with this content key, as cached; None if there is none."""
        if self._replies is None:
            return None
        reply = self._access(self._replies.find, self._signature, key)
        return None if reply is None else replace(reply, cached=True)

    def finish(self, index: int, reply: Outcome | None) -> None:
        key = self.keys[index]
        if self._replies is not None and isinstance(reply, JudgeReply) and not reply.cached:
            self._access(self._replies.put, CachedReply(self._signature, key, reply, int(time.time())))
        if self._reservations is not None:
            self._reservations.remove(self._signature, key)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run ``mmie-tasks cache ARGUMENTS`` and return the exit status.

    0 on success, 1 on an error. Invalid arguments end in argparse's SystemExit (2).
    """
    parsed = _parser(default_path(environment)).parse_args(arguments)
    path = Path(parsed.cache).expanduser()
    try:
        match parsed.action:
            case "stats":
                _stats(path)
            case "export":
                _export(path, parsed.file)
            case "import":
                _import(path, Path(parsed.file).expanduser())
            case _:
                _prune(path, parsed.judge, confirmed=parsed.yes)
    except MmieTasksError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser(default_cache: Path) -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--cache", metavar="PATH", default=str(default_cache), help="the cache file; default: %(default)s"
    )
    parser = argparse.ArgumentParser(
        prog="mmie-tasks cache", description="The cache of judge replies: what it holds, copies of it, and deletion."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("stats", parents=[common], help="replies, tokens and cost of each judge")
    export = actions.add_parser("export", parents=[common], help="write all replies to a JSONL")
    export.add_argument("file", metavar="FILE", help="the JSONL; `-` is standard output")
    merge = actions.add_parser("import", parents=[common], help="add a JSONL or another cache")
    merge.add_argument("file", metavar="FILE", help="existing replies stay as they are")
    prune = actions.add_parser("prune", parents=[common], help="delete the replies of some judges")
    prune.add_argument("--judge", metavar="PART", required=True, help="judges with this in their signature")
    prune.add_argument("--yes", action="store_true", help="delete; without it, only count")
    return parser


def _stats(path: Path) -> None:
    if not path.exists():
        _print(f"There is no cache at {path}.")
        return
    totals = _totals(path)
    size = sum(file.stat().st_size for file in (path, log_path(path)) if file.exists())
    _print(f"{path}: {_replies(sum(judge.replies for judge in totals))}, {readable_size(size)} on disk")
    for judge in totals:
        is_safe = judge.signature.isprintable()  # an imported file may hold control characters
        signature = judge.signature if is_safe else ascii(judge.signature)
        _print(f"\n{signature}\n{_description(judge)}")


def _totals(path: Path, judge: str = "") -> tuple[JudgeTotals, ...]:
    with named_errors(path, READ_HINT), CacheFile(path).open_read_only() as replies:
        return replies.totals(judge)


def _description(judge: JudgeTotals) -> str:
    cost = "unknown"
    if judge.cost_usd is not None:
        cost = f"{judge.cost_usd:,.2f} USD"
        if judge.priced < judge.replies:
            cost += f" for {judge.priced:,} of them; of the others unknown"
    return (
        f"  replies  {judge.replies:,}, {readable_size(judge.text_bytes)} of text\n"
        f"  tokens   {judge.input_tokens:,} in, {judge.output_tokens:,} out\n"
        f"  cost     {cost}\n"
        f"  time     {_date(judge.oldest_s)} to {_date(judge.newest_s)}"
    )


def _export(path: Path, target: str) -> None:
    if not path.exists():
        raise SettingWrong(f"There is no cache at {path}.", hint="name one with `--cache PATH`")
    count = 0
    with named_errors(path, READ_HINT), CacheFile(path).open_read_only() as replies:
        damage = replies.damage()
        if damage and target != "-" and Path(target).expanduser().exists():
            message = f"The cache `{path}` is damaged: {damage}. `{target}` was not overwritten."
            raise DataBroken(message, hint="export what is readable into a new file")
        with _output(target) as file:
            for cached in replies.read_undamaged() if damage else replies.read_all():
                file.write(export_line(cached))
                count += 1
    if damage:
        raise DataBroken(
            f"The cache `{path}` is damaged ({damage}). Exported {_replies(count)} that can be "
            "read; the others are lost.",
            hint=f"delete the cache, then `mmie-tasks cache import {target}`",
        )
    if target != "-":
        _print(f"Exported {_replies(count)} to {target}.")


@contextmanager
def _output(target: str) -> Iterator[IO[str]]:
    """Standard output, or a file that replaces an older one only once it is complete."""
    if target == "-":
        yield sys.stdout
        return
    path = Path(target).expanduser()
    try:
        path.parent.stat()  # a misspelt folder is not created
        with atomic_write(path) as unfinished:
            unfinished.touch(0o600)
            with unfinished.open("w", encoding="ascii") as file:
                yield file
    except OSError as error:
        raise SettingWrong(f"`{path}` cannot be written: {error.strerror}.", hint="name another file") from error


def _import(path: Path, source: Path) -> None:
    for _ in read_recording(source):  # all of it, so that a broken file changes nothing
        pass
    with CacheFile(path).open() as replies, named_errors(path):
        counts: Counter[str] = Counter()
        for cached in read_recording(source):
            is_new = replies.put(cached)
            existing = None if is_new else replies.find(cached.signature, cached.request_key)
            is_same = existing is not None and existing.text == cached.reply.text
            counts["new" if is_new else "same" if is_same else "conflicting"] += 1
    _print(f"Imported {_replies(counts['new'])} that were not in {path} yet; {counts['same']:,} were in it already.")
    if conflicting := counts["conflicting"]:
        _print(f"{conflicting:,} more are in it with another text, which stays.")


def _prune(path: Path, judge: str, *, confirmed: bool) -> None:
    if not judge:
        raise SettingWrong("`--judge` is empty.", hint=f"name a part of a signature, or delete {path}")
    if not path.exists():
        _print(f"There is no cache at {path}.")
    elif confirmed:
        with CacheFile(path).open() as replies, named_errors(path):
            _print(f"Deleted {_replies(replies.delete(judge))}.")
    else:
        count = sum(totals.replies for totals in _totals(path, judge))
        _print(f"This would delete {_replies(count)}. Nothing was deleted: add `--yes` to do it.")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _replies(count: int) -> str:
    return f"{count:,} {'reply' if count == 1 else 'replies'}"


def _date(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, tz=timezone.utc).date().isoformat()
