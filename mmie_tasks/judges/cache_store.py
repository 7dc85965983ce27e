"""The file that keeps what judges said, so that nothing is paid for twice.

One SQLite database. It holds replies, never verdicts and never errors; and of what was asked only
a hash: no text, no image, no key. Any number of processes and threads may use it at once. Each
reply is committed as it comes, so a run that is killed loses none that it had.

The file is for one machine at a time: the write-ahead log that makes this safe does not work
between machines that share a disk.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from filelock import FileLock

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.judges.base import JudgeReply, Usage

# A reply that was kept, and its form as one line of a JSONL file.
#
# A line is an object with ``signature`` (of the judge), ``request`` (its `content_key`), ``text``,
# ``model``, ``finish``, ``usage`` and ``time``. Other keys are allowed, and ignored.

_KEY = re.compile(r"[0-9a-f]{64}")
_LARGEST = 10**11  # tokens, dollars, seconds (the year 5138): a line that says more is broken
_HINT_RECORDS = "repair that line, or export the replies again"


class _NotAReply(ValueError):
    """What is wrong with a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A reply, whose it is, and to what.

    Attributes:
        signature: Of the judge that was asked.
        request: The `content_key` of what it was asked.
        reply: What it said.
        time: When it came, in seconds since 1970 (UTC).
    """

    signature: str
    request: str
    reply: JudgeReply
    time: int


def to_line(recorded: Recorded) -> str:
    """One line of a JSONL file, with its end: ASCII, so that any text survives any channel."""
    reply = recorded.reply
    fields = {
        "signature": recorded.signature,
        "request": recorded.request,
        "text": reply.text,
        "model": reply.model,
        "finish": reply.finish,
        "usage": asdict(reply.usage),
        "time": recorded.time,
    }
    return json.dumps(fields) + "\n"


def read_records(path: Path) -> Iterator[Recorded]:
    """Every reply of a JSONL file, read line by line; blank lines count for nothing.

    Raises:
        DataBroken: A line is not a reply; names the line and what is wrong with it.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield _recorded_records(json.loads(line))
            except (ValueError, RecursionError) as error:
                problem = str(error) or "it is nested too deeply"
                raise DataBroken(
                    f"{path}, line {number}: {problem}.", hint=_HINT_RECORDS
                ) from error


def _recorded_records(value: object) -> Recorded:
    """The reply in a JSON value.

    Raises:
        _NotAReply: There is none; says why.
    """
    fields = _mapping(value, "it")
    request = _text(fields, "request")
    if not _KEY.fullmatch(request):
        raise _NotAReply("`request` is not the 64 hexadecimal digits of a SHA-256")
    return Recorded(
        signature=_text(fields, "signature"),
        request=request,
        reply=_reply(fields),
        time=_count(fields, "time"),
    )


def _reply(fields: Mapping[str, object]) -> JudgeReply:
    usage = _mapping(fields.get("usage"), "`usage`")
    match fields.get("finish"):
        case "stop" | "length" as finish:
            return JudgeReply(
                text=_text(fields, "text"),
                model=_text(fields, "model"),
                finish=finish,
                usage=Usage(
                    input_tokens=_count(usage, "input_tokens"),
                    output_tokens=_count(usage, "output_tokens"),
                    reasoning_tokens=_count(usage, "reasoning_tokens"),
                    cost_usd=_cost(usage.get("cost_usd")),
                ),
            )
        case other:
            raise _NotAReply(f"`finish` is {other!r}, not 'stop' or 'length'")


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _NotAReply(f"{what} is {_kind(value)}, not an object")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _NotAReply(f"`{name}` is {_kind(value)}, not text")
    return value


