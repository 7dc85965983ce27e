"""Pictures as the judge model sees them: tiles of 8-bit RGB, then normalised numbers.

Source: ``load_image`` and ``dynamic_preprocess`` in ``main.py`` of Lillianwei-h/MMIE at eb0fd6e,
run with Pillow 10.4. The pixels are equal bit for bit, whatever version of Pillow is installed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import open_bounded
from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.mmie_score.tiles import grid

_MEAN = (0.485, 0.456, 0.406)  # of ImageNet: red, green, blue
_DEVIATION = (0.229, 0.224, 0.225)
_MAX_SIDE_PX = 500_000  # a longer strip would take gigabytes on its way to a tile


def read_tiles(path: Path, tile_px: int) -> NDArray[np.uint8]:
    """Cut an image into tiles, row by row, then a thumbnail of the whole if there is more than one.

    The colours are what Pillow's ``convert("RGB")`` gives: alpha is dropped, and grey values of
    more than 8 bits are clipped. No rotation from EXIF, no colour profile; of an animation, the
    first frame.

    Args:
        path: The image file.
        tile_px: Side of a tile, in pixels.

    Returns:
        (tiles, tile_px, tile_px, 3); the memory is its own and may be written to.

    Raises:
        RequestBroken: The file cannot be read, is not an image, is cut off, is too large, or has
            colours that Pillow cannot turn into RGB.
    """
    image = _rgb(path)
    if max(image.size) > _MAX_SIDE_PX:
        size = f"{image.width} x {image.height} pixels, and no side may exceed {_MAX_SIDE_PX:,}"
        raise RequestBroken(f"the image `{path}` cannot be cut into tiles: it has {size}")
    columns, rows = grid(*image.size, tile_px=tile_px)
    count = columns * rows
    tiles = np.empty((count + (count > 1), tile_px, tile_px, 3), dtype=np.uint8)
    whole = _resized(image, columns * tile_px, rows * tile_px)
    cut = whole.reshape(rows, tile_px, columns, tile_px, 3).swapaxes(1, 2)
    tiles[:count] = cut.reshape(count, tile_px, tile_px, 3)
    if count > 1:
        tiles[count] = _resized(image, tile_px, tile_px)
    return tiles


def normalized(tiles: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Tiles as the vision tower takes them, on the device they are on.

    The steps and their order are torchvision's ``ToTensor`` and ``Normalize``, in 32 bits; the
    result is rounded to `dtype` at the end.

    Args:
        tiles: 8-bit, (tiles, side, side, 3).
        dtype: Of the result.

    Returns:
        (tiles, 3, side, side); about -2.1 to 2.7.
    """
    values = tiles.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    mean, deviation = (
        torch.tensor(each, dtype=torch.float32, device=tiles.device).view(1, 3, 1, 1)
        for each in (_MEAN, _DEVIATION)
    )
    return values.div_(255).sub_(mean).div_(deviation).to(dtype)


def _rgb(path: Path) -> Image.Image:
    try:
        image = open_bounded(path)
    except (DataMissing, DataBroken) as error:
        raise RequestBroken(str(error).partition("\n")[0]) from error
    if image.mode == "RGB":
        return image
    image.info.pop("transparency", None)  # Pillow warns that it is dropped
    try:
        return image.convert("RGB")
    except ValueError as error:
        message = (
            f"the image `{path}` cannot be used: its colour mode {image.mode} has no way to RGB"
        )
        raise RequestBroken(message) from error


def _resized(image: Image.Image, width_px: int, height_px: int) -> NDArray[np.uint8]:
    """Resize one axis at a time, the width first.

    Pillow 13 may take the height first where 10.4 did not, and the 8-bit rounding between the two
    then gives other pixels.
    """
    wide = image.resize((width_px, image.height), Image.Resampling.BICUBIC)
    return np.asarray(wide.resize((width_px, height_px), Image.Resampling.BICUBIC))
