"""What ``mmie-tasks doctor`` looks at for MMIE: samples, their images, the official words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.mmie import assets as mmie_hub
from mmie_tasks.benchmarks.mmie import data as source
from mmie_tasks.benchmarks.mmie import judge_prompts as mmie_prompts
from mmie_tasks.benchmarks.mmie import judge_prompts as mmie_prompts_file
from mmie_tasks.benchmarks.mmie import request as settings
from mmie_tasks.benchmarks.mmie import task
from mmie_tasks.benchmarks.mmie.assets import ANNOTATION, ARCHIVE, IMAGES, REPO
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import Item, Told, hub_download, in_our_cache, named
from mmie_tasks.hub.download import HubFile
from mmie_tasks.preflight.findings import Finding, kept_folder, looked, on_hub

DATA = "mmie: data"


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Data, images and judge prompts; the prompts, 8 kB, are fetched and kept."""
    folder = kept_folder(cache_dir(environment) / "mmie", _revision(environment))
    whole = folder is not None and (folder / ANNOTATION).is_file() and (folder / IMAGES).is_dir()
    if whole or environment.get("MMIE_DATA"):
        yield from looked(DATA, lambda: _counted(environment))
    else:
        yield _on_hub(environment)
    yield from looked("mmie: judge prompts", _words)


def _revision(environment: Mapping[str, str]) -> str:
    return environment.get("MMIE_REVISION") or "main"


def _counted(environment: Mapping[str, str]) -> str:
    docs = source.dataset("all", environment)
    task.before_requests(docs)
    missing = source.missing_images(docs)
    images = f"{len(missing):,} images are missing" if missing else "no image is missing"
    return f"{len(docs):,} samples of {docs[0]['data']}; {images}"


def _on_hub(environment: Mapping[str, str]) -> Finding:
    revision = _revision(environment)
    instead = f"set `MMIE_DATA` to a folder with `{ANNOTATION}` and `{IMAGES}/`"
    files = [
        HubFile(repo=REPO, filename=name, revision=revision, instead=instead)
        for name in (ANNOTATION, ARCHIVE)
    ]
    return on_hub(DATA, files, cache_dir(environment))


def _words() -> str:
    settings.check()
    words = settings.judge_words()
    return f"{words.name}; {'they are' if words.official else 'they are not'} MMIE's own"


# What ``mmie-tasks prefetch`` brings for MMIE: its data, and the official words for the judge.

PROMPTS = "mmie: judge prompts"


def items(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Item]:
    """Data and words; every task of MMIE needs both.

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    return [_data(environment), _prompts(environment)]


def _data(environment: Mapping[str, str]) -> Item:
    there = named(DATA, "MMIE_DATA", environment)
    kept = mmie_hub.kept(environment)
    return there or in_our_cache(
        DATA,
        kept=kept.revision if kept else "",
        source=mmie_hub.REPO,
        ask=lambda: _told(environment),
        fetch=lambda: f"{mmie_hub.hub_folder(environment).revision} is here",
        environment=environment,
    )


def _told(environment: Mapping[str, str]) -> Told:
    room = mmie_hub.root_dir(environment)
    annotation, archive = mmie_hub.wanted(environment)
    rows = hub_download(annotation, room, ANNOTATION, unpacked=False)
    images = hub_download(archive, room, IMAGES, unpacked=True)
    sizes = (rows.size_bytes, images.size_bytes)
    return Told(
        source=f"{rows.source}, {archive.filename}",
        size_bytes=None if None in sizes else sum(size or 0 for size in sizes),
        stays={room: sum(sum(each.stays.values()) for each in (rows, images))},
        passes_bytes=images.passes_bytes,
    )


def _prompts(environment: Mapping[str, str]) -> Item:
    for variable in ("MMIE_OTHER_PROMPTS", "MMIE_PROMPTS"):
        if there := named(PROMPTS, variable, environment):
            return there
    source = f"Lillianwei-h/MMIE@{mmie_prompts_file.COMMIT}: prompts.py"
    size_bytes = mmie_prompts_file.OFFICIAL.size_bytes
    return in_our_cache(
        PROMPTS,
        kept=source if mmie_prompts_file.kept(environment) is not None else "",
        source=source,
        ask=lambda: Told(source=source, size_bytes=size_bytes),
        fetch=lambda: f"{mmie_prompts.templates(environment).name} is here",
        environment=environment,
    )
