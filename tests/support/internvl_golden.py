"""The golden set of the MMIE judge model: outputs of the official code with a tiny checkpoint.

`tests/golden/internvl/README.md` says how it was made. Everything is read when it is asked for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "internvl"
CHECKPOINT = FOLDER / "checkpoint"
IMAGES = FOLDER / "images"
TILE_PX = 56  # of the tiny checkpoint
TOKENS_PER_TILE = 4


def added_id(tokenizer: SlowLlamaTokenizer, content: str) -> int:
    """The id of an added token."""
    return next(i for i, token in tokenizer.listed.items() if token.content == content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question, and what the official code answered.

    Attributes:
        name: Of the case, and of its logits.
        prompt: The question, with an ``<image>`` for every picture, as the official code got it.
        images: The pictures, in order.
        tiles: Tiles of each picture.
        input_ids: The whole prompt, as tokens.
        output_ids: What was generated, a final ``<|end|>`` included.
        ended: The last of them is ``<|end|>``.
        response: The official text.
        max_new_tokens: The limit it was made with.
    """

    name: str
    prompt: str
    images: tuple[Path, ...]
    tiles: tuple[int, ...]
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    ended: bool
    response: str
    max_new_tokens: int

    @property
    def parts(self) -> tuple[str | Path, ...]:
        """The prompt as a request's parts: one that makes the official prompt again.

        A picture that has no ``<image>`` in the prompt has no part, and an ``<image>`` without a
        picture stays text.
        """
        texts = self.prompt.split("<image>")
        parts: list[str | Path] = [texts[0]]
        for number, text in enumerate(texts[1:]):
            parts.append(self.images[number] if number < len(self.images) else "<image>")
            parts.append(text)
        return tuple(part for part in parts if part != "")

    @property
    def logits(self) -> NDArray[np.float32]:
        """Of the first new token: (vocabulary,)."""
        return _logits()[self.name]

    @property
    def last_logits(self) -> NDArray[np.float32]:
        """Of the last new token: (vocabulary,)."""
        return _logits()[f"{self.name}/last_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCase:
    """A question on which the official code raises."""

    name: str
    prompt: str
    images: tuple[Path, ...]


def read(name: str, folder: Path = FOLDER) -> Any:
    """The content of a JSON file of the set."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@cache
def cases() -> tuple[Case, ...]:
    """Every question the official code answered."""
    recorded = read("cases")
    return tuple(
        Case(
            name=row["name"],
            prompt=row["prompt"],
            images=tuple(FOLDER / image for image in row["images"]),
            tiles=tuple(row["num_patches_list"]),
            input_ids=tuple(row["input_ids"]),
            output_ids=tuple(row["output_ids"]),
            ended=row["stopped_by_eos"],
            response=row["response"],
            max_new_tokens=recorded["env"]["max_new_tokens"],
        )
        for row in recorded["cases"]
    )


@cache
def error_cases() -> tuple[ErrorCase, ...]:
    """Every question on which the official code raises."""
    return tuple(
        ErrorCase(
            name=row["name"],
            prompt=row["prompt"],
            images=tuple(FOLDER / image for image in row["images"]),
        )
        for row in read("cases")["errors"]
    )


@cache
def _logits() -> dict[str, NDArray[np.float32]]:
    """Arrays: ``CASE`` or ``CASE/last_step`` (vocabulary,), ``vit/IMAGE`` (tiles, 4, hidden)."""
    import numpy as np

    with np.load(FOLDER / "logits.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def vision_outputs() -> dict[Path, NDArray[np.float32]]:
    """Vision outputs by image: (tiles, tokens per tile, hidden size of the text model)."""
    arrays = _logits().items()
    return {IMAGES / f"{name[4:]}.png": one for name, one in arrays if name.startswith("vit/")}


def tokenizer_folder(path: Path, change: Callable[[dict[str, Any]], object] | None = None) -> Path:
    """Write the checkpoint's tokenizer files to a folder; the folder.

    Args:
        path: The folder to make.
        change: Is given ``tokenizer_config.json`` and changes it.
    """
    path.mkdir(parents=True, exist_ok=True)
    shutil.copy(CHECKPOINT / "tokenizer.model", path)
    config = read("tokenizer_config", CHECKPOINT)
    if change is not None:
        change(config)
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path
