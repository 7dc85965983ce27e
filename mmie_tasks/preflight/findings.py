"""What a check found, and how an error of ours becomes a finding."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.hub.download import HubFile, download_errors, unanswered

Status = Literal["ok", "warning", "problem"]

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report.

    Attributes:
        status: A run works, works with something to know, or does not work.
        subject: What was looked at.
        found: What was found, in a sentence without its full stop.
        hint: What to do; empty where nothing is to be done.
    """

    status: Status
    subject: str
    found: str
    hint: str = ""


def ok(subject: str, found: str) -> Finding:
    """Nothing is to be done."""
    return Finding(status="ok", subject=subject, found=found)


def warning(subject: str, found: str, hint: str = "") -> Finding:
    """A run works, and this should be known."""
    return Finding(status="warning", subject=subject, found=found, hint=hint)


def problem(subject: str, found: str, hint: str) -> Finding:
    """A run does not work."""
    return Finding(status="problem", subject=subject, found=found, hint=hint)


def problem_of(subject: str, error: MmieTasksError) -> Finding:
    """The problem that an error tells of.

    >>> from mmie_tasks.core.errors import DataMissing
    >>> problem_of("data", DataMissing("No folder `x`.", hint="`mkdir x`")).hint
    '`mkdir x`'
    """
    found, _, hint = str(error).partition("\n\nhint: ")
    return problem(subject, found.rstrip("."), hint)


def looked(subject: str, look: Callable[[], str]) -> Iterator[Finding]:
    """What a look finds: its words, a problem where it raises, and what it warned of.

    Args:
        subject: What is looked at.
        look: Gives the words for a good end; raises a `MmieTasksError` otherwise.
    """
    warned: list[str] = []
    sink = logger.add(lambda line: warned.append(str(line).strip()), level="WARNING", format=_plain)
    try:
        finding = ok(subject, look().rstrip("."))
    except MmieTasksError as error:
        finding = problem_of(subject, error)
    finally:
        with suppress(ValueError):  # the runner takes all sinks away when it is imported
            logger.remove(sink)
    yield finding
    for line in dict.fromkeys(warned):
        found, _, hint = line.partition(" hint: ")
        yield warning(subject, found.rstrip("."), hint)


def _plain(_record: object) -> str:
    return "{message}"


def gib(size_bytes: float) -> str:
    """A size in words.

    >>> gib(3 * 2**30), gib(2**20), gib(8204)
    ('3.0 GiB', '1.0 MiB', '8.0 KiB')
    """
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    small = 0 < size_bytes < 2**16
    return f"{size_bytes / 2**10:.1f} KiB" if small else f"{size_bytes / 2**20:.1f} MiB"


# Folders and files: whether there is room, whether one may write, what is missing.

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


# Files of a dataset on the Hub that were not brought yet: whether they can be had, how large.

_TIMEOUT_S = 10.0


def on_hub(subject: str, files: Sequence[HubFile], room: Path) -> Finding:
    """Ask the Hub for the sizes, once and without patience; what its cache holds is not asked for.

    Args:
        subject: What is looked at.
        files: Of one repository.
        room: Where a run would lay them down.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    sizes: list[int | None] = []
    commit = ""
    wanted = [file for file in files if not _is_cached(file)]
    for file in wanted:
        url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=file.revision)
        try:
            told = get_hf_file_metadata(url, timeout=_TIMEOUT_S)
        except download_errors() as error:
            return problem_of(subject, unanswered(file, error))
        sizes.append(told.size)
        commit = told.commit_hash or file.revision
    names = ", ".join(file.filename for file in wanted or files)
    if not wanted:
        return ok(subject, f"{names} in the Hub's cache, to be unpacked by the first run")
    return download(subject, f"{names} of {files[0].repo}@{commit}", sizes, room)


def _is_cached(file: HubFile) -> bool:
    from huggingface_hub import try_to_load_from_cache

    where = try_to_load_from_cache(
        file.repo, file.filename, revision=file.revision, repo_type="dataset"
    )
    return isinstance(where, str)
