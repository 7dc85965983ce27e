"""Files of a dataset on the Hub that were not brought yet: whether they can be had, how large."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmie_tasks.doctor.findings import Finding, ok, problem_of
from mmie_tasks.doctor.places import download
from mmie_tasks.sources.hub_file import HubFile, download_errors, unanswered

_TIMEOUT_S = 10.0


def on_hub(subject: str, files: Sequence[HubFile], room: Path) -> Finding:
    """Ask the Hub for the sizes, once and without patience; what its cache holds is not asked for.

    Args:
        subject: What is looked at.
        files: Of one repository.
        room: Where a run would lay them down.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    sizes: list[int | None] = []
    commit = ""
    wanted = [file for file in files if not _is_cached(file)]
    for file in wanted:
        url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=file.revision)
        try:
            told = get_hf_file_metadata(url, timeout=_TIMEOUT_S)
        except download_errors() as error:
            return problem_of(subject, unanswered(file, error))
        sizes.append(told.size)
        commit = told.commit_hash or file.revision
    names = ", ".join(file.filename for file in wanted or files)
    if not wanted:
        return ok(subject, f"{names} in the Hub's cache, to be unpacked by the first run")
    return download(subject, f"{names} of {files[0].repo}@{commit}", sizes, room)


def _is_cached(file: HubFile) -> bool:
    from huggingface_hub import try_to_load_from_cache

    where = try_to_load_from_cache(
        file.repo, file.filename, revision=file.revision, repo_type="dataset"
    )
    return isinstance(where, str)
