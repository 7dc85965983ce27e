"""What ``mmie-tasks prefetch`` brings for MMIE-Score: its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.doctor.places import noted
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Located, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.hub_errors import not_had
from mmie_tasks.judges.mmie_score.checkpoint.on_hub import in_cache, is_repository, lacking
from mmie_tasks.judges.mmie_score.options import settings_of
from mmie_tasks.judges.mmie_score.settings import MODEL_VARIABLE, Settings
from mmie_tasks.paths import cache_dir
from mmie_tasks.prefetching.items import CACHE, Item, Told, asked, named
from mmie_tasks.prefetching.places import hub_cache, hub_folders
from mmie_tasks.sources.hub_file import download_errors

SUBJECT = "mmie_score: checkpoint"


def items(options: Mapping[str, str], environment: Mapping[str, str]) -> Sequence[Item]:
    """The checkpoint that the judge would be opened with.

    Args:
        options: Of the judge, as they were typed.
        environment: Read: ``MMIE_SCORE_MODEL``, and what our cache depends on.

    Raises:
        SettingWrong: The judge has no such option.
        JudgeMisconfigured: What is named is no folder and no repository.
    """
    settings = settings_of(options, environment)
    if not is_repository(settings.model):
        folder = locate(settings.model, settings.revision, environment).folder
        at_hand = named(SUBJECT, MODEL_VARIABLE, {MODEL_VARIABLE: str(folder)})
        return [at_hand] if at_hand else []
    return [_on_hub(settings, environment)]


def _on_hub(settings: Settings, environment: Mapping[str, str]) -> Item:
    repo, revision = settings.model, settings.revision or "main"
    name = f"{repo.replace('/', '--')}@{revision}"
    commit = noted(cache_dir(environment) / "mmie_score", name)
    there = _whole(repo, commit or revision)
    source, trouble = there.name if there else f"{repo}@{commit or revision}", None
    told = Told(source=source, size_bytes=0)
    if there is None:
        told, trouble = asked(source, lambda: _told(repo, commit or revision))
    return Item(
        subject=SUBJECT,
        told=told,
        # Without the note the branch would be looked up again.
        here=there is not None and (bool(commit) or there.folder.name == revision),
        room=hub_cache(),
        fetch=lambda: locate(repo, settings.revision, environment).name,
        folders={CACHE: cache_dir(environment).absolute(), **hub_folders()},
        trouble=trouble,
    )


def _whole(repo: str, revision: str) -> Located | None:
    """The checkpoint in the Hub's cache, if a judge can be loaded from it."""
    there = in_cache(repo, revision)
    try:
        if there is not None:
            open_checkpoint(there)
    except JudgeMisconfigured:
        return None
    return there


def _told(repo: str, revision: str) -> Told:
    try:
        found = lacking(repo, revision)
    except download_errors() as error:
        raise not_had(repo, revision, error) from error
    sizes = list(found.size_bytes.values())
    known = sum(size or 0 for size in sizes)
    return Told(
        source=f"{repo}@{found.commit}",
        size_bytes=None if None in sizes else known,
        stays={_cache_of(repo): known},
    )


def _cache_of(repo: str) -> Path:
    return hub_cache() / f"models--{repo.replace('/', '--')}"
