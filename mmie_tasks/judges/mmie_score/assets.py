"""The assets of MMIE-Score: its Python packages and its checkpoint. Weights are never read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import (
    CACHE_VARIABLE,
    Asset,
    Check,
    DownloadPlan,
    hub_cache,
    hub_cache_copies,
    installed_asset,
    local_asset,
)
from mmie_tasks.hub.download import download_errors
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import (
    Checkpoint,
    CheckpointLocation,
    locate,
    open_checkpoint,
)
from mmie_tasks.judges.mmie_score.checkpoint.files import CONFIG, TOKENIZER, find_shards, require
from mmie_tasks.judges.mmie_score.checkpoint.source import (
    cached_snapshot,
    checkpoint_note,
    hub_failure,
    is_repository,
    missing_files,
)
from mmie_tasks.judges.mmie_score.judge import MODEL_VARIABLE, MmieScoreJudge

PACKAGES = ("sentencepiece", "safetensors", "pillow", "psutil")
MIN_TRANSFORMERS = 5
LONG_TOKENS = 16_384 + 1_024  # four photos, and the longest reply

_PACKAGES, _CHECKPOINT = "mmie_score: packages", "mmie_score: checkpoint"


def assets(judge: MmieScoreJudge, environment: Mapping[str, str]) -> Sequence[Asset]:
    """The judge's Python packages, and the checkpoint that its options name.

    Args:
        judge: The judge, which is not loaded.
        environment: Read: what `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        JudgeMisconfigured: The model is neither a folder nor a repository.
    """
    packages = installed_asset(_PACKAGES, ", ".join(PACKAGES), _describe_packages)
    if is_repository(judge.model):
        return [packages, _hub_checkpoint(judge, environment)]
    location = locate(judge.model, judge.revision, environment)
    checks = (
        Check(subject=_CHECKPOINT, describe=lambda: f"the folder `{location.folder}`"),
        *_checkpoint_checks(lambda: location, judge),
    )
    local = local_asset(_CHECKPOINT, MODEL_VARIABLE, {MODEL_VARIABLE: str(location.folder)}, checks)
    return [packages, local] if local else [packages]


def _describe_packages() -> str:
    versions = {name: _version(name) for name in PACKAGES}
    if missing := [name for name, text in versions.items() if not text]:
        hint = f"`pip install {' '.join(missing)}`"
        raise JudgeMisconfigured(f"{', '.join(missing)} not installed.", hint=hint)
    transformers = _version("transformers")
    if int(transformers.partition(".")[0] or 0) < MIN_TRANSFORMERS:
        raise JudgeMisconfigured(
            f"transformers {transformers or 'is not installed'}, and 5.x is needed.",
            hint="`pip install -U transformers`",
        )
    return ", ".join(f"{name} {text}" for name, text in versions.items())


def _version(package: str) -> str:
    """The installed version; empty if the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# The checkpoint on the Hub


def _hub_checkpoint(judge: MmieScoreJudge, environment: Mapping[str, str]) -> Asset:
    repo, requested = judge.model, judge.revision or "main"
    revision = checkpoint_note(repo, requested, environment).read() or requested
    cached = _complete_in_cache(repo, revision)
    checks = _checkpoint_checks(
        lambda: cached_snapshot(repo, revision) or locate(repo, judge.revision, environment), judge
    )
    comparison = Check(subject=_CHECKPOINT, describe=lambda: _compare_with_hub(repo, revision))
    return Asset(
        name=_CHECKPOINT,
        source=cached.name if cached else f"{repo}@{revision}",
        folder=hub_cache(),
        is_here=lambda: _complete_in_cache(repo, revision) is not None,
        plan=lambda: _plan(repo, revision),
        fetch=lambda: locate(repo, judge.revision, environment).name,
        copies={CACHE_VARIABLE: cache_dir(environment).absolute(), **hub_cache_copies()},
        checks=(comparison, *checks),
    )


def _complete_in_cache(repo: str, revision: str) -> CheckpointLocation | None:
    """The checkpoint in the Hub's cache, if no file of it is missing."""
    location = cached_snapshot(repo, revision)
    if location is None:
        return None
    try:
        require(location.folder, (CONFIG, TOKENIZER))
        find_shards(location.folder)
    except JudgeMisconfigured:
        return None
    return location


def _compare_with_hub(repo: str, revision: str) -> str:
    """Where the checkpoint is; logs a warning if it could not be compared with the Hub."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    location = cached_snapshot(repo, revision)
    name = location.name if location else f"{repo}@{revision}"
    message = f"{name} is in the Hub's cache"
    try:
        missing_files(repo, revision)
    except OfflineModeIsEnabled:
        return f"{message}; `HF_HUB_OFFLINE` is set, so the Hub is not contacted"
    except download_errors() as error:
        reason = str(hub_failure(repo, revision, error, is_downloading=False)).partition("\n")[0]
        logger.warning(f"{message}, and the Hub cannot be reached. {reason}")
        return ""
    return message


def _plan(repo: str, revision: str) -> DownloadPlan:
    try:
        commit, sizes = missing_files(repo, revision)
    except download_errors() as error:
        raise hub_failure(repo, revision, error, is_downloading=False) from error
    folder = hub_cache() / f"models--{repo.replace('/', '--')}"
    return DownloadPlan(
        source=f"{repo}@{commit}",
        file_bytes=tuple(sizes.values()) or (0,),
        disk_bytes={folder: sum(size or 0 for size in sizes.values())},
    )


# Checks of a checkpoint that is here


def _checkpoint_checks(
    location: Callable[[], CheckpointLocation], judge: MmieScoreJudge
) -> tuple[Check, ...]:
    @cache
    def checkpoint() -> Checkpoint:
        return open_checkpoint(location())

    return (
        Check(subject="mmie_score: files", describe=lambda: _describe_files(checkpoint())),
        Check(subject="mmie_score: memory", describe=lambda: _describe_memory(checkpoint(), judge)),
    )


def _describe_files(checkpoint: Checkpoint) -> str:
    """The content of the files; not the system message itself, which is not ours to show."""
    facts, config, tokenizer = checkpoint.facts, checkpoint.config, checkpoint.tokenizer
    stripping = sum(token.rstrip for token in tokenizer.listed.values())
    description = (
        f"InternVL2 with Phi-3, {readable_size(facts.weight_bytes)} of {facts.dtype}, "
        f"{facts.layers} layers, vocabulary {facts.vocab_size:,}, tiles of {facts.image_px} px; "
        f"rope {config.llm_config.rope_scaling.type}, long above {facts.long_after:,} of "
        f"{facts.max_positions:,} tokens; tokenizer legacy={str(tokenizer.legacy).lower()}, "
        f"{len(tokenizer.added)} added tokens, {stripping} with rstrip; system message of "
        f"{len(facts.system_message)} characters in `{checkpoint.message_file}`; "
        f"digest {checkpoint.digest}"
    )
    return "; ".join([description, *checkpoint.notes])


def _describe_memory(checkpoint: Checkpoint, judge: MmieScoreJudge) -> str:
    """How many long requests fit into memory at once.

    Raises:
        JudgeMisconfigured: None fits, or there is no such device.
    """
    from mmie_tasks.judges.mmie_score.devices import free_bytes
    from mmie_tasks.judges.mmie_score.memory import plan

    placement = judge.placement(checkpoint.facts)
    free = free_bytes(placement.device)
    free = min(free, judge.max_memory_bytes or free)
    longest = min(LONG_TOKENS, checkpoint.facts.max_positions)
    budget = plan(checkpoint.facts, placement, judge.max_rows, longest, free)
    return (
        f"{readable_size(free)} free on {placement.device}: "
        f"{min(budget.rows, budget.longest_rows)} requests of {longest:,} tokens fit at once, "
        f"in {placement.dtype_name}, attention {placement.attention.name}"
    )
