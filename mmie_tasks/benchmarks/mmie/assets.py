"""MMIE from the Hub, gated: the data file and the archive of images, downloaded and unpacked.

Below `mmie_tasks.core.paths.cache_dir` there is then::

    mmie/<commit>/data.json
    mmie/<commit>/images/...                       the archive, with whatever folders it has
    mmie/commits/<what was asked>.txt              the commit, in words
    mmie/downloads/<etag>/images.tar.gz.part       while it is being downloaded

The text file is written last. With it and the folder nobody is asked again, and the machine may be
offline. To follow a branch that has moved, delete the text file.

A file that the Hub's own cache holds already is used from there and stays. Any other is downloaded
by `mmie_tasks.hub.download`, which goes on where a killed run stopped; the archive is deleted
once it is unpacked.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmie_tasks.core.errors import DataMissing, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.archives import unpack_once
from mmie_tasks.hub.download import HubFile, InCache, OnHub, download, locate, remove, turn, verify

# MMIE's data file: where it lies, and the values in it, one at a time.

ANNOTATION = "data.json"

LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of MMIE/MMIE or one in the official judge's form, "
    "beside `images/`; point `MMIE_DATA` at their folder, or unset it to download from the Hub"
)
_EXAMPLE = "overview.json"  # of the same repository
_SPACE = " \t\r\n"


def local_file(named: Path) -> Path:
    """The data file that a folder, or a file in it, stands for.

    Args:
        named: What ``MMIE_DATA`` says.

    Raises:
        DataMissing: There is none, or only the repository's example of the form.
    """
    if not named.exists():
        message = f"`MMIE_DATA` is `{named}`: there is no such folder or file."
        raise DataMissing(message, hint=LAYOUT)
    path = named / ANNOTATION if named.is_dir() else named
    if path.is_file() and path.name != _EXAMPLE:
        return path
    there = ", ".join(sorted(one.name for one in path.parent.iterdir())[:20]) or "nothing"
    found = f"`{path.parent}` holds no `{ANNOTATION}`; there: {there}."
    if (path.parent / _EXAMPLE).is_file():
        found += f" `{_EXAMPLE}` shows the form with a few rows, and is not the benchmark."
    raise DataMissing(found, hint=LAYOUT)


def content_of(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        DataMissing: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataMissing(f"`{path}` cannot be read: {error.strerror}.", hint=LAYOUT) from error


def values(text: str) -> Iterator[object]:
    r"""The items of a JSON list, or the objects of a JSONL, each read when it is asked for.

    Never all at once: a file of 400 MB would take gigabytes as objects.

    Raises:
        ValueError: Not JSON.
        RecursionError: Nested too deeply.

    >>> list(values('[{"id": 1}, 2]')), list(values('{"id": 1}\n{"id": 2}\n'))
    ([{'id': 1}, 2], [{'id': 1}, {'id': 2}])
    """
    at = _past_space(text, 0)
    return _items(text, at + 1) if text.startswith("[", at) else _lines(text, at)


def _lines(text: str, at: int) -> Iterator[object]:
    read = json.JSONDecoder().raw_decode
    while at < len(text):
        value, at = read(text, at)
        yield value
        at = _past_space(text, at)


def _items(text: str, at: int) -> Iterator[object]:
    read = json.JSONDecoder().raw_decode
    at = _past_space(text, at)
    sign = "]" if text.startswith("]", at) else ","
    at += sign == "]"
    while sign == ",":
        value, at = read(text, _past_space(text, at))
        yield value
        at = _past_space(text, at)
        sign = text[at : at + 1]
        if sign not in (",", "]"):
            raise json.JSONDecodeError("no comma and no end of the list", text, at)
        at += 1
    if _past_space(text, at) < len(text):
        raise json.JSONDecodeError("more behind the end of the list", text, at)


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


# Which file MMIE's references to images mean. Folders are listed once, no file is asked for.
#
# A reference's file is the first of these that is there, in a folder ``ROOT``:
#
# 1. ``ROOT/<reference>``, as the official script joins them;
# 2. ``ROOT/images/<reference>``;
# 3. ``ROOT/<its last part>``;
# 4. ``ROOT/images/<its last part>``;
# 5. from the Hub only, whose archive may have any folder around its files: the one that ends like
#    the reference, in as many parts as possible.
#
# 3 to 5 are guesses: none is taken that would give two references one file.

IMAGES = "images"

_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_ABSOLUTE = re.compile(r"/|[A-Za-z]:")


class OutsideFolder(ValueError):
    """A reference to what is not a file inside the folder."""

    def __init__(self, reference: str, folder: str) -> None:
        super().__init__(f"{reference!r} is not a file inside `{folder}`")
        self.reference = reference


def image_paths(folder: Path, references: Iterable[str], *, hub: bool) -> dict[str, str]:
    """The path of every reference's file; where none is there, ``folder/<reference>``.

    Links are followed and must end in `folder`, or in its ``images``, which may itself be a link.

    Args:
        folder: The folder of the data file, absolute.
        references: As the data file has them. In a local folder absolute ones stay as they are.
        hub: Whether it all came from the Hub.

    Raises:
        OutsideFolder: A reference leaves the folder.
        DataMissing: A folder cannot be listed.
    """
    finder = _Finder(str(folder))
    wanted = dict.fromkeys(references)
    absolute = {one: one for one in wanted if not hub and posixpath.isabs(one)}
    names = {one: _relative(one, str(folder)) for one in wanted if one not in absolute}
    exact = {one: finder.exact(one, name) for one, name in names.items()}
    lost = {names[one]: one for one, path in exact.items() if path is None}
    guesses = {name: finder.guess(one, name, hub=hub) for name, one in lost.items()}
    claims = Counter([*guesses.values(), *{path for path in exact.values() if path}])
    sure = {name: path for name, path in guesses.items() if path and claims[path] == 1}
    here = f"{folder}/"
    return absolute | {one: exact[one] or sure.get(names[one], here + names[one]) for one in names}


def files_in(folder: str) -> dict[str, bool]:
    """The names of a folder's files, and whether they are links; none where there is no folder.

    Raises:
        DataMissing: It cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return {one.name: one.is_symlink() for one in entries if _is_file(one)}
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return {}
        message = f"The folder `{folder}` cannot be listed: {error.strerror}."
        raise DataMissing(
            message, hint="look at its permissions, and at what is mounted"
        ) from error


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # such as a loop of links
        return False


