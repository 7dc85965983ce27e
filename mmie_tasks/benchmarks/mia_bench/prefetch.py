"""What ``mmie-tasks prefetch`` brings for MIA-Bench; its prompt comes with the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.paths import cache_dir
from mmie_tasks.prefetching.items import Item, Told, in_our_cache, named
from mmie_tasks.prefetching.places import hub_cache
from mmie_tasks.sources import mia_bench_hub
from mmie_tasks.sources.mia_bench_listing import listing

DATA = "mia_bench: data"


def items(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Item]:
    """The samples and their pictures.

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    kept = mia_bench_hub.kept(environment)
    there = named(DATA, "MIA_BENCH_DATA", environment)
    return [
        there
        or in_our_cache(
            DATA,
            kept=kept.revision if kept else "",
            source=mia_bench_hub.REPO,
            ask=lambda: _told(environment),
            fetch=lambda: f"{mia_bench_hub.hub_folder(environment).revision} is here",
            environment=environment,
        )
    ]


def _told(environment: Mapping[str, str]) -> Told:
    found = listing(environment)
    source = f"{mia_bench_hub.REPO}@{found.commit}"
    size_bytes = found.size_bytes or 0
    # `datasets` keeps the file and a table of its own; ours are the pictures as files.
    stays = {cache_dir(environment).absolute(): size_bytes, hub_cache(): 2 * size_bytes}
    return Told(source=source, size_bytes=found.size_bytes, stays=stays)
