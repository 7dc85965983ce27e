"""The files of a checkpoint: which there are, and what the JSON among them says."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mmie_tasks.judges.base import JudgeMisconfigured

# What is said of a checkpoint that cannot be used.

WHOLE = (
    "download the whole repository again (every `*.safetensors` with the index, `config.json`, "
    "`conversation.py` and the tokenizer's files), or point `model=` to another folder"
)
OFFICIAL = (
    "use `model=MMIE/MMIE-Score` or a folder with a copy of it; to judge with another model, "
    "serve it and take the judge `openai`"
)


def unusable(message: str, hint: str = WHOLE) -> JudgeMisconfigured:
    """The error for a checkpoint that is not whole, is damaged, or is of another kind."""
    return JudgeMisconfigured(message, hint=hint)


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


# What safetensors files say they hold, and whether they can: headers only, no weights.
#
# A file is 8 bytes (the length of the header), the header (JSON: data type, shape and place of every
# tensor), and the data, without gaps. Format: https://github.com/huggingface/safetensors.

MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library; a real one has some 100 KB

ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4}

_MAX_SIDE = 2**40
_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor in a file.

    Attributes:
        name: As stored.
        path: The file.
        dtype: ``BF16``, ``F16`` or ``F32``.
        shape: As stored.
        start: Its first byte, counted from the end of the header.
    """

    name: str
    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def n_bytes(self) -> int:
        """How many bytes of the file it takes."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def header_bytes(path: Path) -> bytes:
    """The header of a safetensors file, with the 8 bytes of its length in front.

    Raises:
        JudgeMisconfigured: The file cannot be read, or cannot hold such a header.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = file.read(8)
            told = int.from_bytes(length, "little")
            if length == _POINTER[:8]:
                raise _pointer(path)
            if len(length) < 8 or not 2 <= told <= min(MAX_HEADER_BYTES, size - 8):
                raise unusable(
                    f"`{path}` is no whole safetensors file: it has {size:,} bytes and "
                    f"{_header_told(length, told)}."
                )
            return length + file.read(told)
    except OSError as error:
        raise unusable(f"`{path}` cannot be read: {error.strerror}.") from error


def read_header(path: Path) -> tuple[Tensor, ...]:
    """The tensors of a file, in their order in it.

    Raises:
        JudgeMisconfigured: The header is broken, does not describe the file's bytes one by one
            (a file that was cut off, for one), or has another data type than `ITEM_BYTES` lists.
    """
    header = header_bytes(path)
    try:
        entries = json.loads(header[8:], object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise unusable(f"The header of `{path}` is broken: {error}.") from error
    if not isinstance(entries, dict):
        raise unusable(f"The header of `{path}` is broken: no JSON object.")
    entries.pop("__metadata__", None)
    found = (_tensor(path, name, entry) for name, entry in entries.items())
    tensors = tuple(sorted(found, key=lambda tensor: (tensor.start, tensor.n_bytes)))
    _check_places(path, tensors, path.stat().st_size - len(header))
    return tensors


def read_headers(paths: Iterable[Path]) -> dict[str, Tensor]:
    """All tensors of several files, by name.

    Raises:
        JudgeMisconfigured: As `read_header`, or a tensor is in two files.
    """
    tensors: dict[str, Tensor] = {}
    for path in paths:
        for tensor in read_header(path):
            other = tensors.setdefault(tensor.name, tensor)
            if other is not tensor:
                raise unusable(
                    f"The tensor `{tensor.name}` is both in `{other.path}` and in `{path.name}`."
                )
    return tensors


def _tensor(path: Path, name: str, entry: object) -> Tensor:
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [start, end]} if all(
            type(number) is int and 0 <= number < _MAX_SIDE for number in (*shape, start, end)
        ):
            if dtype not in ITEM_BYTES:
                raise unusable(
                    f"The tensor `{name}` in `{path}` is stored as {dtype!r}; the judge has "
                    f"{', '.join(ITEM_BYTES)}, and no quantized weights."
                )
            tensor = Tensor(name=name, path=path, dtype=dtype, shape=tuple(shape), start=start)
            if end - start == tensor.n_bytes:
                return tensor
    raise unusable(f"The header of `{path}` is broken at the tensor `{name}`: {str(entry)[:200]}.")


def _check_places(path: Path, tensors: tuple[Tensor, ...], data_bytes: int) -> None:
    """Each tensor begins where the one before ends, and the last ends with the file."""
    end = 0
    for tensor in tensors:
        if tensor.start != end:
            raise unusable(f"The header of `{path}` is broken: `{tensor.name}` is misplaced.")
        end += tensor.n_bytes
    if end > data_bytes:
        raise unusable(
            f"`{path}` is cut off: its tensors take {end:,} bytes, and {data_bytes:,} are there."
        )
    if end < data_bytes:
        raise unusable(f"`{path}` has {data_bytes - end:,} bytes more than its tensors take.")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice[:200]}` is there twice")
    return dict(pairs)


def _header_told(length: bytes, told: int) -> str:
    return f"says that {told:,} of them are its header" if len(length) == 8 else "no header"


def _pointer(path: Path) -> Exception:
    return unusable(
        f"`{path}` is a pointer of Git LFS: the file itself was not fetched.",
        f"`git lfs pull` in that folder, or {WHOLE}",
    )


# Which checkpoint it is, by content: replies are remembered under this.

BLOCKS = 64
BLOCK_BYTES = 64 * 1024
DIGITS = 12


def digest_of(small: Iterable[Path], shards: Iterable[Path]) -> str:
    """12 hex digits that are the same for the same content, in whatever folder it lies.

    Of the small files every byte counts. Of a shard its name, size and header count, and 64 blocks
    of 64 KiB, spread evenly from the first bytes of data to the last: some 4 MB, read in
    milliseconds. A shard below that size is read whole. Another fine-tune changes all weights and
    is noticed; a byte changed between two blocks is not.

    Raises:
        JudgeMisconfigured: A file cannot be read.
    """
    found = hashlib.sha256(b"mmie-tasks checkpoint 1\n")
    for path in (*small, *shards):
        for part in _parts(path):
            found.update(b"%d\n" % len(part))  # so that "ab", "c" is not "a", "bc"
            found.update(part)
    return found.hexdigest()[:DIGITS]


def _parts(path: Path) -> Iterator[bytes]:
    yield path.name.encode(errors="surrogateescape")
    try:
        if path.suffix == ".safetensors":
            yield from _sampled(path)
        else:
            yield path.read_bytes()
    except OSError as error:
        raise unusable(f"`{path}` cannot be read: {error.strerror}.") from error


def _sampled(path: Path) -> Iterator[bytes]:
    header = header_bytes(path)
    yield header
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        yield str(size).encode()
        for start in _starts(len(header), size):
            file.seek(start)
            yield file.read(BLOCK_BYTES)


def _starts(first: int, size: int) -> list[int]:
    """Where the blocks of a file begin; together they cover it where it is small enough."""
    last = size - BLOCK_BYTES
    if size - first <= BLOCKS * BLOCK_BYTES:
        return list(range(first, size, BLOCK_BYTES))
    return [first + (last - first) * block // (BLOCKS - 1) for block in range(BLOCKS)]
