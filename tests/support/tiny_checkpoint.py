"""A copy of the tiny golden checkpoint, complete or damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from support.golden import GOLDEN

INTERNVL = GOLDEN / "internvl"
REMOVED = object()
INDEX = "model.safetensors.index.json"
SHARDS = tuple(f"model-0000{number}-of-00004.safetensors" for number in range(1, 5))

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class TinyCheckpoint:
    """A checkpoint that a test may change."""

    folder: Path

    @classmethod
    def copied_to(cls, folder: Path) -> TinyCheckpoint:
        shutil.copytree(INTERNVL / "checkpoint", folder)
        return cls(folder)

    def set_field(self, field: str, value: object, file: str = "config.json") -> None:
        """Change a field of a JSON file, ``llm_config.vocab_size``, or remove it."""
        content = json.loads((self.folder / file).read_bytes())
        *sections, name = field.split(".")
        section = content
        for key in sections:
            section = section[key]
        if value is REMOVED:
            del section[name]
        else:
            section[name] = value
        (self.folder / file).write_text(json.dumps(content), encoding="utf-8")

    def write(self, file: str, content: bytes) -> None:
        (self.folder / file).write_bytes(content)

    def delete(self, *files: str) -> None:
        for file in files:
            (self.folder / file).unlink()

    def truncate(self, file: str, keep: int | None = None) -> None:
        """Keep the first bytes of a file: all but one, or as many as `keep`."""
        content = (self.folder / file).read_bytes()
        (self.folder / file).write_bytes(content[:-1] if keep is None else content[:keep])

    def flip_byte(self, file: str, position: int) -> None:
        """Change a byte of a file; a negative position counts from its end."""
        content = bytearray((self.folder / file).read_bytes())
        content[position] ^= 1
        (self.folder / file).write_bytes(content)

    def tensors(self) -> Tensors:
        return {
            name: tensor
            for shard in sorted(self.folder.glob("*.safetensors"))
            for name, tensor in load_file(shard).items()
        }

    def store(self, tensors: Mapping[str, torch.Tensor], shards: int = 2) -> None:
        """Store other tensors, with a matching index."""
        self.delete(INDEX, *(path.name for path in self.folder.glob("*.safetensors")))
        names = sorted(tensors)
        weight_map = {}
        for number in range(shards):
            file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
            part = {name: tensors[name].contiguous() for name in names[number::shards]}
            save_file(part, self.folder / file, metadata={"format": "pt"})
            weight_map |= dict.fromkeys(part, file)
        self.write(INDEX, json.dumps({"metadata": {}, "weight_map": weight_map}).encode())

    def change_tensors(self, change: Callable[[Tensors], Any]) -> None:
        """Apply a function to the dictionary of all tensors, and store them."""
        tensors = self.tensors()
        change(tensors)
        self.store(tensors)


def safetensors_file(header: object, content: bytes = b"") -> bytes:
    """The bytes of a safetensors file with any header: JSON, or raw bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content
