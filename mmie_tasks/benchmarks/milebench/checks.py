"""What ``mmie-tasks doctor`` looks at for MileBench: its datasets and their images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

from mmie_tasks.benchmarks.milebench import data as source
from mmie_tasks.benchmarks.milebench import task
from mmie_tasks.benchmarks.milebench.assets import REPO, archive_of, dataset_folder, part_of
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANTS, Variant, has_variant
from mmie_tasks.benchmarks.milebench.truncation import (
    is_tokenizer_here,
    load_tokenizer,
    token_limit,
)
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import (
    Item,
    Told,
    hub_cache,
    hub_download,
    hub_folders,
    in_our_cache,
    named,
)
from mmie_tasks.hub.download import HubFile
from mmie_tasks.preflight.findings import Finding, looked, on_hub
from mmie_tasks.preflight.prefetch import tasks_named

# What ``mmie-tasks prefetch`` brings for MileBench: the archives that hold its datasets.

TOKENIZER = "milebench: tokenizer"


def items(tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Item]:
    """The archives with the datasets of these tasks, and the tokenizer of a cut context, if any.

    Raises:
        SettingWrong: A setting of MileBench cannot be obeyed.
    """
    limit = token_limit(environment)
    tokenizer = [_tokenizer(limit.tokenizer)] if limit else []
    if there := named(DATA, "MILEBENCH_DATA", environment):
        return [there, *tokenizer]
    parts: dict[int, list[str]] = {}
    for dataset in datasets_of(tasks):
        parts.setdefault(part_of(dataset), []).append(dataset)
    return [*(_archive(part, parts[part], environment) for part in sorted(parts)), *tokenizer]


def datasets_of(tasks: Iterable[str]) -> tuple[str, ...]:
    """The datasets that these tasks read.

    >>> datasets_of(["milebench_DocVQA", "milebench_DocVQA_adv"])
    ('DocVQA',)
    """
    return tuple(dict.fromkeys(dataset for task in tasks for dataset in _of_one(task)))


def _of_one(task: str) -> Sequence[str]:
    """A task is ``milebench``, a dataset and a variant, the last two where they are not all."""
    words = task.split("_")[1:]
    variant = words.pop() if words and words[-1] in VARIANTS else "test"
    if words:
        return words[:1]
    return [one for one in DATASETS if has_variant(one, cast("Variant", variant))]


def _archive(part: int, datasets: Sequence[str], environment: Mapping[str, str]) -> Item:
    archive = archive_of(part, environment)
    commit = archive.unpacked()
    name = archive.file.filename

    def fetch() -> str:
        commits = {dataset_folder(dataset, environment).revision for dataset in datasets}
        return f"{', '.join(datasets)} of {', '.join(sorted(commits))} are here"

    def ask() -> Told:
        return hub_download(archive.file, archive.root.absolute(), archive.stem, unpacked=True)

    return in_our_cache(
        f"{DATA}, part {part}",
        kept=f"{REPO}@{commit}: {name}" if commit else "",
        source=f"{REPO}: {name}",
        ask=ask,
        fetch=fetch,
        environment=environment,
    )


def _tokenizer(name: str) -> Item:
    """A few megabytes, whose size is not asked for."""

    def fetch() -> str:
        load_tokenizer(name)
        return f"`{name}` is here"

    return Item(
        subject=TOKENIZER,
        told=Told(source=name),
        here=is_tokenizer_here(name),
        room=hub_cache(),
        fetch=fetch,
        folders=hub_folders(),
    )


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
        task.check_data(docs)
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
