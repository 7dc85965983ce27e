"""MMIE from the Hub, gated: the data file and the archive of images, downloaded and unpacked.

Below `mmie_tasks.paths.cache_dir` there is then::

    mmie/<commit>/data.json
    mmie/<commit>/images/...                       the archive, with whatever folders it has
    mmie/commits/<what was asked>.txt              the commit, in words
    mmie/downloads/<etag>/images.tar.gz.part       while it is being downloaded

The text file is written last. With it and the folder nobody is asked again, and the machine may be
offline. To follow a branch that has moved, delete the text file.

A file that the Hub's own cache holds already is used from there and stays. Any other is downloaded
by `mmie_tasks.sources.downloads`, which goes on where a killed run stopped; the archive is deleted
once it is unpacked.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmie_tasks.errors import DataMissing, SettingWrong
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources.archives import unpack_once, whole
from mmie_tasks.sources.downloads import download, remove, turn
from mmie_tasks.sources.hub import InCache, OnHub, locate, verify
from mmie_tasks.sources.hub_file import HubFile
from mmie_tasks.sources.mmie_file import ANNOTATION
from mmie_tasks.sources.mmie_images import IMAGES

REPO = "MMIE/MMIE"
ARCHIVE = "images.tar.gz"

Put = Callable[[Path, Path, Callable[[Path], None]], object]
"""Lays down a downloaded file, at a destination, once a check of it has passed."""

_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_INSTEAD = f"set `MMIE_DATA` to a folder with `{ANNOTATION}` and `{IMAGES}/`"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """A folder with data file and images, and what it is of: ``MMIE/MMIE@<commit>``."""

    folder: Path
    revision: str


def hub_folder(environment: Mapping[str, str]) -> HubFolder:
    """The folder with the data file and ``images``, downloaded and unpacked if it is not there.

    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are obeyed by
    `huggingface_hub` itself.

    Args:
        environment: ``MMIE_REVISION`` (branch, tag or commit; by default ``main``), and what
            `mmie_tasks.paths.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository, revision or file, no connection, or no room.
        DataBroken: What came is not what the Hub has, or no archive that can be unpacked.
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    asked, root = _revision(environment), root_dir(environment)
    if there := kept(environment):
        return there
    commit = _fetched(asked, root)
    with whole(_note(root, asked)) as unfinished:
        unfinished.write_text(f"{commit}\n", encoding="ascii")
    return HubFolder(folder=root / commit, revision=f"{REPO}@{commit}")


def kept(environment: Mapping[str, str]) -> HubFolder | None:
    """What an earlier call brought, if it is all there; nobody is asked.

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    root = root_dir(environment)
    note = _note(root, _revision(environment))
    commit = note.read_text(encoding="ascii").strip() if note.is_file() else ""
    if not (commit and _is_complete(root / commit)):
        return None
    return HubFolder(folder=root / commit, revision=f"{REPO}@{commit}")


def wanted(environment: Mapping[str, str]) -> tuple[HubFile, HubFile]:
    """The two files, as a first run asks for them: data file, archive.

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    asked = _revision(environment)
    return _file(ANNOTATION, asked), _file(ARCHIVE, asked)


def root_dir(environment: Mapping[str, str]) -> Path:
    """The folder, below our cache, that everything of MMIE is in."""
    return cache_dir(environment).absolute() / "mmie"


def _revision(environment: Mapping[str, str]) -> str:
    asked = environment.get("MMIE_REVISION") or "main"
    if ".." in asked or not _REVISION.fullmatch(asked):
        raise SettingWrong(
            f"`MMIE_REVISION` is {asked!r}, which cannot be a revision.",
            hint="name a branch, a tag or a commit, or unset it",
        )
    return asked


def _note(root: Path, asked: str) -> Path:
    return root / "commits" / f"{asked.replace('/', '%2F')}.txt"


def _file(name: str, revision: str) -> HubFile:
    return HubFile(repo=REPO, filename=name, revision=revision, instead=_INSTEAD)


def _is_complete(folder: Path) -> bool:
    return (folder / ANNOTATION).is_file() and (folder / IMAGES).is_dir()


def _fetched(asked: str, root: Path) -> str:
    """Bring both files, of one commit, unless they are there; the commit."""
    commit = _brought(_file(ANNOTATION, asked), root, ANNOTATION, _copy_once)
    if not (root / commit / IMAGES).is_dir():
        _brought(_file(ARCHIVE, commit), root, IMAGES, unpack_once)
    return commit


def _brought(file: HubFile, root: Path, name: str, put: Put) -> str:
    """Download a file, or take it from the Hub's cache, and put it where it belongs; its commit."""
    found = locate(file)
    destination, downloads = root / found.commit / name, root / "downloads"
    check = partial(verify, file, sha256=found.sha256)
    match found:
        case InCache(path=path):
            put(path, destination, check)
        case OnHub():
            with turn(file, downloads):
                if not destination.exists():
                    put(download(found, downloads), destination, check)
                remove(file, downloads)
    return found.commit


def _copy_once(path: Path, destination: Path, check: Callable[[Path], None]) -> None:
    if destination.exists():
        return
    check(path)
    try:
        with whole(destination) as unfinished:
            shutil.copyfile(path, unfinished)
    except OSError as error:
        raise DataMissing(
            f"`{path}` could not be copied to `{destination}`: {error.strerror}.",
            hint="make room and the folder writable; `MMIE_TASKS_CACHE` names another",
        ) from error
