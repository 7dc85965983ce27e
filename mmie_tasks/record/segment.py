"""Texts and images of a question or an answer, from the dataset or the model to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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

LoggedSegment: TypeAlias = Segment
"""The name of `Segment` in `mmie_tasks.extend`."""


def segment_rows(segments: Segments) -> list[dict[str, object]]:
    """Texts and images as a record has them; `log_line.segments` reads them again."""
    rows: list[dict[str, object]] = []
    for segment in segments:
        image = segment.image[:_REFERENCE_CHARACTERS] if segment.problem and segment.image else None
        row = {"text": segment.text, "image": image or segment.image}
        more = {"problem": segment.problem, "prompt": segment.prompt}
        rows.append({**row, **{name: value for name, value in more.items() if value}})
    return rows
