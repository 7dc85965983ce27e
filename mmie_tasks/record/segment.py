"""Texts and images of a question or an answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TypeAlias

IMAGE_PLACEHOLDER = "<image>"
"""Placeholder for an image in a text."""

_REFERENCE_CHARACTERS = 200  # logged of an unusable image: a data URI may be megabytes


@dataclass(frozen=True, slots=True)
class Segment:
    """A text followed by an image; either may be absent.

    Attributes:
        text: Untrusted text from a dataset or a model; None if absent.
        image: Path of the image file, which may be gone when a log is read. Before images are
            resolved, it is what a model wrote: a path, a URL, a data URI. None if absent.
        problem: Why the image cannot be used: ``missing``. `image` is then the original reference,
            which must not be opened.
        detail: A readable description of the problem, not logged.
        prompt: The words that the image was drawn from, untrusted; empty if unknown.
        sha256: SHA-256 of the image file of an answer when it was judged, in hexadecimal; empty if
            unknown.
    """

    text: str | None = None
    image: str | None = None
    problem: str = ""
    detail: str = ""
    prompt: str = ""
    sha256: str = ""

    @property
    def logged(self) -> Segment:
        """What a record stores of the segment; of an unusable image, only the beginning."""
        if not self.problem:
            return self
        return replace(self, image=self.image and self.image[:_REFERENCE_CHARACTERS], detail="")


Segments: TypeAlias = tuple[Segment, ...]


def text_segments(content: str) -> Segments:
    """A text as one segment; no segment if it is empty."""
    return (Segment(text=content),) if content else ()


def digest_of(answer: Segments) -> str:
    """A short digest of an answer as its judge got it; empty if it has no text and no images.

    It is that of its words, and of the SHA-256 of each image, or the name of the file if that is
    unknown.
    """
    words = " ".join(" ".join(segment.text or "" for segment in answer).split())
    images = [
        segment.sha256 or PurePath(segment.image.replace("\\", "/")).name
        for segment in answer
        if segment.image
    ]
    content = "\n".join([words, *images])
    encoded = content.encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:16] if answer else ""
