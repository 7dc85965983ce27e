"""Protocols: how a writer is told to ask for pictures, and how its text is read.

MMIE's authors never released the words of their pipeline, so these are a reconstruction. The judge
gets no text after the last picture that it sees (rule D9 of MMIE), so the words ask for as many
steps as pictures, and for nothing after the last picture. A change of the words, or of how answers
are read, needs a new `PictureProtocol.version`, which is in the signature of every answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

NO_PICTURE = "answers without a picture"
OVER_LIMIT = "pictures over the limit"
NO_WORDS = "pictures without words to draw"
LIKE_MARKER = "what looks like a marker"

_STEP = """\
Answer with text and pictures: exactly {steps}, and nothing after the last picture. Begin with the \
first step. Write plain text without headings or formatting, in the language of the question. \
After each step, put the marker [picture] on a line of its own. A picture is drawn by a \
text-to-image model that reads only the step before it, so name the people, the things and the \
place in every step, and describe what appears again in the same words."""

# The marker as writers vary it; `![picture](a.png)` and `[picture](a.png)` are links. `<image>` and
# `[image 1]`, which simple models read for the question's pictures, are markers only on a line of
# their own.
_OWN = (
    r"(?<![!\\])\[picture(?:\s*:\s*(?P<words>[^\]\n]+)|[ _#-]*\d{0,3})\](?!\()"
    r"|<picture[ _-]?\d{0,3} ?/?>"
)
_OTHERS = r"(?<!!)\[(?:image|img)[ _#-]*\d{0,3}\](?!\()|<(?:image|img)[ _-]?\d{0,3} ?/?>"
_LINE_MARKER = re.compile(
    rf"^[ \t>*_`-]*(?:{_OWN}|{_OTHERS})[ \t\r*_`.]*$", re.IGNORECASE | re.MULTILINE
)
_INLINE_MARKER = re.compile(rf"[*_`]{{0,3}}(?:{_OWN})[*_`]{{0,3}}", re.IGNORECASE)
# A marker escaped, in other brackets, or cut off by a limit of tokens; or short words in brackets
# on a line of their own: `[Insert picture here]`, `[Bild]`.
_LIKE_MARKER = re.compile(
    r"""
    \\\[picture\\?\] | \(picture\) | \{picture\} | \[p(?:i(?:c(?:t(?:ur?)?)?)?)?\Z | \[picture\Z
    | ^[ \t>*_`-]*(?:\[[^\[\]\n]{1,40}\]|【[^【】\n]{1,40}】)[ \t\r*_`.]*$
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_GREETING = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|absolutely)\b[!,.]*\s*)?"
    r"(?:here(?:'s|’s| is| are) (?:the|my|your)\b[^:\n]{0,100}:)?",
    re.IGNORECASE,
)
_LINE_START = re.compile(
    r"\A[>#•\s-]*(?:(?:step|part)\s+(?:\d{1,2}|[a-z])\s*(?:[:.)–-]|$)\s*|\d{1,2}[.)]\s+)*",
    re.IGNORECASE,
)
_FORMATTING = re.compile(r"^[ \t]*```.*$|\*+|__+|`+|\|", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The words to draw a picture from, at this place of an answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """A writer's answer as the protocol reads it: texts and prompts, and counts of unused parts."""

    content: tuple[str | Prompt, ...]
    unused: Mapping[str, int] = field(default_factory=dict)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts, in order."""
        return tuple(part for part in self.content if isinstance(part, Prompt))


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureProtocol:
    """How a writer asks for pictures.

    Attributes:
        name: Name in signatures.
        version: Raised with every change that can change an answer.
        words: The words after the question; ``{steps}`` is replaced by the number of steps.
    """

    name: str
    version: int
    words: str

    @property
    def signature(self) -> str:
        """``step-2``."""
        return f"{self.name}-{self.version}"

    def instruction(self, limit: int) -> str:
        """The words after the question, for a limit of at least one picture."""
        steps = "1 step, followed" if limit == 1 else f"{limit} steps, each followed"
        return self.words.format(steps=f"{steps} by one picture")


def read_steps(text: str, limit: int) -> WrittenAnswer:
    r"""Read an answer to `STEP`, without its thinking, for a limit on pictures.

    The text between a marker and the one before it is the picture's prompt; in ``[picture: words]``
    the words are. A marker within a line counts only in an answer without a marker on a line of its
    own. Markers above the limit are removed and counted. What looks like a marker stays text and is
    counted.

    >>> read_steps("1. A **red** door.\n[picture]\nIt opens.", 1).content
    ('1. A **red** door.', Prompt(text='A red door.'), 'It opens.')
    """
    markers = list(_LINE_MARKER.finditer(text)) or list(_INLINE_MARKER.finditer(text))
    content: list[str | Prompt] = []
    unused: Counter[str] = Counter()
    end = drawn = 0
    for marker in markers:
        step, end = text[end : marker.start()].strip(), marker.end()
        content += [step] if step else []
        if not (prompt := _without_formatting(marker["words"] or step)):
            unused[NO_WORDS] += 1
        elif drawn == limit:
            unused[OVER_LIMIT] += 1
        else:
            content.append(Prompt(text=prompt))
            drawn += 1
    rest = text[end:].strip()
    content += [rest] if rest or not content else []
    texts = [part for part in content if isinstance(part, str)]
    unused[LIKE_MARKER] = sum(
        len(pattern.findall(text)) for pattern in (_LIKE_MARKER, _INLINE_MARKER) for text in texts
    )
    if not drawn:
        unused[NO_PICTURE] += 1
    return WrittenAnswer(content=tuple(content), unused=dict(+unused))


def _without_formatting(step: str) -> str:
    """A step as a prompt: without Markdown, the number of the step, or "Sure! Here is ...:"."""
    text = _GREETING.sub("", _FORMATTING.sub("", step).strip())
    lines = (_LINE_START.sub("", line.strip()) for line in text.splitlines())
    return "\n".join(filter(None, lines))


STEP = PictureProtocol(name="step", version=2, words=_STEP)
"""For writers whose pictures a drawer draws."""
