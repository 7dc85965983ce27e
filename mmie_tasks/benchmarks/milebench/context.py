"""Many images drawn into one, for models that take only one: MileBench's combined image."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import open_bounded, open_rgb, opened

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


LAYOUT = "1"  # part of every file name: change it when a drawn pixel would change
CELL_SIDE_PX = 800
FONT_SIZE_PX = 8 * 4  # the official script's --font_size, four times enlarged for the caption
PADDING_PX = 12
EXTRA_ABOVE_PX = 10

# Modes the official script resizes as they are, before any conversion.
_RESIZED_AS_THEY_ARE = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}


def combined_image(images: Sequence[Path], cache: Path) -> Path:
    """One JPEG with all images in a grid, captioned ``Image 1``, ``Image 2`` and so on.

    As ``data/combine_images.py`` (MileBench/MileBench at 9583e1f): as many columns as the root of
    the count, rounded up; each image squeezed into 800 x 800 pixels (Lanczos), made RGBA, captioned
    white on a black box at its bottom centre, and pasted without its alpha, so that what lay hidden
    under transparency shows. Saved with Pillow's JPEG settings, because a model sees the JPEG.

    It differs in the font: the official ``arialuni.ttf`` is not shipped, so the caption is set in
    Pillow's built-in font (`ImageFont.load_default`) at the same size.

    Args:
        images: The image files, in the order of their numbers.
        cache: The folder for what was drawn. The file's name is a hash of the images' bytes and of
            the layout, so the same images are drawn once.

    Returns:
        The JPEG, ``(rows * 800, columns * 800, 3)``.

    Raises:
        DataMissing: An image is not there.
        DataBroken: An image cannot be decoded or is too large, or there are none.
    """
    if not images:
        raise DataBroken(
            "A combined image was asked for and there are no images.",
            hint="unpack or download the dataset again",
        )
    target = cache / f"{_fingerprint(images)}.jpg"
    if not target.is_file():
        with atomic_write(target) as part:
            _grid(images).save(part, format="JPEG")
    return target


def _fingerprint(images: Sequence[Path]) -> str:
    """A hash of the layout and of the images' bytes, in hex."""
    whole = hashlib.sha256(f"combined image, layout {LAYOUT}".encode())
    for path in images:
        with opened(path) as file:
            whole.update(hashlib.sha256(file.read()).digest())
    return whole.hexdigest()


def _grid(images: Sequence[Path]) -> Image.Image:
    columns = math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    grid = Image.new("RGB", (columns * CELL_SIDE_PX, rows * CELL_SIDE_PX))
    for index, path in enumerate(images):
        row, column = divmod(index, columns)
        cell = _captioned(_cell(path), f"Image {index + 1}")
        grid.paste(cell, (column * CELL_SIDE_PX, row * CELL_SIDE_PX))
    return grid


def _cell(path: Path) -> Image.Image:
    """One image, ``(800, 800, 4)``."""
    image = open_bounded(path)
    if image.mode not in _RESIZED_AS_THEY_ARE:
        image = open_rgb(path)
    side = (CELL_SIDE_PX, CELL_SIDE_PX)
    return image.resize(side, Image.Resampling.LANCZOS).convert("RGBA")


def _captioned(cell: Image.Image, caption: str) -> Image.Image:
    """The caption drawn onto the cell.

    The text starts as far above the bottom as its box is high, and its own top margin comes on
    top: the lowest pixels of a ``g`` are cut off, here as there.
    """
    draw = ImageDraw.Draw(cell)
    font = ImageFont.load_default(FONT_SIZE_PX)
    left, top, right, bottom = draw.textbbox((0, 0), caption, font=font)
    width, height = right - left, bottom - top
    x, y = (cell.width - width) // 2, cell.height - height
    box = (
        x - PADDING_PX,
        y - PADDING_PX - EXTRA_ABOVE_PX,
        x + width + PADDING_PX,
        y + height + PADDING_PX,
    )
    draw.rectangle(box, fill="black")
    draw.text((x, y), caption, fill="white", font=font)
    return cell


# Tokenizers of tested models, for benchmarks that cut their contexts by tokens.


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLimit:
    """How long a context may be, for which model."""

    tokenizer: str  # a name on the Hub, or a folder
    max_context_tokens: int
    tokens_per_image: int

    def __str__(self) -> str:
        return f"{self.max_context_tokens}x{self.tokens_per_image}@{self.tokenizer}"


def context_limit(environment: Mapping[str, str], prefix: str) -> ContextLimit | None:
    """Read ``<prefix>_TOKENIZER``, ``_MAX_CONTEXT_TOKENS`` and ``_TOKENS_PER_IMAGE``.

    Returns:
        The limit, or None where none of the three is set.

    Raises:
        SettingWrong: Only some are set, or a number is none.
    """
    names = [f"{prefix}_{n}" for n in ("TOKENIZER", "MAX_CONTEXT_TOKENS", "TOKENS_PER_IMAGE")]
    tokenizer, context, per_image = values = [environment.get(name, "") for name in names]
    if not any(values):
        return None
    if not tokenizer or not context.isdecimal() or not per_image.isdecimal():
        found = ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
        raise SettingWrong(
            f"A cut context needs a tokenizer and two whole numbers, and found {found}.",
            hint="set all three, or none for contexts that are not cut",
        )
    return ContextLimit(
        tokenizer=tokenizer, max_context_tokens=int(context), tokens_per_image=int(per_image)
    )


def is_here(name: str) -> bool:
    """Whether `load_tokenizer` would need nobody: a folder, or what the Hub's cache holds."""
    from transformers import AutoTokenizer

    try:
        AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError):
        return False
    return True


@lru_cache(maxsize=4)
def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of that name; no code that comes with it is run.

    Raises:
        SettingWrong: It cannot be loaded.
    """
    from transformers import AutoTokenizer

    try:
        loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise SettingWrong(
            f"The tokenizer `{name}` cannot be loaded: {str(error).strip().partition(chr(10))[0]}",
            hint="name a model on the Hub (`hf auth login` if it is gated) or a folder with it",
        ) from error
    return loaded
