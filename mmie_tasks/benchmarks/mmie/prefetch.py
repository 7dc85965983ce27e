"""What ``mmie-tasks prefetch`` brings for MMIE: its data, and the official words for the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.prefetching.items import Item, Told, in_our_cache, named, hub_download
from mmie_tasks.sources import mmie_hub, mmie_prompts, mmie_prompts_file
from mmie_tasks.sources.mmie_file import ANNOTATION
from mmie_tasks.sources.mmie_images import IMAGES

DATA = "mmie: data"
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
