"""The robust reading: what the judge evidently said, whatever the marks and the order.

Beside the official one, never instead of it. The README of this room lists each difference.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

# Where a reply names a component, by number, word or ordinal, or the total.

TOTAL = 0
"""The number of a label that names the total."""

_WORDS = {
    word: number
    for number, words in enumerate(
        (
            "one first 1st a 一",
            "two second 2nd b 二",
            "three third 3rd c 三",
            "four fourth 4th d 四",
            "five fifth 5th e 五",
            "six sixth 6th f 六",
            "seven seventh 7th g 七",
            "eight eighth 8th h 八",
        ),
        1,
    )
    for word in words.split()
}
_ORDINAL = "first|second|third|fourth|fifth|sixth|seventh|eighth|1st|2nd|3rd|[4-8]th"
_CARDINAL = r"one|two|three|four|five|six|seven|eight|(?-i:[A-H])"
_COMPONENT = (
    r"(?:components?|comp\.?|componentes?|composants?|komponenten?|компонент\w{0,3}|criteri(?:on|a)"
    r"|sub-?instructions?|requirements?|parts?|aspects?|items?|组件|組件|部分|要素|コンポーネント)"
)
_STRONG = re.compile(
    rf"(?<![A-Za-z-])(?:{_COMPONENT}[\s#.:(\[\"'=>-]{{0,4}}"
    r"(?:(?:no|nr|number|num|id|index)[\s.:\"'=>]{0,5})?"
    rf"(?P<number>[0-9]{{1,3}}(?![0-9A-Za-z]|[.,][0-9]|\s{{0,3}}/|\s+out of\s)"
    rf"|(?:{_CARDINAL})(?![A-Za-z])|[一二三四五六七八])[)\]\"']{{0,2}}"
    rf"|(?P<ordinal>{_ORDINAL})\s+{_COMPONENT}(?![A-Za-z])"
    r"|第\s?(?P<cjk>[1-8一二三四五六七八])\s?(?:个|個|项|項)?\s?(?:组件|組件|部分|要素|コンポーネント)?)"
    r"|(?<![A-Za-z])(?<!sub-)(?<!max )(?<!maximum )(?<!possible )"
    r"(?P<total>totale?n?|over-?all|final|sum|aggregate|gesamt\w{0,12}|итог\w{0,6}"
    r"|总分|總分|总得分|总计|合计|合計)(?![A-Za-z])",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"(?:^|(?<=\n)|(?<=[!:] ))[ \t]*(?:[-\u2022>#|][ \t]*){0,4}[(\[]?(?P<list>[0-9]{1,2})"
    r"[ \t]?[.)\]:|](?![0-9])"
    r"|(?<![A-Za-z0-9])(?-i:C)(?P<letter>[1-9])(?!\w)"
    r"|(?<![A-Za-z])scores?[ #]{1,2}(?P<score>[1-9])"
    r"(?![\w/.]|\s{0,2}(?:/|[(\[]|out|of|points?|marks?))"
    r"|\b(?:id|index|number|no)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<id>[1-9])(?![\w/.])"
    rf"|(?<![A-Za-z])(?P<ordinal>{_ORDINAL})(?![A-Za-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Label:
    """A name in a folded text.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        number: Of the component, from 1; `TOTAL` for the total; -1 for a number no component has.
        weak: A bare number or ordinal that may mean something else.
        beside: It names only the mark that stands beside it: ``total`` and ``first`` are also
            words of titles.
    """

    start: int
    end: int
    number: int
    weak: bool = False
    beside: bool = False


def find_labels(text: str, *, weak: bool) -> list[Label]:
    """The labels of a folded text, in order.

    Args:
        text: See `folding.fold`.
        weak: Also take bare list numbers, table cells, ids, ``C1`` and ordinals for components.

    >>> [label.number for label in find("component one: 6/6, total: 6/10", weak=False)]
    [1, 0]
    """
    found = [_label(match, weak=False) for match in _STRONG.finditer(text)]
    if not weak:
        return found
    found += [_label(match, weak=True) for match in _WEAK.finditer(text)]
    found.sort(key=lambda label: (label.start, label.weak))
    return found


def _label(match: re.Match[str], *, weak: bool) -> Label:
    kind = str(match.lastgroup)
    if kind == "total":
        return Label(match.start(), match.end(), TOTAL, beside=True)
    word = match[kind].lower()
    number = _WORDS.get(word, 0) or (int(word) if word.isdigit() else 0)
    return Label(match.start(), match.end(), number or -1, weak, weak and kind == "ordinal")


# Where a reply says so many points out of so many.


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


def find_marks(text: str, label_ends: Collection[int]) -> list[Place]:
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


# Which passages of a reply are not the judge's own words.
#
# The judged answer may hold a verdict on itself, and the judge may quote it.

Kind = Literal["marks", "block"]

_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("block", r"```[^`]*```"),
    ("block", r"(?:^|(?<=\n))[ \t]{0,3}>[^\n]*(?:\n[ \t]{0,3}>[^\n]*)*"),
    ("block", r"(?<!`)`[^`\n]+`(?!`)"),
    ("block", r"<(?:response|answer|output|quote)>[^<]*<"),
    ("marks", r'"[^"]*"(?!\w)'),
    ("marks", r"(?<!\w)'(?=\S)[^'\n]*(?:(?<=\w)'\w[^'\n]*)*'(?!\w)"),
)
_WHO = r"\b(?:answer|response|reply|model|assistant|candidate|output|text|it|which|author)\b"
_SAYS = (
    r"\b(?:says?|said|saying|wrote|writes?|writing|stat(?:es?|ed|ing)|claim(?:s|ed|ing)?|reads?"
    r"|quot(?:es?|ed|ing)|asserts?|asserted|declares?|declared)\b"
)
_HOLDS = r"\b(?:contain|includ|end|add|append|insert|begin|start|conclud)(?:s|es|ed|ing)?\b"
_NOUN = r"(?:text|line|words?|sentence|claim|verdict|scores?|grades?|string|phrase|passage)"
_ASKS = (
    r"(?:trick|instruct|demand|manipulat|inject|echo|repeat|cop(?:y|ies)|pretend|order"
    r"|(?:tell|ask|request|want|order)s?\s(?:me|us|for|the\s(?:grader|judge)))"
)
_ATTRIBUTED = re.compile(
    rf"{_WHO}[^.!?\n]{{0,40}}{_SAYS}(?: that| itself| its own| the)?[^\w.!?]{{0,4}}$"
    rf"|{_WHO}[^.!?\n]{{0,40}}{_HOLDS}[^.!?\n]{{0,30}}(?:{_NOUN}[^\w.!?]{{0,4}}|\bwith[^\w.!?]{{0,4}}|[:,][^\w.!?]{{0,4}})$"
    rf"|{_WHO}[^.!?\n]{{0,40}}\b(?:itself|its own|themselves)\b[^.!?\n]{{0,20}}$"
    r"|\b(?:the|model'?s|its|candidate'?s)\s+(?:model'?s\s+)?(?:answer|response|reply|output)\s{0,3}"
    r"(?:is|was|reads)?\s{0,3}:[^\w.!?]{0,4}$"
    rf"|{_WHO}[^.!?\n]{{0,40}}\b{_ASKS}[^.!?\n]{{0,30}}$"
    r"|\b(?:quote[ds]?|quoting|quotation|claims?|claimed|fake|injected|example)\b[^.!?\n]{0,30}$"
    r"|\b(?:ignore|disregard)\b[^.!?\n]{0,80}$"
    r"|\b(?:would|could|might)\s(?:have\s)?(?:get|got|earn|receive|be|deserve)\w{0,3}\W{0,4}$",
    re.IGNORECASE,
)
_NAME_BEGINS = re.compile(r"(?:\bthe\s+)?\bscores?\s+(?:of|for)\s+(?:the\s+)?$", re.IGNORECASE)
_OURS = re.compile(r"\b(?:grad|scor|verdict|evaluat|assess|result|judg)\w{0,8}\b", re.IGNORECASE)
_DISOWNED = re.compile(
    r"\b(?:quot|claim|fake|inject|itself|its own|wrote|writes|written|cannot|can't|unable|pretend"
    r"|says|said|in the (?:response|answer)|part of|no verdict)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"[ \t`'\")\]}]*(?:[\w(-])")
_BREAK_QUOTES = re.compile(r"[.!?](?:\s|$)|\n\s*\n")
_NEAR_QUOTES = 120  # characters before a verdict that say whose it is
_AFTER = 150


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of text between quotation marks, or in a block quote or code."""

    start: int
    end: int
    kind: Kind


