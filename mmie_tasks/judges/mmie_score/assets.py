"""The assets of MMIE-Score: its Python packages and its checkpoint. Weights are never read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import CACHE_VARIABLE, Asset, Check, hub_cache, hub_cache_copies, installed_asset, local_asset
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.source import cached_snapshot, download_plan, is_repository, revision_note
from mmie_tasks.judges.mmie_score.devices import LONG_TOKENS, device_bytes, free_bytes, plan
from mmie_tasks.judges.mmie_score.judge import MODEL_VARIABLE, MmieScoreJudge, check_transformers

PACKAGES = ("transformers", "sentencepiece", "safetensors", "pillow", "psutil")

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
    try:
        check_transformers(version("transformers"))
        return ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    except PackageNotFoundError as error:
        raise JudgeMisconfigured(f"{error.name} is not installed.", hint=f"`pip install {error.name}`") from error


def _hub_checkpoint(judge: MmieScoreJudge, environment: Mapping[str, str]) -> Asset:
    repo, requested = judge.model, judge.revision or "main"
    revision = revision_note(repo, requested, environment).read() or requested
    cached = cached_snapshot(repo, revision)
    checks = _checkpoint_checks(
        lambda: cached_snapshot(repo, revision) or locate(repo, judge.revision, environment), judge
    )
    return Asset(
        name=_CHECKPOINT,
        source=cached.name if cached else f"{repo}@{revision}",
        folder=hub_cache(),
        is_here=lambda: cached_snapshot(repo, revision) is not None,
        plan=lambda: download_plan(repo, revision),
        fetch=lambda: locate(repo, judge.revision, environment).name,
        copies={CACHE_VARIABLE: cache_dir(environment).absolute(), **hub_cache_copies()},
        checks=(Check(subject=_CHECKPOINT, describe=lambda: _compare_with_hub(repo, revision)), *checks),
    )


def _compare_with_hub(repo: str, revision: str) -> str:
    """Where the checkpoint is; logs a warning if it could not be compared with the Hub."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    location = cached_snapshot(repo, revision)
    name = location.name if location else f"{repo}@{revision}"
    message = f"{name} is in the Hub's cache"
    try:
        download_plan(repo, revision)
    except JudgeMisconfigured as error:
        if isinstance(error.__cause__, OfflineModeIsEnabled):
            return f"{message}; `HF_HUB_OFFLINE` is set, so the Hub is not contacted"
        reason = str(error).partition("\n")[0]
        logger.warning(f"{message}, and the Hub cannot be reached. {reason}")
        return ""
    return message


def _checkpoint_checks(location: Callable[[], CheckpointLocation], judge: MmieScoreJudge) -> tuple[Check, ...]:
    @cache
    def checkpoint() -> Checkpoint:
        return open_checkpoint(location())

    return (
        Check(subject="mmie_score: files", describe=lambda: _describe_files(checkpoint())),
        Check(subject="mmie_score: memory", describe=lambda: _describe_memory(checkpoint(), judge)),
    )


def _describe_files(checkpoint: Checkpoint) -> str:
    """The content of the files; not the system message itself, which is not ours to show."""
    tokenizer, text = checkpoint.tokenizer, checkpoint.config.llm_config
    stripping = sum(token.rstrip for token in tokenizer.listed.values())
    description = (
        f"InternVL2 with Phi-3, {readable_size(checkpoint.weight_bytes)} of {checkpoint.dtype}, "
        f"{text.num_hidden_layers} layers, vocabulary {text.vocab_size:,}, "
        f"tiles of {checkpoint.config.vision_config.image_size} px; rope {text.rope_scaling.type}, long above "
        f"{text.original_max_position_embeddings:,} of {text.max_position_embeddings:,} tokens; "
        f"tokenizer legacy={str(tokenizer.legacy).lower()}, {len(tokenizer.added)} added tokens, {stripping} with "
        f"rstrip; system message of {len(checkpoint.system_message)} characters in `{checkpoint.message_file}`; "
        f"digest {checkpoint.digest}"
    )
    return "; ".join([description, *checkpoint.notes])


def _describe_memory(checkpoint: Checkpoint, judge: MmieScoreJudge) -> str:
    """How many long requests fit into memory at once, and which attention is used and why.

    Raises:
        JudgeMisconfigured: None fits, or there is no such device.
    """
    gpus = judge.ray_gpus()
    if gpus and not judge.has_device():
        return f"{gpus} engines, on the GPUs of Ray; this machine has none, so their memory is not checked"
    engines = f"; {gpus} engines, on the GPUs of Ray" if gpus else "; one engine, in the process of the run"
    placement = judge.placement(checkpoint)
    limit = judge.max_memory_bytes or device_bytes(placement.device)
    free = min(free_bytes(placement.device), limit)
    longest = min(LONG_TOKENS, checkpoint.config.llm_config.max_position_embeddings)
    budget = plan(checkpoint, placement, rows=judge.max_rows, tokens=longest, free_bytes=free, device_bytes=limit)
    return (
        f"{readable_size(free)} free on {placement.device}: {min(budget.rows, budget.longest_rows)} requests of "
        f"{longest:,} tokens fit at once, in {placement.dtype_name}; attention {placement.attention.name}: "
        f"{placement.attention_reason}{engines}"
    )
