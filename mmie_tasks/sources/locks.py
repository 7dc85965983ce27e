"""One process does the work, the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from loguru import logger


@contextmanager
def turn(lock_file: Path, what: str) -> Iterator[None]:
    """Hold a lock file; the system frees it when its holder dies.

    Args:
        lock_file: It stays behind, empty.
        what: What another process is doing while this one waits, for the log.

    Raises:
        OSError: The file cannot be written.
    """
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.info(f"Another process is {what}; waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