class Quotes:
    """The quoted passages of a folded text, and who is said to speak."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._layers = [
            [Passage(*found.span(), kind) for found in re.finditer(pattern, text, re.IGNORECASE)]
            for kind, pattern in _PATTERNS
        ]
        self._starts = [[passage.start for passage in layer] for layer in self._layers]

    def around(self, start: int, end: int) -> Passage | None:
        """A passage that holds this stretch, if one does."""
        for layer, starts in zip(self._layers, self._starts, strict=True):
            at = bisect_right(starts, start) - 1
            if at >= 0 and end <= layer[at].end:
                return layer[at]
        return None

    def attributed(self, start: int) -> bool:
        """Whether the words before this place say that somebody else is speaking."""
        before = _NAME_BEGINS.sub("", self._text[max(0, start - _NEAR_QUOTES) : start])
        return _ATTRIBUTED.search(before.rstrip("\"'` \n>")) is not None

    def same_breath(self, start: int, end: int) -> bool:
        """Whether no sentence or paragraph ends in a short stretch between two scores."""
        return end - start <= _NEAR_QUOTES and _BREAK_QUOTES.search(self._text, start, end) is None

    def trusted(self, passage: Passage, last: Passage) -> bool:
        """Whether a verdict that stands wholly in quoted passages may be the judge's own.

        Only where the reply begins with it, or it is a block announced as a grade; and only where
        the words after it do not disown it.

        Args:
            passage: The first one.
            last: The last one.
        """
        after = self._text[last.end : last.end + _AFTER]
        if _DISOWNED.search(after) or (passage.kind == "marks" and _GOES_ON.match(after)):
            return False
        if not re.search(r"[^\W\d_]", self._outside(passage.start)):
            return True
        before = self._text[max(0, passage.start - _NEAR_QUOTES) : passage.start]
        announced = _OURS.search(before) is not None and _DISOWNED.search(before) is None
        return passage.kind == "block" and announced

    def _outside(self, end: int) -> str:
        """What stands before a place and in no passage; JSON's keys do not count as words."""
        before = self._text[:end]
        return re.sub(r'"[^"]*"|```(?:json|python|text|yaml|xml)?', " ", before)


