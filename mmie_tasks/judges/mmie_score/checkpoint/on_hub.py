"""A checkpoint on the Hub, looked at before it is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.judges.mmie_score.checkpoint.locating import BELOW, WANTED, Located
from mmie_tasks.sources.hub_file import download_errors

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What this machine has not.

    Attributes:
        commit: That the Hub has, of the revision that was asked for.
        size_bytes: File to its size; None where the Hub does not tell it.
    """

    commit: str
    size_bytes: Mapping[str, int | None]


def is_repository(model: str) -> bool:
    """Whether it is looked for on the Hub; see `locating.locate`."""
    return model[:1] not in "/.~" and not Path(model).is_dir() and model.count("/") == 1


def lacking(repo: str, revision: str) -> Lacking:
    """Size of each file that this machine has not; asks for one file, so that a gate is met.

    Raises:
        OSError: One of `download_errors`: the Hub refuses, or gives no answer.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, snapshot_download

    from mmie_tasks.judges.mmie_score.checkpoint.files import CONFIG

    told = get_hf_file_metadata(hf_hub_url(repo, CONFIG, revision=revision), timeout=_TIMEOUT_S)
    files = snapshot_download(
        repo,
        revision=revision,
        allow_patterns=list(WANTED),
        ignore_patterns=[BELOW],
        dry_run=True,
    )
    listed = files if isinstance(files, list) else []
    sizes = {file.filename: file.file_size for file in listed if file.will_download}
    return Lacking(commit=told.commit_hash or revision, size_bytes=sizes)


def in_cache(repo: str, revision: str) -> Located | None:
    """The snapshot in the Hub's cache.

    `huggingface_hub` refuses one that it knows to lack files, of those that are wanted; it may not
    know.
    """
    from huggingface_hub import snapshot_download

    try:
        snapshot = snapshot_download(
            repo,
            revision=revision,
            allow_patterns=list(WANTED),
            ignore_patterns=[BELOW],
            local_files_only=True,
        )
    except download_errors():
        return None
    folder = Path(snapshot)
    return Located(folder=folder, name=f"{repo}@{folder.name}")
