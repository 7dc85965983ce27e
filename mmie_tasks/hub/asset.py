"""Assets: the datasets, prompts and checkpoints that a run needs on this machine.

A benchmark lists its assets in ``Benchmark.assets``, a judge in ``HasAssets.assets``. Two commands
loop over them: ``doctor`` reports whether each is here, ``prefetch`` downloads the missing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import cache_dir


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Check:
    """A check of assets that are on this machine, for ``doctor``.

    Several assets may share a check, such as the archives of one dataset. It runs when all of them
    are here.

    ``describe`` reads the files and returns one sentence about them. It raises a `MmieTasksError`
    if they cannot be used; what it logs as a warning is reported, alone if the text is empty.
    """

    subject: str  # ``mmie: data``
    describe: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPlan:
    """What fetching an asset would download and occupy.

    Attributes:
        source: Repository, commit and files: ``MMIE/MMIE@c0ffee: data.json, images.tar.gz``.
        file_bytes: Bytes still to be downloaded of each file; None if the server gives no size.
            All zeros if the files are in the Hub's cache and only have to be unpacked.
        disk_bytes: Folder to the bytes that are stored below it afterwards, in addition.
    """

    source: str
    file_bytes: tuple[int | None, ...] = ()
    disk_bytes: Mapping[Path, int] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int | None:
        """Bytes to be downloaded; None if the size of a file is unknown."""
        sizes = [size for size in self.file_bytes if size is not None]
        return sum(sizes) if sizes and len(sizes) == len(self.file_bytes) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A thing that a run needs on this machine: a dataset, official prompts, a checkpoint.

    Attributes:
        name: What it is, unique in a run: ``mmie: data``, ``milebench: data, part 1``.
        source: Where it comes from, as far as known without network access: a repository, with the
            commit if the asset is here, or the environment variable that names a local path.
        folder: Folder that it is stored in, or will be.
        is_here: Whether a run can use it without network access. Does not connect.
        plan: Asks the Hub, with one attempt, what has to be downloaded. Raises a `MmieTasksError`
            if the Hub refuses or does not answer.
        fetch: Downloads it, exactly as a run would, and returns one sentence about the result.
            Raises a `MmieTasksError`.
        copies: What a machine without network access needs: environment variable to the folder, or
            file, that has to be copied there and that the variable has to name.
        settings: Environment variables that choose it, such as a revision: ``prefetch`` names those
            that are set, without their values, for a machine without network access.
        checks: For ``doctor``, in this order up to the first problem.
        origin: ``hub`` can be downloaded; ``local`` is a path that the user names; ``installed`` is
            part of a package, so that ``prefetch`` skips it.
    """

    name: str
    source: str
    folder: Path
    is_here: Callable[[], bool] = field(repr=False)
    plan: Callable[[], DownloadPlan] = field(repr=False)
    fetch: Callable[[], str] = field(repr=False)
    copies: Mapping[str, Path] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    origin: Literal["hub", "local", "installed"] = "hub"


def local_asset(
    name: str, variable: str, environment: Mapping[str, str], checks: tuple[Check, ...] = ()
) -> Asset | None:
    """The asset that an environment variable names on this machine; None if it is not set.

    It is here if the path exists; only the checks read it. It cannot be downloaded: `Asset.plan`
    and `Asset.fetch` raise `DataMissing`.
    """
    if not (value := environment.get(variable)):
        return None
    path = Path(value).expanduser().absolute()

    def missing() -> NoReturn:
        raise DataMissing(
            f"`{variable}` is `{path}`, which does not exist.",
            hint=f"point `{variable}` at an existing path, or unset it to download",
        )

    return Asset(
        name=name,
        source=f"`{variable}`",
        folder=path,
        is_here=path.exists,
        plan=missing,
        fetch=missing,
        copies={variable: path},
        checks=checks,
        origin="local",
    )


def data_asset(
    *,
    name: str,
    variables: Sequence[str],
    source: str,
    is_here: Callable[[], bool],
    plan: Callable[[], DownloadPlan],
    fetch: Callable[[], str],
    environment: Mapping[str, str],
    describe: Callable[[], str],
) -> Asset:
    """The `local_asset` of the first variable that is set, or else one that can be downloaded.

    A downloaded asset is stored below `mmie_tasks.core.files.cache_dir`. `describe` is the only
    check, with the name of the asset; for the other arguments see `Asset`.
    """
    checks = (Check(subject=name, describe=describe),)
    for variable in variables:
        if local := local_asset(name, variable, environment, checks):
            return local
    folder = cache_dir(environment).absolute()
    return Asset(
        name=name,
        source=source,
        folder=folder,
        is_here=is_here,
        plan=plan,
        fetch=fetch,
        copies={"MMIE_TASKS_CACHE": folder},
        checks=checks,
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
