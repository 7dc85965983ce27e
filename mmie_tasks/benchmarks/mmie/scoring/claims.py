"""Where a line of a reply says so many points out of six.

A claim is a number of points, or `DOUBT`: something is said there that two careful people could
read differently, or on another scale.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, Literal, TypeAlias

FULL_MARKS = 6.0


class _Doubt(Enum):
    DOUBT = "doubt"


DOUBT: Final = _Doubt.DOUBT

Claim: TypeAlias = "float | Literal[_Doubt.DOUBT]"

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = r"-?(?:\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
ENDS = r"(?![\w%]|[.,]\d)"  # a number is whole: no 4th, 4%, 4,5 or 1.2.3
UNIT = r"(?:[ \t]{0,2}(?:points?|pts|marks?)\b\.?)?"
OUT_OF = (
    r"[ \t]{0,3}[(\[]?[ \t]{0,3}(?:/|out[ -]of\b|of\b(?=[ \t]{1,3}(?:\d|six|a (?:max|possible))))"
    r"(?:[ \t]{1,3}(?:an?|the|possible|maximum|max|total|of)\b){0,4}[ \t]{0,3}"
    rf"(?P<d>\d{{1,9}}(?:\.0+)?|{'|'.join(_WORDS)}){ENDS}(?![ \t]{{0,2}}/)[)\]]?"
)
_ON_SCALE = (
    r"[ \t]{1,2}[(\[]?(?:on (?:an? |the )?)?(?:scale )?(?:of |from )?[01][ \t]?(?:-|to)[ \t]?6\b"
    r"(?: scale)?[)\]]?"
)
_VALUE = re.compile(
    rf"(?P<n>{DIGITS}|{'|'.join(_WORDS)}){ENDS}{UNIT}(?:{OUT_OF}{UNIT}|{_ON_SCALE})?",
    re.IGNORECASE,
)
_SCALE = re.compile(  # "(0-6)", "[out of 6]", "(max 6)", "/6:"
    r"[ \t]{0,3}(?:[(\[][ \t]{0,2}"
    r"(?P<said>(?:(?:on|a|scale|range|from|of|between|out|max|maximum|integer|:)[ \t]{0,2}){0,6}/?)"
    r"[ \t]{0,2}(?:(?P<low>\d{1,3})[ \t]{0,2}(?:-|to|and|~|\.{2,3}|,)[ \t]{0,2})?"
    r"(?P<high>\d{1,3})(?:[ \t]{0,2}(?:points?|scale|max(?:imum)?)){0,2}[ \t]{0,2}[)\]]"
    r"(?=[ \t]{0,3}(?:[:=\-|]|is\b|\d|$))|/[ \t]{0,2}(?P<slash>\d{1,3})(?=[ \t]{0,2}[:=]))",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"(?:[ \t]{0,3}(?:[:=|]|-{1,2}(?=[ \t])|>(?=[ \t])|(?:is|was)\b)){0,3}[ \t]{0,3}", re.IGNORECASE
)
_OPENING = re.compile(r"[\"'(\[{]{0,3}[ \t]{0,2}")
_CLOSED = re.compile(r"[\s\"')\]}>|.,;:!]*$")
_GOES_ON = re.compile(
    r"[ \t]{0,2}(?:(?P<sentence>[.!;][ \t]+(?=[^\W\d]))|[:,][ \t]+(?=[^\W\d])"
    r"|[ \t]-{1,2}[ \t]+(?=[^\W\d])|\([ \t]{0,2}(?=[^\W\d])"
    r"|(?=[ \t](?:because|since|due to|reflecting|based on)\b))",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:deduct\w*|subtract\w*|minus|penal\w+|reduc\w+|lower(?:ed|ing)?|rais(?:ed|ing)|adjust\w*"
    r"|revis\w+|reconsider\w*|reflection|correct(?:ion|ed)|actually|instead|wait|mistake"
    r"|chang(?:e|ed|ing)|updat\w+|becomes?|off|final score|scale"
    rf"|(?:or|and|to)(?: an?)? (?:{'|'.join(_WORDS)}))\b",
    re.IGNORECASE,
)
_REVISES = re.compile(
    r"\b(?:revis(?:e|ed|ing|ion)|reconsider\w*|on reflection|actually|correction:|scratch that|wait"
    r"|mistaken?|should (?:have been|instead)|(?:deduct|subtract|minus|less)[ \t]+(?:an?\b|one|\d)"
    r"|after (?:the )?(?:deduct|penal|subtract)\w*|changed?[ \t](?:to|my|the)|-[1-6][ \t]point)",
    re.IGNORECASE,
)
_ENUMERATES = re.compile(r"\d{1,2}[.)][ \t]+[^\W\d]")
_STARTS_AS_NUMBER = re.compile(rf"[^\w]{{0,6}}(?:\d|(?:{'|'.join(_WORDS)})\b)", re.IGNORECASE)


def value(rest: str, *, own_line: bool = False) -> Claim | None:
    """What is said after a label, or on a line of its own; None where it is no number.

    Args:
        rest: The text after ``Score``, or the whole line.
        own_line: Nothing stands before it, so that a ``-`` there is a minus.

    >>> value(" (0-6): 4/6"), value(": 4/5"), value(" reflects the quality")
    (4.0, <_Doubt.DOUBT: 'doubt'>, None)
    """
    start = 0
    scale = _SCALE.match(rest)
    if scale and (scale["said"] or scale["low"] or scale["slash"]):  # "[4]" is none
        if int(scale["high"] or scale["slash"]) != FULL_MARKS or int(scale["low"] or 0) > 1:
            return DOUBT
        start = scale.end()
    separator = _SEPARATOR.match(rest, start)
    begin = _after(_OPENING, rest, separator.end() if separator else start)
    found = _VALUE.match(rest, begin)
    if found is None:
        return DOUBT if _STARTS_AS_NUMBER.match(rest, begin) else None
    separated = own_line or bool(separator and separator[0].strip())
    if found["n"].startswith("-") and not separated:
        return DOUBT  # "Score -4": a minus, or a dash
    if not _ends_well(rest, found.end()):
        return DOUBT
    return points_of(found["n"], found["d"])


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start


def _ends_well(text: str, end: int) -> bool:
    """Whether what follows a number leaves it as it is."""
    if _CLOSED.match(text, end):
        return True
    goes_on = _GOES_ON.match(text, end)
    if goes_on is None or _CHANGES.search(text, goes_on.end()):
        return False
    return bool(goes_on["sentence"]) or not re.search(r"\d", text[goes_on.end() :])


def points_of(number: str, out_of: str | None) -> Claim:
    """The points of a number; `DOUBT` where it is out of another maximum than six."""
    if out_of is not None and _number(out_of) != FULL_MARKS:
        return DOUBT
    return _number(number)


def _number(said: str) -> float:
    word = said.lower()
    return float(_WORDS.index(word)) if word in _WORDS else float(said)


def enumerates(line: str) -> bool:
    """Whether a line is an entry of a numbered list: ``1) Clear``."""
    return _ENUMERATES.match(line) is not None


def revises(line: str) -> bool:
    """Whether a line takes something back that was said before, or may."""
    return _REVISES.search(line) is not None


def in_range(points: float) -> bool:
    """Whether it is between none and full marks."""
    return 0 <= points <= FULL_MARKS and not str(points).startswith("-")
