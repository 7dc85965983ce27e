"""What ``mmie-tasks doctor`` looks at for MMIE-Score: packages, checkpoint, memory.

No weights are downloaded or read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import CACHE, Item, Told, asked, hub_cache, hub_folders, named
from mmie_tasks.hub.download import download_errors, without_urls
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, Located, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.source import in_cache, is_repository, lacking, not_had
from mmie_tasks.judges.mmie_score.judge import MODEL_VARIABLE, MmieScoreJudge, judge_from_options
from mmie_tasks.preflight.findings import (
    Finding,
    download,
    gib,
    looked,
    noted,
    ok,
    problem,
    problem_of,
    warning,
)
from mmie_tasks.preflight.machine import IN_PROCESS_TRANSFORMERS, installed, metrics_of

PACKAGES = ("sentencepiece", "safetensors", "pillow", "psutil")
LONG_TOKENS = 16_384 + 1_024  # four photos, and the longest reply

_PLACE = "mmie_score: checkpoint"
_FILES = "mmie_score: files"
_MEMORY = "mmie_score: memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the checkpoint is, if it is on this machine, and what is to be said of that."""

    finding: Finding
    located: Located | None = None


def look(environment: Mapping[str, str], options: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the judge could be loaded as its options say.

    Args:
        environment: Read: ``MMIE_SCORE_MODEL``, ``LOCAL_RANK``, and what our cache depends on.
        options: Of the judge, as they were typed.
    """
    yield from _packages()
    try:
        settings = judge_from_options(options, environment)
        place = _place(settings, environment)
    except MmieTasksError as error:
        yield problem_of(_PLACE, error)
        return
    yield place.finding
    if place.located is None:
        return
    try:
        checkpoint = open_checkpoint(place.located)
    except MmieTasksError as error:
        yield problem_of(_FILES, error)
        return
    yield ok(_FILES, _described(checkpoint))
    yield from (ok(_FILES, note) for note in checkpoint.notes)
    yield from looked(_MEMORY, lambda: _fits(checkpoint, settings, environment))


def _packages() -> Iterator[Finding]:
    found = {name: installed(name) for name in PACKAGES}
    if missing := [name for name, version in found.items() if not version]:
        command = f"`pip install {' '.join(missing)}`"
        yield problem("mmie_score: packages", f"{', '.join(missing)} not installed", command)
    else:
        yield ok("mmie_score: packages", ", ".join(f"{n} {v}" for n, v in found.items()))
    there = installed("transformers")
    if metrics_of(there) < (IN_PROCESS_TRANSFORMERS,):
        found_there = f"transformers {there or 'is not installed'}, and 5.x is needed"
        yield problem("mmie_score: packages", found_there, "`pip install -U transformers`")


def _place(settings: MmieScoreJudge, environment: Mapping[str, str]) -> _Place:
    """Where the checkpoint is: on this machine, or, as a promise, on the Hub.

    Raises:
        JudgeMisconfigured: It is nowhere, or cannot be had.
    """
    if not is_repository(settings.model):
        located = locate(settings.model, settings.revision, environment)  # says what is wrong
        return _Place(finding=ok(_PLACE, f"the folder `{located.folder}`"), located=located)
    from huggingface_hub.errors import OfflineModeIsEnabled

    repo, asked = settings.model, settings.revision or "main"
    name = f"{repo.replace('/', '--')}@{asked}"
    revision = noted(cache_dir(environment) / "mmie_score", name) or asked
    there: Located | None = None
    try:
        sizes = lacking(repo, revision).size_bytes
    except download_errors() as error:
        there = in_cache(repo, revision)
        why = _not_had(repo, revision, error)
        if there is None:
            raise why from error
        found = f"{there.name} is in the Hub's cache"
        if isinstance(error, OfflineModeIsEnabled):  # that is how it is meant to be
            return _Place(finding=ok(_PLACE, f"{found}, and nothing is asked"), located=there)
        found = f"{found}; {problem_of(_PLACE, why).found}"
        return _Place(finding=warning(_PLACE, found), located=there)
    there = None if sizes else in_cache(repo, revision)
    if there is None:
        what = f"{repo} at `{revision}`"
        return _Place(finding=download(_PLACE, what, list(sizes.values()), hub_cache()))
    return _Place(finding=ok(_PLACE, f"{there.name} is in the Hub's cache"), located=there)


def _not_had(repo: str, revision: str, error: BaseException) -> JudgeMisconfigured:
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError | OfflineModeIsEnabled):
        return not_had(repo, revision, error)
    return JudgeMisconfigured(
        f"`{repo}` at `{revision}` cannot be compared with the Hub, which cannot be reached "
        f"({type(error).__name__}: {without_urls(error)}).",
        hint="connect, or copy the cache (`HF_HOME`) from a machine that has it, or set `model=` "
        "to a folder with the checkpoint",
    )


def _described(checkpoint: Checkpoint) -> str:
    """What is in the files. The system message itself is never shown: it is not ours."""
    facts, config = checkpoint.facts, checkpoint.config
    flags = checkpoint.tokenizer.files
    message = checkpoint.message_file
    stripping = sum(token.rstrip for token in flags.listed.values())
    return (
        f"InternVL2 with Phi-3, {gib(facts.weight_bytes)} of {facts.dtype}, {facts.layers} layers, "
        f"vocabulary {facts.vocab_size:,}, tiles of {facts.image_px} px; rope "
        f"{config.llm_config.rope_scaling.type}, long above {facts.long_after:,} of "
        f"{facts.max_positions:,} tokens; tokenizer legacy={str(flags.legacy).lower()}, "
        f"{len(checkpoint.tokenizer.added)} added tokens, {stripping} with rstrip; system message "
        f"of {len(facts.system_message)} characters in `{message}`; digest {checkpoint.digest}"
    )


def _fits(checkpoint: Checkpoint, settings: MmieScoreJudge, environment: Mapping[str, str]) -> str:
    """How many long requests fit at once.

    Raises:
        JudgeMisconfigured: None, or there is no such device.
    """
    from mmie_tasks.judges.mmie_score.devices import (
        choose_attention,
        choose_device,
        choose_dtype,
        free_bytes,
    )
    from mmie_tasks.judges.mmie_score.memory import plan

    facts = checkpoint.facts
    device = choose_device(settings.device, environment)
    dtype = choose_dtype(settings.dtype, device)
    attention = choose_attention(
        settings.attention,
        device=device,
        dtype=dtype,
        heads=facts.heads,
        kv_heads=facts.kv_heads,
        head_dim=facts.head_dim,
    )
    free = free_bytes(device)
    free = min(free, settings.max_memory_bytes or free)
    longest = min(LONG_TOKENS, facts.max_positions)
    budget = plan(
        facts,
        free_bytes=free,
        dtype_bytes=dtype.itemsize,
        page_tokens=attention.page_tokens,
        longest_tokens=longest,
        max_rows=settings.max_rows,
        device=device,
    )
    return (
        f"{gib(free)} free on {device}: {min(budget.rows, budget.longest_rows)} requests of "
        f"{longest:,} tokens fit at once, in {str(dtype).removeprefix('torch.')}, attention "
        f"{attention.name}"
    )


# What ``mmie-tasks prefetch`` brings for MMIE-Score: its checkpoint.

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
    settings = judge_from_options(options, environment)
    if not is_repository(settings.model):
        folder = locate(settings.model, settings.revision, environment).folder
        at_hand = named(SUBJECT, MODEL_VARIABLE, {MODEL_VARIABLE: str(folder)})
        return [at_hand] if at_hand else []
    return [_on_hub(settings, environment)]


def _on_hub(settings: MmieScoreJudge, environment: Mapping[str, str]) -> Item:
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
