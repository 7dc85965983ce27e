"""The files of a checkpoint: JSON, safetensors headers, and a digest of their content.

All functions raise `JudgeMisconfigured`, which names the file, if it is missing, unreadable or
damaged. Weights are not read here. A safetensors file consists of 8 bytes (the length of the
header), the header (JSON: data type, shape and offsets of every tensor), and the data, without
gaps. Format: https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json
from safetensors import SafetensorError, safe_open

from mmie_tasks.judges.base import JudgeMisconfigured

CONFIG = "config.json"
CONVERSATION = "conversation.py"
TOKENIZER = "tokenizer.model"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_FILE_NAME = re.compile(r"[\w.-]+\.safetensors")

DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
"""Types of stored tensors that the judge supports, with their names in torch."""

DIGEST_BLOCKS = 64
DIGEST_BLOCK_BYTES = 64 * 1024

DOWNLOAD_HINT = (
    "download the whole repository again (every `*.safetensors` with the index, `config.json`, "
    "`conversation.py` and the tokenizer's files), or point `model=` to another folder"
)


def unusable(message: str, hint: str = DOWNLOAD_HINT) -> JudgeMisconfigured:
    """The error for a checkpoint that is incomplete, damaged, or of another model."""
    return JudgeMisconfigured(message, hint=hint)


def require(folder: Path, names: Iterable[str]) -> None:
    """Raise unless all these files exist."""
    missing = [f"`{name}`" for name in names if not (folder / name).is_file()]
    if missing:
        raise unusable(f"The checkpoint in `{folder}` has no {', no '.join(missing)}.")


def read_bytes(path: Path) -> bytes:
    """The content of a small file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unusable(f"`{path}` cannot be read: {error.strerror}.") from error


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file."""
    try:
        content = from_json(read_bytes(path), allow_inf_nan=False)
    except ValueError as error:
        raise unusable(f"`{path}` is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise unusable(f"`{path}` holds no JSON object, but a {type(content).__name__}.")
    return content


def find_shards(folder: Path) -> list[Path]:
    """The safetensors files to read, by name.

    As in transformers 4.37, a single ``model.safetensors`` takes precedence over an index, and
    files that the index does not name are not read. A shard may be a symbolic link, as in the Hub's
    cache; its name in the index must be that of a file in the folder.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not (folder / INDEX).is_file():
        raise unusable(
            f"The checkpoint in `{folder}` has no weights: no `{INDEX}`, no `{SINGLE}`. Pickles, "
            "such as `*.bin`, can run code when they are opened, and are never opened.",
            f"{DOWNLOAD_HINT}; a repository without safetensors must be converted elsewhere",
        )
    weight_map = read_object(folder / INDEX).get("weight_map")
    names = [*weight_map.values()] if isinstance(weight_map, dict) else []
    if not names or not all(_FILE_NAME.fullmatch(str(name)) for name in names):
        raise unusable(
            f"`{folder / INDEX}` has no `weight_map` that names for each tensor a safetensors file "
            "in the same folder."
        )
    names = sorted({str(name) for name in names})
    require(folder, names)
    return [folder / name for name in names]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a file; its dtype is one of `DTYPES`."""

    name: str
    path: Path
    dtype: str
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """The size in the file."""
        return math.prod(self.shape) * (4 if self.dtype == "F32" else 2)


def read_headers(paths: Iterable[Path]) -> list[Tensor]:
    """The tensors of several files, in the order of each file. A header must account for all bytes
    of its file.
    """
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.offset_keys():
                    part = file.get_slice(name)
                    tensors[name] = Tensor(name, path, part.get_dtype(), tuple(part.get_shape()))
        except (OSError, SafetensorError) as error:  # noqa: PERF203 - a few files
            raise unusable(
                f"`{path}` cannot be read, is cut off, or is a Git LFS pointer: {error}.",
                f"in a clone, `git lfs pull`; or {DOWNLOAD_HINT}",
            ) from error
    for tensor in tensors.values():
        if tensor.dtype not in DTYPES:
            raise unusable(
                f"The tensor `{tensor.name}` in `{tensor.path}` is stored as {tensor.dtype!r}; the "
                f"judge supports {', '.join(DTYPES)}, and no quantized weights."
            )
    return list(tensors.values())


def digest_of(small: Iterable[Path], shards: Iterable[Path]) -> str:
    """12 hex digits that identify a checkpoint's content in any folder; part of the cache's keys.

    Small files count with every byte. A shard counts with its name, size and header, and with 64
    blocks of 64 KiB, spread evenly over its data: about 4 MB, read in milliseconds. A smaller shard
    is read as a whole. Another fine-tune changes all weights and so the digest; a single byte that
    is changed between two blocks does not.
    """
    digest = hashlib.sha256(b"mmie-tasks checkpoint 1\n")
    for path in (*small, *shards):
        for part in _digest_parts(path):
            digest.update(b"%d\n" % len(part))  # so that "ab", "c" is not "a", "bc"
            digest.update(part)
    return digest.hexdigest()[:12]


def _digest_parts(path: Path) -> Iterator[bytes]:
    yield path.name.encode(errors="surrogateescape")
    if path.suffix != ".safetensors":
        yield path.read_bytes()
        return
    with path.open("rb") as file:
        length = file.read(8)
        header = length + file.read(int.from_bytes(length, "little"))
        size = path.stat().st_size
        yield header
        yield str(size).encode()
        first, last = len(header), size - DIGEST_BLOCK_BYTES
        starts: Sequence[int] = range(first, size, DIGEST_BLOCK_BYTES)  # all of a small file
        if len(starts) > (n := DIGEST_BLOCKS):
            starts = [first + (last - first) * i // (n - 1) for i in range(n)]
        for start in starts:
            file.seek(start)
            yield file.read(DIGEST_BLOCK_BYTES)
