"""What ``mmie-tasks doctor`` looks at for MIA-Bench: samples, images, the official prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mmie_tasks.benchmarks.mia_bench import task
from mmie_tasks.doctor.findings import Finding, looked, problem_of
from mmie_tasks.doctor.places import download
from mmie_tasks.errors import MmieTasksError
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources import mia_bench as source
from mmie_tasks.sources.mia_bench_hub import REPO, kept
from mmie_tasks.sources.mia_bench_listing import listing

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
    task.before_requests(docs)
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
