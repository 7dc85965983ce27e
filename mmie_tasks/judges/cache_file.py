"""The cache file of judge replies, and recordings.

A reply's key is the signature of its judge (`Judge.storage_signature`) and the `content_key` of its
request; its value is the reply as JSON. Any number of processes and threads of one machine may use
a file at once, but not several machines: SQLite's write-ahead log does not work over network file
systems. Every reply is committed when it arrives, so a killed run loses none. The file holds no
verdict, error, request text, image or API key.

A recording is such a file, or a JSONL export of it. A line of an export is a JSON object with
``signature``, ``request`` (the key's two parts) and what is stored: ``text``, ``model``,
``finish``, ``usage``, ``time``. Other keys are ignored.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from mmie_tasks.core.errors import DataBroken, SettingWrong, first_line
from mmie_tasks.core.files import cache_dir
from mmie_tasks.record.reply import JudgeReply, Usage

CACHE_HINT = "switch it off (`cache=off`), name another file (`cache=PATH`), or delete it"
_RECORDING_HINT = "name another file"
_SQLITE_HEADER = b"SQLite format 3\0"
_CREATE = """
CREATE TABLE IF NOT EXISTS judge_replies (
    signature TEXT NOT NULL, request TEXT NOT NULL, reply TEXT NOT NULL,
    PRIMARY KEY (signature, request)
)
"""


class _Stored(TypedDict):
    """What is stored of a reply."""

    text: str
    model: str
    finish: Literal["stop", "length"]
    usage: Usage
    time: int


class _Exported(_Stored):
    signature: str
    request: str


_STORED = TypeAdapter(_Stored)
_EXPORTED = TypeAdapter(_Exported)


def default_path(environment: Mapping[str, str]) -> Path:
    """Path of the cache file, unless a judge's ``cache=`` names another.

    >>> default_path({"MMIE_TASKS_CACHE": "/c"}).as_posix()
    '/c/judge/replies.sqlite3'
    """
    return cache_dir(environment) / "judge" / "replies.sqlite3"


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A stored reply, by the judge's signature and the `content_key`.

    `time_s` is the time of arrival, in seconds since 1970 (UTC).
    """

    signature: str
    request_key: str
    reply: JudgeReply
    time_s: int = 0


class ReplyTable:
    """The replies in an open cache file. Every statement is a transaction of its own.

    Methods raise `sqlite3.Error`, and ValueError for content that is not a reply.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, signature: str, request_key: str) -> JudgeReply | None:
        """A judge's reply to a request, if it is cached."""
        query = "SELECT reply FROM judge_replies WHERE signature = ? AND request = ?"
        # Fetches all rows, though there is at most one: an open cursor would block the log.
        rows = self._connection.execute(query, (signature, request_key)).fetchall()
        return _cached(signature, request_key, rows[0][0]).reply if rows else None

    def put(self, cached: CachedReply) -> bool:
        """Store and commit a reply, unless there is one; returns whether it is new."""
        row = (cached.signature, cached.request_key, json.dumps(_stored(cached)))
        statement = "INSERT OR IGNORE INTO judge_replies VALUES (?, ?, ?)"
        return self._connection.execute(statement, row).rowcount == 1

    def remove(self, signature: str, request_key: str) -> None:
        """Remove a reply, so that the judge is asked again."""
        statement = "DELETE FROM judge_replies WHERE signature = ? AND request = ?"
        self._connection.execute(statement, (signature, request_key))

    def read_all(self) -> Iterator[CachedReply]:
        """All replies, ordered by signature and request key."""
        rows = self._connection.execute("SELECT * FROM judge_replies ORDER BY signature, request")
        return (_cached(*row) for row in rows)

    def clear(self) -> int:
        """Delete all replies and shrink the file; returns their number."""
        deleted = self._connection.execute("DELETE FROM judge_replies").rowcount
        self._connection.execute("VACUUM")
        return deleted


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A cache file, which may not exist yet.

    Waits up to `busy_timeout_s` while another process writes.
    """

    path: Path
    busy_timeout_s: float = field(default=30.0, kw_only=True)

    @contextmanager
    def open(self) -> Iterator[ReplyTable]:
        """Open the file; a missing one is created, readable by its owner only.

        Raises:
            DataBroken: The file is not a database, or is damaged.
            SettingWrong: The file cannot be opened, created or written.
        """
        with named_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
            connection = sqlite3.connect(
                self.path,
                timeout=self.busy_timeout_s,
                isolation_level=None,  # commits every statement
                check_same_thread=False,  # a generator may be closed in another thread
            )
        with closing(connection):
            # One process at a time: SQLite does not wait for others when the journal mode changes.
            with named_errors(self.path), FileLock(self.path.with_name(f"{self.path.name}.lock")):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")  # safe except for a power failure
                connection.execute(_CREATE)
            yield ReplyTable(connection)

    def check(self) -> None:
        """Check that the file can be written now; raises the same errors as `open`."""
        with self.open() as replies, named_errors(self.path):
            replies._connection.executescript("BEGIN IMMEDIATE; ROLLBACK")


@contextmanager
def named_errors(path: Path, hint: str = CACHE_HINT) -> Iterator[None]:
    """Turn errors of SQLite, the system and the content into ours, which name the file.

    Raises:
        DataBroken: The file is damaged, not a database, or holds something other than replies.
        SettingWrong: The file cannot be opened, read or written, or another process locks it.
    """
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingWrong(f"`{path}` cannot be used: {reason}.", hint=hint) from error
    except (sqlite3.Error, ValueError) as error:
        raise DataBroken(f"`{path}` is broken: {_problem_of(error)}.", hint=hint) from error


def read_recording(path: Path) -> Iterator[CachedReply]:
    """The replies in a cache file or an export; its first bytes, not its name, tell which it is.

    Raises:
        DataBroken: The file is neither, or damaged; the message names the line of an export.
        SettingWrong: The file cannot be read.
    """
    with named_errors(path, _RECORDING_HINT), path.open("rb") as file:
        if file.peek().startswith(_SQLITE_HEADER):
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
                yield from ReplyTable(connection).read_all()
            return
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                exported = _EXPORTED.validate_python(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise DataBroken(
                    f"{path}, line {number}: {_problem_of(error)}.",
                    hint="repair that line, or export the replies again",
                ) from error
            yield CachedReply(
                exported["signature"], exported["request"], _reply(exported), exported["time"]
            )


def export_line(cached: CachedReply) -> str:
    """A line of an export, with its newline; ASCII, so that any text survives."""
    keys = {"signature": cached.signature, "request": cached.request_key}
    return json.dumps({**keys, **_stored(cached)}) + "\n"


def _stored(cached: CachedReply) -> dict[str, object]:
    reply = asdict(cached.reply)
    names = ("text", "model", "finish", "usage")
    return {**{name: reply[name] for name in names}, "time": cached.time_s}


def _cached(signature: str, request_key: str, stored: str) -> CachedReply:
    """A row of the table; raises ValueError if its JSON is not a reply."""
    fields = _STORED.validate_python(json.loads(stored))
    return CachedReply(signature, request_key, _reply(fields), fields["time"])


def _reply(fields: _Stored) -> JudgeReply:
    return JudgeReply(
        text=fields["text"], model=fields["model"], usage=fields["usage"], finish=fields["finish"]
    )


def _problem_of(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return first_line(error)
    detail = error.errors(include_url=False)[0]
    return f"`{'.'.join(map(str, detail['loc']))}`: {detail['msg']}"
