"""The files of a checkpoint: JSON, safetensors headers, and a digest of their content.

All functions raise `JudgeMisconfigured`, which names the file, for what is missing, unreadable or
damaged. Weights are not read here. A safetensors file is 8 bytes (the length of the header), the
header (JSON: data type, shape and offsets of every tensor), and the data, without gaps. Format:
https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import hashlib
import math
import os
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

MAX_FILE_BYTES = (
    64 * 1024 * 1024
)  # of files that are read whole; the largest, `tokenizer.model`, has 500 KB
MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library; usual are about 100 KB
DTYPE_BYTES = {"BF16": 2, "F16": 2, "F32": 4}
DIGEST_BLOCKS = 64
DIGEST_BLOCK_BYTES = 64 * 1024

DOWNLOAD_HINT = (
    "download the whole repository again (every `*.safetensors` with the index, `config.json`, "
    "`conversation.py` and the tokenizer's files), or point `model=` to another folder"
)
OFFICIAL_HINT = (
    "use `model=MMIE/MMIE-Score` or a folder with a copy of it; to judge with another model, "
    "serve it and use the judge `openai`"
)

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_FILE_NAME = re.compile(r"[^/\\]{0,187}\.safetensors")
_LFS_POINTER = b"version https://git-lfs"


def unusable(message: str, hint: str = DOWNLOAD_HINT) -> JudgeMisconfigured:
    """The error for a checkpoint that is incomplete, damaged, or of another model."""
    return JudgeMisconfigured(message, hint=hint)


def _unreadable(path: Path, error: OSError) -> JudgeMisconfigured:
    return unusable(f"`{path}` cannot be read: {error.strerror}.")


def require(folder: Path, names: Iterable[str]) -> None:
    """Return if all these files exist."""
    missing = [f"`{name}`" for name in names if not (folder / name).is_file()]
    if missing:
        raise unusable(f"The checkpoint in `{folder}` has no {', no '.join(missing)}.")


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file."""
    try:
        content = from_json(read_bytes(path), allow_inf_nan=False)
    except ValueError as error:
        raise unusable(f"`{path}` is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise unusable(f"`{path}` holds no JSON object, but a {type(content).__name__}.")
    return content


def read_bytes(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The content of a file of at most `limit` bytes."""
    if not path.is_file():  # reading a pipe would never end
        raise unusable(f"`{path}` does not exist, or is not a file.")
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) > limit:
        raise unusable(f"`{path}` has more than {limit:,} bytes, far too many for such a file.")
    return content


def find_shards(folder: Path) -> list[Path]:
    """The safetensors files to read, by name.

    As transformers 4.37 chooses: a single ``model.safetensors`` comes before an index, and files
    that the index does not name are not read. A shard may be a symbolic link, as in the Hub's
    cache; its name in the index must be that of a file in the folder.
    """
    existing = sorted(path.name for path in folder.glob("*.safetensors"))
    if SINGLE in existing:
        names = [SINGLE]
    elif (folder / INDEX).is_file():
        names = _indexed_names(folder / INDEX)
    else:
        raise _no_weights(folder, existing)
    require(folder, names)
    return [folder / name for name in names]


def _indexed_names(path: Path) -> list[str]:
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise unusable(f"`{path}` has no `weight_map` that names the file of each tensor.")
    for tensor, name in weight_map.items():
        if not (isinstance(name, str) and name.isprintable() and _FILE_NAME.fullmatch(name)):
            raise unusable(
                f"`{path}` puts the tensor `{tensor}` into {name!r}, which is not the name of a "
                "safetensors file in the same folder."
            )
    return sorted(set(weight_map.values()))


def _no_weights(folder: Path, existing: list[str]) -> JudgeMisconfigured:
    checkpoint = f"The checkpoint in `{folder}` has"
    if existing:
        return unusable(f"{checkpoint} {len(existing)} safetensors files and no `{INDEX}`.")
    if pickles := sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern)):
        return unusable(
            f"{checkpoint} its weights in `{pickles[0]}` only: a pickle, which can run code when "
            "it is opened. Pickles are never opened.",
            f"{DOWNLOAD_HINT}; a repository without safetensors must be converted elsewhere",
        )
    return unusable(f"{checkpoint} no weights: no `{INDEX}`, no `{SINGLE}`.")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a file; its dtype is ``BF16``, ``F16`` or ``F32``."""

    name: str
    path: Path
    dtype: str
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Its size in the file."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]


def read_header(path: Path) -> list[Tensor]:
    """The tensors of a file, in their order, if the header accounts for every byte, with types of
    `DTYPE_BYTES`.
    """
    try:
        with path.open("rb") as content:
            is_pointer = content.read(len(_LFS_POINTER)) == _LFS_POINTER
        if is_pointer:
            raise unusable(
                f"`{path}` is a Git LFS pointer: the file itself was not downloaded.",
                f"`git lfs pull` in that folder, or {DOWNLOAD_HINT}",
            )
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.offset_keys()}
            tensors = [
                Tensor(name, path, part.get_dtype(), tuple(part.get_shape()))
                for name, part in slices.items()
            ]
    except OSError as error:
        raise _unreadable(path, error) from error
    except SafetensorError as error:
        raise unusable(f"`{path}` is cut off, or its header is broken: {error}.") from error
    for tensor in tensors:
        if tensor.dtype not in DTYPE_BYTES:
            raise unusable(
                f"The tensor `{tensor.name}` in `{path}` is stored as {tensor.dtype!r}; the judge "
                "supports "
                f"{', '.join(DTYPE_BYTES)}, and no quantized weights."
            )
    return tensors


def read_headers(paths: Iterable[Path]) -> dict[str, Tensor]:
    """All tensors of several files, by name; none may be in two files."""
    tensors: dict[str, Tensor] = {}
    for path in paths:
        for tensor in read_header(path):
            first = tensors.setdefault(tensor.name, tensor)
            if first is not tensor:
                raise unusable(
                    f"The tensor `{tensor.name}` is both in `{first.path}` and in `{path.name}`."
                )
    return tensors


def digest_of(small: Iterable[Path], shards: Iterable[Path]) -> str:
    """12 hex digits that identify a checkpoint's content, independent of its folder.

    Replies are cached under it. Small files count with every byte. A shard counts with its name,
    size and header, and with 64 blocks of 64 KiB, spread evenly from the first byte of data to the
    last: about 4 MB, read in milliseconds. A smaller shard is read as a whole. Another fine-tune
    changes all weights and so the digest; a single byte changed between two blocks does not.
    """
    digest = hashlib.sha256(b"mmie-tasks checkpoint 1\n")
    for path in (*small, *shards):
        try:
            for part in _digest_parts(path):
                digest.update(b"%d\n" % len(part))  # so that "ab", "c" is not "a", "bc"
                digest.update(part)
        except OSError as error:  # noqa: PERF203 - names the file
            raise _unreadable(path, error) from error
    return digest.hexdigest()[:12]


def _digest_parts(path: Path) -> Iterator[bytes]:
    yield path.name.encode(errors="surrogateescape")
    if path.suffix != ".safetensors":
        yield path.read_bytes()
        return
    with path.open("rb") as file:
        length = file.read(8)
        header = length + file.read(min(int.from_bytes(length, "little"), MAX_HEADER_BYTES))
        size = os.fstat(file.fileno()).st_size
        yield header
        yield str(size).encode()
        first, last = len(header), size - DIGEST_BLOCK_BYTES
        starts: Sequence[int] = range(first, size, DIGEST_BLOCK_BYTES)  # all of a small file
        if len(starts) > (n := DIGEST_BLOCKS):
            starts = [first + (last - first) * i // (n - 1) for i in range(n)]
        for start in starts:
            file.seek(start)
            yield file.read(DIGEST_BLOCK_BYTES)
