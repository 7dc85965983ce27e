"""Which file MMIE's references to images mean. Folders are listed once, no file is asked for.

A reference's file is the first of these that is there, in a folder ``ROOT``:

1. ``ROOT/<reference>``, as the official script joins them;
2. ``ROOT/images/<reference>``;
3. ``ROOT/<its last part>``;
4. ``ROOT/images/<its last part>``;
5. from the Hub only, whose archive may have any folder around its files: the one that ends like
   the reference, in as many parts as possible.

3 to 5 are guesses: none is taken that would give two references one file.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from mmie_tasks.errors import DataMissing

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
