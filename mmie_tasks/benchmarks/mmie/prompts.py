"""How an MMIE answer is put before the judge: text and images in the official order.

Source: ``get_dataset`` in ``dataset.py`` and the loop of ``main.py`` (Lillianwei-h/MMIE at
eb0fd6e). The official words are not in our files: the template is handed in. Every rule of the
official assembly, with its lines in ``dataset.py``:

* D1, D2 (16, ``main.py``): the reference is the text of the gold answer's first segment, and only
  MSR's template has a place for it. No text there is written ``None``; no segment at all ends the
  official script, and is `Assembled.bad_gold` here.
* D3 (22-32): a segment is its text, if it has one, with a line end, then its image as a line
  ``Image-{i}: <image>``. An empty text still ends a line.
* D4 (19, 45): `i` counts from 0, through question and answer.
* D5 (31, 48): an image that is not there leaves no line and takes no number.
* D6 (26, 43): an empty path is no image. The official script opens the folder and ends there.
* D7 (26, 43): an absolute path is taken as it is; ours all are.
* D8 (34-37): an answer that is one text is one segment; an answer without segments is judged.
* D9 (40, 50): the answer ends when question and answer have three images together.
* D10 (50): with the third image it ends at once: text after that image is not judged.
* D11 (40): where the question has three images or more, only the answer's first text is judged.
* D12 (60): more than four images leave the sample out. Only a question with five can reach that.
* D13 (30, 47): images go in the order of their lines.
* D14 (63-74): taking up a stopped run has no part in the request; our cache does that.
* D15: what the texts hold is not escaped. A typed ``<image>`` takes the place of a real image when
  the judge's own code looks for its images, and a typed ``<|end|>`` ends the judge's turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from string import Formatter
from typing import TypeAlias

from mmie_tasks.benchmarks.mmie.sample import Sample, Segment

MAX_TOKENS = 1024
"""How long a reply may be, in tokens (``main.py``, the generation settings)."""

IMAGE = "<image>"
"""What stands for an image in the official text."""

_LAST_IMAGE = 2  # the highest number that an image has when the answer ends (D9)
_MOST_IMAGES = 4  # images of a sample that is judged (D12)
_CONTROL = re.compile(  # what the judge's template or tokenizer takes for more than text
    r"<(?:image|IMG_CONTEXT|/?(?:img|quad|ref|box|s)|unk|\|\w{1,40}\|)>"
)

_Piece: TypeAlias = "str | Path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A request's content, and what became of the sample and the answer on the way.

    Attributes:
        parts: Text and image files in the official order; see `query`.
        images: The paths of `parts` as the segments have them, in order.
        left_out: The official script drops the sample: it has more than four images.
        bad_gold: Why there is no reference to judge by, where one is needed; empty where all is
            well. The official script ends there.
        cut_images: Images of the answer, of those that are there, which the limit took away.
        cut_texts: Texts of the answer, not counting blank ones, which the limit took away.
        missing: Paths that were looked for and are not there, in the official order.
        typed: Control strings that stand in the texts as they came, to how often.
    """

    parts: tuple[str | Path, ...]
    images: tuple[str, ...]
    left_out: bool = False
    bad_gold: str = ""
    cut_images: int = 0
    cut_texts: int = 0
    missing: tuple[str, ...] = ()
    typed: Mapping[str, int] = field(default_factory=dict)