# Which mark belongs to which name in a reply.

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


# Which of the scores in a reply are its verdict.

_RESTATED = re.compile(
    r"\b(?:final|revis|correct(?:ion|ed|ing)|updat|adjust|amend|re-?evaluat|re-?assess"
    r"|on reflection|reconsider)\w{0,10}",
    re.IGNORECASE,
)
_NEAR = 60  # characters before a verdict that may say that it is the last word
_APART = 60  # characters between the components and a total that belongs to them


@dataclass(frozen=True, slots=True)
class Choice:
    """The verdict of a reply, not yet checked.

    Attributes:
        components: The mark of each; None where it has none.
        total: The stated one; None where there is none.
        attached: Whether the total stands beside the components.
        doubt: Why this is no verdict after all.
    """

    components: tuple[Mark | None, ...]
    total: Mark | None = None
    attached: bool = True
    doubt: str = ""


def share_of(components: Sequence[Mark | None], weights: Sequence[int]) -> float | None:
    """The weighted share of full marks (0 to 1); None unless every component has a possible mark.

    >>> share_of([Mark(6, 6), Mark(2, 4)], [6, 4])
    0.8
    """
    shares = [mark.share for mark in components if mark is not None and mark.possible]
    if len(shares) < len(weights):
        return None
    points = sum(share * weight for share, weight in zip(shares, weights, strict=True))
    return points / sum(weights)


def in_line(total: Mark, components: Sequence[Mark | None], weights: Sequence[int]) -> bool:
    """Whether a total is what its components make, within half a point of its own scale.

    >>> in_line(Mark(7, 10), [Mark(8, 10), Mark(5, 10)], [6, 4])  # 6.8 of 10
    True
    """
    share = share_of(components, weights)
    if share is None or not total.possible:
        return False
    return abs(total.share - share) <= 0.5 / total.out_of + 1e-9


