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
from mmie_tasks.judges.cache_path import default_path


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run ``mmie-tasks cache ARGUMENTS``; returns the exit status, 0 or 1.

    Invalid arguments end in argparse's SystemExit (2).
    """
    parsed = _parser(default_path(environment)).parse_args(arguments)
    path = Path(parsed.cache).expanduser()
    try:
        match parsed.action:
            case "path":
                _print(str(path))
            case "export":
                _export(path, parsed.file)
            case _:
                _clear(path)
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
        description="The cache of judge replies: where it is, a copy of it, and deletion.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("path", parents=[common], help="print the path of the cache file")
    export = actions.add_parser("export", parents=[common], help="write all replies to a JSONL")
    export.add_argument("file", metavar="FILE", help="the JSONL; `-` is standard output")
    actions.add_parser("clear", parents=[common], help="remove all replies, without asking")
    return parser


def _export(path: Path, target: str) -> None:
    if not path.exists():
        raise SettingWrong(f"There is no cache at {path}.", hint="name one with `--cache PATH`")
    from mmie_tasks.judges.cache_export import export_line
    from mmie_tasks.judges.cache_store import CacheFile, named_errors

    count = 0
    with CacheFile(path).open() as replies, named_errors(path), _output(target) as file:
        for cached in replies.read_all():
            file.write(export_line(cached))
            count += 1
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


def _clear(path: Path) -> None:
    if not path.exists():
        _print(f"There is no cache at {path}.")
        return
    from mmie_tasks.judges.cache_store import CacheFile, named_errors

    with CacheFile(path).open() as replies, named_errors(path):
        _print(f"Removed {counted(replies.clear(), 'reply')} from {path}.")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
