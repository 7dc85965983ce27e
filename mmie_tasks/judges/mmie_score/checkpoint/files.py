"""The files of a checkpoint: which there are, and what the JSON among them says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mmie_tasks.judges.mmie_score.checkpoint.complaints import WHOLE, unusable

CONFIG = "config.json"
CONVERSATION = "conversation.py"
TOKENIZER = "tokenizer.model"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

MAX_JSON_BYTES = 32 * 1024 * 1024  # the largest of them, the index, has some 100 KB

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """The files that hold the weights.

    Attributes:
        paths: In the order of their names.
        index: File name by tensor; None where one file holds all.
        ignored: Names of other safetensors files of the folder, which are not read.
    """

    paths: tuple[Path, ...]
    index: Mapping[str, str] | None
    ignored: tuple[str, ...]


def require(folder: Path, names: Iterable[str]) -> None:
    """Return if all these files are there.

    Raises:
        JudgeMisconfigured: Some are not; names each.
    """
    missing = [f"`{name}`" for name in names if not (folder / name).is_file()]
    if missing:
        raise unusable(f"The checkpoint in `{folder}` has no {', no '.join(missing)}.")


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file.

    Raises:
        JudgeMisconfigured: It cannot be read, is no JSON, or no object; names the file.
    """
    data = read_bytes(path, MAX_JSON_BYTES)
    try:
        content = json.loads(data, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise unusable(f"`{path}` is no JSON: {error}.") from error
    if not isinstance(content, dict):
        raise unusable(f"`{path}` holds no JSON object, but a {type(content).__name__}.")
    return content


def read_bytes(path: Path, limit: int) -> bytes:
    """A small file as it is.

    Raises:
        JudgeMisconfigured: It is no file, cannot be read, or has more than `limit` bytes.
    """
    if not path.is_file():  # a pipe of that name would be read for ever
        raise unusable(f"`{path}` is not there, or no file.")
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise unusable(f"`{path}` cannot be read: {error.strerror}.") from error
    if len(data) > limit:
        raise unusable(f"`{path}` has more than {limit:,} bytes, far too many for what it holds.")
    return data


def find_shards(folder: Path) -> Shards:
    """The safetensors files to read.

    As transformers 4.37 chooses: a single ``model.safetensors`` comes before an index. What the
    index does not name is not read. A shard may be a link, as in the Hub's cache; its name in the
    index is that of a file in the folder and nothing else.

    Raises:
        JudgeMisconfigured: There are none, only pickled ones, the index is unusable, or a shard
            that it names is missing.
    """
    there = sorted(path.name for path in folder.glob("*.safetensors"))
    if SINGLE in there:
        index, names = None, [SINGLE]
    elif (folder / INDEX).is_file():
        index = _read_index(folder / INDEX)
        names = sorted(set(index.values()))
    else:
        raise _no_weights(folder, there)
    missing = [f"`{name}`" for name in names if not (folder / name).is_file()]
    if missing:
        raise unusable(
            f"The checkpoint in `{folder}` misses {len(missing)} of its {len(names)} files of "
            f"weights: {', '.join(missing[:8])}."
        )
    ignored = tuple(name for name in there if name not in names)
    return Shards(paths=tuple(folder / name for name in names), index=index, ignored=ignored)


def _read_index(path: Path) -> dict[str, str]:
    named = read_object(path).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise unusable(f"`{path}` has no `weight_map` that names the file of each tensor.")
    for tensor, name in named.items():
        if not _is_plain(name):
            raise unusable(
                f"`{path}` puts the tensor `{tensor}` into {name!r}, which is no name of a "
                "safetensors file in the same folder."
            )
    return named


def _is_plain(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.endswith(".safetensors")
        and not any(mark in name for mark in ("/", "\\", "\0"))
        and name.isprintable()
        and len(name) < 200
    )


def _no_weights(folder: Path, there: list[str]) -> Exception:
    if there:
        return unusable(
            f"The checkpoint in `{folder}` has {len(there)} safetensors files and no `{INDEX}`."
        )
    pickled = sorted(path.name for kind in _PICKLES for path in folder.glob(kind))
    if pickled:
        return unusable(
            f"The checkpoint in `{folder}` has its weights in `{pickled[0]}` only: a pickle, which "
            "can run code when it is opened. No pickle is opened here.",
            f"{WHOLE}; a repository that has none must be converted to safetensors elsewhere",
        )
    return unusable(f"The checkpoint in `{folder}` has no weights: no `{INDEX}`, no `{SINGLE}`.")


def _not_a_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
