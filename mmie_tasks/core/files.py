"""Files on disk: our folders, atomic writes, locks between processes, free space, sizes."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from loguru import logger


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """A temporary path that replaces `target` in one step on success and is removed on failure.

    Each has a name of its own, so several processes may write the same target.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def create_folder_once(destination: Path, fill: Callable[[Path], object], activity: str) -> None:
    """Create a folder completely or not at all, unless it exists; other processes wait meanwhile.

    `fill` writes into an empty folder, which then gets the name `destination`. A killed process
    leaves that folder, and the next process deletes it; the system releases its lock. A process
    that waits logs the activity: ``unpacking `data```.
    """
    if destination.is_dir():
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(destination.with_name(f"{destination.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.info(f"Another process is {activity}; waiting for it.")
        lock.acquire()
    unfinished = destination.with_name(f"{destination.name}.unfinished")
    try:
        if not destination.is_dir():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            fill(unfinished)
            unfinished.replace(destination)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        lock.release()


def readable_size(size_bytes: float) -> str:
    """A size for display in binary units; sizes above half a unit are in that unit.

    >>> readable_size(3_974_906_269), readable_size(700 * 1024), readable_size(8204)
    ('3.7 GiB', '0.7 MiB', '8.0 KiB')
    >>> readable_size(512)
    '512 bytes'
    """
    for unit_bytes, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes > unit_bytes / 2:
            return f"{size_bytes / unit_bytes:.1f} {name}"
    return f"{size_bytes:.0f} bytes"


def json_problem(error: ValueError | RecursionError) -> str:
    """A clause that says where and why a text is not JSON in UTF-8.

    >>> try:
    ...     json.loads("[1,")
    ... except ValueError as error:
    ...     json_problem(error)
    'line 1, column 4'
    """
    match error:
        case json.JSONDecodeError():
            return f"line {error.lineno}, column {error.colno}"
        case UnicodeDecodeError():
            return f"byte {error.start} is not UTF-8"
        case RecursionError():
            return "nested too deeply"
    return "a number in it is too long"


def task_dir() -> Path:
    """The folder with our task YAMLs: inside the wheel, or next to the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "task_yamls"
    return shipped if shipped.is_dir() else package.parent / "task_yamls"


def cache_dir(environment: Mapping[str, str]) -> Path:
    """Our folder for downloaded, unpacked and generated files.

    ``MMIE_TASKS_CACHE`` if set, else ``mmie-tasks`` in the user's cache folder
    (``XDG_CACHE_HOME``, by default ``~/.cache``).

    >>> cache_dir({"XDG_CACHE_HOME": "/c"}).as_posix()
    '/c/mmie-tasks'
    """
    if configured := environment.get("MMIE_TASKS_CACHE"):
        return Path(configured).expanduser()
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mmie-tasks"


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder, at any depth and sorted, that match a pattern such as ``*.json``.

    Names that begin with a dot, and the folder ``__MACOSX``, are left out: operating systems,
    notebooks and archives leave copies of other files there.
    """
    return [
        path
        for path in sorted(folder.rglob(pattern))
        if not any(
            part.startswith(".") or part == "__MACOSX" for part in path.relative_to(folder).parts
        )
    ]
