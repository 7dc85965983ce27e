"""One thing that a run needs on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmie_tasks.core.errors import DataMissing, MmieTasksError
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.download import HubFile, InCache, arrived_bytes, locate

CACHE = "MMIE_TASKS_CACHE"

Fetch = Callable[[], str]
"""Brings something and says what is there then; raises a `MmieTasksError` otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the Hub says of something before it is fetched.

    Attributes:
        source: Where from: ``MMIE/MMIE@c0ffee: data.json``.
        size_bytes: To be downloaded; None where that is not told.
        stays: Folder to bytes that it will hold afterwards, beyond what it holds now.
        passes_bytes: Besides, for a while, on the disk of the item's room: an archive and what is
            unpacked from it lie side by side.
    """

    source: str
    size_bytes: int | None = None
    stays: Mapping[Path, int] = field(default_factory=dict)
    passes_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something to be fetched, or here already.

    Attributes:
        subject: What it is: ``mmie: data``.
        told: Where it is from, and how large it is.
        here: A run needs nobody for it.
        room: Where it lies, or will.
        fetch: Brings it, as a run would.
        folders: What an offline machine needs: environment variable to the folder, or file, that is
            copied there and that the variable names.
        trouble: Why its size could not be had; fetching it may fail of the same.
    """

    subject: str
    told: Told
    here: bool
    room: Path
    fetch: Fetch = field(repr=False)
    folders: Mapping[str, Path] = field(default_factory=dict)
    trouble: MmieTasksError | None = None


def asked(source: str, ask: Callable[[], Told]) -> tuple[Told, MmieTasksError | None]:
    """What is told; where it is not, the source alone, and why.

    Args:
        source: Where it is from, as far as is known beforehand.
        ask: Asks; raises a `MmieTasksError` where there is no answer.
    """
    try:
        return ask(), None
    except MmieTasksError as error:
        return Told(source=source), error


def named(subject: str, variable: str, environment: Mapping[str, str]) -> Item | None:
    """The item for what a variable names on this machine; None where it is not set.

    Only whether it exists is looked at: ``mmie-tasks doctor`` looks inside.
    """
    value = environment.get(variable)
    if not value:
        return None
    path = Path(value).expanduser().absolute()
    there = path.exists()
    missing = DataMissing(
        f"`{variable}` is `{path}`, which is not there.",
        hint=f"point `{variable}` at it, or unset it to download",
    )

    def nothing() -> str:
        raise missing

    return Item(
        subject=subject,
        told=Told(source=f"`{variable}`"),
        here=there,
        room=path,
        fetch=nothing,
        folders={variable: path},
        trouble=None if there else missing,
    )


def in_our_cache(
    subject: str,
    *,
    kept: str,
    source: str,
    ask: Callable[[], Told],
    fetch: Fetch,
    environment: Mapping[str, str],
) -> Item:
    """The item for what lies below `mmie_tasks.core.paths.cache_dir`.

    Args:
        subject: What it is.
        kept: Where it is from, if it is here; the Hub is not asked then. Empty if it is not.
        source: Where it is from, as far as is known beforehand.
        ask: As for `asked`.
        fetch: Brings it.
        environment: What the cache's place depends on.
    """
    told, trouble = (Told(source=kept), None) if kept else asked(source, ask)
    room = cache_dir(environment).absolute()
    return Item(
        subject=subject,
        told=told,
        here=bool(kept),
        room=room,
        fetch=fetch,
        folders={CACHE: room},
        trouble=trouble,
    )


def hub_download(file: HubFile, room: Path, lands: str, *, unpacked: bool) -> Told:
    """What the Hub says of a file, once and without patience.

    What is unpacked is taken to be as large as its archive: it is pictures, which gzip leaves as
    they are.

    Args:
        file: What is wanted.
        room: The folder of the benchmark; what has arrived of an archive is in its ``downloads``.
        lands: What becomes of the file in the folder of its commit: a name in it.
        unpacked: It is an archive, which goes when it is unpacked.

    Raises:
        DataMissing: It cannot be had.
        DataBroken: It is not the file that is pinned.
    """
    found = locate(file, patient=False)
    source = f"{file.repo}@{found.commit}: {file.filename}"
    if (room / found.commit / lands).exists():
        return Told(source=source, size_bytes=0)
    if isinstance(found, InCache):
        return Told(source=source, size_bytes=0, stays={room: found.path.stat().st_size})
    if found.size_bytes is None:
        return Told(source=source)
    left = found.size_bytes - arrived_bytes(found, room / "downloads")
    passing = found.size_bytes if unpacked else 0
    return Told(source=source, size_bytes=left, stays={room: left}, passes_bytes=passing)


# Where `huggingface_hub` keeps what it downloads.


def hub_cache() -> Path:
    """The folder of repositories, as this process's environment has it."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).absolute()


def hub_folders() -> Mapping[str, Path]:
    """The variable that leads a machine to that folder, and what to copy for it."""
    from huggingface_hub import constants

    home = Path(constants.HF_HOME).absolute()
    return {"HF_HOME": home} if hub_cache() == home / "hub" else {"HF_HUB_CACHE": hub_cache()}
