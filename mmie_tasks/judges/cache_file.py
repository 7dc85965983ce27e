"""The file that keeps what judges said, so that nothing is paid for twice.

One SQLite database. It holds replies, never verdicts and never errors; and of what was asked only
a hash: no text, no image, no key. Any number of processes and threads may use it at once. Each
reply is committed as it comes, so a run that is killed loses none that it had.

The file is for one machine at a time: the write-ahead log that makes this safe does not work
between machines that share a disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from mmie_tasks.errors import DataBroken, SettingWrong
from mmie_tasks.judges.cache_table import CREATE, Replies, decoded
from mmie_tasks.paths import cache_dir

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
