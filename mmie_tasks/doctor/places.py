"""Folders and files: whether there is room, whether one may write, what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from mmie_tasks.doctor.findings import Finding, gib, ok, problem, warning

_LITTLE_BYTES = 2**30


def standing(path: Path) -> Path:
    """The path itself, or the nearest one above it that exists."""
    path = path.expanduser().absolute()
    return next((each for each in (path, *path.parents) if each.exists()), path)


def free_bytes(path: Path) -> int:
    """Room on the disk that a path is on, or will be."""
    return shutil.disk_usage(standing(path)).free


def folder(subject: str, path: Path, hint: str) -> Finding:
    """Whether a folder can be written, or made, and what room it has.

    Args:
        subject: What the folder is for.
        path: It need not exist.
        hint: How to name another.
    """
    there = standing(path)
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return problem(subject, f"`{path}` cannot be written", hint)
    try:
        free = free_bytes(path)
    except OSError as error:
        return warning(subject, f"`{path}` does not tell its room ({error.strerror})", hint)
    found = f"{gib(free)} free for `{path}`"
    return ok(subject, found) if free >= _LITTLE_BYTES else warning(subject, found, hint)


def download(subject: str, what: str, sizes: Sequence[int | None], room: Path) -> Finding:
    """Something that a run will download first.

    Args:
        subject: What was looked at.
        what: Names it: ``MMIE/MMIE at c0ffee``.
        sizes: Bytes of each file; None where it is not told.
        room: Where it will be laid down.
    """
    known = sum(size or 0 for size in sizes)
    size = f"{gib(known)}{' or more' if None in sizes else ''}" if known else "size unknown"
    found = f"{what} is accessible and not downloaded yet: {size}, which a run fetches first"
    if known > (free := free_bytes(room)):
        return problem(
            subject,
            f"{what} needs {size}, and {gib(free)} are free for `{room}`",
            "make room, or set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a folder on "
            "a bigger disk",
        )
    return ok(subject, found)


def noted(root: Path, asked: str) -> str:
    """The commit that an earlier run found for what was asked; empty where none did.

    Args:
        root: Of a benchmark or judge below our cache; notes are ``commits/<what was asked>.txt``.
        asked: Branch, tag or commit.
    """
    note = root / "commits" / f"{asked.replace('/', '%2F')}.txt"
    if not note.is_file():
        return ""
    return note.read_text(encoding="ascii", errors="replace").strip()


def kept_folder(root: Path, asked: str) -> Path | None:
    """The folder, named as the commit, with what an earlier run brought from the Hub, if any."""
    commit = noted(root, asked)
    return root / commit if commit and (root / commit).is_dir() else None
