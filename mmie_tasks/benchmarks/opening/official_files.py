"""The official files: questions and fixed texts, in a local clone or as pinned downloads.

Nothing of them is in our files: they are identified by their SHA-256, read as data and never run.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from mmie_tasks.benchmarks.json_file import read_data_file
from mmie_tasks.benchmarks.opening.prompts import (
    JudgeTexts,
    ModelTexts,
    OfficialFileChanged,
    Schema,
    read_generator,
    read_scorer,
)
from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.asset import Asset, DownloadPlan, data_asset
from mmie_tasks.hub.pinned_file import Pin, RetryPolicy, cached_bytes, pinned_bytes

DATA = "OPENING_DATA"
OTHER_PROMPTS = "OPENING_OTHER_PROMPTS"

REPO = "LanceZPF/OpenING"
COMMIT = "56b663bc84ef64960c0253325c4a89cd10ddf7f1"
REVISION = f"{REPO}@{COMMIT[:7]}"

_QUESTIONS = "OpenING-benchmark/test_data.jsonl"
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
        (_QUESTIONS, 3_461_275, "129d4d76d68477e6b0eb8b30ba48257c6046957aefe5247f4b942363c4919d32"),
        (_SCORER, 24_177, "5fd5e58defa8b3d1226dd25a4d980baca781943045e142e5e256c9ba893a47c5"),
        (_JUDGE_SYSTEM, 3_818, "5aa8a5ccfab72ce731a8c53c942845569b1cdaa2777b6f6f126bf38cff4d3c13"),
        (_GENERATOR, 13_208, "334e58986fe40183faed9a4bd174785b7515cad950404cec06d4b648b3871f36"),
        (_MODEL_SYSTEM, 360, "76df0fe07593be6d0fde0f66ababb5b303b41c7e92842a23b981d0d4e108484f"),
    )
}
"""Path in the repository to the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTexts:
    """The texts around questions and answers.

    Attributes:
        judge: Of a request to the judge.
        model: Of a question to the tested model.
        name: For the signature: ``official@56b663b``, or ``other:`` and 12 hex digits of a hash.
    """

    judge: JudgeTexts
    model: ModelTexts
    name: str


def fixed_texts() -> FixedTexts:
    """The texts that the environment selects, read once per process; see `read_texts`."""
    variables = (OTHER_PROMPTS, DATA, "MMIE_TASKS_CACHE")
    return _fixed_texts(str(cache_dir(os.environ)), tuple(map(os.environ.get, variables)))


@functools.lru_cache(maxsize=4)
def _fixed_texts(_cache: str, _variables: tuple[str | None, ...]) -> FixedTexts:
    return read_texts(os.environ)


def read_texts(environment: Mapping[str, str], retry: RetryPolicy | None = None) -> FixedTexts:
    """The fixed texts.

    Args:
        environment: ``OPENING_OTHER_PROMPTS`` names a JSON file with other ones: scores made with
            them are not OpenING's. Otherwise the official ones; see `official_bytes`.
        retry: How often and how long a download is tried.

    Raises:
        SettingWrong: The other texts are unusable.
        DataMissing: An official file is not available. Nothing is ever taken in its place.
        DataBroken: An official file has another form.
    """
    if other := environment.get(OTHER_PROMPTS):
        return _other_texts(Path(other).expanduser())
    files = {path: official_bytes(path, environment, retry).decode() for path in PROMPT_FILES}
    try:
        return FixedTexts(
            judge=read_scorer(files[_SCORER], files[_JUDGE_SYSTEM]),
            model=read_generator(files[_GENERATOR], files[_MODEL_SYSTEM]),
            name=f"official@{COMMIT[:7]}",
        )
    except OfficialFileChanged as error:
        raise DataBroken(
            f"OpenING's files are not those of {COMMIT[:7]}: {error}.",
            hint=f"take them from https://github.com/{REPO}",
        ) from error


