"""MIA-Bench on the Hub, asked for its size before it is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.sources.hub_file import HubFile, download_errors, unanswered
from mmie_tasks.sources.mia_bench_hub import ANNOTATION, REPO, revision_asked

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What the Hub has.

    Attributes:
        commit: Of the revision that was asked for.
        size_bytes: Of the table with the pictures in it; None where that is not told.
    """

    commit: str
    size_bytes: int | None


def listing(environment: Mapping[str, str]) -> Listing:
    """Ask the Hub, once and without patience.

    Args:
        environment: ``MIA_BENCH_REVISION``.

    Raises:
        DataMissing: No access, no such repository or revision, or no answer.
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    from huggingface_hub import HfApi

    revision = revision_asked(environment)
    try:
        told = HfApi().dataset_info(
            REPO, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
        )
    except download_errors() as error:
        instead = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
        wanted = HubFile(repo=REPO, filename="the table", revision=revision, instead=instead)
        raise unanswered(wanted, error) from error
    sizes = [file.size for file in told.siblings or [] if file.rfilename.endswith(".parquet")]
    known = [size for size in sizes if size is not None]
    return Listing(
        commit=told.sha or revision,
        size_bytes=sum(known) if known and len(known) == len(sizes) else None,
    )
