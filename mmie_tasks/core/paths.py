"""Paths of the task files and of our cache folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def task_dir() -> Path:
    """The folder with our task YAMLs: inside the wheel, or beside the package in a checkout."""
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
