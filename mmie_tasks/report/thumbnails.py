"""Small pictures of the images of a run, as many as a report has room for."""

from __future__ import annotations

import base64
import io
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from mmie_tasks.errors import DataBroken, DataMissing
from mmie_tasks.report.plain import plain
from mmie_tasks.sources.images import open_rgb, size_px, whole_images_only

BUDGET_BYTES = 9 * 1024 * 1024
"""Of all thumbnails of a report together; in the file they take a third more."""

SAMPLES_WITH_THUMBNAILS = 400
"""Of each task, where nothing else is asked: images take more time than all the rest."""

SIDE_PX = 192
"""The longest side of a thumbnail."""

_MOST_PIXELS = 50_000_000  # of an image that is decoded: 150 MB as RGB
_THREADS = 4
_BATCH = 32  # samples whose images are made before the budget is looked at
_NAME = 80  # characters of a file's name
_QUALITY = 60

# By the program that is built in: Pillow hands others to programs outside (EPS to Ghostscript).
_KINDS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")

# What Pillow's decoders and encoders raise on files that are not what their header promises.
_UNREADABLE = (
    *(OSError, ValueError, SyntaxError, EOFError, LookupError, ArithmeticError, TypeError),
    *(struct.error, zlib.error, RuntimeError, MemoryError),
)

_SEPARATOR = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A thumbnail as a ``data:`` address, or None and why there is none."""

    address: str | None
    note: str = ""

    @property
    def size_bytes(self) -> int:
        """What it adds to the report before it is written as text."""
        return len(self.address or "") * 3 // 4


NOT_MADE = Thumbnail(None, "no thumbnail")
"""Of an image that nobody looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Album:
    """The thumbnails of a task.

    Attributes:
        rows: The samples whose images are shown.
        made: A file's name in the log to its thumbnail.
        left_out: How many samples have images and no thumbnails.
        used_bytes: Of the budget; an image counts as often as it is shown.
    """

    rows: frozenset[int] = frozenset()
    made: Mapping[str, Thumbnail] = field(default_factory=dict)
    left_out: int = 0
    used_bytes: int = 0

    def look_up(self, row: int, image: str) -> Thumbnail:
        """The thumbnail of an image of a sample."""
        return self.made.get(image, NOT_MADE) if row in self.rows else NOT_MADE


def album(wanted: Iterable[tuple[int, Sequence[str]]], most: int, budget_bytes: int) -> Album:
    """Make thumbnails until there is no room for those of the next sample.

    Args:
        wanted: Samples with the files that each shows, as often as it shows them; those that
            matter most first.
        most: Samples that get any.
        budget_bytes: Of all thumbnails.
    """
    wanting = [(row, images) for row, images in wanted if images]
    made: dict[str, Thumbnail] = {}
    rows: list[int] = []
    used = 0
    for row, images in _with_thumbnails(wanting[:most], made):
        size = sum(made[image].size_bytes for image in images)
        if used + size > budget_bytes:
            break
        used += size
        rows.append(row)
    shown = {image for row, images in wanting[: len(rows)] for image in images}
    return Album(
        rows=frozenset(rows),
        made={image: made[image] for image in shown},
        left_out=len(wanting) - len(rows),
        used_bytes=used,
    )


def _with_thumbnails(
    wanting: Sequence[tuple[int, Sequence[str]]], made: dict[str, Thumbnail]
) -> Iterator[tuple[int, Sequence[str]]]:
    """The samples, whose thumbnails have been entered in `made`: each file's once."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for begin in range(0, len(wanting), _BATCH):
            batch = wanting[begin : begin + _BATCH]
            new = dict.fromkeys(each for _, images in batch for each in images if each not in made)
            made.update(zip(new, pool.map(thumbnail, new), strict=True))
            yield from batch


def thumbnail(image: str) -> Thumbnail:
    """A small picture of a file that a log names, relative to the current folder; never raises."""
    try:
        path = Path(image)
        if not stat.S_ISREG(path.stat().st_mode):
            return Thumbnail(None, "not a file")
        width, height = size_px(path)
        if width * height > _MOST_PIXELS:
            return Thumbnail(None, f"too large for a thumbnail: {width} x {height} pixels")
        return Thumbnail(_as_address(_small(path)))
    except (FileNotFoundError, NotADirectoryError, DataMissing):
        return Thumbnail(None, "the file is not here any more")
    except DataBroken:
        return Thumbnail(None, "the file is no image that can be read")
    except _UNREADABLE:
        return Thumbnail(None, "the file cannot be read")


def _small(path: Path) -> Image.Image:
    """The image as RGB, its longest side at most `SIDE_PX`.

    Raises:
        DataBroken: It is no image, or of a kind that is not decoded here.
    """
    with path.open("rb") as file, Image.open(file) as image, whole_images_only:
        if image.format not in _KINDS:
            raise DataBroken(f"`{path}` is {image.format}.", hint="look at it with another program")
        if image.format in ("JPEG", "MPO"):  # decoded at an eighth of its size where that will do
            image.thumbnail((SIDE_PX, SIDE_PX))
            small: Image.Image = image.convert("RGB")
            return small
    whole = open_rgb(path, _MOST_PIXELS)
    whole.thumbnail((SIDE_PX, SIDE_PX))
    return whole


def _as_address(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "WEBP", quality=_QUALITY, method=2)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def name_of(image: str) -> str:
    r"""The name of a file without its folders, for people.

    >>> name_of("/data/images/kite.png"), name_of("C:\\images\\kite.png")
    ('kite.png', 'kite.png')
    """
    name = _SEPARATOR.split(image[-4 * _NAME :])[-1]
    return plain(name if len(name) <= _NAME else f"…{name[1 - _NAME :]}")
