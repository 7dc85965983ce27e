"""Combines all images of a sample into one, for models that take only one image."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import open_bounded, open_rgb, read_image

if TYPE_CHECKING:
    from PIL import Image

LAYOUT_VERSION = "1"  # part of every file name: change it when a pixel changes
CELL_SIDE_PX = 800
FONT_SIZE_PX = 8 * 4  # the official script's --font_size, enlarged four times for the caption
PADDING_PX, PADDING_ABOVE_PX = 12, 22
# Modes the official script resizes without conversion.
_RESIZED_UNCONVERTED = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}


def combined_image(images: Sequence[Path], cache: Path) -> Path:
    """Draws all images into one JPEG, a grid with captions ``Image 1``, ``Image 2``, ...

    Source: ``data/combine_images.py`` (MileBench/MileBench at 9583e1f). The number of columns is
    the square root of the count, rounded up. Each image is resized to 800 x 800 pixels (Lanczos),
    made RGBA, captioned in white on a black box at its bottom centre, and pasted without alpha, so
    that pixels hidden by transparency show. Pillow's default JPEG settings are part of the rule.

    The font differs: the official ``arialuni.ttf`` is not shipped, so captions use Pillow's
    built-in font (`ImageFont.load_default`) at the same size.

    Args:
        images: The image files in order.
        cache: The folder for drawn images. File names are hashes of the images' bytes and the
            layout, so the same images are drawn once.

    Returns:
        The JPEG, ``(rows * 800, columns * 800, 3)``.

    Raises:
        DataMissing: An image does not exist.
        DataBroken: An image cannot be decoded or is too large, or there are no images.
    """
    if not images:
        raise DataBroken(
            "A combined image was requested for a sample with no images.",
            hint="run the task without `_combined1`",
        )
    digest = hashlib.sha256(f"combined image, layout {LAYOUT_VERSION}".encode())
    for image in images:
        digest.update(hashlib.sha256(read_image(image)).digest())
    path = cache / f"{digest.hexdigest()}.jpg"
    if not path.is_file():
        with atomic_write(path) as part:
            _grid(images).save(part, format="JPEG")
    return path


def _grid(images: Sequence[Path]) -> Image.Image:
    from PIL import Image

    columns = math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    grid = Image.new("RGB", (columns * CELL_SIDE_PX, rows * CELL_SIDE_PX))
    for index, path in enumerate(images):
        row, column = divmod(index, columns)
        image = open_bounded(path)
        if image.mode not in _RESIZED_UNCONVERTED:
            image = open_rgb(path)
        resized = image.resize((CELL_SIDE_PX, CELL_SIDE_PX), Image.Resampling.LANCZOS)
        cell = _with_caption(resized.convert("RGBA"), f"Image {index + 1}")
        grid.paste(cell, (column * CELL_SIDE_PX, row * CELL_SIDE_PX))
    return grid


def _with_caption(cell: Image.Image, caption: str) -> Image.Image:
    """Draws the caption onto the cell, ``(800, 800, 4)``."""
    # The text's top margin is not subtracted, so the lowest pixels of a `g` are cut off, as in the
    # official script.
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(cell)
    font = ImageFont.load_default(FONT_SIZE_PX)
    left, top, right, bottom = draw.textbbox((0, 0), caption, font=font)
    width, height = right - left, bottom - top
    x, y = (cell.width - width) // 2, cell.height - height
    box = (x - PADDING_PX, y - PADDING_ABOVE_PX, x + width + PADDING_PX, y + height + PADDING_PX)
    draw.rectangle(box, fill="black")
    draw.text((x, y), caption, fill="white", font=font)
    return cell
