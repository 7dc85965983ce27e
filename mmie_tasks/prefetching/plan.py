"""What is told before anything is fetched: a table, the sum, and whether there is room."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from mmie_tasks.doctor.findings import gib
from mmie_tasks.doctor.places import free_bytes, standing
from mmie_tasks.errors import DataMissing
from mmie_tasks.prefetching.items import Item
from mmie_tasks.tables import table

HEADER = ("what", "from", "here", "into", "to fetch")

_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")


def text(items: Sequence[Item], notes: Iterable[str] = ()) -> str:
    """Everything, its size first; what is not known is said to be so."""
    lines = [table(HEADER, map(_row, items), words=4)] if items else []
    lines += ["", _sum(items)] if items else []
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)])


def _row(item: Item) -> tuple[str, ...]:
    state = "yes" if item.here else "?" if item.trouble else "no"
    source = _COMMIT.sub(r"\1", item.told.source)
    return (item.subject, source, state, str(item.room), _size(item))


def _size(item: Item) -> str:
    if item.here:
        return "-"
    size_bytes = item.told.size_bytes
    return "unknown" if size_bytes is None else gib(size_bytes)


def _sum(items: Iterable[Item]) -> str:
    wanted = [item for item in items if not item.here]
    if not wanted:
        return "Everything is here."
    known = [item.told.size_bytes for item in wanted if item.told.size_bytes is not None]
    unknown = len(wanted) - len(known)
    sizes = [gib(sum(known))] if known else []
    sizes += [f"{unknown} of unknown size"] if unknown else []
    return f"To fetch: {', and '.join(sizes)}."


def needs_bytes(items: Iterable[Item]) -> Mapping[Path, int]:
    """Folder to the room that it needs, one folder for each disk; what is unknown counts as none.

    What stays is added up. What is only there for a while is there for one item at a time.
    """
    folders: dict[int, Path] = {}
    stays: dict[Path, int] = {}
    passes: dict[Path, int] = {}

    def on(folder: Path) -> Path:
        return folders.setdefault(standing(folder).stat().st_dev, folder)

    for item in items:
        if item.here:
            continue
        room = on(item.room)
        for folder, size_bytes in item.told.stays.items():
            stays[on(folder)] = stays.get(on(folder), 0) + size_bytes
        passes[room] = max(passes.get(room, 0), item.told.passes_bytes)
    return {folder: stays.get(folder, 0) + passes.get(folder, 0) for folder in folders.values()}


def check_room(items: Iterable[Item], free: Callable[[Path], int] = free_bytes) -> str:
    """Words for what is needed and what is free.

    Args:
        items: What is to be fetched.
        free: Gives the bytes that are free for a folder.

    Raises:
        DataMissing: A disk has too little room, or a folder cannot be written.
    """
    lines = []
    for folder, needed in needs_bytes(items).items():
        _check_right(folder)
        there = free(folder)
        if needed > there:
            raise DataMissing(
                f"{gib(needed)} are needed for `{folder}`, archives while they are unpacked "
                f"included, and {gib(there)} are free.",
                hint="make room, or set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a "
                "folder on a bigger disk",
            )
        wanted = f"at most {gib(needed)} needed" if needed else "what is needed is not known"
        lines.append(f"Room for `{folder}`: {gib(there)} free, {wanted}.")
    return "\n".join(lines)


def _check_right(folder: Path) -> None:
    there = standing(folder)
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise DataMissing(
            f"`{folder}` cannot be written.",
            hint="set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a folder that can be",
        )
