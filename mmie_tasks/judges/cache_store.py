"""The cache file of judge replies, a SQLite database.

It holds replies and hashes of requests; no verdict, error, request text, image or API key. Any
number of processes and threads of one machine may use it at once. Every reply is committed when it
arrives, so a killed run loses none.

Machines cannot share the file: SQLite's write-ahead log, which makes it safe for several processes,
does not work over network file systems.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.record.reply import JudgeReply, Usage

VERSION = 2

_APPLICATION_ID = 0x6D6D6965  # "mmie": distinguishes our databases from those of other programs
SQLITE_HEADER = b"SQLite format 3\0"
_HINT = "switch it off (`cache=off`), name another file (`cache=PATH`), or delete it"

_CREATE = """
CREATE TABLE replies (
    signature TEXT NOT NULL,            -- of the judge: `Judge.storage_signature`
    request TEXT NOT NULL,              -- SHA-256 of the request's content
    text TEXT NOT NULL,
    model TEXT NOT NULL,
    finish TEXT NOT NULL,               -- stop or length
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_usd REAL,                      -- NULL if unknown
    time INTEGER NOT NULL,              -- seconds since 1970, UTC
    PRIMARY KEY (signature, request)
)
"""
# Text is bound as bytes and cast back: SQLite rejects a Python string with a lone surrogate.
_PUT = """
INSERT INTO replies
    (signature, request, text, model, finish, input_tokens, output_tokens, reasoning_tokens,
     cost_usd, time)
VALUES
    (CAST(? AS TEXT), ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, ?, ?)
ON CONFLICT (signature, request) DO NOTHING
"""
_OF_JUDGE = """
SELECT * FROM replies
WHERE (:signature IS NULL OR signature = CAST(:signature AS TEXT))
ORDER BY signature, request
"""
_OF_REQUEST = "SELECT * FROM replies WHERE signature = CAST(? AS TEXT) AND request = ?"
_STATE = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
_CacheRow: TypeAlias = tuple[str, str, str, str, str, int, int, int, float | None, int]


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply in a cache file or an export, by the judge's signature and the `content_key`.

    `time_s` is the time of arrival, in seconds since 1970 (UTC).
    """

    signature: str
    request_key: str
    reply: JudgeReply
    time_s: int


class ReplyTable:
    """The replies in an open cache file.

    Every statement is its own transaction, so that other processes need not wait. Methods raise
    `sqlite3.Error`, OSError or OverflowError.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._inode = path.stat().st_ino
        self._writing = threading.Lock()  # threads may share the connection

    def find(self, signature: str, request_key: str) -> JudgeReply | None:
        """A judge's reply to a request, if it is cached."""
        # Fetches all rows, though there is at most one: an open cursor would block the log.
        rows = self._connection.execute(_OF_REQUEST, (_encoded(signature), request_key)).fetchall()
        return _from_row(rows[0]).reply if rows else None

    def put(self, cached: CachedReply) -> bool:
        """Store and commit a reply, unless there is one; returns whether it is new."""
        if self._path.stat().st_ino != self._inode:  # SQLite would write to the deleted file
            raise FileNotFoundError(errno.ENOENT, "it was deleted or replaced", str(self._path))
        reply, usage = cached.reply, cached.reply.usage
        row = (
            _encoded(cached.signature),
            cached.request_key,
            _encoded(reply.text),
            _encoded(reply.model),
            reply.finish,
            usage.input_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            usage.cost_usd,
            cached.time_s,
        )
        with self._writing:
            return self._connection.execute(_PUT, row).rowcount == 1

    def read_all(self, signature: str | None = None) -> Iterator[CachedReply]:
        """One judge's replies, or all, ordered by signature and request key."""
        parameters = {"signature": None if signature is None else _encoded(signature)}
        return map(_from_row, self._connection.execute(_OF_JUDGE, parameters))

    def clear(self) -> int:
        """Delete all replies and shrink the file; returns the number of replies."""
        deleted = self._connection.execute("DELETE FROM replies")
        self._connection.execute("VACUUM")
        return deleted.rowcount

    def check_writable(self) -> None:
        """Check that the file can be written now; changes nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("ROLLBACK")


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _decoded(content: bytes) -> str:
    """The inverse of `_encoded`: a connection's ``text_factory``."""
    try:
        return content.decode(errors="surrogatepass")
    except UnicodeDecodeError as error:
        raise sqlite3.DataError(f"byte {error.start} of a text is not UTF-8") from error


