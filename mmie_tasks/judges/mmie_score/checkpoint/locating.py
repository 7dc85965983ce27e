"""Where the checkpoint is: a local folder, or the Hub's cache, downloaded first if need be.

Below `mmie_tasks.paths.cache_dir` there is then::

    mmie_score/commits/<owner>--<name>@<what was asked>.txt       the commit, in words

So the branch is looked up once, and every later run judges with the same weights; to follow a
branch that has moved, delete the text file. Files themselves lie in the Hub's own cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.hub_errors import not_had, not_written
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources.archives import whole
from mmie_tasks.sources.hub_file import download_errors
from mmie_tasks.sources.locks import turn

DEFAULT_MODEL = "MMIE/MMIE-Score"
LOCAL = "local folder"

# `conversation.py` is read as text; no other program, and no pickle, is wanted.
WANTED = (
    *("*.safetensors", "model.safetensors.index.json", "config.json", "generation_config.json"),
    *("conversation.py", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"),
    "added_tokens.json",
)
BELOW = "*/*"  # states of a training, other formats

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a checkpoint is.

    Attributes:
        folder: With its files.
        name: For people: ``MMIE/MMIE-Score@<commit>``, or ``local folder``.
    """

    folder: Path
    name: str


def locate(model: str, revision: str | None, environment: Mapping[str, str]) -> Located:
    """Find the checkpoint, and download it where it is on the Hub and not on this machine.

    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are obeyed by
    `huggingface_hub` itself.

    Args:
        model: A folder, or a repository on the Hub. What begins with ``/``, ``.`` or ``~`` is a
            folder, and so is what exists as one.
        revision: Branch, tag or commit of the repository; None for ``main``.
        environment: What `mmie_tasks.paths.cache_dir` reads.

    Raises:
        JudgeMisconfigured: No such folder or repository, no access, no connection, or no room.
    """
    folder = Path(model).expanduser() if model.startswith("~") else Path(model)
    if model and (model[0] in "/.~" or folder.is_dir()):
        return _local(model, folder, revision)
    if not _REPOSITORY.fullmatch(model):
        raise JudgeMisconfigured(
            f"`model={model}` is no folder, and no repository on the Hub either.",
            hint=f"name a folder, or a repository as `owner/name`; the judge's is {DEFAULT_MODEL}",
        )
    return _on_hub(model, revision or "main", environment)


def _local(model: str, folder: Path, revision: str | None) -> Located:
    if not folder.is_dir():
        found = "a file" if folder.exists() else "not there"
        raise JudgeMisconfigured(
            f"`model={model}` names a folder, and `{folder.absolute()}` is {found}.",
            hint="point it at the folder with `config.json` and the `*.safetensors` files",
        )
    if revision is not None:
        raise JudgeMisconfigured(
            f"`revision={revision}` was asked of the folder `{folder}`, which has none.",
            hint="leave `revision=` out, or name the repository on the Hub as `model=`",
        )
    return Located(folder=folder.absolute(), name=LOCAL)


def _on_hub(repo: str, asked: str, environment: Mapping[str, str]) -> Located:
    if ".." in asked or not _REVISION.fullmatch(asked):
        raise JudgeMisconfigured(
            f"`revision={asked}` is no branch, tag or commit.",
            hint=f"name one that is listed on https://huggingface.co/{repo}/commits",
        )
    if _COMMIT.fullmatch(asked):
        return _downloaded(repo, asked)
    name = f"{repo.replace('/', '--')}@{asked.replace('/', '%2F')}"
    note = cache_dir(environment).absolute() / "mmie_score/commits" / f"{name}.txt"
    commit = _noted(note)
    if commit:
        logger.info(f"`{repo}`: commit {commit}, as noted for `{asked}` in `{note}`.")
        return _downloaded(repo, commit)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        with turn(note.with_suffix(".lock"), f"downloading `{repo}`"):
            found = _downloaded(repo, _noted(note) or asked)
            with whole(note) as unfinished:
                unfinished.write_text(f"{found.folder.name}\n", encoding="ascii")
    except OSError as error:
        raise not_written(note.parent, error) from error
    logger.info(f"`{repo}`: `{asked}` is commit {found.folder.name}, from now on; see `{note}`.")
    return found


def _noted(note: Path) -> str:
    """The commit in a note; empty where there is none, or no commit in it."""
    if not note.is_file():
        return ""
    commit = note.read_text(encoding="ascii", errors="replace").strip()
    return commit if _COMMIT.fullmatch(commit) else ""


def _downloaded(repo: str, revision: str) -> Located:
    """The Hub's snapshot of that revision, complete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import EntryNotFoundError

    failures: tuple[type[BaseException], ...] = (
        *download_errors(),
        EntryNotFoundError,
        ValueError,
    )
    try:
        snapshot = snapshot_download(
            repo, revision=revision, allow_patterns=list(WANTED), ignore_patterns=[BELOW]
        )
    except failures as error:
        raise not_had(repo, revision, error) from error
    folder = Path(snapshot)
    return Located(folder=folder, name=f"{repo}@{folder.name}")