def _relative(reference: str, folder: str) -> str:
    """The reference with slashes, and without ``.`` and ``..``."""
    slashed = reference.replace("\\", "/")
    name = posixpath.normpath(slashed)
    leaves = _ABSOLUTE.match(slashed) or name in (".", "..") or name.startswith("../")
    if leaves or "\0" in reference:
        raise OutsideFolder(reference, folder)
    return name


class _Finder:
    """What lies in the folder, as far as it was asked for."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._inside = {os.path.realpath(one) for one in (root, f"{root}/{IMAGES}")}
        self._folders: dict[str, dict[str, bool]] = {}
        self._named: dict[str, list[str]] | None = None

    def exact(self, reference: str, name: str) -> str | None:
        """The file that has all of the name."""
        return self._first(reference, name, f"{IMAGES}/{name}")

    def guess(self, reference: str, name: str, *, hub: bool) -> str | None:
        """A file that has the end of the name."""
        last = name.rpartition("/")[2]
        return self._first(reference, last, f"{IMAGES}/{last}") or (
            self._ends_like(name) if hub else None
        )

    def _first(self, reference: str, *names: str) -> str | None:
        for name in names:
            folder, _, last = f"{self._root}/{name}".rpartition("/")
            if folder not in self._folders:
                self._folders[folder] = files_in(folder)
                if self._folders[folder] and not self._is_inside(folder):
                    raise OutsideFolder(reference, self._root)
            is_link = self._folders[folder].get(last)
            if is_link and not self._is_inside(f"{folder}/{last}"):
                raise OutsideFolder(reference, self._root)
            if is_link is not None:
                return f"{folder}/{last}"
        return None

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(real == one or real.startswith(f"{one}/") for one in self._inside)

    def _ends_like(self, name: str) -> str | None:
        """The only file below ``images`` that shares the most parts, counted from the end."""
        if self._named is None:
            self._named = {}
            for path in self._unpacked():
                self._named.setdefault(path.rpartition("/")[2], []).append(path)
        parts = name.split("/")
        named = self._named.get(parts[-1], [])
        for length in range(len(parts), 0, -1):
            tail = "/" + "/".join(parts[-length:])
            if ending := [path for path in named if path.endswith(tail)]:
                return ending[0] if len(ending) == 1 else None
        return None

    def _unpacked(self) -> Iterator[str]:
        """Every file below ``images``; no link leads out of what was unpacked."""
        for folder, _, names in os.walk(f"{self._root}/{IMAGES}"):
            yield from (f"{folder}/{name}" for name in names)


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
            `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository, revision or file, no connection, or no room.
        DataBroken: What came is not what the Hub has, or no archive that can be unpacked.
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    asked, root = _revision(environment), root_dir(environment)
    if there := kept(environment):
        return there
    commit = _fetched(asked, root)
    with atomic_write(_note(root, asked)) as unfinished:
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
        with atomic_write(destination) as unfinished:
            shutil.copyfile(path, unfinished)
    except OSError as error:
        raise DataMissing(
            f"`{path}` could not be copied to `{destination}`: {error.strerror}.",
            hint="make room and the folder writable; `MMIE_TASKS_CACHE` names another",
        ) from error
