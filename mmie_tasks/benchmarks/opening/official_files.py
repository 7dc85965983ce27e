"""The official files: questions and fixed texts, in a local clone or as pinned downloads.

None of them is in this repository: they are identified by their SHA-256, read as data, never run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.pinned_file import Pin, pinned_asset

DATA = "OPENING_DATA"

REPO = "LanceZPF/OpenING"
COMMIT = "56b663bc84ef64960c0253325c4a89cd10ddf7f1"
REVISION = f"{REPO}@{COMMIT[:7]}"

QUESTIONS = "OpenING-benchmark/test_data.jsonl"
_SCORER, _GENERATOR = "GPT_score_A.py", "gpt-dalle_generation.py"
_JUDGE_SYSTEM = "prompts/detailed_score_system.txt"
_MODEL_SYSTEM = "prompts/zero-shot_generation_system.txt"
PROMPT_FILES = (_SCORER, _JUDGE_SYSTEM, _GENERATOR, _MODEL_SYSTEM)


def _pin(path: str, size_bytes: int, sha256: str) -> Pin:
    return Pin(
        name=f"OpenING's {path.rpartition('/')[2]}",
        url=f"https://raw.githubusercontent.com/{REPO}/{COMMIT}/{path}",
        size_bytes=size_bytes,
        sha256=sha256,
        local=f"set `{DATA}` to a clone of {REPO} with",
    )


PINS: Mapping[str, Pin] = {
    path: _pin(path, size_bytes, sha256)
    for path, size_bytes, sha256 in (
        (QUESTIONS, 3_461_275, "129d4d76d68477e6b0eb8b30ba48257c6046957aefe5247f4b942363c4919d32"),
        (_SCORER, 24_177, "5fd5e58defa8b3d1226dd25a4d980baca781943045e142e5e256c9ba893a47c5"),
        (_JUDGE_SYSTEM, 3_818, "5aa8a5ccfab72ce731a8c53c942845569b1cdaa2777b6f6f126bf38cff4d3c13"),
        (_GENERATOR, 13_208, "334e58986fe40183faed9a4bd174785b7515cad950404cec06d4b648b3871f36"),
        (_MODEL_SYSTEM, 360, "76df0fe07593be6d0fde0f66ababb5b303b41c7e92842a23b981d0d4e108484f"),
    )
}
"""Path in the repository to the file."""


def official_bytes(path: str, environment: Mapping[str, str]) -> bytes:
    """The bytes of an official file (one of `PINS`): from the clone that ``OPENING_DATA`` names,
    the cache below `mmie_tasks.core.files.cache_dir`, or a download, which is then cached.

    Raises `DataMissing` if the download fails or ``HF_HUB_OFFLINE`` forbids it.
    """
    if (content := _of_clone(path, environment)) is not None:
        return content
    return PINS[path].fetch(_cache_path(path, environment), environment)


def _of_clone(path: str, environment: Mapping[str, str]) -> bytes | None:
    """The official file in the user's folder."""
    folder = environment.get(DATA)
    return PINS[path].read(Path(folder).expanduser() / path) if folder else None


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder of cached downloads; pictures that are unpacked there as ``images/`` are found."""
    return cache_dir(environment) / "opening" / COMMIT[:7]


def _cache_path(path: str, environment: Mapping[str, str]) -> Path:
    return cache_folder(environment) / path.rpartition("/")[2]


def files_asset(
    name: str,
    setting: str,
    path: str | Path | None,
    paths: Sequence[str],
    environment: Mapping[str, str],
    describe: Callable[[], str],
) -> Asset:
    """Official files, or what the user names instead; `describe` checks them."""
    if local := local_asset(name, setting, path, (Check(subject=name, describe=describe),)):
        return local
    files = {
        _cache_path(file, environment): PINS[file]
        for file in paths
        if _of_clone(file, environment) is None
    }
    source = f"{REPO}@{COMMIT}: {', '.join(paths)}"
    return pinned_asset(name, source, files, environment, describe)
