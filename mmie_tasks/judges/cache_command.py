"""The command ``mmie-tasks cache``: the path, an export, or deletion of cached replies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.wording import counted


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run ``mmie-tasks cache ARGUMENTS``; returns the exit status, 0 or 1.

    Invalid arguments end in argparse's SystemExit (2).
    """
    parser = argparse.ArgumentParser(
        prog="mmie-tasks cache",
        description="The cache of judge replies: `path` prints where it is, `export FILE` writes "
        "its replies to a JSONL, `clear` removes all of them without asking.",
    )
    parser.add_argument("action", choices=("path", "export", "clear"))
    parser.add_argument("file", nargs="?", help="of `export`: the JSONL; `-` is standard output")
    parser.add_argument(
        "--judge",
        metavar="TEXT",
        default="",
        help="of `export`: only judges with this signature, "
        "or with this part of one; default: all judges",
    )
    parser.add_argument("--cache", metavar="PATH", help="the cache file; default: the judges'")
    parsed = parser.parse_args(arguments)
    if (parsed.action == "export") != (parsed.file is not None):
        parser.error("`export` needs the name of a file, and the other actions take none")
    from mmie_tasks.judges.cache_file import CacheFile, default_path, named_errors

    path = Path(parsed.cache).expanduser() if parsed.cache else default_path(environment)
    try:
        if parsed.action == "path":
            _print(str(path))
        elif not path.exists():
            raise SettingWrong(f"There is no cache at {path}.", hint="name one with `--cache PATH`")
        elif parsed.action == "export":
            _export(path, parsed.file, parsed.judge)
        else:
            with CacheFile(path).open() as replies, named_errors(path):
                _print(f"Removed {counted(replies.clear(), 'reply')} from {path}.")
    except MmieTasksError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _export(path: Path, target: str, judge: str) -> None:
    from mmie_tasks.judges.cache_file import CacheFile, export_line, named_errors

    count, others = 0, set[str]()
    with CacheFile(path).open() as replies, named_errors(path), _output(target) as file:
        for cached in replies.read_all():
            if judge in cached.signature:
                file.write(export_line(cached))
                count += 1
            else:
                others.add(cached.signature)
        if others and not count:
            names = "\n".join(f"  {signature}" for signature in sorted(others))
            message = f"No judge in {path} has `{judge}` in its signature. Its judges are:\n{names}"
            raise SettingWrong(message, hint="`--judge` with a part of one of them")
    if target != "-":
        _print(f"Exported {counted(count, 'reply')} to {target}.")


@contextmanager
def _output(target: str) -> Iterator[IO[str]]:
    """Standard output, or a file that replaces an older one only when it is complete."""
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


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
