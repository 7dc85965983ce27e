"""The replies in an open cache file: the table, and all that is asked of it.

Every statement is a transaction of its own, so that others are not kept waiting. Text goes in and
comes out as bytes: what a model says may hold half a character (a lone surrogate), which SQLite
does not take from Python as it is.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmie_tasks.judges.base import JudgeReply, Usage
from mmie_tasks.judges.records import Recorded

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
