"""Encodes the images of a request again, as OpenING's official script does."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import DECODE_ERRORS, open_bounded, read_image


def reencode(path: Path, folder: Path, size_px: tuple[int, int]) -> Path | None:
    """A JPEG of an image in another size; None if the image cannot be read or written as JPEG.

    Pillow's ``resize`` and ``save`` make it with their defaults, in the colour mode of the file.
    JPEG has no modes with alpha, a palette or grey values of 16 bits. The name of the file depends
    on the content of the image, so each image is encoded once.
    The aspect ratio is not kept.
    """
    import PIL

    try:
        content = read_image(path)
        form = f"{PIL.__version__} {size_px}"
        name = hashlib.sha256(form.encode() + content).hexdigest()
        target = folder / f"{name}.jpg"
        if target.is_file():
            return target
        image = open_bounded(path, content=content)
        encoded = BytesIO()
        image.resize(size_px).save(encoded, format="JPEG")
    except (DataMissing, DataBroken, *DECODE_ERRORS):
        return None
    with atomic_write(target) as part:
        part.write_bytes(encoded.getvalue())
    return target
