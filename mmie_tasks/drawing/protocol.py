"""The step protocol: how a writer is told to ask for images, and how its text is read.

MMIE's authors never released the words of their pipeline, so these are a reconstruction. The judge
gets no text after the last image that it sees (rule D9 of MMIE), so the words ask for as many steps
as images, and for nothing after the last image. A change of the words, or of how a text is read,
needs another `SIGNATURE`, which is in the signature of every score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.record.segment import Segment, Segments

SIGNATURE = "step-3"

NO_MARKER = "answers without a marker"
OVER_LIMIT = "images over the limit"
NO_WORDS = "images without words to draw"

_WORDS = """\
Answer with text and pictures: exactly {steps}, and nothing after the last picture. Begin with the \
first step. Write plain text without headings or formatting, in the language of the question. \
After each step, put the marker [picture] on a line of its own. A picture is drawn by a \
text-to-image model that reads only the step before it, so name the people, the things and the \
place in every step, and describe what appears again in the same words."""

# With the Markdown around it; `[picture](a.png)` is a link.
_MARKER = re.compile(
    r"(?:^[ \t]*[>*+-][ \t]+)?[*_`]*\[picture(?: \d+|:[ \t]*(?P<words>[^\]\n]+))?\](?!\()[*_`]*",
    re.IGNORECASE | re.MULTILINE,
)
_MARKDOWN = re.compile(r"^[ \t]*(?:```.*|#+ |[>*+-] )|\*\*|__|`", re.MULTILINE)


def instruction(limit: int) -> str:
    """The words after the question, for a limit of at least one image."""
    steps = "1 step, followed" if limit == 1 else f"{limit} steps, each followed"
    return _WORDS.format(steps=f"{steps} by one picture")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A text as the protocol reads it.

    Attributes:
        segments: Texts, and images to draw (segments with a `prompt` only), in order; empty for a
            text without a marker, which is judged as it is.
        unused: What the protocol could not use: name to count.
    """

    segments: Segments
    unused: Mapping[str, int]


def read_steps(text: str, limit: int) -> Steps:
    r"""Read a text, without its thinking, for a limit on images.

    A marker is ``[picture]``, ``[picture 2]`` or ``[picture: words]``. The image is drawn from the
    words, or else from the text between the marker and the one before it, without Markdown. Markers
    above the limit are removed and counted.

    >>> read_steps("A **red** door.\n[picture]\nIt opens.", 1).segments[1].prompt
    'A red door.'
    """
    segments: list[Segment] = []
    unused = Counter[str]()
    end = count = 0
    for marker in _MARKER.finditer(text):
        step, end = text[end : marker.start()].strip(), marker.end()
        segments += [Segment(text=step)] if step else []
        prompt = _MARKDOWN.sub("", marker["words"] or step).strip()
        if not any(map(str.isalnum, prompt)):
            unused[NO_WORDS] += 1
        elif count == limit:
            unused[OVER_LIMIT] += 1
        else:
            segments.append(Segment(prompt=prompt))
            count += 1
    if not end:
        return Steps(segments=(), unused={NO_MARKER: 1})
    rest = text[end:].strip()
    segments += [Segment(text=rest)] if rest or not segments else []
    return Steps(segments=tuple(segments), unused=dict(unused))
