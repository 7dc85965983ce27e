"""Images of logs, shrunk and embedded in a page."""

from __future__ import annotations

import base64
import hashlib
import io
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import DECODE_ERRORS, TooManyPixels, check_end, open_rgb, size_px

_THREADS = 4
_MAX_PIXELS = 50_000_000  # more are not decoded: 150 MB as RGB
# Pillow decodes these itself; it passes other formats to other programs (EPS to Ghostscript).
_IMAGE_FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")


@dataclass(frozen=True, slots=True)
class EmbeddedImage:
    """An image as a ``data:`` address with the SHA-256 of its file, or None and the reason."""

    address: str | None
    note: str = ""
    sha256: str = ""


def embed_images(
    files: Sequence[str], max_side_px: int, quality: int, budget_characters: int
) -> dict[str, EmbeddedImage]:
    """Embed distinct files with `embed_image`, in their order.

    Stops before the file with which all addresses together exceed `budget_characters`.
    """
    embed = partial(embed_image, max_side_px=max_side_px, quality=quality)
    images: dict[str, EmbeddedImage] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for file, image in zip(files, pool.map(embed, files), strict=True):
            budget_characters -= len(image.address or "")
            if budget_characters < 0:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            images[file] = image
    return images


def embed_image(image: str, max_side_px: int, quality: int) -> EmbeddedImage:
    """A logged file, relative to the current folder, as WEBP of a `quality` from 0 to 100; never
    raises. Larger images are shrunk, so that their longest side is `max_side_px`.
    """
    try:
        path = Path(image)
        if not stat.S_ISREG(path.stat().st_mode):
            return EmbeddedImage(None, "not a file")
        size_px(path, _MAX_PIXELS)
        content, file = path.read_bytes(), io.BytesIO()
        _shrunk(path, content, max_side_px).save(file, "WEBP", quality=quality, method=2)
        encoded = base64.b64encode(file.getvalue()).decode()
        sha256 = hashlib.sha256(content).hexdigest()
        return EmbeddedImage(f"data:image/webp;base64,{encoded}", sha256=sha256)
    except (FileNotFoundError, NotADirectoryError, DataMissing):
        return EmbeddedImage(None, "the file no longer exists")
    except TooManyPixels:
        return EmbeddedImage(None, f"too large to show: more than {_MAX_PIXELS:,} pixels")
    except PermissionError:
        return EmbeddedImage(None, "the file cannot be read")
    except (DataBroken, *DECODE_ERRORS):
        return EmbeddedImage(None, "the file is not a readable image")


def _shrunk(path: Path, content: bytes, max_side_px: int) -> Image.Image:
    """The image as RGB, shrunk; `DataBroken` unless its format is one of `_IMAGE_FORMATS`."""
    check_end(content, path)
    with Image.open(io.BytesIO(content)) as image:
        if image.format not in _IMAGE_FORMATS:
            raise DataBroken(f"`{path}` is {image.format}.", hint="open it with another program")
        if image.format in ("JPEG", "MPO"):  # decodes at a reduced size, down to an eighth
            image.thumbnail((max_side_px, max_side_px))
            small: Image.Image = image.convert("RGB")
            return small
    full = open_rgb(path, _MAX_PIXELS)
    full.thumbnail((max_side_px, max_side_px))
    return full
