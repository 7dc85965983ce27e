"""Rule 2 of the robust reader: a mark, its label, and how both are written.

``component 1: 6/6``: a label (component, criterion or requirement with its number, letter or
number in words: 1, A, one; "score of" may precede it, a short title follow), then points out of the
component's weight: ``1.5/4``, ``2 out of 4``, ``two/four``. Another maximum is a doubt. The mark
may be in the line below. A total ("total", "total score", "overall", "final score") is out of 10 or
all weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mmie_tasks.benchmarks.reply_text import FINAL, NUMBER_WORD, NUMBER_WORDS


class Mark(NamedTuple):
    """Points out of a maximum, as written: neither clamped nor checked."""

    points: float
    out_of: float

    @property
    def possible(self) -> bool:
        """Whether it lies between none and full marks."""
        return 0 <= self.points <= self.out_of and self.out_of > 0

    @property
    def share(self) -> float:
        """Fraction of full marks, 0 to 1 for a `possible` mark."""
        return self.points / self.out_of


_ORDINALS = ("first", "second", "third", "fourth", "fifth")

_DIGITS = r"-?\d{1,4}(?:\.\d{1,3}|,\d{1,2})?(?!\d)|-?\.\d{1,3}"
NUMBER = rf"(?:{_DIGITS}|{NUMBER_WORD}\b)(?: ?(?:points?|marks?|pts)\b)?"
_OUT_OF = r"(?: ?/ ?| ?\(?out of(?: (?:a|the|possible|maximum|total|of)\b){0,4} )"
MARK = rf"{NUMBER}{_OUT_OF}{NUMBER}\)?(?![\d/]|[.,]\d)"

_NUMBER_OF_COMPONENT = rf"\d{{1,3}}(?![\d/]|[.,]\d)|(?:{'|'.join(NUMBER_WORDS[1:6])}|(?-i:[A-E]))\b"
_COMPONENT = (
    r"(?:(?:component|criterion|requirement)(?: number)?[ _#:.(]{0,3}"
    rf"(?P<number>{_NUMBER_OF_COMPONENT})\)?"
    rf"|(?P<ordinal>{'|'.join(_ORDINALS)}) component"
    r"|c(?P<digit>[1-9])\b)"
)
_SCORE_OF = r"(?:(?:scores?|points|marks?|rating) (?:of|for) (?:the )?)"
_TOTAL = rf"(?:total(?: scores?| points| mark)?|{FINAL}(?: (?:score|mark|grade|rating))?)\b"
LABEL = (
    rf"(?:and |the |my |{FINAL} |for |so ){{0,4}}"
    rf"(?:{_SCORE_OF}?{_COMPONENT}(?:'s)?(?: score\b)?|(?P<total>{_TOTAL}))"
)
_TITLE = (
    r"(?: ?\([^()\n]{1,200}\)"  # Component 1 (the scene): 6/6
    r"| ?\[[^\[\]\n]{1,200}\]"
    r"| ?[:-] ?[^\W\d](?:(?!\bout of\b|component|criterion|\btotal)[^\d:|()\n]){0,80}"
    r"(?:\([^()\n]{1,40}\))?(?=[:(|]| - ))"  # Component 1 - The scene (6 points): 6/6
)
_IS = (  # between label and mark
    r"(?:[ :=|]|->|-(?![\d.])|,(?= )|\b(?:is|was|gets|receives|scores?|a|the|points)\b){0,12}[(\[]?"
)


def pattern(text: str) -> re.Pattern[str]:
    """A pattern in letters of any case."""
    return re.compile(text, re.IGNORECASE)


ENTRY = pattern(rf"(?P<label>{LABEL})(?P<title>{_TITLE}?){_IS}(?P<mark>{MARK})[)\]]?")
LABEL_ALONE = pattern(rf"(?:{LABEL})(?P<title>(?: ?[:(-][^\d.!?]{{0,80}})?)")
MARK_ALONE = pattern(rf"(?:(?:score|points|mark|rating)\b)?{_IS}(?P<mark>{MARK})[)\]]?")
_NUMBERS = pattern(NUMBER)

_REQUESTED_SCALE = 10  # the official prompt requests a total out of 10, whatever the weights


def total_maxima(weights: Sequence[int]) -> tuple[int, int]:
    """What a total may be out of."""
    return (_REQUESTED_SCALE, sum(weights))


def read_value(number: str) -> float:
    """The value of a text that is a `NUMBER`."""
    digits = number.lower().split(" ")[0]
    if digits in NUMBER_WORDS:
        return float(NUMBER_WORDS.index(digits))
    return float(re.sub(r"[a-z]+", "", digits).replace(",", "."))


def read_mark(text: str) -> Mark:
    """The mark of a text that is a `MARK`.

    >>> read_mark("1,5 points out of four")
    Mark(points=1.5, out_of=4.0)
    """
    points, out_of = _NUMBERS.findall(text)
    return Mark(read_value(points), read_value(out_of))


def component_number(label: re.Match[str]) -> int:
    """The component that a `LABEL` names, from 1; 0 for the total, -1 for "component 0"."""
    if label["total"]:
        return 0
    if label["ordinal"]:
        return _ORDINALS.index(label["ordinal"].lower()) + 1
    name = (label["number"] or label["digit"]).lower()
    if name.isdecimal():
        return int(name) or -1
    return "abcde".index(name) + 1 if len(name) == 1 else NUMBER_WORDS.index(name)
