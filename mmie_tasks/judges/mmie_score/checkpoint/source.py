"""Where a checkpoint comes from: a local folder, or a repository on the Hub, downloaded if needed;
as an asset, too.

The commit of a branch or tag is resolved once and noted in a text file, so that later runs judge
with the same weights::

    <cache_dir>/mmie_score/commits/<owner>--<name>@<revision>.txt

To follow a branch that has moved, delete the text file. The files are in the Hub's own cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.files import cache_dir, file_lock
from mmie_tasks.hub.asset import (
    CACHE_VARIABLE,
    Asset,
    Check,
    DownloadPlan,
    hub_cache,
    hub_cache_copies,
    local_asset,
)
from mmie_tasks.hub.commits import CommitNote, commit_note
from mmie_tasks.hub.failures import download_errors, explain
from mmie_tasks.hub.revisions import is_revision
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import files

DEFAULT_MODEL = "MMIE/MMIE-Score"
MODEL_VARIABLE = "MMIE_SCORE_MODEL"

_ASSET = "mmie_score: checkpoint"
_SELECTION: dict[str, Any] = {
    # `conversation.py` is parsed as text; no other code, and no pickle, is downloaded.
    "allow_patterns": [
        "*.safetensors",
        files.INDEX,
        files.CONFIG,
        "generation_config.json",
        files.CONVERSATION,
        *files.TOKENIZER_FILES,
    ],
    "ignore_patterns": ["*/*"],  # subfolders hold training states and other formats
}
_METADATA_TIMEOUT_S = 10.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLocation:
    """A checkpoint on this machine; in messages it is ``MMIE/MMIE-Score@<commit>``, or
    ``local folder``.
    """

    folder: Path
    name: str


def locate(model: str, revision: str | None, environment: Mapping[str, str]) -> CheckpointLocation:
    """Find the checkpoint; download it if it is on the Hub and not on this machine.

    `huggingface_hub` itself reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and
    ``HF_HUB_OFFLINE``.

    A model that begins with ``/``, ``.`` or ``~`` is a folder, and so is one that exists as a
    folder. A revision is a branch, tag or commit of the repository; None is ``main``.

    Raises:
        JudgeMisconfigured: No such folder or repository, no access, no connection, or a full disk.
    """
    if is_repository(model):
        return _from_hub(model, revision or "main", environment)
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


def _from_hub(repo: str, revision: str, environment: Mapping[str, str]) -> CheckpointLocation:
    if not is_revision(revision):
        raise JudgeMisconfigured(
            f"`revision={revision}` is not a branch, tag or commit.",
            hint=f"name one that is listed on https://huggingface.co/{repo}/commits",
        )
    if _COMMIT.fullmatch(revision):
        return _snapshot(repo, revision)
    note = _revision_note(repo, revision, environment)
    if commit := note.read():
        logger.info(f"`{repo}`: commit {commit}, as noted for `{revision}` in `{note.path}`.")
        return _snapshot(repo, commit)
    try:
        note.path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(note.path.with_suffix(".lock"), f"downloading `{repo}`"):
            location = _snapshot(repo, note.read() or revision)
            note.write(location.folder.name)
    except OSError as error:
        raise JudgeMisconfigured(
            f"`{note.path.parent}` cannot be written: {error.strerror or error}.",
            hint="free some space, or set `MMIE_TASKS_CACHE` to a folder that can be written",
        ) from error
    logger.info(
        f"`{repo}`: `{revision}` is commit {location.folder.name} from now on; see `{note.path}`."
    )
    return location


def _revision_note(repo: str, revision: str, environment: Mapping[str, str]) -> CommitNote:
    """The note with the commit of a branch or tag."""
    return commit_note(
        cache_dir(environment).absolute() / "mmie_score", f"{repo.replace('/', '--')}@{revision}"
    )


def _snapshot(repo: str, revision: str, *, local_files_only: bool = False) -> CheckpointLocation:
    """The Hub's snapshot of a revision, complete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import EntryNotFoundError

    failures: tuple[type[BaseException], ...] = (*download_errors(), EntryNotFoundError, ValueError)
    try:
        path = snapshot_download(
            repo, revision=revision, local_files_only=local_files_only, **_SELECTION
        )
    except failures as error:
        raise hub_failure(repo, revision, error) from error
    return CheckpointLocation(folder=Path(path), name=f"{repo}@{Path(path).name}")


def _cached_snapshot(repo: str, revision: str) -> CheckpointLocation | None:
    """The complete snapshot in the Hub's cache; None without one."""
    try:
        location = _snapshot(repo, revision, local_files_only=True)
        # `huggingface_hub` may not know all files.
        files.require(location.folder, (files.CONFIG, files.TOKENIZER))
        files.find_shards(location.folder)
    except JudgeMisconfigured:
        return None
    return location


