"""Checks what a drawer returned, and scales it down to the size that is stored.

Pictures are stored small because MMIE's judge cuts larger ones into many tiles (448 pixels each).
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.drawing.base import DrawerMisconfigured, Picture, PictureUnusable
from mmie_tasks.hub.images import image_suffix, open_bounded

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 4096 * 4096
"""Width times height of the largest picture that is decoded."""

MAX_SIDE_PX = 512
"""Default of the longest side of a stored picture, in pixels."""

_STORED = (".png", ".jpg", ".webp")  # formats that every judge reads


def parse_size(text: str, step_px: int = 1) -> tuple[int, int]:
    """Width and height of a picture to draw, in pixels, from the option ``size=WIDTHxHEIGHT``.

    Raises:
        DrawerMisconfigured: It has another form, no pixels, more than `MAX_PIXELS`, or no multiples of `step_px`.

    >>> parse_size("1024x768")
    (1024, 768)
    """
    sides = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", text, re.ASCII)
    width, height = (int(sides[1]), int(sides[2])) if sides else (0, 0)
    if not 0 < width * height <= MAX_PIXELS or width % step_px or height % step_px:
        rule = f"at most {MAX_PIXELS:,} pixels" + (f", multiples of {step_px}" if step_px > 1 else "")
        raise DrawerMisconfigured(
            f"`size={text}` cannot be drawn.", hint=f"`size=WIDTHxHEIGHT`, such as `1024x1024`: {rule}"
        )
    return width, height


def picture_of(content: bytes, max_side_px: int) -> Picture:
    """The picture in the bytes of an image file: unchanged if it is small enough, else scaled down, as PNG.

    Args:
        content: As the drawer returned it; not trusted.
        max_side_px: The longest side that is kept, in pixels; 0 for any.

    Raises:
        PictureUnusable: It is no image, is damaged, or has more than `MAX_PIXELS` pixels or none.
    """
    suffix = image_suffix(content)
    try:
        image = open_bounded(Path("of the drawer"), MAX_PIXELS, content)
    except DataBroken as error:
        raise PictureUnusable(error.message.partition("cannot be used: ")[2] or error.message) from error
    is_small = not max_side_px or max(image.size) <= max_side_px
    if is_small and suffix in _STORED:
        return Picture(content=content, suffix=suffix)
    return png_of(image, max_side_px)


def png_of(image: Image.Image, max_side_px: int) -> Picture:
    """An image as a PNG in RGB, scaled down to a longest side.

    Args:
        image: Decoded; alpha is dropped.
        max_side_px: In pixels; 0 for any.
    """
    from PIL.Image import Resampling

    rgb = image.convert("RGB")
    if max_side_px and max(rgb.size) > max_side_px:
        rgb.thumbnail((max_side_px, max_side_px), Resampling.LANCZOS)
    file = BytesIO()
    rgb.save(file, "PNG")
    return Picture(content=file.getvalue(), suffix=".png")
