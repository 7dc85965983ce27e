"""Marks in the text of a reply: points out of a maximum, however the judge writes them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

TOTAL = 0
"""The number of a label that names the total; components count from 1."""


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


_CHARACTERS = str.maketrans(
    "\u2044\u2215\u29f8\u00f7\u2010\u2011\u2012\u2013\u2212\u3001\u060c\u3002\u066b\u2028\u2029\u0085"
    "\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f\u2018\u2019\u201a\u201b\v\f\r\t",
    "////-----,,..\n\n\n" + 10 * '"' + 4 * "'" + "\n\n\n ",
    "\u20e3\ufe0f",  # the frames of keycaps
)
_STRINGS = {"\u2014": " - ", "\u2015": " - ", "\u2192": "->", "\u21d2": "->"}  # dashes, no minus
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_VULGAR = re.compile("(\\d?) ?([\u00bc-\u00be])")
_QUARTERS = {"\u00bc": ".25", "\u00bd": ".5", "\u00be": ".75"}
_MARKUP = (
    (re.compile(r"~~[^~\n]*~~"), ""),  # struck out
    (re.compile(r"</?(?:b|i|em|strong|span|p|div|li|ul|ol|table|tbody|thead)\b[^<>]*>"), " "),
    (re.compile(r"<(?:br|/?tr)\b[^<>]*>"), "\n"),
    (re.compile(r"</?t[dh]\b[^<>]*>"), " | "),
    (re.compile(r"\\[dt]?frac\s?\{\s?(-?[\d.]{1,9})\s?\}\s?\{\s?(-?[\d.]{1,9})\s?\}"), r"\1/\2"),
    (re.compile(r"\\(?:text\w*|math\w+|boxed|left|right|[()\[\],;!])|\$"), " "),
    (re.compile(r"\\([^\w\s])"), r"\1"),
    (re.compile(r"\*+"), ""),
    (re.compile(r"(?<!\d)_+|_+(?!\d)"), " "),
)
_SUM = re.compile(r"(?:[\d.]{1,6} ?/ ?\d{1,4} ?\+ ?){1,9}[\d.]{1,6} ?/ ?\d{1,4} ?= ?(?=[\d.]+ ?/)")
_EQUAL = re.compile(r"(\d{1,4})/(\d{1,4}) ?= ?(\d{1,4})/(\d{1,4})(?![\d.])")


def fold(text: str) -> str:
    r"""A reply in plain characters, without thoughts, emphasis, LaTeX and struck passages.

    Line breaks, quotation marks, block quotes and code marks stay: they show whose words they
    enclose. The work grows linearly with the length of the text.

    >>> fold("**Component 1：** ６⁄６, \\(\\frac{2}{4}\\)")
    'Component 1: 6/6,  2/4 '
    """
    text = _THOUGHT.sub("", text, count=1) if _THOUGHT.match(text) else text
    if not text.isascii():
        text = _VULGAR.sub(lambda match: f"{match[1] or 0}{_QUARTERS[match[2]]}", text)
        text = "".join(map(_plain, unicodedata.normalize("NFKC", text)))
    text = text.translate(_CHARACTERS)
    if "\\" in text and re.match(r"\s*(?:```\w*\s*)?[\[{]", text):  # JSON
        text = text.replace("\\n", "\n")
    text = text.replace('\\"', "'")
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return _EQUAL.sub(_simplified, _SUM.sub("", text))


def _simplified(match: re.Match[str]) -> str:
    """``3/6`` for ``3/6 = 1/2``; two different fractions stay."""
    points, out_of, equal_points, equal_out_of = map(int, match.groups())
    return f"{points}/{out_of}" if points * equal_out_of == equal_points * out_of else match[0]


def _plain(character: str) -> str:
    if character in _STRINGS:
        return _STRINGS[character]
    if character > "\x80" and unicodedata.category(character) == "Cf":  # zero-width marks, BOMs
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


class Span(NamedTuple):
    """A mark, a label or, from the beginning of one to the end of the other, both."""

    start: int
    end: int
    mark: Mark | None = None  # None where it cannot be read
    number: int = TOTAL  # of the component; -1 for one that cannot exist
    adjacent: bool = False  # it names only the mark beside it: "total" is also a word of titles


Spans: TypeAlias = Sequence[Span]

_NUMBER = r"(?:\d{1,6}(?:[.,]\d{1,6})?|\.\d{1,6})"
_SCALE = r"(?P<d>-?\d{1,6}(?:\.\d{1,6})?)(?![\d_])"
_OUT_OF = r"out[ -]of(?:\s+(?:a|the|possible|maximum|total|of)){0,4}"
FRACTION = re.compile(  # "6/6", "6 out of 6", "score": 6, "max": 6
    rf"(?i)(?<![A-Za-z0-9_.])(?P<n>-?{_NUMBER})(?:\s?(?:points?|pts?\.?|marks?))?"
    rf"(?:\s{{0,3}}/\s{{0,3}}|\s{{1,3}}{_OUT_OF}\s{{1,3}}|\s{{0,3}}(?P<bare>\bof)\s{{1,3}}"
    rf"|\s{{0,3}}[(\[]\s?(?:{_OUT_OF}|of|max(?:imum)?\.?)\s?:?\s?){_SCALE}"
    r"|[\"']?\b(?:score|points?|awarded|earned)[\"']?\s{0,3}:\s{0,3}[\"']?"
    rf"(?P<n2>-?{_NUMBER})[\"']?\s{{0,9}},\s{{0,9}}[\"']?"
    r"(?:max\w{0,4}(?:[ _](?:score|points?))?|out[ _]?of|of|possible|weight)"
    rf"[\"']?\s{{0,3}}:\s{{0,3}}[\"']?{_SCALE.replace('<d>', '<d2>')}"
)
_WINDOW = 24  # characters around a fraction that can change its meaning
_PROPORTION = re.compile(  # "2 of 3 sentences", "2/3 of the text", "6/6 would be too much"
    r"(?i)[ \t]+(?:of\b(?![ \t]+\d)"
    r"|(?:would|could|might|may|should|if|unless|were|possible|available|requires?|needs?)\b)"
)
_ENDS = re.compile(r"[ \t]*(?:points?|marks?)?[ \t]*(?:[.,;:)\]|\"']|\n|$)", re.IGNORECASE)
_NO_MARK_BEFORE = re.compile(
    r"(?i)\b(?:between|from|not|never|than|instead of|at least|at most|up to|max(?:imum)?)\s+a?\s?$"
)
_UNREADABLE_AFTER = re.compile(
    r"(?i)\s{0,3}/\s{0,3}\d|\.\d|,(?!0*(?!\d))\d{1,6}(?!\d|\s{0,3}/|[.,]\d|\s{1,3}out[ -]of)"
    r"|\s{0,3}(?:->|=>|or|to|and/or|but|then|~)\s{0,3}-?\d|\s?=\s?\d+/|\s{0,2}[+*]\s{0,2}[\d(]"
)
_UNREADABLE_BEFORE = re.compile(r"\d(?:[-~]|\s{0,2}[)\]]?\s{0,2}[+*]\s{0,2})$")


def find_marks(text: str) -> list[Span]:
    """All marks of a folded text, in order.

    >>> [span.mark for span in find_marks("6/6, then 2 out of 4; 2/3 of the words are red")]
    [Mark(points=6, out_of=6), Mark(points=2, out_of=4)]
    """
    marks = []
    for match in FRACTION.finditer(text):
        start, end = match.span()
        mark = Mark(_number(match["n"] or match["n2"]), _number(match["d"] or match["d2"]))
        before, after = text[max(0, start - _WINDOW) : start], text[end : end + _WINDOW]
        count = _PROPORTION.match(after) or (match["bare"] and not _ENDS.match(after))
        if not count and not _NO_MARK_BEFORE.search(before):
            unreadable = _UNREADABLE_AFTER.match(after) or _UNREADABLE_BEFORE.search(before)
            marks.append(Span(start, end, None if unreadable else mark))
    return marks


def _number(digits: str) -> float:
    digits = digits.replace(",", ".")
    return float(digits) if "." in digits else int(digits)