def _download_plan(repo: str, revision: str) -> DownloadPlan:
    """The files of a revision that this machine does not have; requests one, so that a gated
    repository is noticed.
    """
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]  # public, see its docs

    url = hf_hub_url(repo, files.CONFIG, revision=revision)
    try:
        commit = get_hf_file_metadata(url, timeout=_METADATA_TIMEOUT_S).commit_hash or revision
        info = HfApi().model_info(
            repo, revision=commit, files_metadata=True, timeout=_METADATA_TIMEOUT_S
        )
    except download_errors() as error:
        raise hub_failure(repo, revision, error, is_downloading=False) from error
    # `snapshot_download(dry_run=True)` lists them too, but not before `huggingface_hub` 1.
    selected = filter_repo_objects(
        info.siblings or [], key=lambda file: file.rfilename, **_SELECTION
    )
    cached = partial(try_to_load_from_cache, repo, revision=commit)
    sizes = [file.size for file in selected if not isinstance(cached(file.rfilename), str)]
    folder = hub_cache() / f"models--{repo.replace('/', '--')}"
    return DownloadPlan(
        source=f"{repo}@{commit}",
        file_bytes=tuple(sizes) or (0,),
        disk_bytes={folder: sum(size or 0 for size in sizes)},
    )


def hub_failure(
    repo: str, revision: str, error: BaseException, *, is_downloading: bool = True
) -> JudgeMisconfigured:
    """The error for a checkpoint that the Hub did not provide while its files, or only their sizes,
    were requested.
    """
    from huggingface_hub.errors import EntryNotFoundError

    if isinstance(error, EntryNotFoundError) and error.__cause__ is not None:
        error, is_downloading = error.__cause__, False  # not in the cache, and no connection
    explanation = explain(
        error,
        repo=repo,
        revision=revision,
        kind="model",
        storage="HF_HOME",
        is_downloading=is_downloading,
    )
    return JudgeMisconfigured(
        f"The judge's checkpoint `{repo}` at revision `{revision}` could not be downloaded: "
        f"{explanation.reason}.",
        hint=f"{explanation.hint}, or set `model=` to a folder with the checkpoint",
    )


def checkpoint_assets(
    model: str,
    revision: str | None,
    environment: Mapping[str, str],
    checks_of: Callable[[Callable[[], CheckpointLocation]], Sequence[Check]],
) -> Sequence[Asset]:
    """The checkpoint that the arguments of `locate` name; its checks may download it. Raises like
    `locate`.
    """
    if not is_repository(model):
        location = locate(model, revision, environment)
        in_folder = Check(subject=_ASSET, describe=lambda: f"the folder `{location.folder}`")
        checks = (in_folder, *checks_of(lambda: location))
        local = local_asset(_ASSET, MODEL_VARIABLE, {MODEL_VARIABLE: str(location.folder)}, checks)
        return [local] if local else []
    commit = _revision_note(model, revision or "main", environment).read() or revision or "main"
    cached = _cached_snapshot(model, commit)
    checks = (
        Check(subject=_ASSET, describe=lambda: _compare_with_hub(model, commit)),
        *checks_of(lambda: _cached_snapshot(model, commit) or locate(model, revision, environment)),
    )
    asset = Asset(
        name=_ASSET,
        source=cached.name if cached else f"{model}@{commit}",
        folder=hub_cache(),
        is_here=lambda: _cached_snapshot(model, commit) is not None,
        plan=lambda: _download_plan(model, commit),
        fetch=lambda: locate(model, revision, environment).name,
        copies={CACHE_VARIABLE: cache_dir(environment).absolute(), **hub_cache_copies()},
        settings=(MODEL_VARIABLE,),
        checks=checks,
    )
    return [asset]


def _compare_with_hub(repo: str, revision: str) -> str:
    """Where the checkpoint is; logs a warning if it could not be compared with the Hub."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    location = _cached_snapshot(repo, revision)
    name = location.name if location else f"{repo}@{revision}"
    message = f"{name} is in the Hub's cache"
    try:
        _download_plan(repo, revision)
    except JudgeMisconfigured as error:
        if isinstance(error.__cause__, OfflineModeIsEnabled):
            return f"{message}; `HF_HUB_OFFLINE` is set, so the Hub is not contacted"
        reason = first_line(error)
        logger.warning(f"{message}, and the Hub cannot be reached. {reason}")
        return ""
    return message
