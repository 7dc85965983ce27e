"""Where the cache of judge replies is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mmie_tasks.core.files import cache_dir


def default_path(environment: Mapping[str, str]) -> Path:
    """Path of the cache file, unless a judge's ``cache=`` names another.

    >>> default_path({"MMIE_TASKS_CACHE": "/c"}).as_posix()
    '/c/judge/replies.sqlite3'
    """
    return cache_dir(environment) / "judge" / "replies.sqlite3"
