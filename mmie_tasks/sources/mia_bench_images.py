"""Which file belongs to which row of MIA-Bench, whose annotation names pictures by address.

A row's picture is the first of these that is there, in a folder ``DATA``:

1. ``DATA/images/<row>.<ext>``, the row from 0 and in three digits: ``images/007.jpg``. Not where
   that is what another row's picture is called.
2. ``DATA/<image>``, where the row's ``image`` is a file's name and not an address.
3. ``DATA/images/<name>``, the last part of the address: as it is, with ``%20`` and the like
   decoded, or with the query behind it, as ``wget`` saves it. A name without an image's ending may
   have got one.

Different addresses that end in one name (rows 207 to 210 of the official file) say nothing by it,
nor does an address that ends in a slash (rows 181 and 205): their files must be numbered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from loguru import logger

from mmie_tasks.errors import DataBroken, DataMissing
from mmie_tasks.sources.images import inside

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+/", re.ASCII)  # row 193 has no scheme
_ENDINGS = frozenset(
    (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jfif", ".avif")
)

NUMBERED = "`images/<row>.<ext>`, the row from 0 and in three digits, such as `images/007.jpg`"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A row's picture as the annotation names it.

    Attributes:
        whole: All of it.
        name: The last part, without a query; empty where the address has no path.
        query: What stands behind the name, from the question mark on.
        is_address: Whether it is one; else it is a file's name.
    """

    whole: str
    name: str
    query: str
    is_address: bool

    @property
    def is_file_name(self) -> bool:
        """Whether the last part is a file's, and not a folder's (row 205) or nothing (row 181)."""
        return bool(self.name) and not self.whole.partition("?")[0].endswith("/")


def image_paths(folder: Path, named: Sequence[str]) -> list[Path | None]:
    """The file of every row's picture; one that is not there has the path it should have.

    None where nothing says which file it is: addresses that end alike, or in nothing. These rows
    are named in the log; a guess would show some of them another's picture.

    Args:
        folder: The folder of the annotation.
        named: ``image`` of every row, in order.

    Raises:
        DataMissing: There is no folder ``images``, and the files are not elsewhere.
        DataBroken: A name leaves the folder, or several files are a row's own.
    """
    finder = _Finder(folder, [_parsed(value) for value in named])
    paths = [finder.path(row) for row in range(len(named))]
    if not finder.images.is_dir() and not all(path and _is_file(path) for path in paths):
        raise DataMissing(
            f"`{finder.images}` is not there: no folder with the pictures of MIA-Bench.",
            hint=f"put them there as {NUMBERED}, or under the last part of their addresses; "
            "or unset `MIA_BENCH_DATA` to download them from the Hub",
        )
    if unknown := [str(row) for row, path in enumerate(paths) if path is None]:
        logger.warning(
            f"MIA-Bench: the addresses of rows {', '.join(unknown)} do not say which files in "
            f"`{finder.images}` are theirs, so they will have no score. hint: name them {NUMBERED}"
        )
    return paths


def numbered(row: int, ending: str) -> str:
    """The name that is a row's own: ``images/007.jpg``.

    >>> numbered(7, "jpg")
    'images/007.jpg'
    """
    return f"images/{row:03d}.{ending}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name longer than the file system takes
        return False


def _parsed(value: str) -> _Named:
    scheme = _SCHEME.match(value)
    if not scheme and not _HOST.match(value):
        name = PurePosixPath(value.replace("\\", "/")).name
        return _Named(whole=value, name=name, query="", is_address=False)
    address = value[scheme.end() if scheme else 0 :].partition("#")[0]
    below, question_mark, query = address.partition("?")
    name = below.partition("/")[2].rstrip("/").rpartition("/")[2]
    return _Named(whole=value, name=name, query=question_mark + query, is_address=True)


class _Finder:
    """What lies in ``images``, and who claims which name in it."""

    def __init__(self, folder: Path, named: Sequence[_Named]) -> None:
        self.images = folder / "images"
        self._folder = folder
        self._named = named
        there = self.images.iterdir() if self.images.is_dir() else ()
        self._there = frozenset(path.name for path in there)
        self._claims: dict[str, list[int]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for row, one in enumerate(named):
            for name in dict.fromkeys((one.name, unquote(one.name))):
                self._claims.setdefault(name, []).append(row)
        for name in sorted(self._there):
            self._by_stem.setdefault(name.rpartition(".")[0] or name, []).append(name)

    def path(self, row: int) -> Path | None:
        """The row's picture; None where that cannot be told."""
        one = self._named[row]
        if own := self._own(row):
            return inside(self.images, own)
        if not one.is_address:
            path = inside(self._folder, one.whole)
            if _is_file(path) or one.name not in self._there:
                return path
        if found := self._only(row, list(self._spelled(one))[:1] or self._with_ending(one)):
            return None if self._is_claimed(row, found) else inside(self.images, found)
        free = one.is_file_name and not self._rivals(one.name, row)
        return inside(self.images, one.name) if free else None

    def _own(self, row: int) -> str | None:
        """The numbered file, unless another row's picture is called so."""
        names = self._by_stem.get(f"{row:03d}", [])
        return self._only(row, [name for name in names if not self._rivals(name, row)])

    def _spelled(self, one: _Named) -> Iterator[str]:
        for name in (one.name, unquote(one.name), one.name + one.query):
            if name and name in self._there:
                yield name

    def _with_ending(self, one: _Named) -> list[str]:
        if not one.name or PurePosixPath(one.name).suffix.lower() in _ENDINGS:
            return []
        names = self._by_stem.get(one.name, [])
        return [name for name in names if PurePosixPath(name).suffix.lower() in _ENDINGS]

    def _rivals(self, name: str, row: int) -> list[int]:
        """The rows with other pictures that are called so too."""
        mine = self._named[row].whole
        return [other for other in self._claims.get(name, ()) if self._named[other].whole != mine]

    def _is_claimed(self, row: int, found: str) -> bool:
        """Whether another row's address ends in this name as well."""
        query = self._named[row].query
        name = found if found in self._claims else found.removesuffix(query)
        return bool(self._rivals(name, row))

    def _only(self, row: int, names: Sequence[str]) -> str | None:
        if len(names) > 1:
            raise DataBroken(
                f"`{self.images}` holds several pictures for row {row}: {', '.join(names)}.",
                hint="keep one of them",
            )
        return names[0] if names else None
