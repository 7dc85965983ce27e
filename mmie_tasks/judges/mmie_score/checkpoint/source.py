"""Finds a checkpoint in a local folder or on the Hub, and downloads it if needed.

The files are in the Hub's own cache, at the commit that a branch or tag had when it was first used,
so later runs judge with the same weights. To follow a branch that has moved, name its new commit as
the revision, or update the cache: ``hf download MMIE/MMIE-Score config.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan, local_asset
from mmie_tasks.hub.failures import download_errors, explain
from mmie_tasks.hub.repository import (
    download_plan,
    first_used_commit,
    hub_cache,
    hub_copies,
    is_revision,
)
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score import DEFAULT_MODEL, MODEL_VARIABLE
from mmie_tasks.judges.mmie_score.checkpoint import files

_ASSET = "mmie_score: checkpoint"
_PATTERNS = (  # `conversation.py` is parsed as text; no other code, and no pickle, is downloaded
    files.CONFIG,
    files.INDEX,
    "*.safetensors",
    "generation_config.json",
    files.CONVERSATION,
    *files.TOKENIZER_FILES,
)
_IGNORED = ("*/*",)  # subfolders hold training states and other formats
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLocation:
    """A checkpoint on this machine; `name` is ``MMIE/MMIE-Score@<commit>`` or ``local folder``."""

    folder: Path
    name: str


def locate(model: str, revision: str | None) -> CheckpointLocation:
    """Find the checkpoint; download it if it is on the Hub and not on this machine.

    A model that begins with ``/``, ``.`` or ``~``, or that exists as a folder, is a folder. A
    revision is a branch, tag or commit of the repository; None is ``main``. `huggingface_hub` reads
    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``.

    Raises:
        JudgeMisconfigured: No such folder or repository, no access, no connection, or a full disk.
    """
    if is_repository(model):
        return _from_hub(model, revision or "main")
    folder = Path(model).expanduser().absolute()
    if not model or not folder.is_dir():
        raise JudgeMisconfigured(
            f"`model={model}` is neither a folder on this machine nor a repository on the Hub.",
            hint="name the folder with `config.json` and the `*.safetensors` files, or a "
            f"repository as `owner/name`; the judge's is {DEFAULT_MODEL}",
        )
    if revision is not None:
        raise JudgeMisconfigured(
            f"`revision={revision}` is set for the folder `{folder}`, which has no revisions.",
            hint="leave `revision=` out, or name the repository on the Hub as `model=`",
        )
    return CheckpointLocation(folder=folder, name="local folder")


def is_repository(model: str) -> bool:
    """Whether `locate` looks for a model on the Hub."""
    return (
        _REPOSITORY.fullmatch(model) is not None
        and model[0] not in ".~"
        and not Path(model).is_dir()
    )


def _from_hub(repo: str, revision: str) -> CheckpointLocation:
    if not is_revision(revision):
        raise JudgeMisconfigured(
            f"`revision={revision}` is not a branch, tag or commit.",
            hint=f"name one that is listed on https://huggingface.co/{repo}/commits",
        )
    first_used = first_used_commit(repo, "model", revision)
    location = _snapshot(repo, first_used)
    if (commit := location.folder.name) != revision:
        when = "as when it was first used" if commit == first_used else "from now on"
        logger.info(f"`{repo}`: `{revision}` is commit {commit} {when}.")
    return location


def _snapshot(repo: str, revision: str, *, local_files_only: bool = False) -> CheckpointLocation:
    """The Hub's snapshot of a revision, complete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import EntryNotFoundError

    failures: tuple[type[BaseException], ...] = (*download_errors(), EntryNotFoundError, ValueError)
    try:
        path = snapshot_download(
            repo,
            revision=revision,
            local_files_only=local_files_only,
            allow_patterns=[*_PATTERNS],
            ignore_patterns=[*_IGNORED],
        )
    except failures as error:
        raise hub_failure(repo, revision, error) from error
    return CheckpointLocation(folder=Path(path), name=f"{repo}@{Path(path).name}")


def _cached_snapshot(repo: str, revision: str) -> CheckpointLocation | None:
    """The snapshot in the Hub's cache; None unless it is complete."""
    try:
        location = _snapshot(repo, revision, local_files_only=True)
        # `huggingface_hub` may not know that files are missing.
        files.require(location.folder, (files.CONFIG, files.TOKENIZER))
        files.find_shards(location.folder)
    except JudgeMisconfigured:
        return None
    return location


def _download_plan(repo: str, revision: str) -> DownloadPlan:
    try:
        return download_plan(repo, "model", revision, _PATTERNS, ignored=_IGNORED)
    except download_errors() as error:
        raise hub_failure(repo, revision, error) from error


def hub_failure(repo: str, revision: str, error: BaseException) -> JudgeMisconfigured:
    """The error for a checkpoint whose files, or only their sizes, the Hub did not provide."""
    explanation = explain(error, repo=repo, revision=revision, kind="model")
    return JudgeMisconfigured(
        f"The judge's checkpoint `{repo}` at revision `{revision}` could not be downloaded: "
        f"{explanation.reason}.",
        hint=f"{explanation.hint}, or set `model=` to a folder with the checkpoint",
    )


def checkpoint_assets(
    model: str,
    revision: str | None,
    checks_of: Callable[[Callable[[], CheckpointLocation]], Sequence[Check]],
) -> Sequence[Asset]:
    """The checkpoint as an asset; its checks may download it. Raises like `locate`."""
    if not is_repository(model):
        location = locate(model, revision)
        in_folder = Check(subject=_ASSET, describe=lambda: f"the folder `{location.folder}`")
        checks = (in_folder, *checks_of(lambda: location))
        local = local_asset(_ASSET, MODEL_VARIABLE, location.folder, checks)
        return [local] if local else []
    commit = first_used_commit(model, "model", revision or "main")
    cached = _cached_snapshot(model, commit)
    checks = (
        Check(subject=_ASSET, describe=lambda: _compare_with_hub(model, commit)),
        *checks_of(lambda: _cached_snapshot(model, commit) or locate(model, revision)),
    )
    asset = Asset(
        name=_ASSET,
        source=cached.name if cached else f"{model}@{commit}",
        folder=hub_cache(),
        is_here=lambda: _cached_snapshot(model, commit) is not None,
        plan=lambda: _download_plan(model, commit),
        fetch=lambda: locate(model, revision).name,
        copies=hub_copies(),
        checks=checks,
    )
    return [asset]


def _compare_with_hub(repo: str, revision: str) -> str:
    """Where the checkpoint is, and whether it could be compared with the Hub."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    location = _cached_snapshot(repo, revision)
    name = location.name if location else f"{repo}@{revision}"
    message = f"{name} is in the Hub's cache"
    try:
        _download_plan(repo, revision)
    except JudgeMisconfigured as error:
        if isinstance(error.__cause__, OfflineModeIsEnabled):
            return f"{message}; `HF_HUB_OFFLINE` is set, so the Hub is not contacted"
        return f"{message}, and the Hub cannot be reached. {first_line(error)}"
    return message
