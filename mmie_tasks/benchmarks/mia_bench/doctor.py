"""What ``mmie-tasks doctor`` looks at for MIA-Bench: samples, images, the official prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mmie_tasks.benchmarks.mia_bench import task
from mmie_tasks.doctor.findings import Finding, looked, problem_of
from mmie_tasks.doctor.places import download, kept
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources import mia_bench as source
from mmie_tasks.sources.hub_file import HubFile, download_errors, unanswered
from mmie_tasks.sources.mia_bench_hub import ANNOTATION, REPO

DATA = "mia_bench: data"


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Data, images and the judge's prompt."""
    root = cache_dir(environment) / "mia_bench"
    if environment.get("MIA_BENCH_DATA") or kept(root, _revision(environment)):
        yield from looked(DATA, lambda: _counted(environment))
    else:
        yield _on_hub(environment)
    yield from looked("mia_bench: judge prompt", _prompt)


def _revision(environment: Mapping[str, str]) -> str:
    return environment.get("MIA_BENCH_REVISION") or "main"


def _counted(environment: Mapping[str, str]) -> str:
    docs = source.dataset(environment)
    task.before_requests(docs)
    return f"{len(docs):,} samples of {docs[0]['data']}; no image is missing"


def _on_hub(environment: Mapping[str, str]) -> Finding:
    from huggingface_hub import HfApi

    revision = _revision(environment)
    try:
        told = HfApi().dataset_info(REPO, revision=revision, files_metadata=True, timeout=10)
    except download_errors() as error:
        instead = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
        wanted = HubFile(repo=REPO, filename="the table", revision=revision, instead=instead)
        return problem_of(DATA, unanswered(wanted, error))
    files = told.siblings or []
    sizes = [file.size for file in files if file.rfilename.endswith(".parquet")]
    return download(DATA, f"{REPO}@{told.sha}", sizes or [None], cache_dir(environment))


def _prompt() -> str:
    task.check_prompt()
    return "as the runner's own task has it, and unchanged"
