"""Where MMIE's files come from: a local folder or the gated dataset on the Hub, and its prompts.

Below `mmie_tasks.core.paths.cache_dir` a download leaves::

    mmie/<commit>/data.json
    mmie/<commit>/images/...                       the archive, with the folders inside it
    mmie/commits/<revision>.txt                    see `mmie_tasks.hub.revisions`
    mmie/downloads/<etag>/images.tar.gz.part       while it is downloaded
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mmie_tasks.benchmarks.mmie import judge_prompts
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.archives import unpack_once
from mmie_tasks.hub.asset import Asset, DownloadPlan, combined_plan, data_asset, plan_file
from mmie_tasks.hub.download import HubFile, copy_once, install
from mmie_tasks.hub.revisions import HubDataset, HubFolder

ANNOTATION = "data.json"
IMAGES = "images"

LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of MMIE/MMIE or one in the official judge's form, "
    f"beside `{IMAGES}/`; point `MMIE_DATA` at their folder, or unset it to download from the Hub"
)
_EXAMPLE = "overview.json"  # of the same repository
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_ABSOLUTE = re.compile(r"/|[A-Za-z]:")

# The data file


def local_file(path: Path) -> Path:
    """The data file that ``MMIE_DATA`` names: the file itself, or the folder that contains it.

    Raises:
        DataMissing: There is none, or only the repository's example of the form.
    """
    if not path.exists():
        message = f"`MMIE_DATA` is `{path}`: there is no such folder or file."
        raise DataMissing(message, hint=LAYOUT)
    file = path / ANNOTATION if path.is_dir() else path
    if file.is_file() and file.name != _EXAMPLE:
        return file
    names = ", ".join(sorted(entry.name for entry in file.parent.iterdir())[:20]) or "nothing"
    message = f"`{file.parent}` contains no `{ANNOTATION}`; it contains: {names}."
    if (file.parent / _EXAMPLE).is_file():
        message += f" `{_EXAMPLE}` shows the form with a few rows, and is not the benchmark."
    raise DataMissing(message, hint=LAYOUT)


# Images


class _OutsideFolder(ValueError):
    """A reference to a path that is not a file inside the data folder."""


def image_paths(folder: Path, references: Iterable[str], *, hub: bool) -> dict[str, str | None]:
    """Reference to the path of its file; ``folder/<reference>`` if there is no such file.

    None for a reference that leaves the folder, such as ``../0.png``.

    The file is the first of these that exists:

    1. ``folder/<reference>``, as the official script joins them;
    2. ``folder/images/<reference>``;
    3. ``folder/<last part of the reference>``;
    4. ``folder/images/<last part of the reference>``;
    5. from the Hub only, whose archive may have any folder around its files: the file that shares
       the most path parts with the reference, counted from the end.

    3 to 5 are guesses: none is used that would give two references the same file. Links are followed and must end in
    `folder`, or in its ``images``, which may itself be a link. Folders are listed once; no file is opened.

    Args:
        folder: The folder of the data file, absolute.
        references: As in the data file. In a local folder, absolute references stay as they are.
        hub: Whether everything came from the Hub.

    Raises:
        DataMissing: A folder cannot be listed.
    """
    finder = _Finder(str(folder))
    paths: dict[str, str | None] = dict.fromkeys(references)
    exact: set[str] = set()
    unresolved: dict[str, str] = {}  # reference to name
    guesses: dict[str, str | None] = {}  # by name
    for reference in paths:
        if not hub and posixpath.isabs(reference):
            paths[reference] = reference
            continue
        with suppress(_OutsideFolder):
            name = _relative(reference)
            if path := finder.first(name, f"{IMAGES}/{name}"):
                paths[reference] = path
                exact.add(path)
                continue
            last = name.rpartition("/")[2]
            guess = finder.first(last, f"{IMAGES}/{last}") or (finder.longest_match(name) if hub else None)
            guesses[name], unresolved[reference] = guess, name
    uses = Counter([*guesses.values(), *exact])
    for reference, name in unresolved.items():
        guess = guesses[name]
        paths[reference] = guess if guess and uses[guess] == 1 else f"{folder}/{name}"
    return paths


def files_in(folder: str) -> dict[str, bool]:
    """Name of each file in a folder to whether it is a link; empty if there is no such folder.

    Raises:
        DataMissing: The folder cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_symlink() for entry in entries if _is_file(entry)}
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return {}
        raise DataMissing(
            f"The folder `{folder}` cannot be listed: {error.strerror}.",
            hint="check its permissions, and what is mounted there",
        ) from error


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # such as a loop of links
        return False


def _relative(reference: str) -> str:
    """The reference with slashes, and without ``.`` and ``..``."""
    slashed = reference.replace("\\", "/")
    name = posixpath.normpath(slashed)
    if _ABSOLUTE.match(slashed) or name in (".", "..") or name.startswith("../") or "\0" in reference:
        raise _OutsideFolder
    return name


