"""Assets: the datasets, prompts and checkpoints that a run needs on this machine.

A benchmark lists its assets in ``Benchmark.assets``, a judge in ``Judge.assets``. ``doctor``
reports whether each is here, ``prefetch`` downloads the missing ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import readable_size


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Check:
    """A check by ``doctor`` of assets that are on this machine.

    Several assets, such as the archives of one dataset, may share a check. It runs when all of them
    are here.

    Attributes:
        subject: What is checked: ``mmie: data``.
        describe: Reads the files and returns one sentence about them, or an empty text. Raises a
            `MmieTasksError` if they cannot be used.
    """

    subject: str
    describe: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPlan:
    """What fetching an asset would download.

    Attributes:
        source: Repository, commit and files: ``MMIE/MMIE@c0ffee: data.json, images.tar.gz``.
        size_bytes: Bytes to be downloaded; None if the server gives no size. 0 if the files are in
            the Hub's cache and only have to be unpacked.
    """

    source: str
    size_bytes: int | None = None

    @property
    def text(self) -> str:
        """``MMIE/MMIE@c0ffeec0ffee: data.json: to fetch: 3.7 GiB``."""
        source = re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", self.source)
        if self.size_bytes == 0:
            return f"{source}: in the Hub's cache, to unpack"
        size = "unknown" if self.size_bytes is None else readable_size(self.size_bytes)
        return f"{source}: to fetch: {size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A dataset, official prompts or a checkpoint that a run needs on this machine.

    Attributes:
        name: Unique in a run: ``mmie: data``, ``milebench: data, part 1``.
        source: Where it comes from: a repository, with the commit if the asset is here, or the
            environment variable that names a local path.
        folder: The folder in which it is or will be stored.
        is_here: Returns whether a run can use it without network access. Does not connect.
        plan: Asks the Hub, with one attempt, what has to be downloaded. Raises a `MmieTasksError`
            if the Hub refuses or does not answer.
        fetch: Downloads it, exactly like a run, and returns one sentence about the result. Raises a
            `MmieTasksError`.
        copies: What has to be copied to a machine without network access: environment variable to
            the folder or file that it has to name there.
        checks: What ``doctor`` checks, in this order up to the first problem.
        origin: ``hub``: can be downloaded. ``local``: a path that the user names. ``installed``:
            part of a package; ``prefetch`` skips it.
    """

    name: str
    source: str
    folder: Path
    is_here: Callable[[], bool] = field(repr=False)
    plan: Callable[[], DownloadPlan] = field(repr=False)
    fetch: Callable[[], str] = field(repr=False)
    copies: Mapping[str, Path] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    origin: Literal["hub", "local", "installed"] = "hub"


def local_asset(
    name: str, setting: str, value: str | Path | None, checks: tuple[Check, ...] = ()
) -> Asset | None:
    """The asset at the path that a setting names on this machine; None if it is not set.

    It is here if the path exists. It cannot be downloaded: `Asset.plan` and `Asset.fetch` raise
    `DataMissing`.
    """
    if not value:
        return None
    path = Path(value).expanduser().absolute()

    def missing() -> NoReturn:
        raise DataMissing(
            f"`{setting}` is `{path}`, which does not exist.",
            hint=f"point `{setting}` at an existing path, or leave it out to download",
        )

    return Asset(
        name=name,
        source=f"`{setting}`",
        folder=path,
        is_here=path.exists,
        plan=missing,
        fetch=missing,
        copies={setting: path},
        checks=checks,
        origin="local",
    )


def installed_asset(name: str, source: str, describe: Callable[[], str]) -> Asset:
    """An asset that is part of an installed package; `describe` is its only check."""
    return Asset(
        name=name,
        source=source,
        folder=Path(),
        is_here=lambda: True,
        plan=lambda: DownloadPlan(source=source),
        fetch=lambda: f"{source} is installed",
        checks=(Check(subject=name, describe=describe),),
        origin="installed",
    )