def choose(text: str, entries: Sequence[Entry], weights: Sequence[int]) -> Choice:
    """The verdict among entries that one speaker made, in order."""
    found: dict[int, set[Mark | None]] = {number: set() for number in range(len(weights) + 1)}
    for entry in entries:
        found.setdefault(entry.number, set()).add(entry.mark)
    if all(len(values) <= 1 for values in found.values()):
        return _all_agree(text, entries, found, len(weights))
    groups = list(_groups(entries, len(weights)))
    if not groups:
        only = tuple(_only(found[number]) for number in range(1, len(weights) + 1))
        return Choice(only, doubt="one component is given two different scores")
    return _of_groups(text, entries, groups, weights)


def _only(values: set[Mark | None]) -> Mark | None:
    return next(iter(values)) if len(values) == 1 else None


def _all_agree(
    text: str, entries: Sequence[Entry], found: dict[int, set[Mark | None]], n: int
) -> Choice:
    components = tuple(_only(found[number]) for number in range(1, n + 1))
    beyond = sorted(number for number in found if not 0 <= number <= n)
    unreadable = any(None in values for values in found.values())
    doubt = "one of its scores cannot be read" if unreadable else ""
    if beyond:
        doubt = f"it scores a component that none of the {n} is"
    return Choice(components, _only(found[TOTAL]), _attached(text, entries), doubt)


def _attached(text: str, entries: Sequence[Entry]) -> bool:
    """Whether a total has a component beside it, with few words between."""
    for one, other in pairwise(entries):
        pair = {one.number == TOTAL, other.number == TOTAL}
        if len(pair) == 2 and len(text[one.end : other.start].strip()) <= _APART:
            return True
    return False


def _groups(entries: Sequence[Entry], n: int) -> Iterator[list[Entry]]:
    """Verdicts in full and in order, one after another: the total last, or first."""
    numbers = [entry.number for entry in entries]
    components = list(range(1, n + 1))
    at = 0
    while at < len(entries):
        here, next_ = numbers[at : at + n + 1], numbers[at + 1 : at + n + 2]
        last = here == [*components, TOTAL]
        first = here == [TOTAL, *components] and next_ != [*components, TOTAL]
        if last or first:
            yield list(entries[at : at + n + 1])
            at += n + 1
        else:
            at += 1


def _of_groups(
    text: str, entries: Sequence[Entry], groups: Sequence[list[Entry]], weights: Sequence[int]
) -> Choice:
    verdict = groups[-1]
    choice = _as_choice(verdict, len(weights))
    earlier = [group for group in groups if _as_choice(group, len(weights)) != choice]
    if earlier and not _restated(text, verdict[0]):
        return Choice(choice.components, choice.total, doubt="it holds two different verdicts")
    grouped = {entry.start for group in groups for entry in group}
    for entry in entries:
        if entry.start not in grouped and _contradicts(text, entry, choice, weights):
            return Choice(choice.components, choice.total, doubt="it takes part of a verdict back")
    return choice


def _as_choice(group: Sequence[Entry], n: int) -> Choice:
    marks = {entry.number: entry.mark for entry in group}
    components = tuple(marks[number] for number in range(1, n + 1))
    unreadable = None in marks.values()
    doubt = "one of its scores cannot be read" if unreadable else ""
    return Choice(components, marks[TOTAL], doubt=doubt)


def _restated(text: str, entry: Entry) -> bool:
    return _RESTATED.search(text, max(0, entry.start - _NEAR), entry.end) is not None


def _contradicts(text: str, entry: Entry, choice: Choice, weights: Sequence[int]) -> bool:
    """Whether an entry outside the verdict leaves it in doubt.

    A passing remark on a component does not: ``component 2: 4/4 would need no colour words``.
    Another total does, unless the verdict's own is the one that its components make.
    """
    if 1 <= entry.number <= len(weights):
        same = entry.mark == choice.components[entry.number - 1]
        return not same and _restated(text, entry)
    if entry.number != TOTAL:
        return True
    if entry.mark == choice.total:
        return False
    total = choice.total
    sound = total is not None and in_line(total, choice.components, weights)
    return not sound or _restated(text, entry)


# Many ways of writing the same words, made one: before anything is looked for in a reply.

