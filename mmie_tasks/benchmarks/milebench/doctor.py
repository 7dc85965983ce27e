"""What ``mmie-tasks doctor`` looks at for MileBench: its datasets and their images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mmie_tasks.benchmarks.milebench import task
from mmie_tasks.doctor.findings import Finding, looked
from mmie_tasks.doctor.on_hub import on_hub
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources import milebench as source
from mmie_tasks.sources.hub_file import HubFile
from mmie_tasks.sources.milebench_hub import PARTS, REPO

DATA = "milebench: data"


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The data, with the images where it is there."""
    root = cache_dir(environment) / "milebench"
    lacking = [part for part in range(len(PARTS)) if not _is_unpacked(root, part)]
    if environment.get("MILEBENCH_DATA") or not lacking:
        yield from looked(DATA, lambda: _counted(environment))
    else:
        yield _on_hub(lacking, environment)


def _is_unpacked(root: Path, part: int) -> bool:
    """Whether an archive was unpacked, of any commit, from any Hub."""
    stem = f"MileBench_part{part}"
    return any(
        path.is_dir() for form in ("*", "mirror-*/*") for path in root.glob(f"{form}/{stem}")
    )


def _counted(environment: Mapping[str, str]) -> str:
    docs = source.dataset("all", environment)
    task.before_requests(docs)
    names = set(docs["dataset"])
    return f"{len(docs):,} samples of {len(names)} datasets; no image is missing"


def _on_hub(parts: list[int], environment: Mapping[str, str]) -> Finding:
    files = [
        HubFile(
            repo=REPO,
            filename=f"MileBench_part{part}.tar.gz",
            revision=environment.get("MILEBENCH_REVISION") or "main",
            instead="set `MILEBENCH_DATA` to a folder with the unpacked datasets",
        )
        for part in parts
    ]
    return on_hub(DATA, files, cache_dir(environment))
