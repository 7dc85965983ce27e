"""What safetensors files say they hold, and whether they can: headers only, no weights.

A file is 8 bytes (the length of the header), the header (JSON: data type, shape and place of every
tensor), and the data, without gaps. Format: https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.judges.mmie_score.checkpoint.complaints import WHOLE, unusable

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
