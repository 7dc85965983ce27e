"""Assembles the request to MMIE's judge, text and images, as the official script does.

Source: ``get_dataset`` in ``dataset.py`` and the loop of ``main.py`` (Lillianwei-h/MMIE at
eb0fd6e). The official rubric is not in this repository: the template is an argument. The rules of
the official assembly, with their lines in ``dataset.py``:

* D1, D2 (16, ``main.py``): the reference is the text of the gold answer's first segment; only MSR's
  template has a place for it. A segment without text gives ``None``. Without a segment the official
  script fails; here it is `Assembled.bad_gold`.
* D3 (22-32): a segment is its text, if it has one, with a line end, then its image as a line
  ``Image-{i}: <image>``. An empty text still ends a line.
* D4 (19, 45): `i` counts from 0, through question and answer.
* D5 (31, 48): a missing image has no line and no number.
* D6 (26, 43): an empty path is not an image. The official script opens the folder and fails.
* D7 (26, 43): an absolute path stays as it is; ours are all absolute.
* D8 (34-37): an answer that is one text is one segment; an answer without segments is judged.
* D9 (40, 50): the answer ends when question and answer together have three images.
* D10 (50): with the third image it ends at once: text after that image is not judged.
* D11 (40): if the question has three images or more, only the answer's first text is judged.
* D12 (60): a sample with more than four images is left out. Only a question with five has so many.
* D13 (30, 47): images are in the order of their lines.
* D14 (63-74): resuming a stopped run does not change a request; our cache does it.
* D15: texts are not escaped. A typed ``<image>`` takes the place of a real image when the judge's
  own code looks for its images, and a typed ``<|end|>`` ends the judge's turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from string import Formatter
from typing import TypeAlias

from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.record.segment import Segment

MAX_TOKENS = 1024
"""Limit of a reply, in tokens (``main.py``, the generation settings)."""

IMAGE = "<image>"
"""The placeholder of an image in the official text."""

IMAGES_AT_END = 3
"""Images of question and answer together at which the answer ends (D9)."""

_MOST_IMAGES = 4  # images of a sample that is judged (D12)
_CONTROL = re.compile(  # special to the judge's template or tokenizer
    r"<(?:image|IMG_CONTEXT|/?(?:img|quad|ref|box|s)|unk|\|\w{1,40}\|)>"
)

_Part: TypeAlias = "str | Path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The content of a request, and what the assembly did to sample and answer.

    Attributes:
        parts: Texts and image files in the official order; see `query`.
        images: The image paths in `parts`, as the segments have them, in order.
        left_out: Whether the official script drops the sample, for more than four images.
        bad_gold: Why a needed reference is missing (the official script fails); else empty.
        truncated: Whether the limit removed an existing image or a text of the answer, other than
            a blank one.
        typed: Control string in the texts to its number.
    """

    parts: tuple[str | Path, ...]
    images: tuple[str, ...]
    left_out: bool = False
    bad_gold: str = ""
    truncated: bool = False
    typed: Mapping[str, int] = field(default_factory=dict)


def assemble(sample: MmieSample, answer: Sequence[Segment], template: str) -> Assembled:
    """Put question, answer and, for MSR, the reference into a template, like the official script.

    Images of the answer without a file have a `Segment.problem`. The template has fields as for
    `str.format`; only its own braces have a meaning.

    Raises:
        KeyError: The template has another field than ``question``, ``answer`` and ``gt_answer``.
        ValueError: The template's braces do not match.
    """
    images: list[str] = []
    question = [part for segment in sample.question for part in _segment_parts(segment, images)]
    segments = (*sample.question, *answer, *sample.gold[: sample.category == "MSR"])
    texts = [segment.text for segment in segments if segment.text]
    control_strings = Counter(match for text in texts for match in _CONTROL.findall(text))
    shown, cut = _limited(answer, images)
    needs_gold = sample.category == "MSR" and not sample.gold
    values: Mapping[str, list[_Part]] = {
        "question": question,
        "answer": shown,
        "gt_answer": [str(sample.gold[0].text) if sample.gold else ""],
    }
    return Assembled(
        parts=tuple(_filled(template, values)),
        images=tuple(images),
        left_out=len(images) > _MOST_IMAGES,
        bad_gold="the gold answer is empty" if needs_gold else "",
        truncated=any(
            (segment.image and not segment.problem) or (segment.text or "").strip()
            for segment in cut
        ),
        typed=dict(control_strings),
    )


def query(assembled: Assembled) -> str:
    """The official text, with ``<image>`` for every image.

    >>> query(Assembled(parts=("Image-0: ", Path("a.png"), "."), images=("a.png",)))
    'Image-0: <image>.'
    """
    return "".join(IMAGE if isinstance(part, Path) else part for part in assembled.parts)


def _segment_parts(segment: Segment, images: list[str]) -> list[_Part]:
    """Text and image of a segment in the request; its image is appended to `images`."""
    parts: list[_Part] = [] if segment.text is None else [f"{segment.text}\n"]
    if segment.image and not segment.problem:
        parts += [f"Image-{len(images)}: ", Path(segment.image), "\n"]
        images.append(segment.image)
    return parts


def _limited(answer: Sequence[Segment], images: list[str]) -> tuple[list[_Part], list[Segment]]:
    """The parts of an answer in the request, and the segments that the limit removed."""
    shown: list[_Part] = []
    for position, segment in enumerate(answer):
        cut = list(answer[position + 1 :])
        if len(images) >= IMAGES_AT_END:  # by the question alone: one more text (D11)
            cut = [replace(segment, text=None), *cut]
            segment = replace(segment, image=None)
        shown += _segment_parts(segment, images)
        if len(images) >= IMAGES_AT_END:
            return shown, cut
    return shown, []


def _filled(template: str, values: Mapping[str, Sequence[_Part]]) -> Iterator[_Part]:
    """Like `str.format`, on the template only: braces in a question or an answer are text."""
    parts = (
        part
        for literal, name, _, _ in Formatter().parse(template)
        for part in (literal, *(values[name] if name is not None else ()))
    )
    for is_image, run in groupby(parts, lambda part: isinstance(part, Path)):
        if is_image:
            yield from run
        elif text := "".join(str(part) for part in run):
            yield text
