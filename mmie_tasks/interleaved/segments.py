"""An answer as the tested model gave it: ordered text and references to images."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of an answer: a text, then an image, either of which may be absent.

    Attributes:
        text: As the model wrote it; None where there is none.
        image: How the model refers to the image: a path, an address, a data URI; None where there
            is none. Never the empty text.
    """

    text: str | None = None
    image: str | None = None