class _Finder:
    """The files of a data folder; its folders are listed when they are first needed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real_roots = {os.path.realpath(path) for path in (root, f"{root}/{IMAGES}")}
        self._listings: dict[str, dict[str, bool] | None] = {}  # None: outside of the roots
        self._paths_by_name: dict[str, list[str]] | None = None

    def first(self, *names: str) -> str | None:
        """The path of the first of these names that is a file.

        Raises:
            _OutsideFolder: Links lead from it out of the folder.
        """
        for name in names:
            folder, _, last = f"{self._root}/{name}".rpartition("/")
            if folder not in self._listings:
                files = files_in(folder)
                self._listings[folder] = files if not files or self._is_inside(folder) else None
            listing = self._listings[folder]
            if listing is None or (listing.get(last) and not self._is_inside(f"{folder}/{last}")):
                raise _OutsideFolder
            if last in listing:
                return f"{folder}/{last}"
        return None

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(real == root or real.startswith(f"{root}/") for root in self._real_roots)

    def longest_match(self, name: str) -> str | None:
        """The only file below ``images`` that shares the most parts, counted from the end."""
        if self._paths_by_name is None:
            self._paths_by_name = {}
            # No link leads out of an unpacked archive.
            for folder, _, names in os.walk(f"{self._root}/{IMAGES}"):
                for last in names:
                    self._paths_by_name.setdefault(last, []).append(f"{folder}/{last}")
        parts = name.split("/")
        candidates = self._paths_by_name.get(parts[-1], [])
        for length in range(len(parts), 0, -1):
            tail = "/" + "/".join(parts[-length:])
            if matches := [path for path in candidates if path.endswith(tail)]:
                return matches[0] if len(matches) == 1 else None
        return None


# The Hub

REPO = "MMIE/MMIE"
ARCHIVE = "images.tar.gz"

_DATASET = HubDataset(repo=REPO, name="mmie", variable="MMIE_REVISION", required=(ANNOTATION, IMAGES))
_ALTERNATIVE = f"set `MMIE_DATA` to a folder with `{ANNOTATION}` and `{IMAGES}/`"


def hub_folder(environment: Mapping[str, str]) -> HubFolder:
    """The folder with the data file and ``images``, downloaded and unpacked first if necessary.

    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are read by `huggingface_hub` itself.

    Args:
        environment: Read: ``MMIE_REVISION`` (branch, tag or commit; by default ``main``), and what
            `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository, revision or file, no connection, or a full disk.
        DataBroken: The downloaded file is not the Hub's, or the archive cannot be unpacked.
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    if cached := _DATASET.cached(environment):
        return cached
    revision, root = _DATASET.revision(environment), _DATASET.root(environment)
    commit = install(_hub_file(ANNOTATION, revision), root, ANNOTATION, copy_once)
    if not (root / commit / IMAGES).is_dir():
        install(_hub_file(ARCHIVE, commit), root, IMAGES, unpack_once)
    return _DATASET.stored(commit, environment)


def _hub_file(name: str, revision: str) -> HubFile:
    return HubFile(repo=REPO, filename=name, revision=revision, alternative=_ALTERNATIVE)


# Assets


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The data, and the official judge prompts; every task of MMIE needs both.

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    cached = _DATASET.cached(environment)

    def plan() -> DownloadPlan:
        root, revision = _DATASET.root(environment), _DATASET.revision(environment)
        annotation = plan_file(_hub_file(ANNOTATION, revision), root, ANNOTATION, unpacked=False)
        images = plan_file(_hub_file(ARCHIVE, revision), root, IMAGES, unpacked=True)
        return combined_plan(f"{annotation.source}, {ARCHIVE}", (annotation, images))

    data = data_asset(
        name="mmie: data",
        variables=["MMIE_DATA"],
        source=cached.revision if cached else REPO,
        is_here=lambda: _DATASET.cached(environment) is not None,
        plan=plan,
        fetch=lambda: f"{hub_folder(environment).revision} is here",
        environment=environment,
        describe=lambda: _describe_data(environment),
    )
    source = f"Lillianwei-h/MMIE@{judge_prompts.COMMIT}: prompts.py"
    size_bytes = judge_prompts.OFFICIAL.size_bytes
    prompts = data_asset(
        name="mmie: judge prompts",
        variables=["MMIE_OTHER_PROMPTS", "MMIE_PROMPTS"],
        source=source,
        is_here=lambda: judge_prompts.cached_file(environment) is not None,
        plan=lambda: DownloadPlan(source=source, file_bytes=(size_bytes,), is_confirmed=False),
        fetch=lambda: f"{judge_prompts.templates(environment).name} is here",
        environment=environment,
        describe=_describe_prompts,
    )
    return [data, prompts]


def _describe_data(environment: Mapping[str, str]) -> str:
    from mmie_tasks.benchmarks.mmie import data, task

    docs = data.dataset("all", environment)
    task.check_data(docs)
    missing_images = data.missing_images(docs)
    count = f"{len(missing_images):,} images are" if missing_images else "no image is"
    return f"{len(docs):,} samples of {docs[0]['data']}; {count} missing"


def _describe_prompts() -> str:
    from mmie_tasks.benchmarks.mmie import request

    request.check_setup()
    prompts = request.judge_templates()
    return f"{prompts.name}; {'they are' if prompts.official else 'they are not'} MMIE's own"
