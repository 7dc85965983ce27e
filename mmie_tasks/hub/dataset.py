"""Datasets on the Hub: downloaded into the Hub's own cache, and unpacked once.

::

    <HF_HUB_CACHE>/datasets--MMIE--MMIE/...               see `mmie_tasks.hub.repository`
    <HF_ASSETS_CACHE>/mmie-tasks/MMIE--MMIE/<commit>/...  the unpacked files

`huggingface_hub` itself reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``. A
later run makes no request. ``hf download --repo-type dataset MMIE/MMIE data.json`` updates the
cache to the newest commit of ``main``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import create_folder_once
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.hub.failures import download_errors, explain
from mmie_tasks.hub.repository import assets_folder, download_plan, first_used_commit, hub_copies


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """A complete local folder, made from files of the commit ``MMIE/MMIE@<commit>``."""

    folder: Path
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """Files of a dataset repository, and the folder that is made from them.

    Attributes:
        repo: The repository: ``MMIE/MMIE``.
        files: Names of its files, or patterns of names.
        fill: Gets the folder of the downloaded files and an empty folder, which it fills.
        name: Name of the filled folder, unique in the repository.
        alternative: How users name local data, as the end of a hint: set `MMIE_DATA` to ...
    """

    repo: str
    files: tuple[str, ...]
    fill: Callable[[Path, Path], object]
    name: str = "data"
    alternative: str

    def cached(self) -> HubFolder | None:
        """The folder, if an earlier run made it. Does not connect."""
        folder = self._folder(self._revision())
        return folder if folder.folder.is_dir() else None

    def fetch(self) -> HubFolder:
        """The folder; one process downloads and makes it first if necessary.

        Raises:
            DataMissing: There is no access, no such repository or file, no connection, or no space
                on the disk.
            DataBroken: `fill` cannot use the files.
        """
        if cached := self.cached():
            return cached
        try:
            snapshot = self._download()
            folder = self._folder(snapshot.name)
            create_folder_once(
                folder.folder, partial(self.fill, snapshot), f"unpacking `{folder.folder}`"
            )
        except download_errors() as error:
            raise self._failure(error) from error
        return folder

    def plan(self) -> DownloadPlan:
        """What `fetch` would download; raises `DataMissing` if the Hub refuses or is silent."""
        try:
            plan = download_plan(self.repo, "dataset", self._revision(), self.files)
        except download_errors() as error:
            raise self._failure(error) from error
        return replace(plan, source=f"{plan.source}: {', '.join(self.files)}")

    def asset(self, name: str, check: Check) -> Asset:
        """The folder as an asset."""
        cached = self.cached()
        return Asset(
            name=name,
            source=f"{cached.source if cached else self.repo}: {', '.join(self.files)}",
            folder=assets_folder(self.repo),
            is_here=lambda: self.cached() is not None,
            plan=self.plan,
            fetch=lambda: f"{self.fetch().source} is here",
            copies=hub_copies(),
            checks=(check,),
        )

    def _revision(self) -> str:
        """The commit that was first downloaded; ``main`` if there was none."""
        return first_used_commit(self.repo, "dataset", "main")

    def _folder(self, commit: str) -> HubFolder:
        folder = assets_folder(self.repo) / commit / self.name
        return HubFolder(folder=folder, source=f"{self.repo}@{commit}")

    def _download(self) -> Path:
        from huggingface_hub import hf_hub_download, snapshot_download

        snapshot = Path(
            snapshot_download(
                self.repo,
                repo_type="dataset",
                revision=self._revision(),
                allow_patterns=[*self.files],
            )
        )
        names = [path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*")]
        for pattern in self.files:
            if not any(fnmatch(name, pattern) for name in names):  # a refusal, or no connection
                hf_hub_download(self.repo, pattern, repo_type="dataset", revision=snapshot.name)
        return snapshot

    def _failure(self, error: BaseException) -> DataMissing:
        why = explain(error, repo=self.repo, revision=self._revision())
        files = ", ".join(f"`{name}`" for name in self.files)
        return DataMissing(
            f"{files} of the dataset `{self.repo}` could not be downloaded: {why.reason}.",
            hint=f"{why.hint}, or {self.alternative}",
        )
