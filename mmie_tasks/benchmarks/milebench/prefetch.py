"""What ``mmie-tasks prefetch`` brings for MileBench: the archives that hold its datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANTS, Variant, has_variant
from mmie_tasks.prefetching.items import Item, Told, in_our_cache, named, hub_download
from mmie_tasks.prefetching.places import hub_cache, hub_folders
from mmie_tasks.sources.milebench_hub import REPO, archive_of, dataset_folder, part_of
from mmie_tasks.sources.tokenizers import context_limit, is_here, load_tokenizer

DATA = "milebench: data"
TOKENIZER = "milebench: tokenizer"


def items(tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Item]:
    """The archives with the datasets of these tasks, and the tokenizer of a cut context, if any.

    Raises:
        SettingWrong: A setting of MileBench cannot be obeyed.
    """
    limit = context_limit(environment, "MILEBENCH")
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
        here=is_here(name),
        room=hub_cache(),
        fetch=fetch,
        folders=hub_folders(),
    )
