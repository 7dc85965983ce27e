"""The golden set of the MMIE judge model: outputs of the official code with a tiny checkpoint.

`tests/golden/internvl/README.md` says how it was made. Everything is read when it is asked for.
"""

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "internvl"
CHECKPOINT = FOLDER / "checkpoint"
IMAGES = FOLDER / "images"
TILE_PX = 56  # of the tiny checkpoint
TOKENS_PER_TILE = 4


def added_id(tokenizer, content):
    return next(i for i, token in tokenizer.listed.items() if token.content == content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question, and what the official code answered."""

    name: str
    prompt: str  # with an ``<image>`` for every image, as the official code got it
    images: tuple[Path, ...]
    tiles: tuple[int, ...]  # of each image
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]  # a final ``<|end|>`` included
    ended: bool  # with ``<|end|>``
    response: str
    max_new_tokens: int

    @property
    def parts(self):
        """The prompt as a request's parts: one that makes the official prompt again.

        A picture that has no ``<image>`` in the prompt has no part, and an ``<image>`` without a
        picture stays text.
        """
        texts = self.prompt.split("<image>")
        parts = [texts[0]]
        for number, text in enumerate(texts[1:]):
            parts.append(self.images[number] if number < len(self.images) else "<image>")
            parts.append(text)
        return tuple(part for part in parts if part != "")


def read(name, folder=FOLDER):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@cache
def cases():
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
def logits():
    """Of the first and the last new token: ``CASE`` and ``CASE/last_step``, (vocabulary,); and the
    vision outputs: ``vit/IMAGE``, (tiles, tokens per tile, hidden size of the text model).
    """
    import numpy as np

    with np.load(FOLDER / "logits.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def tokenizer_folder(path, change=None):
    """Write the checkpoint's tokenizer files into a folder, with a changed configuration."""
    path.mkdir(parents=True, exist_ok=True)
    shutil.copy(CHECKPOINT / "tokenizer.model", path)
    config = read("tokenizer_config", CHECKPOINT)
    if change is not None:
        change(config)
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path
