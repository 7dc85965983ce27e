"""From what a tested model said to text and files that a judge can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mmie_tasks.interleaved.files import Finder, Found
from mmie_tasks.interleaved.reading import Reading
from mmie_tasks.interleaved.segments import Segment


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment of an answer, and the file its image is.

    Attributes:
        text: As the model wrote it, without its thinking; None where there is none.
        image: How the model refers to the image; None where there is none.
        found: The file, or why there is none; None where there is no image.
    """

    text: str | None = None
    image: str | None = None
    found: Found | None = None


def resolve(reading: Reading, finder: Finder, task: str, index: int) -> tuple[Piece, ...]:
    """The pieces of an answer, in order, with every image looked for. Never raises.

    Args:
        reading: What was said.
        finder: Where images may lie.
        task: Name of the task; some models leave images in files that are named after it.
        index: The sample's row in the task's dataset, from 0, which those names also hold.
    """
    pieces = [piece for segment in reading.segments for piece in _pieces(segment, finder, index)]
    if not any(piece.image for piece in pieces):
        pieces += [Piece(None, each, finder.find(each)) for each in finder.side_files(task, index)]
    return tuple(pieces)


def _pieces(segment: Segment, finder: Finder, index: int) -> Iterator[Piece]:
    if segment.image is None:
        yield Piece(segment.text)
        return
    found = finder.find(segment.image)
    of_folder = [] if found.path else finder.find_folder(segment.image, index)
    if not of_folder:
        yield Piece(segment.text, segment.image, found)
        return
    if segment.text is not None:
        yield Piece(segment.text)
    for path in of_folder:
        yield Piece(None, str(path), finder.find(str(path)))
