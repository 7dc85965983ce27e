"""Repositories in the Hub's own cache: the commit that was first used, and the missing files.

`huggingface_hub` documents this part of its cache (``HF_HUB_CACHE``)::

    datasets--MMIE--MMIE/refs/<revision>           the commit of a branch or tag
    datasets--MMIE--MMIE/snapshots/<commit>/...    its files
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.hub.asset import DownloadPlan
from mmie_tasks.hub.failures import RepositoryKind

_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_S = 10.0


def is_revision(text: str) -> bool:
    """Whether a text can be a branch, tag or commit.

    >>> is_revision("refs/pr/1"), is_revision("../main")
    (True, False)
    """
    return ".." not in text and _REVISION.fullmatch(text) is not None


def first_used_commit(repo: str, kind: RepositoryKind, revision: str) -> str:
    """The commit that a branch or tag had when it was first downloaded; else the revision itself.

    Does not connect.
    """
    ref = hub_cache() / f"{kind}s--{repo.replace('/', '--')}" / "refs" / revision
    commit = ref.read_text(encoding="ascii", errors="replace").strip() if ref.is_file() else ""
    return commit if _COMMIT.fullmatch(commit) else revision


def download_plan(
    repo: str,
    kind: RepositoryKind,
    revision: str,
    patterns: Sequence[str],
    *,
    ignored: Sequence[str] = (),
) -> DownloadPlan:
    """The files of a revision that are not in the Hub's cache. Nothing is downloaded.

    The metadata of one file are requested, so that a gated repository is noticed.

    Raises:
        OSError: The Hub refuses or does not answer: one of the errors of `download_errors`.
    """
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]  # public, see its docs

    # `snapshot_download(dry_run=True)` lists the files, but not before `huggingface_hub` 1.
    list_files = HfApi().dataset_info if kind == "dataset" else HfApi().model_info
    info = list_files(repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
    commit, files = info.sha or revision, {file.rfilename: file for file in info.siblings or []}
    names = [*filter_repo_objects(files, allow_patterns=[*patterns], ignore_patterns=[*ignored])]
    missing = [
        name
        for name in names
        if not isinstance(try_to_load_from_cache(repo, name, revision=commit, repo_type=kind), str)
    ]
    for name in missing[:1] or ([] if names else patterns[:1]):
        url = hf_hub_url(repo, name, repo_type=kind, revision=commit)
        get_hf_file_metadata(url, timeout=_TIMEOUT_S)
    sizes = [files[name].size for name in missing]
    known = [size for size in sizes if size is not None]
    size_bytes = sum(known) if len(known) == len(sizes) else None
    return DownloadPlan(source=f"{repo}@{commit}", size_bytes=size_bytes)


def hub_cache() -> Path:
    """The folder in which `huggingface_hub` stores repositories, by this process's environment."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).absolute()


def assets_folder(repo: str) -> Path:
    """The folder that `huggingface_hub.cached_assets_path` returns for a repository.

    That function also creates it, and `doctor` must not create anything.
    """
    from huggingface_hub import constants

    folder = Path(constants.HF_ASSETS_CACHE).absolute() / "mmie-tasks"
    return folder / repo.replace("/", "--")


def hub_copies() -> Mapping[str, Path]:
    """`Asset.copies` for the Hub's cache and our unpacked files."""
    from huggingface_hub import constants

    assets = Path(constants.HF_ASSETS_CACHE).absolute()
    return {"HF_HUB_CACHE": hub_cache(), "HF_ASSETS_CACHE": assets}
