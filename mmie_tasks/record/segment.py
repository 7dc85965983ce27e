"""Texts and images of a question or an answer, from the dataset or the model to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.record.fields import Record, field, optional_text

_REFERENCE_CHARACTERS = 200  # of an image that cannot be used


@dataclass(frozen=True, slots=True)
class Segment:
    """A text followed by an image, of a question or an answer; either may be absent.

    Attributes:
        text: None if absent; an empty text is a text. Untrusted: it comes from a dataset or a
            model.
        image: Path of the image file, which may be gone when a log is read; before images are
            resolved, what a model wrote: a path, a URL, a data URI. None if there is no image.
        problem: Why the image cannot be used: ``missing``. `image` is then the original reference,
            which must not be opened.
        detail: The problem for people; it is not logged.
        prompt: The words that the image was drawn to; empty if they are not known. Untrusted.
    """

    text: str | None = None
    image: str | None = None
    problem: str = ""
    detail: str = ""
    prompt: str = ""


Segments: TypeAlias = tuple[Segment, ...]


def segment_rows(segments: Segments) -> list[dict[str, object]]:
    """Texts and images as a record has them; `read_segments` reads them again."""
    rows: list[dict[str, object]] = []
    for segment in segments:
        image = segment.image
        if image is not None and segment.problem:
            image = image[:_REFERENCE_CHARACTERS]
        more = {"problem": segment.problem, "prompt": segment.prompt}
        known = {name: value for name, value in more.items() if value}
        rows.append({"text": segment.text, "image": image, **known})
    return rows


def read_segments(record: Record, name: str) -> Segments | None:
    """Texts and images of a record in their order; None if the record has none.

    Raises:
        BadRecord: The field is not a list of objects with ``text`` and ``image``.
    """
    value = field(record, name, list, "a list of text and images", elements=Mapping)
    if value is None:
        return None
    return tuple(
        Segment(
            text=field(segment, "text", str, "a text"),
            image=optional_text(segment, "image") or None,
            problem=optional_text(segment, "problem"),
            prompt=optional_text(segment, "prompt"),
        )
        for segment in value
    )
