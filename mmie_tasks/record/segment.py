"""Texts and images of a question or an answer, as a run logged them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class LoggedSegment:
    """A text followed by an image, of a question or an answer; either may be absent.

    Attributes:
        text: Empty if there is none. Untrusted: it comes from a dataset or a model.
        image: Path of the image file as the run logged it; the file may be gone. None if there is
            no image.
        problem: Why the image could not be used. `image` then holds the original reference, which
            must not be opened.
        prompt: The words that the image was drawn to; empty if they are not known. Untrusted.
    """

    text: str = ""
    image: str | None = None
    problem: str = ""
    prompt: str = ""


Segments: TypeAlias = tuple[LoggedSegment, ...]
