"""The command ``mmie-tasks cache``: statistics, export, import and deletion of cached replies."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.files import atomic_write, readable_size
from mmie_tasks.judges.cache_export import export_line, read_recording
from mmie_tasks.judges.cache_store import (
    CacheFile,
    JudgeTotals,
    default_path,
    log_path,
    named_errors,
)


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
        "--cache",
        metavar="PATH",
        default=str(default_cache),
        help="the cache file; default: %(default)s",
    )
    parser = argparse.ArgumentParser(
        prog="mmie-tasks cache",
        description="The cache of judge replies: what it holds, copies of it, and deletion.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("stats", parents=[common], help="replies, tokens and cost of each judge")
    export = actions.add_parser("export", parents=[common], help="write all replies to a JSONL")
    export.add_argument("file", metavar="FILE", help="the JSONL; `-` is standard output")
    merge = actions.add_parser("import", parents=[common], help="add a JSONL or another cache")
    merge.add_argument("file", metavar="FILE", help="existing replies stay as they are")
    prune = actions.add_parser("prune", parents=[common], help="delete the replies of some judges")
    prune.add_argument(
        "--judge", metavar="PART", required=True, help="judges with this in their signature"
    )
    prune.add_argument("--yes", action="store_true", help="delete; without it, only count")
    return parser


def _stats(path: Path) -> None:
    if not path.exists():
        _print(f"There is no cache at {path}.")
        return
    totals = _totals(path)
    size = sum(file.stat().st_size for file in (path, log_path(path)) if file.exists())
    _print(
        f"{path}: {_replies(sum(judge.replies for judge in totals))}, {readable_size(size)} on disk"
    )
    for judge in totals:
        is_safe = judge.signature.isprintable()  # an imported file may hold control characters
        signature = judge.signature if is_safe else ascii(judge.signature)
        _print(f"\n{signature}\n{_description(judge)}")


def _totals(path: Path, judge: str = "") -> tuple[JudgeTotals, ...]:
    with CacheFile(path).open() as replies, named_errors(path):
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
    with CacheFile(path).open() as replies, named_errors(path), _output(target) as file:
        for cached in replies.read_all():
            file.write(export_line(cached))
            count += 1
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
        raise SettingWrong(
            f"`{path}` cannot be written: {error.strerror}.", hint="name another file"
        ) from error


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
    _print(
        f"Imported {_replies(counts['new'])} that were not in {path} yet; {counts['same']:,} were "
        "in it already."
    )
    if conflicting := counts["conflicting"]:
        _print(f"{conflicting:,} more are in it with another text, which stays.")


def _prune(path: Path, judge: str, *, confirmed: bool) -> None:
    if not judge:
        raise SettingWrong(
            "`--judge` is empty.", hint=f"name a part of a signature, or delete {path}"
        )
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