_CHARACTERS = {
    **dict.fromkeys("\u2044\u2215\u29f8\u00f7", "/"),  # slashes of fractions, the division sign
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2014\u2015", " - "),  # a dash that is no minus
    **dict.fromkeys("\u2028\u2029\u0085\r\v\f", "\n"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u2192\u21d2\u27a1\u2794", "\u2192"),
    "\u00d7": "*",
    "\u3002": ".",
    "\u3001": ",",
    "\u060c": ",",  # the Arabic comma,
    "\u066b": ".",  # and decimal mark
    "\u20e3": "",  # the frame of a keycap
    "\ufe0f": "",
}
_HALVES = {"\u00bc": "25", "\u00bd": "5", "\u00be": "75"}
_VULGAR = re.compile("(\\d?) ?([\u00bc-\u00be])(?=\\s?(/|out of)?)")
_STRUCK = re.compile(r"~~[^~\n]*~~")  # what is struck out is not said
_JSON_START = re.compile(r"\s*(?:```\w*\s*)?[\[{]")
_TAG = re.compile(r"</?(?:b|i|u|em|strong|span|p|div|li|ul|ol|code|sub|sup|mark|font)\b[^<>]*>")
_LINE = re.compile(r"<(?:br|tr|/tr|/li|/p)\b[^<>]*>")
_CELL = re.compile(r"</?t[dh]\b[^<>]*>")
_LATEX_FRACTION = re.compile(
    r"\\[dt]?frac\s{0,3}\{\s{0,3}(-?[\d.]{1,9})\s{0,3}\}\s{0,3}\{\s{0,3}(-?[\d.]{1,9})\s{0,3}\}"
)
_LATEX = re.compile(r"\\(?:text\w*|math\w+|boxed|left|right|quad|[()\[\],;!])|\$")
_ESCAPE = re.compile(r"\\([^\w\s])")
_EMPHASIS = re.compile(r"\*+|(?<!\d)_+|_+(?!\d)")
_CODE_NUMBER = re.compile(r"`(\s?-?[\d.,]{1,9}(?:\s?/\s?-?[\d.]{1,9})?\s?)`")


def fold(text: str) -> str:
    r"""A reply in plain characters, without emphasis, LaTeX and struck passages.

    Line breaks, quotation marks, block quotes and code marks stay: they say who is speaking. The
    work grows with the length of the text and no faster.

    >>> fold("**Component 1：** ６⁄６, \\(\\frac{2}{4}\\)")
    'Component 1: 6/6,  2/4 '
    """
    if not text.isascii():
        text = _plain(text)
    if "\\" in text and _JSON_START.match(text):
        text = text.replace("\\n", "\n")
    text = text.replace('\\"', "'").replace("\r", "\n").replace("\t", " ")
    text = _CELL.sub(" | ", _LINE.sub("\n", _TAG.sub(" ", _STRUCK.sub("", text))))
    text = _ESCAPE.sub(r"\1", _LATEX.sub(" ", _LATEX_FRACTION.sub(r"\1/\2", text)))
    return _CODE_NUMBER.sub(r"\1", _spaced(text))


def _spaced(text: str) -> str:
    """Without the marks of emphasis; ``component_1`` is two words, and ``1_0`` is no number."""
    return _EMPHASIS.sub(lambda mark: " " if mark[0][0] == "_" else "", text)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", _VULGAR.sub(_written_out, text))
    return "".join(_folded(character) for character in text)


def _written_out(half: re.Match[str]) -> str:
    """``1½`` is 1.5, ``½/1`` is 0.5/1, and ``½`` alone is one of two."""
    if half[1] or half[3]:
        return f"{half[1] or 0}.{_HALVES[half[2]]}"
    return f" {unicodedata.normalize('NFKC', half[2])}"


def _folded(character: str) -> str:
    if character < "\x80":
        return character if character not in "\v\f" else "\n"
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if unicodedata.category(character) == "Cf":  # zero-width marks, soft hyphens, BOMs
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


# What a careful reader takes from a judge's reply, or why nothing can be taken.

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER_READING = re.compile(r"\d+")
_UNNAMED = re.compile(
    r"(?:[\n.;,]\W{0,4}(?:score|grade|rating|marks?|verdict)\W{0,5}|=\s?)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reply as it stands: nothing clamped.

    Attributes:
        components: Points out of so many for each component; None where the reply gives none.
        total: The stated total; None where it states none as a fraction.
        recomputed: The total that the components make with their weights, as a fraction of full
            marks; None unless every component has a possible mark.
        agrees: Whether the stated total is that one, within half a point of its own scale; True
            where one of them is missing.
        doubt: Why it is no verdict; None where it is one.
    """

    components: tuple[Mark | None, ...]
    total: Mark | None = None
    recomputed: float | None = None
    agrees: bool = True
    doubt: Unscored | None = None


def read_reply(text: str, weights: Sequence[int]) -> Reading:
    """Read a reply on a sample whose components have these weights.

    Never a guess: what two careful people could read differently has a `Reading.doubt`.

    >>> reading = read_reply("**Component 2**: 1,5 out of 4; component one: 6/6", (6, 4))
    >>> reading.components, reading.total, round(reading.recomputed, 2)
    ((Mark(points=6, out_of=6), Mark(points=1.5, out_of=4)), None, 0.75)
    """
    folded = fold(_after_thought(text))
    for weak in (False, True):
        found = _entries(folded, weak=weak)
        if any(entry.number != TOTAL for entry in found):
            return _checked(_spoken(folded, found, weights), weights)
    return _checked(_by_position(folded, found, weights), weights)


def _after_thought(text: str) -> str:
    """Without what a reasoning model thinks before it speaks."""
    text = text.lstrip()
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def _entries(text: str, *, weak: bool) -> list[Entry]:
    labels = find_labels(text, weak=weak)
    places = find_marks(text, {label.end for label in labels})
    return find(text, labels, places)


def _spoken(text: str, found: Sequence[Entry], weights: Sequence[int]) -> Choice:
    """The judge's own verdict; one in quotes only where it has no other and nothing disowns it."""
    own = [entry for entry in found if entry.own]
    if any(entry.number != TOTAL for entry in own):
        return _with_unnamed_total(text, found, choose(text, own, weights))
    passages = [entry.passage for entry in found if entry.passage]
    if passages and Quotes(text).trusted(passages[0], passages[-1]):
        return choose(text, found, weights)
    return Choice((None,) * len(weights), doubt="no verdict of the judge's own")


def _with_unnamed_total(text: str, found: Sequence[Entry], choice: Choice) -> Choice:
    """``Score: 8/10`` after the components is their total, if it is what they make."""
    if choice.total is not None:
        return choice
    quotes = Quotes(text)
    last = max(entry.end for entry in found)
    marks = {
        place.mark
        for place in find_marks(text, ())
        if place.start >= last
        and _UNNAMED.search(text, max(0, place.start - 30), place.start)
        and quotes.around(place.start, place.end) is None
    }
    if not marks:
        return choice
    total = marks.pop()
    if marks or total is None:
        return replace(choice, doubt=choice.doubt or "a last score that may be another total")
    return replace(choice, total=total, attached=False)


def _by_position(text: str, found: Sequence[Entry], weights: Sequence[int]) -> Choice:
    """Marks without a name, as many as there are components, each out of its weight, in order.

    Without names the scale of each mark is what shows that it belongs to its component; a total
    that its components make shows it too.
    """
    nothing = Choice((None,) * len(weights), doubt="no component is given a score")
    n = len(weights)
    bare = _bare(text, found)
    totals = {entry.mark for entry in found if not entry.attributed}
    if n < 2 or not n <= len(bare) <= n + 1 or (len(totals) + len(bare) > n + 1):
        return nothing
    marks = [place.mark for place in bare]
    components, total = tuple(marks[:n]), next(iter([*totals, *marks[n:]]), None)
    if None in marks or None in totals or not _in_order(text, bare, n):
        return nothing
    if total is None and not _each_of_its_weight(components, weights):
        return nothing
    if total is not None and not in_line(total, components, weights):
        return nothing
    return Choice(components, total)


def _bare(text: str, found: Sequence[Entry]) -> list[Place]:
    """Marks that belong to no name; none where a name or a mark is in somebody else's words."""
    quotes = Quotes(text)
    places = find_marks(text, ())
    ends = [entry.end for entry in found]
    quoted = [
        passage
        for start, end in [(p.start, p.end) for p in places] + [(e.start, e.end) for e in found]
        if (passage := quotes.around(start, end)) and _holds_words(text, passage)
    ]
    quoted.sort(key=lambda passage: passage.start)
    if quoted and not quotes.trusted(quoted[0], quoted[-1]):
        return []
    if places and quotes.attributed(places[0].start):
        return []
    return [place for place in places if place.end not in ends]


def _holds_words(text: str, passage: Passage) -> bool:
    return re.search(r"[^\W\d_]{3}", text[passage.start : passage.end]) is not None


def _in_order(text: str, bare: Sequence[Place], n: int) -> bool:
    """Whether no number before a mark says that it belongs to another component."""
    begin = 0
    for position, place in enumerate(bare[:n], 1):
        said = {int(number) for number in _NUMBER_READING.findall(text[begin : place.start][-200:])}
        if said & set(range(1, n + 1)) - {position}:
            return False
        begin = place.end
    return True


def _each_of_its_weight(components: Sequence[Mark | None], weights: Sequence[int]) -> bool:
    return all(
        mark is not None and mark.out_of == weight
        for mark, weight in zip(components, weights, strict=True)
    )


def _checked(choice: Choice, weights: Sequence[int]) -> Reading:
    recomputed = share_of(choice.components, weights)
    total = choice.total
    both = total is not None and recomputed is not None
    return Reading(
        components=choice.components,
        total=total,
        recomputed=recomputed,
        agrees=total is None or not both or in_line(total, choice.components, weights),
        doubt=next(_doubts(choice, weights), None),
    )


def _doubts(choice: Choice, weights: Sequence[int]) -> Iterator[Unscored]:
    """Why a choice is no verdict; what cannot be meant comes before what cannot be read."""
    marks = [mark for mark in (*choice.components, choice.total) if mark is not None]
    if any(not mark.possible for mark in marks):
        yield Unscored("off_scale", "a score is negative, above full marks, or out of none")
    given = sum(mark is not None for mark in choice.components)
    if choice.doubt.startswith("it scores a component"):
        yield Unscored("off_scale", choice.doubt)
    if choice.doubt:
        yield Unscored("unparsed", choice.doubt)
    if given < len(weights):
        yield Unscored("off_scale", f"{given} of {len(weights)} components have a score")
    if not _plausible(choice, weights):
        yield Unscored("unparsed", "its scales are not those of the components, nor its sums")
    if choice.total and not (choice.attached or in_line(choice.total, choice.components, weights)):
        yield Unscored("unparsed", "a total apart from the components, and not what they make")


def _plausible(choice: Choice, weights: Sequence[int]) -> bool:
    """Whether the scales show that each mark is read for what it is.

    They do where each is out of its weight, where all have one scale, where the total is what
    they make, and where points and scales add up to the total's. But points that add up to a total
    on the same scale as each of them may be parts of the whole: 6/10 and 4/10 make 10/10.
    """
    marks = [mark for mark in choice.components if mark is not None]
    total = choice.total
    if _each_of_its_weight(choice.components, weights):
        return True
    if total is not None and in_line(total, choice.components, weights):
        return True
    points, scales = sum(mark.points for mark in marks), [mark.out_of for mark in marks]
    if sorted(scales) == sorted(weights):  # the scales of other components
        return False
    if total is not None and total == (points, sum(scales)):
        return True
    parts = total is not None and {*scales} == {total.out_of} and points == total.points
    return len({*scales}) == 1 and not parts


_TENTHS = 10  # the official prompt asks for a total out of 10, whatever the weights


def robust(sample: Sample, reply: object) -> Verdict:
    """The total as a fraction of full marks, 0 to 1.

    The total the judge states; where it states none, or the weights do not add up to 10 and so the
    asked total has no full marks, the one that its components make.
    """
    if not isinstance(reply, str):
        return Unscored("unparsed", f"the reply is {type(reply).__name__}, not text")
    reading = read_reply(reply, sample.weights)
    return reading.doubt or Scored(points(reading, sample.weights))


def points(reading: Reading, weights: Sequence[int]) -> float:
    """The total of a reading without doubt, as a fraction of full marks, 0 to 1."""
    if reading.total is not None and sum(weights) == _TENTHS:
        return reading.total.share
    return reading.recomputed or 0.0


def impossible(sample: Sample, reply: str) -> bool:
    """Whether a reply says something that cannot be meant, and is worth asking for once more."""
    verdict = robust(sample, reply)
    return isinstance(verdict, Unscored) and verdict.reason == "off_scale"


def of_categories(sample: Sample, reading: Reading) -> dict[str, float]:
    """Category to the mean share of full marks of all its components; empty with a doubt."""
    shares: dict[str, list[float]] = {}
    if reading.doubt is None:
        for category, mark in zip(sample.categories, reading.components, strict=True):
            if mark is not None:
                shares.setdefault(category, []).append(mark.share)
    return {category: sum(values) / len(values) for category, values in shares.items()}
