"""Finds the image files that MMIE's data file names."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path, PureWindowsPath

from mmie_tasks.benchmarks.mmie.download import IMAGES
from mmie_tasks.record.segment import Segments


class ImageFolder:
    """Finds the files that a data file names.

    The file of a reference is the first of these that exists, or the first if none does:

    1. ``<root>/<reference>``, as the official script joins them;
    2. ``<root>/images/<reference>``, as in papers that read the dataset's file;
    3. the reference, without a leading ``images/``, in the innermost folder that the archive has
       around its images;
    4. the file's name alone in that folder, if no other reference ends in it: the archive's layout
       is not published.

    Links are followed and must end in the root, or in its ``images``, which may itself be a link.
    `root` is the absolute folder of the data file. In a local folder (not `hub`), absolute
    references stay as they are, as in the official script. `references` are all in the data file.
    """

    def __init__(self, root: Path, *, hub: bool, references: Iterable[str] = ()) -> None:
        self.root, self._hub = root, hub
        names = set(map(_normalised, references))
        self._ending_in = Counter(map(posixpath.basename, names))
        self._innermost = _innermost(root / IMAGES)
        self._real_roots = tuple(f"{os.path.realpath(f)}/" for f in (root, root / IMAGES))

    def resolved(self, segments: Segments) -> Segments:
        """The segments with the paths of their images; an image outside the root is removed."""
        return tuple(
            replace(segment, image=self.path(segment.image)) if segment.image else segment
            for segment in segments
        )

    def path(self, reference: str) -> str | None:
        """The path of a reference; None if it leaves the root, as ``../0.png`` does."""
        if posixpath.isabs(reference) and not self._hub:
            return reference
        name = _normalised(reference)
        is_outside = name in (".", "..") or name.startswith("../") or "\0" in reference
        if is_outside or PureWindowsPath(reference).anchor:
            return None
        candidates = [
            f"{self.root}/{name}",
            f"{self.root}/{IMAGES}/{name}",
            f"{self._innermost}/{name.removeprefix(f'{IMAGES}/')}",
        ]
        if self._ending_in[last := posixpath.basename(name)] < 2:
            candidates.append(f"{self._innermost}/{last}")
        path = next(filter(os.path.isfile, candidates), candidates[0])
        return path if os.path.realpath(path).startswith(self._real_roots) else None


def _normalised(reference: str) -> str:
    return posixpath.normpath(reference.replace("\\", "/"))


def _innermost(folder: Path) -> Path:
    """The innermost folder below a chain of folders that contain nothing but a folder."""
    while folder.is_dir():
        entries = list(islice(folder.iterdir(), 2))
        if len(entries) != 1 or not entries[0].is_dir():
            break
        folder = entries[0]
    return folder
