"""Everything that the page shows of one sample when it is looked at."""

from __future__ import annotations

import base64
import io
import re
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.hub.images import open_rgb, size_px, whole_images_only
from mmie_tasks.judges.base import JudgeReply
from mmie_tasks.results.report.command import Row
from mmie_tasks.results.report.page import Json, counted, cut, finite, plain
from mmie_tasks.runs.benchmark import SCORE_KINDS, LoggedSample, LoggedSegment

# Small pictures of the images of a run, as many as a report has room for.

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


LookUp: TypeAlias = Callable[[str], Thumbnail]
"""From the file of an image to its thumbnail."""

MOST_IMAGES = 6
"""Of a question, a gold or an answer that are shown one by one."""

MOST_TEXT = 20_000
"""Characters of one segment."""

MOST_REPLY = 100_000
"""Characters of a judge's reply."""

SIGNATURE = 2_000
"""Characters of a signature."""

_MOST_SEGMENTS = 500
_MOST_TEXT_IN_ALL = 200_000  # characters of a question, a gold or an answer
_MOST_REPLIES = 10
_MOST_FACTS = 50
_WORDS = 500  # characters of a fact, a reading, a name or a problem


def detail(row: Row, signatures: Mapping[str, int], look_up: LookUp) -> Json:
    """A sample in every run.

    Args:
        row: The sample.
        signatures: Each signature of the task to its place in the payload.
        look_up: Gives the thumbnails.
    """
    question, gold = asked(row)
    return {
        "question": _shown(question, "the question", look_up),
        "gold": _shown(gold, "the gold answer", look_up),
        "runs": [None if each is None else _in_run(each, signatures, look_up) for each in row],
    }


def images_of(row: Row) -> list[str]:
    """The files of a sample that are shown, as often as they are shown."""
    answers = [sample.answer for sample in row if sample is not None]
    return [image for segments in (*asked(row), *answers) for image in _shown_images(segments)]


def asked(row: Row) -> tuple[Sequence[LoggedSegment], Sequence[LoggedSegment]]:
    """Question and gold, from the run whose log holds most of them; runs are asked the same."""
    samples = [sample for sample in row if sample is not None]
    return (
        max((sample.question for sample in samples), key=_wealth),
        max((sample.gold for sample in samples), key=_wealth),
    )


def _wealth(segments: Sequence[LoggedSegment]) -> tuple[int, bool]:
    return sum(_is_file(segment) for segment in segments), bool(segments)


def _is_file(segment: LoggedSegment) -> bool:
    return bool(segment.image) and not segment.problem


def _has_image(segment: LoggedSegment) -> bool:
    return bool(segment.image or segment.problem)


def _shown_images(segments: Sequence[LoggedSegment]) -> list[str]:
    """The files among the first `MOST_IMAGES` images."""
    first = islice(filter(_has_image, segments[:_MOST_SEGMENTS]), MOST_IMAGES)
    return [segment.image for segment in first if segment.image and not segment.problem]


def _shown(segments: Sequence[LoggedSegment], of: str, look_up: LookUp) -> list[Json]:
    """Texts and images in their order; where there are too many, words say how many."""
    pieces: list[Json] = []
    images = hidden = 0
    room = _MOST_TEXT_IN_ALL
    for segment in segments[:_MOST_SEGMENTS]:
        if segment.text:
            pieces += [
                *_more(hidden, "more image"),
                {"text": cut(segment.text, min(room, MOST_TEXT))},
            ]
            room -= min(len(segment.text), room)
            hidden = 0
        if _has_image(segment):
            images += 1
            if images <= MOST_IMAGES:
                pieces.append(_image(segment, f"image {images} of {of}", look_up))
            else:
                hidden += 1
    return [
        *pieces,
        *_more(hidden, "more image"),
        *_more(len(segments) - _MOST_SEGMENTS, "more part"),
    ]


def _more(count: int, what: str) -> list[Json]:
    note = f"and {counted(count, what)}"
    return [{"image": None, "alt": "", "note": note}] if count > 0 else []


def _image(segment: LoggedSegment, what: str, look_up: LookUp) -> Json:
    if segment.problem:
        written = f": {segment.image[:_WORDS]}" if segment.image else ""
        return {"image": None, "alt": what, "note": cut(f"{segment.problem}{written}", _WORDS)}
    file = segment.image or ""
    found = look_up(file)
    return {"image": found.address, "alt": f"{what}: {name_of(file)}", "note": found.note}


def _in_run(sample: LoggedSample, signatures: Mapping[str, int], look_up: LookUp) -> Json:
    return {
        "answer": _shown(sample.answer, "the answer", look_up),
        "official": _verdict(sample.official),
        "robust": _verdict(sample.robust),
        "replies": [_reply(reply) for reply in sample.replies[-_MOST_REPLIES:]],
        "signature": signatures[sample.signature],
        "facts": _facts(sample.facts),
        "parts": {reading: _parts(sample.parts.get(reading, {})) for reading in SCORE_KINDS},
    }


def _verdict(verdict: Verdict) -> Json:
    match verdict:
        case Scored(points=points, reading=reading):
            return {"points": finite(points), "reading": cut(reading, _WORDS)}
        case _:
            return {"unscored": plain(verdict.reason), "detail": cut(verdict.detail, _WORDS)}


def _reply(reply: JudgeReply) -> Json:
    return {
        "text": cut(reply.text, MOST_REPLY),
        "model": cut(reply.model, _WORDS),
        "finish": reply.finish,
        "cached": reply.cached,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "cost_usd": finite(reply.usage.cost_usd),
    }


def _facts(facts: Mapping[str, str | float | bool]) -> Json:
    first = islice(facts.items(), _MOST_FACTS)
    return {cut(name, _WORDS): _fact(value) for name, value in first}


def _fact(value: str | float | bool) -> str | float | bool:
    if isinstance(value, bool):
        return value
    known = cut(value, _WORDS) if isinstance(value, str) else finite(value)
    return "n/a" if known is None else known


def _parts(parts: Mapping[str, float]) -> Json:
    known = ((name, finite(value)) for name, value in islice(parts.items(), _MOST_FACTS))
    return {cut(name, _WORDS): value for name, value in known if value is not None}
