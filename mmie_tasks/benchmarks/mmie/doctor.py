"""What ``mmie-tasks doctor`` looks at for MMIE: samples, their images, the official words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mmie_tasks.benchmarks.mmie import settings, task
from mmie_tasks.doctor.findings import Finding, looked
from mmie_tasks.doctor.on_hub import on_hub
from mmie_tasks.doctor.places import kept_folder
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources import mmie as source
from mmie_tasks.sources.hub_file import HubFile
from mmie_tasks.sources.mmie_file import ANNOTATION
from mmie_tasks.sources.mmie_hub import ARCHIVE, REPO
from mmie_tasks.sources.mmie_images import IMAGES

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