def _count(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise _NotAReply(f"`{name}` is {_kind(value)}, not a whole number from 0 on")
    return value


def _cost(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _NotAReply(f"`cost_usd` is {_kind(value)}, not a number")
    if not 0 <= value <= _LARGEST:
        raise _NotAReply("`cost_usd` is not a sum of money")
    return float(value)


def _kind(value: object) -> str:
    """How an error names a value: numbers as they are, anything else by its kind."""
    if value is None:
        return "missing or null"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return f"a {type(value).__name__}"


# The replies in an open cache file: the table, and all that is asked of it.
#
# Every statement is a transaction of its own, so that others are not kept waiting. Text goes in and
# comes out as bytes: what a model says may hold half a character (a lone surrogate), which SQLite
# does not take from Python as it is.

CREATE = """
CREATE TABLE replies (
    signature TEXT NOT NULL,            -- of the judge that was asked
    request TEXT NOT NULL,              -- SHA-256 of what it was asked
    text TEXT NOT NULL,
    model TEXT NOT NULL,
    finish TEXT NOT NULL,               -- stop or length
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_usd REAL,                      -- NULL where unknown
    time INTEGER NOT NULL,              -- seconds since 1970, UTC
    PRIMARY KEY (signature, request)
)
"""
_PUT = """
INSERT INTO replies VALUES
    (CAST(? AS TEXT), ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, ?, ?)
ON CONFLICT (signature, request) DO NOTHING
"""
_EACH = """
SELECT signature, request, text, model, finish,
       input_tokens, output_tokens, reasoning_tokens, cost_usd, time
FROM replies
WHERE (:signature IS NULL OR signature = CAST(:signature AS TEXT))
ORDER BY signature, request
"""
_FIND = """
SELECT signature, request, text, model, finish,
       input_tokens, output_tokens, reasoning_tokens, cost_usd, time
FROM replies
WHERE signature = CAST(? AS TEXT) AND request = ?
"""
_TOTALS = """
SELECT signature, count(*), sum(input_tokens), sum(output_tokens), sum(cost_usd), count(cost_usd),
       sum(length(CAST(text AS BLOB))), min(time), max(time)
FROM replies
WHERE (:older_than IS NULL OR time < :older_than)
  AND (:judge IS NULL OR instr(signature, CAST(:judge AS TEXT)))
GROUP BY signature
ORDER BY signature
"""
_DELETE = """
DELETE FROM replies
WHERE (:older_than IS NULL OR time < :older_than)
  AND (:judge IS NULL OR instr(signature, CAST(:judge AS TEXT)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Some of the replies: those that meet both conditions; without any, all.

    Attributes:
        older_than: A time in seconds since 1970; they came before it.
        judge: A part of their judge's signature, as it is spelt there.
    """

    older_than: int | None = None
    judge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What there is of one judge.

    Attributes:
        signature: The judge's.
        replies: How many.
        input_tokens: Of all its replies, when they were new.
        output_tokens: Likewise.
        cost_usd: What the replies of known cost have cost together; None where none is known.
        priced: How many are of known cost.
        text_bytes: The length of their texts.
        oldest: When the first came, in seconds since 1970 (UTC).
        newest: When the last came.
    """

    signature: str
    replies: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    priced: int
    text_bytes: int
    oldest: int
    newest: int


class Replies:
    """An open cache file. Its methods raise what `sqlite3` raises, OSError and OverflowError."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._inode = path.stat().st_ino

    def find(self, signature: str, request: str) -> JudgeReply | None:
        """What this judge said to this request, if it was ever asked."""
        # All rows, though there is but one: a cursor left open keeps SQLite's log from shrinking.
        rows = self._connection.execute(_FIND, (encoded(signature), request)).fetchall()
        return _recorded(rows[0]).reply if rows else None

    def put(self, recorded: Recorded) -> bool:
        """Keep a reply, committed on return; True if there was none. One that is there stays."""
        if self._path.stat().st_ino != self._inode:  # SQLite would write on, where nobody looks
            raise FileNotFoundError(errno.ENOENT, "it was deleted or replaced", str(self._path))
        reply, usage = recorded.reply, recorded.reply.usage
        values = (
            encoded(recorded.signature),
            recorded.request,
            encoded(reply.text),
            encoded(reply.model),
            reply.finish,
            usage.input_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            usage.cost_usd,
            recorded.time,
        )
        return self._connection.execute(_PUT, values).rowcount == 1

    def each(self, signature: str | None = None) -> Iterator[Recorded]:
        """Every reply, or every reply of one judge, in the order of the requests' keys."""
        values = {"signature": None if signature is None else encoded(signature)}
        return map(_recorded, self._connection.execute(_EACH, values))

    def totals(self, selection: Selection) -> tuple[Totals, ...]:
        """What there is of each judge, in the order of their signatures."""
        rows = self._connection.execute(_TOTALS, _values(selection))
        return tuple(_totals(row) for row in rows)

    def delete(self, selection: Selection) -> int:
        """Delete replies, give their room back to the disk, and say how many they were."""
        count = self._connection.execute(_DELETE, _values(selection)).rowcount
        self._connection.execute("VACUUM")
        return count

    def try_writing(self) -> None:
        """Return if the file can be written now; changes nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("ROLLBACK")


def encoded(text: str) -> bytes:
    """Text as SQLite is given it; the statements cast it back."""
    return text.encode(errors="surrogatepass")


def decoded(data: bytes) -> str:
    """Text as it was before `encoded`: a connection's ``text_factory``."""
    try:
        return data.decode(errors="surrogatepass")
    except UnicodeDecodeError as error:
        raise sqlite3.DataError(f"byte {error.start} of a text is not UTF-8") from error


def _values(selection: Selection) -> dict[str, int | bytes | None]:
    judge = None if selection.judge is None else encoded(selection.judge)
    return {"older_than": selection.older_than, "judge": judge}


def _recorded(row: tuple[str, str, str, str, str, int, int, int, float | None, int]) -> Recorded:
    signature, request, text, model, finish, read, written, hidden, cost_usd, time = row
    usage = Usage(
        input_tokens=read, output_tokens=written, reasoning_tokens=hidden, cost_usd=cost_usd
    )
    ended: Literal["stop", "length"] = "length" if finish == "length" else "stop"
    reply = JudgeReply(text=text, model=model, usage=usage, finish=ended)
    return Recorded(signature=signature, request=request, reply=reply, time=time)


def _totals(row: tuple[str, int, int, int, float | None, int, int, int, int]) -> Totals:
    signature, replies, read, written, cost_usd, priced, text_bytes, oldest, newest = row
    return Totals(
        signature=signature,
        replies=replies,
        input_tokens=read,
        output_tokens=written,
        cost_usd=cost_usd,
        priced=priced,
        text_bytes=text_bytes,
        oldest=oldest,
        newest=newest,
    )


VERSION = 1
HEADER = b"SQLite format 3\0"  # how every SQLite file begins
_APPLICATION = 0x6D6D6965  # "mmie": tells our databases from other people's
READ_HINT = "name another file"
_HINT = "switch it off (`cache=off`), name another file (`cache=PATH`), or delete it"


def default_path(environment: Mapping[str, str]) -> Path:
    """Where replies are kept, unless told otherwise: below `cache_dir`.

    >>> default_path({"MMIE_TASKS_CACHE": "/c"}).as_posix()
    '/c/judge/replies.sqlite3'
    """
    return cache_dir(environment) / "judge" / "replies.sqlite3"


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A cache file, whether it exists yet or not.

    Attributes:
        path: Where it is.
        busy_timeout_s: How long to wait while another process writes.
    """

    path: Path
    busy_timeout_s: float = field(default=30.0, kw_only=True)

    @contextmanager
    def opened(self) -> Iterator[Replies]:
        """Open it to read and write; it is made if there is none, for its owner only.

        Raises:
            DataBroken: It is not a cache file, or is of a newer version of this package.
            SettingWrong: It cannot be opened or made.
        """
        with explained(self.path):
            _make(self.path)
            connection = self._connected("rw")
        with closing(connection):
            with explained(self.path):
                if not _is_set_up(connection, self.path):
                    _set_up(connection, self.path)
                connection.execute("PRAGMA synchronous = NORMAL")  # safe but for a power failure
            yield Replies(connection, self.path)

    @contextmanager
    def opened_to_read(self) -> Iterator[Replies]:
        """Open it to read only, also while others write it; nothing is made beside it.

        Raises:
            DataBroken: It is not a cache file, is empty, is of a newer version, or somebody began
                to write it meanwhile.
            SettingWrong: There is none, or it cannot be opened.
        """
        with explained(self.path, READ_HINT):
            # With nobody there, SQLite would leave two files beside it, or fail in a folder that
            # cannot be written. The stamp tells whether somebody came after all.
            stamp = None if _in_use(self.path) else _stamp(self.path)
            connection = self._connected("ro" if stamp is None else "ro&immutable=1")
        with closing(connection):
            with explained(self.path, READ_HINT):
                if not _is_set_up(connection, self.path, READ_HINT):
                    raise DataBroken(f"The cache `{self.path}` is empty.", hint=READ_HINT)
            yield Replies(connection, self.path)
            if stamp is not None and _stamp(self.path) != stamp:
                message = f"The cache `{self.path}` was changed while it was read."
                raise DataBroken(message, hint="try again")

    def _connected(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=self.busy_timeout_s,
            isolation_level=None,  # each statement is committed at once
            check_same_thread=False,  # a generator may end in another thread than it began in
        )
        connection.text_factory = decoded
        return connection


def log_of(path: Path) -> Path:
    """Where SQLite writes first, while somebody has a cache file open."""
    return path.with_name(f"{path.name}-wal")


@contextmanager
def explained(path: Path, hint: str = _HINT) -> Iterator[None]:
    """Say what is wrong with a cache file in words, where SQLite or the system complains.

    Raises:
        DataBroken: It is damaged, or no database at all.
        SettingWrong: It cannot be opened, read or written, or others keep it locked.
    """
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingWrong(f"`{path}` cannot be used: {reason}.", hint=hint) from error
    except sqlite3.Error as error:
        raise DataBroken(f"`{path}` is broken: {error}.", hint=hint) from error


def _make(path: Path) -> None:
    """Make an empty file that only its owner may read, if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))


def _in_use(path: Path) -> bool:
    """Whether somebody has the file open, or was killed while writing it."""
    return log_of(path).exists()


def _stamp(path: Path) -> tuple[int, int, int, bool]:
    """What changes when a file does."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns, _in_use(path)


def _is_set_up(connection: sqlite3.Connection, path: Path, hint: str = _HINT) -> bool:
    """Whether the database has our table; False where it is empty.

    Raises:
        DataBroken: It is another program's, or of a newer version.
    """
    connection.execute("BEGIN")  # the three belong together: another process may be setting it up
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    connection.execute("COMMIT")
    if application == version == tables == 0:
        return False
    if application != _APPLICATION:
        raise DataBroken(f"`{path}` is a database of another program, not a cache.", hint=hint)
    if version > VERSION:
        message = f"The cache `{path}` has version {version}; this package knows {VERSION}."
        raise DataBroken(message, hint=f"update mmie-tasks, or {hint}")
    return True


def _number(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchall()[0][0])


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    """Make the table, unless another process has just done so."""
    # SQLite does not wait for others where the kind of its log is changed, so one at a time.
    with FileLock(path.with_name(f"{path.name}.lock")):
        if _is_set_up(connection, path):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(CREATE)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