def _from_row(row: _CacheRow) -> CachedReply:
    """A row as a reply; older files have a further column."""
    signature, request_key, text, model, finish, *counts, cost_usd, time_s = row[:10]
    input_tokens, output_tokens, reasoning_tokens = counts
    reply = JudgeReply(
        text=text,
        model=model,
        usage=Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            reasoning_tokens=reasoning_tokens,
            cost_usd=cost_usd,
        ),
        finish="length" if finish == "length" else "stop",
    )
    return CachedReply(signature, request_key, reply, time_s)


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A cache file, which may not exist yet.

    Waits up to `busy_timeout_s` while another process writes. Errors about the file carry `hint`.
    """

    path: Path
    busy_timeout_s: float = field(default=30.0, kw_only=True)
    hint: str = field(default=_HINT, kw_only=True)

    @contextmanager
    def open(self) -> Iterator[ReplyTable]:
        """Open the file; a missing one is created, readable by its owner only.

        Raises:
            DataBroken: The file is not a cache, is damaged, or has another version.
            SettingWrong: The file cannot be opened or created.
        """
        with named_errors(self.path, self.hint):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
            connection = sqlite3.connect(
                self.path,
                timeout=self.busy_timeout_s,
                isolation_level=None,  # commits every statement
                check_same_thread=False,  # a generator may be closed in another thread
            )
            connection.text_factory = _decoded
        with closing(connection):
            with named_errors(self.path, self.hint):
                if not _has_table(connection, self):
                    _create(connection, self)
                connection.execute("PRAGMA synchronous = NORMAL")  # safe except for a power failure
            yield ReplyTable(connection, self.path)


@contextmanager
def named_errors(path: Path, hint: str = _HINT) -> Iterator[None]:
    """Turn errors of SQLite and the system into ours, which name the cache file.

    Raises:
        DataBroken: The file is damaged, or not a database.
        SettingWrong: The file cannot be opened, read or written, or another process locks it.
    """
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingWrong(f"`{path}` cannot be used: {reason}.", hint=hint) from error
    except sqlite3.Error as error:
        raise DataBroken(f"`{path}` is broken: {error}.", hint=hint) from error


def _has_table(connection: sqlite3.Connection, file: CacheFile) -> bool:
    """Whether our table is there; raises DataBroken for one that we cannot read."""
    connection.execute("BEGIN")  # one transaction: another process may be creating the tables
    application_id, version, tables = (
        int(connection.execute(statement).fetchall()[0][0]) for statement in _STATE
    )
    connection.execute("COMMIT")
    if application_id == version == tables == 0:
        return False
    if application_id != _APPLICATION_ID:
        message = f"`{file.path}` is a database of another program, not a cache."
        raise DataBroken(message, hint=file.hint)
    if version != VERSION:
        message = f"The cache `{file.path}` has version {version}; this package reads {VERSION}."
        raise DataBroken(message, hint=f"update mmie-tasks, or {file.hint}")
    return True


def _create(connection: sqlite3.Connection, file: CacheFile) -> None:
    """Create the table, unless another process has just done so."""
    # One process at a time: SQLite does not wait for others when the journal mode changes.
    with FileLock(file.path.with_name(f"{file.path.name}.lock")):
        if _has_table(connection, file):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_CREATE)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