def assemble(
    sample: Sample, answer: Sequence[Segment], template: str, *, full: bool = False
) -> Assembled:
    """Put question, answer and, for MSR, the reference into a template, as the official script.

    With `full` it differs in three places, and nowhere else: the answer's text goes on after its
    last image, and further images are left out without a trace (D10, D11); the reference is all
    texts of the gold answer, one a line (D2); and a blank is put after the ``<`` of a control
    string in the answer (D15).

    Args:
        sample: Whose question it is.
        answer: What the tested model gave. Of an image it is known whether a file is there.
        template: With the fields of `str.format`; only its own braces mean anything.
        full: See above.

    Raises:
        KeyError: The template has another field than ``question``, ``answer`` and ``gt_answer``.
        ValueError: Its braces do not match.
    """
    placed = _Placed()
    question = [piece for segment in sample.question for piece in placed.segment(segment)]
    typed = _typed([*sample.question, *answer, *sample.gold[: sample.category == "MSR"]])
    shown, cut = _answer([_tamed(s) for s in answer] if full else answer, placed)
    if full:
        shown += [f"{segment.text}\n" for segment in cut if segment.text is not None]
    reference: list[_Piece] = [_reference(sample, full=full)]
    values = {"question": question, "answer": shown, "gt_answer": reference}
    return Assembled(
        parts=tuple(_joined(_filled(template, values))),
        images=tuple(placed.images),
        left_out=len(placed.images) > _MOST_IMAGES,
        bad_gold=_bad_gold(sample, full=full),
        cut_images=sum(bool(segment.image) and not segment.missing for segment in cut),
        cut_texts=0 if full else sum(bool((segment.text or "").strip()) for segment in cut),
        missing=tuple(placed.missing),
        typed=typed,
    )


def query(assembled: Assembled) -> str:
    """The official text, with ``<image>`` for every image.

    >>> query(Assembled(parts=("Image-0: ", Path("a.png"), "."), images=("a.png",)))
    'Image-0: <image>.'
    """
    return "".join(IMAGE if isinstance(part, Path) else part for part in assembled.parts)


@dataclass(slots=True)
class _Placed:
    """The images so far, of question and answer together."""

    images: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def segment(self, segment: Segment) -> list[_Piece]:
        text = [] if segment.text is None else [f"{segment.text}\n"]
        return [*text, *self.image(segment)]

    def image(self, segment: Segment) -> list[_Piece]:
        if not segment.image:
            return []
        if segment.missing:
            self.missing.append(segment.image)
            return []
        self.images.append(segment.image)
        return [f"Image-{len(self.images) - 1}: ", Path(segment.image), "\n"]

    @property
    def full(self) -> bool:
        return len(self.images) > _LAST_IMAGE


def _answer(answer: Sequence[Segment], placed: _Placed) -> tuple[list[_Piece], list[Segment]]:
    """What is shown of an answer, and the segments that the limit took away."""
    shown: list[_Piece] = []
    for position, segment in enumerate(answer):
        rest = list(answer[position + 1 :])
        if placed.full:  # by the question alone, or the answer would have ended before
            shown += placed.segment(replace(segment, image=None))
            return shown, [replace(segment, text=None), *rest]
        shown += placed.segment(segment)
        if placed.full:
            return shown, rest
    return shown, []


def _tamed(segment: Segment) -> Segment:
    if segment.text is None or "<" not in segment.text:
        return segment
    text = _CONTROL.sub(lambda found: f"< {found[0][1:]}", segment.text)
    return replace(segment, text=text)


def _typed(segments: Iterable[Segment]) -> dict[str, int]:
    texts = (segment.text for segment in segments if segment.text and "<" in segment.text)
    return dict(Counter(found for text in texts for found in _CONTROL.findall(text)))


def _reference(sample: Sample, *, full: bool) -> str:
    if full:
        return "\n".join(s.text for s in sample.gold if s.text is not None)
    return str(sample.gold[0].text) if sample.gold else ""


def _bad_gold(sample: Sample, *, full: bool) -> str:
    if sample.category != "MSR":
        return ""
    if not sample.gold:
        return "the gold answer is empty"
    if full and not _reference(sample, full=True).strip():
        return "the gold answer has no text"
    return ""


def _filled(template: str, values: Mapping[str, Sequence[_Piece]]) -> Iterator[_Piece]:
    """As `str.format`, on the template only: braces in a question or an answer are text."""
    for literal, name, _, _ in Formatter().parse(template):
        yield literal
        if name is not None:
            yield from values[name]


def _joined(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    for is_image, run in groupby(pieces, lambda piece: isinstance(piece, Path)):
        if is_image:
            yield from run
        elif text := "".join(str(piece) for piece in run):
            yield text