def official_bytes(
    path: str, environment: Mapping[str, str], retry: RetryPolicy | None = None
) -> bytes:
    """The bytes of an official file: of the clone that ``OPENING_DATA`` names, the cached file, or
    a download, which is then cached below `mmie_tasks.core.files.cache_dir`.

    Args:
        path: In the repository; one of `PINS`.
        environment: With ``HF_HUB_OFFLINE`` nothing is downloaded.
        retry: How often and how long a download is tried.

    Raises:
        DataMissing: It could not be downloaded.
    """
    if (content := _local_bytes(path, environment)) is not None:
        return content
    return pinned_bytes(PINS[path], _cache_path(path, environment), environment, retry)


def questions_file(environment: Mapping[str, str]) -> bytes:
    """The official data file; see `official_bytes`."""
    return official_bytes(_QUESTIONS, environment)


def are_here(paths: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether official files need no download."""
    return all(
        _local_bytes(path, environment) is not None
        or cached_bytes(PINS[path], _cache_path(path, environment)) is not None
        for path in paths
    )


def _local_bytes(path: str, environment: Mapping[str, str]) -> bytes | None:
    """The official file in the user's folder; None if there is none, or it is another file."""
    folder = environment.get(DATA)
    if not folder or not (file := Path(folder).expanduser() / path).is_file():
        return None
    content = PINS[path].read(file)
    return content if PINS[path].holds(content) else None


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where downloads are cached; pictures that are unpacked there as ``images/`` are found."""
    return cache_dir(environment) / "opening" / COMMIT[:7]


def _cache_path(path: str, environment: Mapping[str, str]) -> Path:
    return cache_folder(environment) / path.rpartition("/")[2]


# Other texts


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _OtherFunction(_Strict):
    name: str
    description: str
    parameters: dict[str, JsonValue]


class _OtherJudge(_Strict):
    system: str
    ending: str
    function: _OtherFunction


class _OtherModel(_Strict):
    system: str
    steps: str


class _OtherTexts(_Strict):
    judge: _OtherJudge
    model: _OtherModel


def _other_texts(path: Path) -> FixedTexts:
    hint = (
        "name a JSON file with `judge` (`system`, `ending`, `function`) and `model` (`system`, "
        f"`steps`), or unset `{OTHER_PROMPTS}` to judge with OpenING's own prompts"
    )
    content = read_data_file(path, hint)
    try:
        texts = _OtherTexts.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise SettingWrong(
            f"`{OTHER_PROMPTS}` is `{path}`: {location}: {first['msg']}.", hint=hint
        ) from error
    digest = hashlib.sha256(content).hexdigest()[:12]
    logger.warning(
        f"OpenING is judged with the prompts in `{path}`, not with its own: no score of this run "
        f"is comparable with published ones. The signature says `other:{digest}`."
    )
    function = texts.judge.function
    return FixedTexts(
        judge=JudgeTexts(
            system=texts.judge.system,
            ending=texts.judge.ending,
            schema=Schema(
                name=function.name,
                description=function.description,
                parameters=json.dumps(function.parameters),
            ),
        ),
        model=ModelTexts(system=texts.model.system, steps=texts.model.steps),
        name=f"other:{digest}",
    )


# Assets


def data_files(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """The questions; `describe` checks them and their pictures (see `Check`)."""
    return _asset("opening: data", [DATA], (_QUESTIONS,), environment, describe)


def prompt_files(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """The fixed texts; `describe` checks them (see `Check`)."""
    return _asset("opening: prompts", [OTHER_PROMPTS], PROMPT_FILES, environment, describe)


def _asset(
    name: str,
    variables: Sequence[str],
    paths: Sequence[str],
    environment: Mapping[str, str],
    describe: Callable[[], str],
) -> Asset:
    source = f"{REPO}@{COMMIT}: {', '.join(paths)}"

    def fetch() -> str:
        for path in paths:
            official_bytes(path, environment)
        return f"{len(paths)} of {REVISION} are here" if len(paths) > 1 else f"{REVISION} is here"

    return data_asset(
        name=name,
        variables=variables,
        source=source,
        is_here=lambda: are_here(paths, environment),
        plan=lambda: DownloadPlan(
            source=source,
            file_bytes=tuple(
                0 if are_here([path], environment) else PINS[path].size_bytes for path in paths
            ),
        ),
        fetch=fetch,
        environment=environment,
        describe=describe,
    )
