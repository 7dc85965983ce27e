"""Texts and images of a question or an answer, from the dataset or the model to the report."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    @property
    def logged(self) -> Segment:
        """The segment that a record has. A data URI that cannot be used may be megabytes."""
        image = self.image
        if image is not None and self.problem:
            image = image[:_REFERENCE_CHARACTERS]
        return replace(self, image=image, detail="")


Segments: TypeAlias = tuple[Segment, ...]


def text_segments(content: str) -> Segments:
    """A text as one segment; no segment if it is empty."""
    return (Segment(text=content),) if content else ()
