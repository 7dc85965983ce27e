"""Where a reply says so many points out of so many."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class Mark(NamedTuple):
    """Points out of so many, literally: neither clamped nor checked."""

    points: float
    out_of: float

    @property
    def possible(self) -> bool:
        """Whether it lies between none and full marks."""
        return 0 <= self.points <= self.out_of and self.out_of > 0

    @property
    def share(self) -> float:
        """Fraction of full marks; of a `possible` mark 0 to 1."""
        return self.points / self.out_of


@dataclass(frozen=True, slots=True)
class Place:
    """A mark and where it stands; None where there is one that cannot be read."""

    start: int
    end: int
    mark: Mark | None


_NUMBER = r"(?:\d{1,6}(?:[.,]\d{1,6})?|\.\d{1,6})"
_UNIT = r"(?:\s?(?:points?|pts?\.?|marks?|分))?"
_OUT_OF = r"out[ -]of(?:\s+(?:a|the|possible|maximum|max\.?|total|of)){0,4}"
_FRACTION = re.compile(
    rf"(?<![A-Za-z0-9_.])(?P<n>-?{_NUMBER}){_UNIT}"
    rf"(?:\s{{0,3}}/\s{{0,3}}|\s{{1,3}}{_OUT_OF}\s{{1,3}}|\s{{0,3}}(?P<bare>\bof)\s{{1,3}}"
    rf"|\s{{0,3}}[(\[]\s?(?:{_OUT_OF}|of|max(?:imum)?\.?)\s?:?\s?)"
    r"(?P<d>-?\d{1,6}(?:\.\d{1,6})?)(?![\d_])",
    re.IGNORECASE,
)
_PAIR = re.compile(  # as in JSON: "score": 6, "max": 6
    r"[\"']?\b(?:score|points?|value|awarded|earned)[\"']?\s{0,3}:\s{0,3}[\"']?"
    rf"(?P<n>-?{_NUMBER})[\"']?\s{{0,9}},\s{{0,9}}[\"']?"
    r"(?:max\w{0,4}(?:[ _](?:score|points?))?|out[ _]?of|of|possible|weight|full(?:[ _]marks)?)"
    r"[\"']?\s{0,3}:\s{0,3}[\"']?(?P<d>-?\d{1,6}(?:\.\d{1,6})?)(?![\d_.])",
    re.IGNORECASE,
)
_CHAINED = re.compile(r"\s{0,3}/\s{0,3}\d|\.\d")
_DECIMAL_COMMA = re.compile(r",(\d{1,6})(?!\d|\s{0,3}/|[.,]\d|\s{1,3}out[ -]of)")
_OTHERWISE = re.compile(
    r"\s{0,3}(?:->|\u2192|=>|or|to|and/or|but|then|~)\s{0,3}-?\d", re.IGNORECASE
)
_NO_MARK_AFTER = re.compile(  # a proportion, or what might have been
    r"[ \t]+(?:of\b(?![ \t]+\d)"
    r"|(?:would|could|might|should|if|unless|were|possible|available|requires?|needs?)\b)",
    re.IGNORECASE,
)
_ENDS_BARE = re.compile(r"[ \t]*(?:points?|pts|marks?)?[ \t]*(?:[.,;:)\]|\"']|\n|$)", re.IGNORECASE)
_NO_MARK_BEFORE = re.compile(
    r"\b(?:between|from|not|never|than|instead of|at least|at most|up to|max(?:imum)?)"
    r"\s{1,3}a?\s?$",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\d\s{0,2}[-~]\s{0,2}$")
_OPERATOR_BEFORE = re.compile(r"\d\s{0,2}[)\]]?\s{0,2}[+*]\s{0,2}$")
_OPERATOR_AFTER = re.compile(r"\s{0,2}[+*]\s{0,2}[\d(]")
_LOOK = 24  # characters around a fraction that can change what it says


def find(text: str, label_ends: Collection[int]) -> list[Place]:
    """All marks of a folded text, in order.

    Args:
        text: See `folding.fold`.
        label_ends: Where labels end: ``component 1 - 6/6`` holds no range ``1 - 6``.
    """
    places = [
        place
        for found in (*_PAIR.finditer(text), *_FRACTION.finditer(text))
        if (place := _place(text, found, label_ends))
    ]
    places.sort(key=lambda place: (place.start, -place.end))
    separate = [p for i, p in enumerate(places) if not i or p.start >= places[i - 1].end]
    return _without_arithmetic(text, separate)


def _place(text: str, found: re.Match[str], label_ends: Collection[int]) -> Place | None:
    start, end = found.span()
    before, after = text[max(0, start - _LOOK) : start], text[end : end + _LOOK]
    if "bare" in found.re.groupindex and found["bare"] and not _ENDS_BARE.match(after):
        return None  # "2 of 3 sentences"
    if _NO_MARK_AFTER.match(after) or _NO_MARK_BEFORE.search(before):
        return None
    comma = _DECIMAL_COMMA.match(after)
    in_range = (span := _RANGE.search(before)) and start - len(before) + span.start() + 1
    unreadable = (
        (in_range and in_range not in label_ends)
        or _CHAINED.match(after)
        or (comma and comma[1].strip("0"))
        or _OTHERWISE.match(after)
    )
    mark = None if unreadable else Mark(_number(found["n"]), _number(found["d"]))
    return Place(start, end, mark)


def _number(digits: str) -> float:
    digits = digits.replace(",", ".")
    return float(digits) if "." in digits else int(digits)


def _without_arithmetic(text: str, places: Sequence[Place]) -> list[Place]:
    """``6/6 + 2/4 = 8/10`` says 8/10, and ``3/6 = 1/2`` says 3/6."""
    kept: list[Place] = []
    for run, signs in _runs(text, places):
        if not signs.strip("-"):  # dashes between marks that stand for themselves
            kept += [_unless_operand(text, place) for place in run]
        else:
            kept.append(replace(_result(run, signs), start=run[0].start, end=run[-1].end))
    return kept


def _runs(text: str, places: Sequence[Place]) -> list[tuple[list[Place], str]]:
    """Marks in runs with nothing but one sign between them, and those signs."""
    runs: list[tuple[list[Place], str]] = []
    for place in places:
        previous = runs[-1][0][-1].end if runs else None
        sign = text[previous : place.start].strip(" ") if previous is not None else ""
        if sign and len(sign) == 1 and sign in "+-*=":
            runs[-1][0].append(place)
            runs[-1] = (runs[-1][0], runs[-1][1] + sign)
        else:
            runs.append(([place], ""))
    return runs


def _result(run: Sequence[Place], signs: str) -> Place:
    if not signs.strip("="):
        marks = [place.mark for place in run]
        same = all(m and m.possible and marks[0] and m.share == marks[0].share for m in marks)
        return run[0] if same else replace(run[0], mark=None)
    return run[-1] if signs[-1] == "=" else replace(run[0], mark=None)


def _unless_operand(text: str, place: Place) -> Place:
    before = text[max(0, place.start - _LOOK) : place.start]
    operand = _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(text, place.end)
    return replace(place, mark=None) if operand else place
