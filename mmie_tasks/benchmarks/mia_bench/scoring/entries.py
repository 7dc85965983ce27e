"""Which mark belongs to which name in a reply."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.benchmarks.mia_bench.scoring.labels import TOTAL, Label
from mmie_tasks.benchmarks.mia_bench.scoring.marks import Mark, Place
from mmie_tasks.benchmarks.mia_bench.scoring.quotes import Passage, Quotes

_SCORE_WORDS = (
    r"scor(?:es?|ed|ing)|rat(?:ed?|ing|es)|grad(?:es?|ed|ing)|marks?|points?|value"
    r"|gets?|got|earn(?:s|ed)?|receive[sd]?|deserves?|award(?:s|ed)?|given|gives?|assign(?:ed)?"
)
_FILLER = re.compile(
    r"(?:[\s:=|(\[{\"'`>)\]}~#\u2192•-]"
    rf"|,[\s\"']{{0,4}}(?=(?:(?:the|its|my|i|it)\s+)?(?:{_SCORE_WORDS})\b)"
    r"|[(\[](?:out of|of|max(?:imum)?|worth|weight)?:?\s?\d{1,3}"
    r"(?:\s?(?:points?|pts|marks?|%))?[)\]]"
    r"|(?<![\d.])\d{1,3}(?:\.\d{1,3})?\s{0,2}[+=]\s{0,2}"
    rf"|\b(?:{_SCORE_WORDS}|assessment|evaluation|verdict|judge?ment|is|are|was|of|an?|the|for"
    r"|its?|my|this|therefore|thus|then|so|hence"
    r"|equals|component|response|answer|instruction|total|sum|overall|final|comes|adds|up|to|i|s)\b"
    r"|得分|分数|分數|评分|分|为|是|的)*",
    re.IGNORECASE,
)
_LEADS = re.compile(
    rf"(?:[:=|(\[>\u2192\"'`-]|\b(?:{_SCORE_WORDS}|is|with|at)(?:\s+(?:an?|the|it|of|is)){{0,2}})\s{{0,3}}$",
    re.IGNORECASE,
)
_BREAK = re.compile(r"[.!?](?=\s)|\n")
_MORE_NUMBERS = re.compile(r"\s{0,3}(?:and|&|,|to|-|/)\s{0,3}(?:component\s)?\d")
_BACKWARD = re.compile(
    r"[ \t(-]{0,4}(?:points?\s|marks?\s)?(?P<preposition>(?:for|on|to|in|as)\s)?(?:the\s|a\s)?"
    r"(?:score of\s)?[(]?",
    re.IGNORECASE,
)
_LONGEST_TITLE = 400  # characters between the name of a component and its mark
_TRIES = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """What a reply says of one component or the total.

    Attributes:
        number: Of the component, from 1; 0 for the total; -1 for none that exists.
        mark: What it was given; None where that cannot be read.
        start: Where the name or the mark begins, whichever is first.
        end: Where the other one ends.
        passage: The quoted passage that holds both.
        attributed: The words before say that somebody else is speaking.
    """

    number: int
    mark: Mark | None
    start: int
    end: int
    passage: Passage | None = None
    attributed: bool = False

    @property
    def own(self) -> bool:
        """Whether the judge speaks for itself."""
        return self.passage is None and not self.attributed


def find(text: str, labels: Sequence[Label], places: Sequence[Place]) -> list[Entry]:
    """All entries of a folded text, in order; names without a mark give none."""
    quotes = Quotes(text)
    entries: list[Entry] = []
    for label, place in _pairs(text, labels, places, quotes):
        start, end = min(label.start, place.start), max(label.end, place.end)
        entry = Entry(label.number, place.mark, start, end, quotes.around(start, end))
        told = quotes.attributed(start) or _goes_on(entries[-1:], entry, quotes)
        entries.append(replace(entry, attributed=told))
    return entries


def _goes_on(previous: Sequence[Entry], entry: Entry, quotes: Quotes) -> bool:
    """Whether what somebody else says goes on from the entry before."""
    return any(
        before.attributed
        and before.passage == entry.passage
        and quotes.same_breath(before.end, entry.start)
        for before in previous
    )


def _pairs(
    text: str, labels: Sequence[Label], places: Sequence[Place], quotes: Quotes
) -> Iterator[tuple[Label, Place]]:
    starts = [place.start for place in places]
    labels = [label for label in labels if _names(text, label, places, starts)]
    claimed = -1  # marks up to this one have a name
    for i, label in enumerate(labels):
        limit = labels[i + 1].start if i + 1 < len(labels) else len(text)
        first = bisect_left(starts, label.end)
        near = [
            place
            for place in places[first : first + _TRIES]
            if place.start < limit and not _quoted_apart(text, label, place, quotes)
        ]
        ahead = _ahead(text, label, near)
        behind = places[first - 1] if first - 1 > claimed else None
        if behind is not None and _is_behind(text, label, behind, ahead):
            claimed = first - 1
            yield label, behind
        elif ahead is not None:
            claimed = bisect_left(starts, ahead.start)
            yield label, ahead


def _names(text: str, label: Label, places: Sequence[Place], starts: Sequence[int]) -> bool:
    """Whether a label names anything: see `Label.beside`."""
    at = bisect_left(starts, label.end)
    return (
        not label.beside
        or (at < len(places) and _adjacent(text, label, places[at]))
        or (at > 0 and _is_behind(text, label, places[at - 1], None))
    )


def _quoted_apart(text: str, label: Label, place: Place, quotes: Quotes) -> bool:
    """Whether a mark stands in a quotation of other words than its name."""
    passage = quotes.around(place.start, place.end)
    if passage is None or passage.start <= label.start:
        return False
    if not text[passage.start + 1 : place.start].strip():  # as in JSON: "6/6, it does"
        return False
    return passage.end - passage.start > place.end - place.start + 12


def _is_behind(text: str, label: Label, place: Place, ahead: Place | None) -> bool:
    """``6/6 for component 1``; or ``6/6 component 1``, where no mark follows on the line."""
    if place.end > label.start:
        return False
    between = _BACKWARD.fullmatch(text[place.end : label.start])
    if between is None:
        return False
    alone = ahead is None or (label.number != TOTAL and "\n" in text[label.end : ahead.start])
    return alone or between["preposition"] is not None


def _ahead(text: str, label: Label, places: Sequence[Place]) -> Place | None:
    """The mark that follows a name: at once, or after the title of a component."""
    told = [place for place in places if place.start - label.end <= _LONGEST_TITLE]
    if told and _adjacent(text, label, told[0]):
        return told[0]
    if label.number == TOTAL or _MORE_NUMBERS.match(text, label.end):
        return None
    after_title = [place for place in told if _leads(text[label.end : place.start])]
    if len({place.mark for place in after_title}) > 1:
        return replace(after_title[0], mark=None)
    return after_title[0] if after_title else None


def _adjacent(text: str, label: Label, place: Place) -> bool:
    """Whether nothing of meaning stands between a name and the mark after it."""
    between = text[label.end : place.start]
    if text[place.start] in "\"'" or text[place.start].isalpha():  # a pair: "score": 6, "max": 6
        between = between.rstrip(", ")
    return _FILLER.fullmatch(between) is not None


def _leads(title: str) -> bool:
    """Whether the words before a mark say that it is the score of what they name."""
    breaks = list(_BREAK.finditer(title))
    if not breaks:
        return _LEADS.search(title) is not None
    last = breaks[-1]
    tail = title[last.end() :]
    return bool(_FILLER.fullmatch(tail)) and (last[0] == "\n" or bool(tail.strip()))
