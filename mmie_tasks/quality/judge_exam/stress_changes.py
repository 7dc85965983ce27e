"""Changes of answers for the stress test of a judge.

There are changes that a fair judge must not score higher, and harmless ones that it should not care
about. A change depends on the answer and on other samples' answers (donors) alone, so it is the
same in every process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.hub.images import open_bounded, open_rgb
from mmie_tasks.record.segment import Segment, Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer. Every image is the path of a file, which need not exist."""

    question: Segments
    answer: Segments


_NewSegments: TypeAlias = Callable[[Segments, Iterable[Segments], Path], Segments | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an answer, or of the question's images.

    Attributes:
        name: For JSON.
        title: For tables.
        new_segments: Given the segments, those of donors in order of preference, and a folder for
            copies of images: the changed segments, or None where the change does not apply.
        is_harmless: Whether a fair judge should not care about it; it must not score any other
            change higher.
        in_question: Whether it changes the question instead of the answer.
    """

    name: str
    title: str
    new_segments: _NewSegments
    is_harmless: bool = False
    in_question: bool = False

    def apply(
        self, exchange: Exchange, donors: Iterable[Exchange], folder: Path
    ) -> Exchange | None:
        """The changed exchange, given donors in order of preference and a folder for copies; None
        if it does not apply.

        Raises:
            DataMissing: An image to copy does not exist.
            DataBroken: An image to copy is damaged, or has too many pixels.
        """
        if self.in_question:
            questions = (donor.question for donor in donors)
            question = self.new_segments(exchange.question, questions, folder)
            return None if question is None else replace(exchange, question=question)
        answer = self.new_segments(exchange.answer, (donor.answer for donor in donors), folder)
        return None if answer is None else replace(exchange, answer=answer)


AGAIN = Change("again", "asked again, unchanged", lambda segments, *_: segments, is_harmless=True)
"""What the noise of the judge alone does; every request has another attempt, so no cached reply."""


def changes(*, has_answer_images: bool) -> tuple[Change, ...]:
    """The changes for a run. If no answer of it has an image, the question's images are changed."""
    owner = "images" if has_answer_images else "question's images"
    of_images = partial(Change, in_question=not has_answer_images)
    harmless = partial(of_images, is_harmless=True)
    smaller = partial(_with_copies, resized=0.95)
    of_answer_images = (
        Change("images_shuffled", "images shuffled", _images_shuffled),
        Change("images_removed", "images removed", _images_removed),
    )
    return (
        *(of_answer_images if has_answer_images else ()),
        of_images("images_replaced", f"{owner} of another sample", _images_replaced),
        Change("text_replaced", "text of another answer", _text_replaced),
        Change("steps_reversed", "steps in reverse order", _steps_reversed),
        Change("emptied", "empty answer", _emptied),
        harmless("images_reencoded", f"{owner} re-encoded", _with_copies),
        harmless("images_resized", f"{owner} 5 % smaller", smaller),
        Change("whitespace", "more white space", _whitespace, is_harmless=True),
    )


def _images_shuffled(segments: Segments, *_: object) -> Segments | None:
    """Every image moves by as many positions as it takes to get another order."""
    images = images_of(segments)
    orders = ([*images[shift:], *images[:shift]] for shift in range(1, len(images)))
    order = next((order for order in orders if order != images), None)
    return None if order is None else _with_images(segments, order)


def _images_removed(segments: Segments, *_: object) -> Segments | None:
    has_images = bool(images_of(segments))
    return tuple(replace(segment, image=None) for segment in segments) if has_images else None


def _images_replaced(segments: Segments, donors: Iterable[Segments], _: Path) -> Segments | None:
    """The donor is the first with other images; if it has too few, they are used several times."""
    own = images_of(segments)
    others = ([image for image in images_of(donor) if image not in own] for donor in donors)
    donated = next(filter(None, others), None) if own else None
    return None if donated is None else _with_images(segments, cycle(donated))


def _text_replaced(segments: Segments, donors: Iterable[Segments], _: Path) -> Segments | None:
    """The whole text of the donor takes the place of the first text; the images stay where they
    are.
    """
    own = _text_of(segments)
    donated = next((text for text in map(_text_of, donors) if text and text != own), None)
    if not own or donated is None:
        return None
    first = next(index for index, segment in enumerate(segments) if _has_text(segment))
    return tuple(
        replace(segment, text=donated if index == first else "" if segment.text == "" else None)
        for index, segment in enumerate(segments)
    )


def _emptied(segments: Segments, *_: object) -> Segments | None:
    return () if _text_of(segments) or images_of(segments) else None


def _steps_reversed(segments: Segments, *_: object) -> Segments | None:
    """A step is a text with the images after it; in an answer of a single text a paragraph, or
    else a line.
    """
    steps: list[list[Segment]] = []
    for segment in segments:
        if _has_text(segment) or not steps:
            steps.append([])
        steps[-1].append(segment)
    if len(steps) > 1:
        return tuple(segment for step in reversed(steps) for segment in step)
    if images_of(segments):
        return None
    for pattern, separator in ((r"\n\s*\n", "\n\n"), (r"\n", "\n")):
        parts = [part for part in re.split(pattern, _text_of(segments)) if part.strip()]
        if len(parts) > 1:
            return (Segment(text=separator.join(reversed(parts))),)
    return None


def _with_copies(
    segments: Segments, _donors: Iterable[Segments], folder: Path, resized: float = 1
) -> Segments | None:
    copies = [str(copied(Path(image), folder, resized)) for image in images_of(segments)]
    return _with_images(segments, copies) if copies else None


def _whitespace(segments: Segments, *_: object) -> Segments | None:
    if not _text_of(segments):
        return None
    return tuple(replace(s, text=_spaced(s.text)) if s.text else s for s in segments)


def _spaced(text: str) -> str:
    r"""A text with more blanks after its sentences and lines, and more blank lines where there are
    any.

    >>> _spaced("One. Two.\nThree.\n\nFour.")
    'One.  Two. \nThree. \n\n\nFour. \n\n'
    """
    text = re.sub(r"(?<=[.!?:]) (?=\S)", "  ", text)
    text = re.sub(r"\n[ \t]*\n", "\n\n\n", text)
    return re.sub(r"(?<=\S)\n", " \n", text) + " \n\n"


def images_of(segments: Segments) -> list[str]:
    """The images, in order."""
    return [segment.image for segment in segments if segment.image]


def _text_of(segments: Segments) -> str:
    """The texts that are not blank, one after the other."""
    return "\n".join(segment.text or "" for segment in segments if _has_text(segment))


def _has_text(segment: Segment) -> bool:
    return bool(segment.text and segment.text.strip())


def _with_images(segments: Segments, images: Iterable[str]) -> Segments:
    """The segments with other images, in order."""
    remaining = iter(images)
    return tuple(replace(s, image=next(remaining)) if s.image else s for s in segments)


def donors(exchanges: Sequence[tuple[str, Exchange]], position: int) -> Iterator[Exchange]:
    """Exchanges with another question: first those of the same stratum, in either case from the
    next one on.

    Args:
        exchanges: Stratum and exchange of all samples, in a random order.
        position: Of the sample that needs a donor.
    """
    stratum, exchange = exchanges[position]
    for is_same in (True, False):
        for other_stratum, other in (*exchanges[position + 1 :], *exchanges[:position]):
            if (other_stratum == stratum) is is_same and other.question != exchange.question:
                yield other


def copied(path: Path, folder: Path, resized: float = 1) -> Path:
    """A PNG in other bytes, the same for the same image, with the same pixels unless it is resized;
    orientation and colour profile stay.

    Args:
        path: The image.
        folder: For the copy, which is named by the image's content.
        resized: Width and height, as a share of the original ones.

    Raises:
        DataMissing: No such file, or no permission to read it.
        DataBroken: Not an image, damaged, or with too many pixels.
    """
    from PIL import Image, PngImagePlugin

    image = open_bounded(path)
    target = folder / f"{hashlib.sha256(path.read_bytes()).hexdigest()}-{resized}.png"
    smooth = ("L", "LA", "RGB", "RGBA")  # colours of a palette cannot be mixed
    if image.mode not in (smooth if resized != 1 else (*smooth, "1", "P", "I;16")):
        image = image.convert("RGBA") if image.has_transparency_data else open_rgb(path)
    if resized != 1:
        size = (max(1, round(image.width * resized)), max(1, round(image.height * resized)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    comment = PngImagePlugin.PngInfo()
    comment.add_text("Comment", "copy")  # other bytes than those of any PNG that is not a copy
    profile, orientation = image.info.get("icc_profile"), image.info.get("exif", b"")
    image.save(
        target, "PNG", pnginfo=comment, icc_profile=profile, exif=orientation, compress_level=1
    )
    return target
