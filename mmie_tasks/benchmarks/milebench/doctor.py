"""What ``mmie-tasks doctor`` looks at for MileBench: its datasets and their images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from mmie_tasks.benchmarks.milebench import task
from mmie_tasks.benchmarks.milebench.prefetch import datasets_of
from mmie_tasks.benchmarks.milebench.sample import DATASETS
from mmie_tasks.doctor.findings import Finding, looked
from mmie_tasks.doctor.on_hub import on_hub
from mmie_tasks.paths import cache_dir
from mmie_tasks.prefetching.names import tasks_named
from mmie_tasks.sources import milebench as source
from mmie_tasks.sources.hub_file import HubFile
from mmie_tasks.sources.milebench_hub import REPO, part_of

DATA = "milebench: data"


def look(environment: Mapping[str, str], tasks: Sequence[str] = ()) -> Iterator[Finding]:
    """The data, with the images where it is there.

    Args:
        environment: What the source reads.
        tasks: Of MileBench, that are asked for; all where none is named. Of the Hub's archives only
            theirs are looked at.
    """
    root = cache_dir(environment) / "milebench"
    local, wanted = bool(environment.get("MILEBENCH_DATA")), _datasets(tasks)
    lacking = [part for part in sorted(set(map(part_of, wanted))) if not _is_unpacked(root, part)]
    if local or not lacking:
        names = ("all",) if local or set(wanted) == set(DATASETS) else wanted
        yield from looked(DATA, lambda: _counted(names, environment))
    else:
        yield _on_hub(lacking, environment)


def _datasets(tasks: Sequence[str]) -> Sequence[str]:
    """Those of the tasks; all where a word is none of a task file, such as a pattern."""
    named = [tasks_named(word) for word in tasks]
    return datasets_of(chain.from_iterable(named)) if named and all(named) else DATASETS


def _is_unpacked(root: Path, part: int) -> bool:
    """Whether an archive was unpacked, of any commit, from any Hub."""
    stem = f"MileBench_part{part}"
    return any(
        path.is_dir() for form in ("*", "mirror-*/*") for path in root.glob(f"{form}/{stem}")
    )


def _counted(wanted: Sequence[str], environment: Mapping[str, str]) -> str:
    counts: Counter[str] = Counter()
    for name in wanted:
        docs = source.dataset(name, environment)
        task.before_requests(docs)
        counts.update(docs["dataset"])
    datasets = "1 dataset" if len(counts) == 1 else f"{len(counts)} datasets"
    return f"{counts.total():,} samples of {datasets}; no image is missing"


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
