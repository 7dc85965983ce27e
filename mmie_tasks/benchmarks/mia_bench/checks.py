"""What ``mmie-tasks doctor`` looks at for MIA-Bench: samples, images, the official prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.mia_bench import assets as mia_bench_hub
from mmie_tasks.benchmarks.mia_bench import data as source
from mmie_tasks.benchmarks.mia_bench import task
from mmie_tasks.benchmarks.mia_bench.assets import REPO, kept, listing
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import Item, Told, hub_cache, in_our_cache, named
from mmie_tasks.preflight.findings import Finding, download, looked, problem_of

DATA = "mia_bench: data"


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Data, images and the judge's prompt."""
    if there := _to_come(environment):
        yield there
    else:
        yield from looked(DATA, lambda: _counted(environment))
    yield from looked("mia_bench: judge prompt", _prompt)


def _counted(environment: Mapping[str, str]) -> str:
    docs = source.dataset(environment)
    task.check_data(docs)
    return f"{len(docs):,} samples of {docs[0]['data']}; no image is missing"


def _to_come(environment: Mapping[str, str]) -> Finding | None:
    """What is to be said of the data on the Hub; None where data is here."""
    try:
        if environment.get("MIA_BENCH_DATA") or kept(environment):
            return None
        told = listing(environment)
    except MmieTasksError as error:
        return problem_of(DATA, error)
    return download(DATA, f"{REPO}@{told.commit}", [told.size_bytes], cache_dir(environment))


def _prompt() -> str:
    task.check_prompt()
    return "as the runner's own task has it, and unchanged"


# What ``mmie-tasks prefetch`` brings for MIA-Bench; its prompt comes with the runner.


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
