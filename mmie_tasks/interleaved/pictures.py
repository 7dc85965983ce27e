"""Checks pictures, scales them down and stores them in files, so that each is drawn once.

Pictures are stored small because MMIE's judge cuts larger ones into many tiles of 448 pixels. The
file is named by the SHA-256 of prompt and seed, its folder by that of the drawer's signature. Files
are written in one step, so a file that exists is whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import ImageBroken, image_suffix, open_bounded
from mmie_tasks.interleaved.drawer import (
    Drawer,
    DrawerMisconfigured,
    DrawingError,
    Picture,
    PictureNotStored,
    PictureRequest,
    PictureUnusable,
)

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 4096 * 4096  # larger pictures are not decoded
MAX_SIDE_PX = 512  # longest side of a stored picture, by default
_STORED = (".png", ".jpg", ".webp")  # formats that every judge reads


def parse_size(text: str, step_px: int = 1) -> tuple[int, int]:
    """Width and height of a picture to draw, in pixels, from the option ``size=WIDTHxHEIGHT``.

    Raises:
        DrawerMisconfigured: It has another form, no pixels, more than `MAX_PIXELS`, or sides that
            are not multiples of `step_px`.

    >>> parse_size("1024x768")
    (1024, 768)
    """
    sides = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", text, re.ASCII)
    width, height = (int(sides[1]), int(sides[2])) if sides else (0, 0)
    if not 0 < width * height <= MAX_PIXELS or width % step_px or height % step_px:
        multiples = f", multiples of {step_px}" if step_px > 1 else ""
        raise DrawerMisconfigured(
            f"`size={text}` cannot be drawn.",
            hint=f"`size=WIDTHxHEIGHT`, such as `1024x1024`: at most {MAX_PIXELS:,} pixels"
            f"{multiples}",
        )
    return width, height


def picture_of(content: bytes, max_side_px: int) -> Picture:
    """The picture in an image file: unchanged if it is small enough (0: any), or a smaller PNG.

    Raises:
        PictureUnusable: It is not an image, is damaged, has no pixels or more than `MAX_PIXELS`,
            or only one colour.
    """
    suffix = image_suffix(content)
    try:
        image = open_bounded(Path("of the drawer"), MAX_PIXELS, content)
    except ImageBroken as error:
        raise PictureUnusable(f"{error.reason}.") from error
    if suffix in _STORED and (not max_side_px or max(image.size) <= max_side_px):
        _rgb(image)
        return Picture(content=content, suffix=suffix)
    return png_of(image, max_side_px)


def png_of(image: Image.Image, max_side_px: int) -> Picture:
    """An image as a PNG in RGB, without alpha, scaled down to a longest side (0 for no limit).

    Raises:
        PictureUnusable: It has only one colour, as after a safety checker or an overflow.
    """
    from PIL.Image import Resampling

    rgb = _rgb(image)
    if max_side_px and max(rgb.size) > max_side_px:
        rgb.thumbnail((max_side_px, max_side_px), Resampling.LANCZOS)
    file = BytesIO()
    rgb.save(file, "PNG")
    return Picture(content=file.getvalue(), suffix=".png")


def _rgb(image: Image.Image) -> Image.Image:
    """The image in RGB; raises `PictureUnusable` if it has only one colour."""
    rgb = image.convert("RGB")
    if all(low == high for low, high in rgb.getextrema()):  # type: ignore[misc]  # RGB has three
        raise PictureUnusable("all its pixels have one colour")
    return rgb


class PictureStore:
    """The stored pictures of one drawer. Several processes may use a store at once."""

    def __init__(self, folder: Path, signature: str) -> None:
        self._folder = folder / hashlib.sha256(signature.encode()).hexdigest()[:16]
        self._signature = signature

    def prepare(self) -> None:
        """Create the folder, with a file that names the drawer; or raise `DrawerMisconfigured`."""
        try:
            with atomic_write(self._folder / "drawer.txt") as part:
                part.write_text(f"{self._signature}\n", encoding="utf-8")
        except OSError as error:
            raise DrawerMisconfigured(
                f"Pictures cannot be stored in `{self._folder}`: {error.strerror or error}.",
                hint="name another folder with `pictures=FOLDER`, or make room on the disk",
            ) from error

    def find(self, request: PictureRequest) -> Path | None:
        """The file of a picture; None if it has not been drawn."""
        files = (self._path(request).with_suffix(suffix) for suffix in _STORED)
        return next(filter(Path.is_file, files), None)

    def add(self, request: PictureRequest, picture: Picture) -> Path:
        """Write a picture and return its file; raises `PictureNotStored` if that fails."""
        path = self._path(request).with_suffix(picture.suffix)
        try:
            with atomic_write(path) as part:
                part.write_bytes(picture.content)
        except OSError as error:
            problem = error.strerror or error
            raise PictureNotStored(f"`{path.parent}` cannot be written: {problem}") from error
        return path

    def _path(self, request: PictureRequest) -> Path:
        """The path of a picture, without its suffix."""
        content = f"{request.seed}\n{request.prompt}".encode(errors="surrogatepass")
        name = hashlib.sha256(content).hexdigest()
        return self._folder / name[:2] / name


def draw_all(
    drawer: Drawer, store: PictureStore, requests: Iterable[PictureRequest], *, shows_bar: bool
) -> dict[PictureRequest, Path | DrawingError]:
    """Draw the pictures that the store lacks; return the file of each picture, or its error.

    A picture is stored as soon as it arrives. Drawing ends when one cannot be stored. The progress
    bar also counts the pictures that the store has already.
    """
    paths = {request: store.find(request) for request in requests}
    missing = [request for request, path in paths.items() if path is None]
    outcomes: dict[PictureRequest, Path | DrawingError]
    outcomes = {request: path for request, path in paths.items() if path}
    options = {"desc": "Drawing", "unit": "picture", "total": len(paths), "initial": len(outcomes)}
    hidden = {} if shows_bar else {"disable": True}  # if shown, TQDM_DISABLE may hide it
    with closing(drawer.draw(missing)) as drawn, tqdm(**options, **hidden) as bar:
        for index, outcome in drawn:
            request = missing[index]
            try:
                result = store.add(request, outcome) if isinstance(outcome, Picture) else outcome
            except PictureNotStored as error:
                return {**dict.fromkeys(missing, error), **outcomes}
            outcomes[request] = result
            bar.update()
    return outcomes
