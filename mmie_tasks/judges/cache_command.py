"""The command ``mmie-tasks cache``: see, carry away, merge and prune what judges said."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.judges.cache_store import (
    READ_HINT,
    CacheFile,
    Recorded,
    Replies,
    Selection,
    Totals,
    default_path,
    explained,
    log_of,
    to_line,
)
from mmie_tasks.judges.replay import recorded

_UNITS_S = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
_EVERYTHING = Selection()


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Obey ``mmie-tasks cache ARGUMENTS`` and return the exit status.

    0 if it was done, 1 if it could not be. What argparse will not take ends in its SystemExit (2).
    """
    parsed = _parser().parse_args(arguments)
    path = Path(parsed.cache).expanduser() if parsed.cache else default_path(environment)
    try:
        match parsed.action:
            case "stats":
                return _stats(path)
            case "export":
                return _export(path, parsed.file)
            case "import":
                return _import(path, Path(parsed.file).expanduser())
            case _:
                return _prune(path, parsed)
    except MmieTasksError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--cache", metavar="PATH", help="a cache file other than the usual one")
    parser = argparse.ArgumentParser(
        prog="mmie-tasks cache", description="What judges said, kept so that it is paid for once."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("stats", parents=[where], help="what there is, by judge")
    export = actions.add_parser("export", parents=[where], help="write every reply to a JSONL")
    export.add_argument("file", metavar="FILE", help="the JSONL; `-` is standard output")
    merge = actions.add_parser("import", parents=[where], help="take in a JSONL or another cache")
    merge.add_argument("file", metavar="FILE", help="replies that are here already stay")
    prune = actions.add_parser("prune", parents=[where], help="delete replies")
    prune.add_argument("--older-than", metavar="AGE", type=_seconds, help="such as 90d, 12w or 36h")
    prune.add_argument("--judge", metavar="PART", help="only judges with this in their signature")
    prune.add_argument("--yes", action="store_true", help="do it; without, it is only counted")
    return parser


def _seconds(age: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([hdw])", age)
    if not found:
        raise argparse.ArgumentTypeError(f"{age!r} is not a number with h, d or w, such as 90d")
    return int(found[1]) * _UNITS_S[found[2]]


def _stats(path: Path) -> int:
    if not path.exists():
        _say(f"There is no cache at {path} yet.")
        return 0
    with explained(path, READ_HINT), CacheFile(path).opened_to_read() as replies:
        totals = replies.totals(_EVERYTHING)
    files = (path, log_of(path))
    size = sum(each.stat().st_size for each in files if each.exists())
    _say(f"{path}: {_counted(sum(each.replies for each in totals))}, {_size(size)} on disk")
    for each in totals:
        _say(f"\n{_shown(each.signature)}\n{_described(each)}")
    return 0


def _described(totals: Totals) -> str:
    cost = "unknown"
    if totals.cost_usd is not None:
        cost = f"{totals.cost_usd:,.2f} USD"
        if totals.priced < totals.replies:
            cost += f" for {totals.priced:,} of them; of the others unknown"
    return (
        f"  replies  {totals.replies:,}, {_size(totals.text_bytes)} of text\n"
        f"  tokens   {totals.input_tokens:,} in, {totals.output_tokens:,} out\n"
        f"  cost     {cost}\n"
        f"  time     {_date(totals.oldest)} to {_date(totals.newest)}"
    )


def _export(path: Path, target: str) -> int:
    if not path.exists():
        raise SettingWrong(f"There is no cache at {path}.", hint="name one with `--cache PATH`")
    count = 0
    with (
        explained(path, READ_HINT),
        CacheFile(path).opened_to_read() as replies,
        _written(target) as file,
    ):
        for each in replies.each():
            file.write(to_line(each))
            count += 1
    if target != "-":
        _say(f"Exported {_counted(count)} to {target}.")
    return 0


@contextmanager
def _written(target: str) -> Iterator[IO[str]]:
    """A file that takes its name only when it is whole, so that a killed export leaves the old."""
    if target == "-":
        yield sys.stdout
        return
    path = Path(target).expanduser()
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="ascii", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            unfinished = Path(file.name)
            try:
                yield file.file
                file.flush()
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        message = f"`{path}` cannot be written: {error.strerror}."
        raise SettingWrong(message, hint="name another file") from error


def _import(path: Path, source: Path) -> int:
    for _ in recorded(source):  # to the end once, so that a broken file changes nothing
        pass
    with CacheFile(path).opened() as replies, explained(path):
        counts = Counter(_merged(replies, each) for each in recorded(source))
    _say(
        f"Imported {_counted(counts['new'])} that were not in {path} yet; "
        f"{counts['known']:,} were there already."
    )
    if conflicting := counts["conflicting"]:
        _say(f"{conflicting:,} more are there with another text, which was kept.")
    return 0


def _merged(replies: Replies, record: Recorded) -> str:
    """Put a reply into the cache unless there is one; says which it was."""
    if replies.put(record):
        return "new"
    there = replies.find(record.signature, record.request)
    return "known" if there and there.text == record.reply.text else "conflicting"


def _prune(path: Path, parsed: argparse.Namespace) -> int:
    age_s: int | None = parsed.older_than
    if age_s is None and not parsed.judge:
        message = "`mmie-tasks cache prune` was not told what to delete."
        raise SettingWrong(
            message, hint=f"add `--older-than 90d` or `--judge PART`, or delete {path}"
        )
    if not path.exists():
        _say(f"There is no cache at {path}.")
        return 0
    before = None if age_s is None else int(time.time()) - age_s
    selection = Selection(older_than=before, judge=parsed.judge)
    if not parsed.yes:
        with explained(path, READ_HINT), CacheFile(path).opened_to_read() as replies:
            count = sum(each.replies for each in replies.totals(selection))
        _say(f"This would delete {_counted(count)}. Nothing was deleted: add `--yes` to do it.")
        return 0
    with CacheFile(path).opened() as replies, explained(path):
        _say(f"Deleted {_counted(replies.delete(selection))}.")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _counted(replies: int) -> str:
    return f"{replies:,} {'reply' if replies == 1 else 'replies'}"


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"


def _date(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, tz=timezone.utc).date().isoformat()


def _shown(text: str) -> str:
    """Text that a terminal can show; an imported file may hold anything."""
    return text if text.isprintable() else ascii(text)
