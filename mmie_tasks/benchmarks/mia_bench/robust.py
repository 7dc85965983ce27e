"""The robust reader: the marks that a judge evidently gave, in whatever form it wrote them.

It stands beside the official reader; the README lists the differences. `fold` replaces spellings;
quotations of somebody else are blanked; marks (``6/6``) and labels (``component 1``, ``total``) are
paired to entries; the verdict is chosen among these, and its scales and sums are checked. What two
careful people could read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import NamedTuple

from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

_REQUESTED_SCALE = 10  # the official prompt requests a total out of 10, whatever the weights


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The marks of a reply as they are written, nothing clamped; None where it gives none.

    Attributes:
        weights: The full marks of each component.
        components: The mark of each component.
        total: The stated total.
        doubt: Why the reply is no verdict; None where it is one.
    """

    weights: tuple[int, ...]
    components: tuple[Mark | None, ...]
    total: Mark | None = None
    doubt: Unscored | None = None

    @property
    def recomputed(self) -> float | None:
        """Total of the components with their weights, as a fraction of full marks.

        None unless every component has a possible mark.
        """
        shares = [mark.share for mark in self.components if mark is not None and mark.possible]
        if len(shares) < len(self.weights):
            return None
        points = sum(share * weight for share, weight in zip(shares, self.weights, strict=True))
        return points / sum(self.weights)

    @property
    def confirmed(self) -> bool:
        """Whether total and `recomputed` exist and are within half a point of the total's scale."""
        total, recomputed = self.total, self.recomputed
        if total is None or recomputed is None or not total.possible:
            return False
        return abs(total.share - recomputed) <= 0.5 / total.out_of + 1e-9

    @property
    def agrees(self) -> bool:
        """Whether total and `recomputed`, if both exist, are `confirmed`."""
        return self.confirmed or None in (self.total, self.recomputed)


def read_robust(sample: Sample, reply: object) -> Verdict:
    """The total as a fraction of full marks, 0 to 1.

    The total that the judge states; where it states none, or where the weights do not add up to 10
    so that a total out of 10 has no full marks, the total that its components make.
    """
    if not isinstance(reply, str):
        return Unscored("unparsed", f"the reply is {type(reply).__name__}, not text")
    parsed = read_reply(reply, sample.weights)
    if parsed.doubt:
        return parsed.doubt
    if parsed.total is not None and sample.full_marks == _REQUESTED_SCALE:
        return Scored(parsed.total.share)
    return Scored(parsed.recomputed or 0.0)


def is_impossible(sample: Sample, reply: str) -> bool:
    """Whether the marks of a reply cannot be meant, so that the judge is asked once more."""
    verdict = read_robust(sample, reply)
    return isinstance(verdict, Unscored) and verdict.reason == "off_scale"


def read_reply(text: str, weights: Sequence[int]) -> ParsedReply:
    """Read a reply on a sample whose components have these weights.

    >>> parsed = read_reply("**Component 2**: 1,5 out of 4; component one: 6/6", (6, 4))
    >>> parsed.components, parsed.total, round(parsed.recomputed, 2)
    ((Mark(points=6, out_of=6), Mark(points=1.5, out_of=4)), None, 0.75)
    """
    nothing = ParsedReply(weights=tuple(weights), components=(None,) * len(weights))
    if len(text) > LONGEST:
        return _doubted(nothing, f"the reply has {len(text):,} characters")
    folded = _BEHIND.sub(r"\g<label>: \g<mark>", fold(text))
    own_text, quotations = _without_quotations(folded)
    entries = _own(own_text, _entries(own_text))
    if not any(entry.number for entry in entries) and quotations and _is_trusted(folded, quotations):
        own_text, entries = folded, _own(folded, _entries(folded))
    if any(entry.number for entry in entries):
        return _checked(_verdict_by_name(own_text, entries, nothing))
    return _checked(_verdict_by_position(folded, nothing))


def _doubted(parsed: ParsedReply, detail: str) -> ParsedReply:
    return replace(parsed, doubt=Unscored("unparsed", detail))


# Stage 1, fold: one spelling for each character and mark-up.

_SPELLINGS = {
    "/": "\u2044\u2215\u29f8\u00f7",
    "-": "\u2010\u2011\u2012\u2013\u2212",
    " - ": "\u2014\u2015",  # dashes: no minus
    "->": "\u2192\u21d2",
    ",": "\u3001\u060c",
    ".": "\u3002\u066b",
    "\n": "\u2028\u2029\u0085\v\f\r",
    " ": "\t",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f",
    "'": "\u2018\u2019\u201a\u201b",
    "": "\u20e3\ufe0f",  # the frames of keycaps
}
_CHARACTERS = str.maketrans({c: plain for plain, chars in _SPELLINGS.items() for c in chars})
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = r"-?(?:\d{1,6}(?:[.,]\d{1,6})?|\.\d{1,6})"
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
_JSON_MARK = re.compile(  # "score": 6, "max": 6
    rf"(?i)\b(score|points?|awarded|earned)[\"']?\s{{0,3}}:\s{{0,3}}[\"']?({_NUMBER})[\"']?"
    r"\s{0,9},\s{0,9}[\"']?(?:max\w{0,4}(?: (?:score|points?))?|out ?of|of|possible|weight)"
    r"[\"']?\s{0,3}:\s{0,3}[\"']?(-?\d{1,6}(?:\.\d{1,6})?)(?![\d_])[\"']?"
)
_SUM = re.compile(  # 6/6 + 2/4 = 8/10
    r"(?:[\d.]{1,6} ?/ ?\d{1,4} ?\+ ?){1,9}[\d.]{1,6} ?/ ?\d{1,4} ?= ?(?=[\d.]+ ?/)"
)
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
        text = re.sub(r"(?<=\d) ?\u00bd", ".5", text).replace("\u00bd", "0.5")
        text = unicodedata.normalize("NFKC", text)
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")  # zero-width marks
    text = text.translate(_CHARACTERS)
    if "\\" in text and re.match(r"\s*(?:```\w*\s*)?[\[{]", text):  # JSON
        text = text.replace("\\n", "\n")
    text = text.replace('\\"', "'")
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return _EQUAL.sub(_simplified, _SUM.sub("", _JSON_MARK.sub(r"\1: \2/\3", text)))


def _simplified(match: re.Match[str]) -> str:
    """``3/6`` for ``3/6 = 1/2``; two different fractions stay."""
    points, out_of, equal_points, equal_out_of = map(int, match.groups())
    return f"{points}/{out_of}" if points * equal_out_of == equal_points * out_of else match[0]


# Stage 2, quotations: the judged answer may hold a verdict on itself, and the judge may quote it.

_QUOTATIONS = (
    re.compile(r"```[^`]*```"),
    re.compile(r"(?:^|(?<=\n))[ \t]{0,3}>[^\n]*(?:\n[ \t]{0,3}>[^\n]*)*"),
    re.compile(r"(?<!`)`[^`\n]+`(?!`)"),
    re.compile(r"<(?:response|answer|output|quote)>[^<]*<", re.IGNORECASE),
    re.compile(r'"[^"]*"(?!\w)'),
    re.compile(r"(?<!\w)'(?=\S)[^'\n]*(?:(?<=\w)'\w[^'\n]*)*'(?!\w)"),
)
_GRADING = re.compile(r"(?i)\b(?:grad|scor|verdict|evaluat|assess|result|judg)")
_DISOWNED = re.compile(
    r"(?i)\b(?:quot|claim|fake|inject|itself|its own|wrote|writes|written|cannot|can't|unable"
    r"|pretend|says|said|in the (?:response|answer)|part of|no verdict)"
)
_GOES_ON = re.compile(r"[ \t`'\")\]}]*(?:[\w(-])")  # "FAKE" is all it says
_NEAR = 120  # characters before a verdict that show whose it is
_AFTER = 150  # characters after a quotation that may disown it


def _without_quotations(text: str, *, strict: bool = False) -> tuple[str, list[tuple[int, int]]]:
    """The text with claims in quotations blanked, and where these stood.

    A quoted value stays: ``component 1: "6/6, all named"``; not if `strict`.
    """
    blanked: list[tuple[int, int]] = []

    def blank(match: re.Match[str]) -> str:
        quotation, mark = match[0], _FRACTION.search(match[0])
        if mark is None or not re.search(r"[^\W\d_]{3}", quotation):
            return quotation
        value_first = not quotation[: mark.start()].strip("\"'`> \n")
        is_value = value_first or len(quotation) - len(mark[0]) <= 12
        if is_value and not strict and not _STRONG.search(quotation):
            return quotation
        blanked.append(match.span())
        return "\0" * len(quotation)

    for pattern in _QUOTATIONS:
        text = pattern.sub(blank, text)
    return text, sorted(blanked)


def _is_trusted(text: str, quotations: Sequence[tuple[int, int]]) -> bool:
    """Whether a verdict that stands wholly in quotations may be the judge's own.

    The reply must begin with it, or announce a block as a grade; and nothing after may disown it.
    """
    start, end = quotations[0][0], quotations[-1][1]
    is_block = text[start] not in "\"'"
    after = text[end : end + _AFTER]
    if _DISOWNED.search(after) or (not is_block and _GOES_ON.match(after)):
        return False
    outside = re.sub(r'"[^"]*"|```(?:json|python|text|yaml|xml)?', " ", text[:start])
    before = text[max(0, start - _NEAR) : start]
    announced = _GRADING.search(before) is not None and _DISOWNED.search(before) is None
    return not re.search(r"[^\W\d_]", outside) or (is_block and announced)


# Stage 3, marks and labels: the names of components and of the total.

_TOTAL = 0  # the number of the total; components count from 1


class _Label(NamedTuple):
    start: int
    end: int
    number: int  # -1 for a component that cannot exist
    adjacent: bool  # it names only the mark beside it: "total" is also a word of titles


class _Entry(NamedTuple):  # a mark with or without its label
    start: int
    end: int
    mark: Mark | None  # None where it cannot be read
    number: int = _TOTAL


_OUT_OF = r"out[ -]of(?:\s+(?:a|the|possible|maximum|total|of)){0,4}"
_FRACTION = re.compile(  # "6/6", "6 points out of a maximum of 6", "6 of 6", "6 (max 6)"
    rf"(?<![A-Za-z0-9_.])(?P<n>{_NUMBER})(?:\s?(?:points?|pts?\.?|marks?))?"
    rf"(?:\s{{0,3}}/\s{{0,3}}|\s{{1,3}}{_OUT_OF}\s{{1,3}}|\s{{0,3}}(?P<bare>\bof)\s{{1,3}}"
    rf"|\s{{0,3}}[(\[]\s?(?:{_OUT_OF}|of|max(?:imum)?\.?)\s?:?\s?)"
    r"(?P<d>-?\d{1,6}(?:\.\d{1,6})?)(?![\d_])",
    re.IGNORECASE,
)
_WINDOW = 24  # characters around a fraction that can change its meaning
_PROPORTION = re.compile(  # "2/3 of the text", "6/6 would be too much"
    r"(?i)[ \t]+(?:of\b(?![ \t]+\d)"
    r"|(?:would|could|might|may|should|if|unless|were|possible|available|requires?|needs?)\b)"
)
# After "2 of 3"; "2 of 3 words" is no mark.
_ENDS = re.compile(r"(?i)[ \t]*(?:points?|marks?)?[ \t]*(?:[.,;:)\]|\"']|\n|$)")
_NO_MARK_BEFORE = re.compile(  # "more than 6/6"
    r"(?i)\b(?:between|from|not|never|than|instead of|at least|at most|up to|max(?:imum)?)\s+a?\s?$"
)
_UNREADABLE_AFTER = re.compile(  # 6/6/6, 6/6.5.1, 6/6,5, 6/6 or 5/6, 3/6 = 2/6, 6/6 + 2
    r"(?i)\s{0,3}/\s{0,3}\d|\.\d|,(?!0*(?!\d))\d{1,6}(?!\d|\s{0,3}/|[.,]\d|\s{1,3}out[ -]of)"
    r"|\s{0,3}(?:->|=>|or|to|and/or|but|then|~)\s{0,3}-?\d|\s?=\s?\d+/|\s{0,2}[+*]\s{0,2}[\d(]"
)
_UNREADABLE_BEFORE = re.compile(r"\d(?:[-~]|\s{0,2}[)\]]?\s{0,2}[+*]\s{0,2})$")  # 5-6/6, 6 + 2/10


def _marks(text: str) -> list[_Entry]:
    marks = []
    for match in _FRACTION.finditer(text):
        start, end = match.span()
        before, after = text[max(0, start - _WINDOW) : start], text[end : end + _WINDOW]
        count = _PROPORTION.match(after) or (match["bare"] and not _ENDS.match(after))
        if not count and not _NO_MARK_BEFORE.search(before):
            unreadable = _UNREADABLE_AFTER.match(after) or _UNREADABLE_BEFORE.search(before)
            mark = None if unreadable else Mark(_number(match["n"]), _number(match["d"]))
            marks.append(_Entry(start, end, mark))
    return marks


def _number(digits: str) -> float:
    digits = digits.replace(",", ".")
    return float(digits) if "." in digits else int(digits)


_ORDINAL = "first|second|third|fourth|fifth|1st|2nd|3rd|[45]th"
_NAMES = "one first 1st a two second 2nd b three third 3rd c four fourth 4th d five fifth 5th e"
_NUMBERS = {name: position // 4 + 1 for position, name in enumerate(_NAMES.split())}
_COMPONENT = (
    r"(?:[ck]omponent\w{0,2}|comp\.?|criteri(?:on|a)|sub-?instructions?|requirements?|parts?|aspects?"
    r"|items?|组件|部分)"
)
_STRONG = re.compile(  # "component #1", "Criterion (B)", "second component", "total"
    rf"(?<![A-Za-z-])(?:{_COMPONENT}[\s#.:(\[\"'=>-]{{0,4}}"
    r"(?:(?:no|nr|number|num|id|index)[\s.:\"'=>]{0,5})?"
    r"(?P<number>\d{1,3}(?![0-9A-Za-z]|[.,]\d|\s{0,3}/|\s+out of\s)"
    r"|(?:one|two|three|four|five|(?-i:[A-E]))(?![A-Za-z]))[)\]\"']{0,2}"
    rf"|(?P<named>{_ORDINAL})\s+{_COMPONENT}(?![A-Za-z]))"
    r"|(?<![A-Za-z])(?<!sub-)(?<!max )(?<!maximum )(?<!possible )"
    r"(?P<total>total|gesamt\w{0,12}|over-?all|final|sum|总分|总计)(?![A-Za-z])",
    re.IGNORECASE,
)
_BEHIND = re.compile(  # 6/6 for component 1, 6/6 (component 1), 8/10 total.
    rf"(?i)(?<!\d: )(?P<mark>{_FRACTION.pattern})(?:\]|\))?[ \t]+"
    rf"(?:(?P<bracket>\()|(?P<preposition>(?:for|on|to|in|as)[ \t]+))?(?:the |a )?(?:score of )?"
    rf"(?P<label>{_STRONG.pattern})"
    r"(?(bracket)\)|(?(preposition)(?![ \t]*(?:(?:score|of|is|[:=])[ \t]*){0,3}\d)"
    r"|(?![^\n;,.|]{0,80}\d)))"
)
_WEAK = re.compile(  # a list number, a table cell, "C1", "id": 1, "First"
    r"(?i)(?:^|(?<=\n)|(?<=[!:] ))[ \t]*(?:[-\u2022>#|][ \t]*){0,4}[(\[]?(?P<list>\d{1,2})"
    r"[ \t]?[.)\]:|](?!\d)"
    r"|(?<![A-Za-z0-9])(?-i:C)(?P<letter>[1-9])(?!\w)"
    r"|\b(?:id|index|number|no)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<id>[1-9])(?![\w/.])"
    rf"|(?<![A-Za-z])(?P<ordinal>{_ORDINAL})(?![A-Za-z])"
)


def _labels(text: str, *, weak: bool) -> list[_Label]:
    labels = []
    for match in [*_STRONG.finditer(text), *(_WEAK.finditer(text) if weak else ())]:
        kind = str(match.lastgroup)
        word = match[kind].lower()
        number = _TOTAL if kind == "total" else _NUMBERS.get(word) or int(word) or -1
        labels.append(_Label(match.start(), match.end(), number, kind in ("total", "ordinal")))
    return sorted(labels, key=lambda label: label.start)


# Stage 4, entries: which mark belongs to which label.

_SCORE = (
    r"scor\w{1,3}|rat(?:ed?|ing)|grade[ds]?|marks?|points?|value|gets?|got|earn(?:s|ed)?"
    r"|receive[sd]?|deserves?|award(?:s|ed)?|given?|gives?|assign(?:ed)?"
)
_FILLER = re.compile(  # words without a meaning between a label and its mark
    r"(?i)(?:[\s:=|(\[{\"'`>)\]}~#-]"
    rf"|,[\s\"']{{0,4}}(?=(?:(?:the|its|my|i|it)\s+)?(?:{_SCORE})\b)"
    r"|[(\[](?:out of|of|max(?:imum)?|worth|weight)?:?\s?\d{1,3}(?:\s?(?:points?|marks?|%))?[)\]]"
    r"|(?<![\d.])\d{1,3}(?:\.\d{1,3})?\s{0,2}[+=]\s{0,2}"
    rf"|\b(?:{_SCORE}|evaluation|verdict|is|are|was|of|an?|the|for|its?|my|this|therefore|thus"
    r"|then|so|hence|equals|component|response|answer|total|sum|overall|final|to|i|s)\b"
    r"|得分|分数|为|是)*"
)
_LEADS = re.compile(rf"(?i)(?:[:=|(\[>\"'`-]|\b(?:{_SCORE}|is|with|at)(?:\s+(?:an?|the|it|of|is)){{0,2}})\s{{0,3}}$")
_STOP = re.compile(r"[.!?](?=\s)|\n")
_MORE_NUMBERS = re.compile(r"\s{0,3}(?:and|&|,|to|-|/)\s{0,3}(?:component\s)?\d")  # 1 and 2
_LONGEST_TITLE = 400  # characters between the name of a component and its mark


def _entries(text: str) -> list[_Entry]:
    """The entries of a folded text; list numbers name components only where nothing else does."""
    marks = _marks(text)
    strong = _pairs(text, _labels(text, weak=False), marks)
    named = any(entry.number for entry in strong)
    return strong if named else _pairs(text, _labels(text, weak=True), marks)


def _pairs(text: str, labels: Sequence[_Label], marks: Sequence[_Entry]) -> list[_Entry]:
    naming: list[tuple[_Label, Sequence[_Entry]]] = []
    for label in labels:
        first = bisect_left(marks, label.end, key=lambda mark: mark.start)
        near = marks[first : first + 4]
        if not label.adjacent or (near and _FILLER.fullmatch(text, label.end, near[0].start)):
            naming.append((label, near))
    entries = []
    for (label, near), following in zip_longest(naming, naming[1:]):
        limit = min(following[0].start if following else len(text), label.end + _LONGEST_TITLE + 1)
        if mark := _ahead(text, label, [mark for mark in near if mark.start < limit]):
            entries.append(_Entry(label.start, mark.end, mark.mark, label.number))
    return entries


def _ahead(text: str, label: _Label, marks: Sequence[_Entry]) -> _Entry | None:
    """The mark that follows a name: at once, or after the title of a component."""
    if marks and _FILLER.fullmatch(text, label.end, marks[0].start):
        return marks[0]
    if label.number == _TOTAL or _MORE_NUMBERS.match(text, label.end):
        return None
    titled = [mark for mark in marks if _ends_title(text[label.end : mark.start])]
    differ = len({mark.mark for mark in titled}) > 1
    return titled[0]._replace(mark=None) if differ else next(iter(titled), None)


def _ends_title(title: str) -> bool:
    """Whether the words before a mark introduce it as the score of what they name."""
    *_, stop = [None, *_STOP.finditer(title)]
    if stop is None:
        return _LEADS.search(title) is not None
    tail = title[stop.end() :]
    return bool(_FILLER.fullmatch(tail)) and (stop[0] == "\n" or bool(tail.strip()))


_WHO = r"\b(?:answer|response|reply|model|assistant|candidate|output|text|it|which|author)\b"
_TELLS = (
    r"(?:sa(?:y|id)|writ|wrote|stat|claim|read|quot|assert|declar|contain|includ|end|add|append"
    r"|insert|begin|start|conclud|trick|instruct|demand|manipulat|inject|echo|repeat|cop(?:y|ie)"
    r"|pretend|order|tell|ask|request|itself|its own)"
)
_ATTRIBUTED = re.compile(
    rf"(?i){_WHO}[^.!?\n]{{0,40}}\b{_TELLS}\w*\b(?:(?!\b(?:so|thus|hence)\b)[^.!?,]){{0,30}},?$"
    r"|\b(?:the|its|model's)\s(?:answer|response|reply|output)\s?(?:is|was)?\s?:[^\w.!?]{0,4}$"
    r"|\b(?:quot|claim|fake|inject|example)\w*\b[^.!?\n]{0,30}$"
    r"|\b(?:ignore|disregard)\b[^.!?\n]{0,80}$"
    r"|\b(?:would|could|might)\s(?:have\s)?(?:get|got|earn|receive|be|deserve)\w{0,3}\W{0,4}$"
)
_NAME_BEGINS = re.compile(r"(?i)(?:\bthe\s+)?\bscores?\s+(?:of|for)\s+(?:the\s+)?$")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n\s*\n")


def _own(text: str, entries: Sequence[_Entry]) -> list[_Entry]:
    """Entries that the words before them, in their sentence, do not attribute to somebody else."""
    own: list[_Entry] = []
    foreign_end = -1  # of the last entry, if it is somebody else's
    for entry in entries:
        goes_on = 0 <= foreign_end >= entry.start - _NEAR
        goes_on = goes_on and not _SENTENCE_END.search(text, foreign_end, entry.start)
        if goes_on or _is_attributed(text, entry.start):
            foreign_end = entry.end
        else:
            foreign_end = -1
            own.append(entry)
    return own


def _is_attributed(text: str, start: int) -> bool:
    before = _NAME_BEGINS.sub("", text[max(0, start - _NEAR) : start])
    return _ATTRIBUTED.search(before.rstrip("\"'` \n>")) is not None


# Stage 5, the verdict among the entries.

_RESTATED = re.compile(r"(?i)\b(?:final|revis|correct(?:ion|ed|ing)|updat|adjust|amend|on reflection|reconsider)")
_UNNAMED = re.compile(r"(?i)(?:[\n.;,]\W{0,4}(?:score|grade|rating)\W{0,5}|=\s?)$")
_CLOSE = 60  # characters between the components and a total that belongs to them


def _verdict_by_name(text: str, entries: Sequence[_Entry], nothing: ParsedReply) -> ParsedReply:
    n = len(nothing.weights)
    numbers = {entry.number for entry in entries}
    orders = ([*range(1, n + 1), _TOTAL], [_TOTAL, *range(1, n + 1)])  # of a verdict in full
    runs = (entries[at : at + n + 1] for at in range(len(entries) - n))
    complete = [run for run in runs if [entry.number for entry in run] in orders]
    repeated = len({(entry.number, entry.mark) for entry in entries}) > len(numbers)
    if repeated and not complete:
        return _doubted(nothing, "one component is given two different scores")
    verdict = complete[-1] if repeated else entries
    marks = {entry.number: entry.mark for entry in verdict}
    attached = repeated or any(
        (one.number == _TOTAL) != (two.number == _TOTAL) and len(text[one.end : two.start].strip()) <= _CLOSE
        for one, two in pairwise(entries)
    )
    end = len(text) if _TOTAL in marks else max(entry.end for entry in entries)
    totals = {
        mark.mark  # of "Score: 8/10" after the components
        for mark in _marks(text)
        if mark.start >= end and _UNNAMED.search(text, max(0, mark.start - 30), mark.start)
    }
    if totals:
        attached, marks[_TOTAL] = False, next(iter(totals))
    components = tuple(marks.get(number) for number in range(1, n + 1))
    parsed = replace(nothing, components=components, total=marks.get(_TOTAL))
    if not repeated and not numbers <= {*range(n + 1)}:
        beyond = Unscored("off_scale", f"it scores a component beyond the {n} there are")
        return replace(parsed, doubt=beyond)
    if doubt := _contradiction(text, entries, complete, parsed) if repeated else "":
        return _doubted(parsed, doubt)
    if len(totals) > 1:
        return _doubted(parsed, "a last score that may be another total")
    if None in marks.values():
        return _doubted(parsed, "one of its scores cannot be read")
    if parsed.total and not (attached or None in parsed.components or parsed.confirmed):
        return _doubted(parsed, "a total apart from the components, and not what they make")
    return parsed


def _contradiction(
    text: str, entries: Sequence[_Entry], verdicts: Sequence[Sequence[_Entry]], parsed: ParsedReply
) -> str:
    """Why the last complete verdict is in doubt; empty where it is not.

    Remarks on a component do not matter (``component 2: 4/4 is what a beginner gets``), nor does
    another total if the verdict's own is the one that its components make.
    """
    *drafts, last = [{entry.number: entry.mark for entry in verdict} for verdict in verdicts]
    start = verdicts[-1][0].start
    revised = _RESTATED.search(text, max(0, start - _CLOSE), verdicts[-1][0].end)
    if not revised and any(draft != last for draft in drafts):
        return "it holds two different verdicts"
    for entry in entries:
        if (revised and entry.start < start) or entry.mark == last.get(entry.number, entry):
            continue  # a draft, or the same again
        retracted = _RESTATED.search(text, max(0, entry.start - _CLOSE), entry.end)
        if entry.number not in last or retracted:
            return "it takes part of a verdict back"
        if entry.number == _TOTAL and not parsed.confirmed:
            return "it states two different totals"
    return ""


def _verdict_by_position(text: str, nothing: ParsedReply) -> ParsedReply:
    """Marks without a name, in order: their scales, or the total they make, must fit."""
    n = len(nothing.weights)
    nothing = _doubted(nothing, "no component is given a score")
    text, _ = _without_quotations(text, strict=True)
    entries, marks = _entries(text), _marks(text)
    if n < 2 or not marks or _is_attributed(text, marks[0].start):
        return nothing
    ends = {entry.end for entry in entries}
    bare = [mark for mark in marks if mark.end not in ends]
    totals = {entry.mark for entry in _own(text, entries)} | {mark.mark for mark in bare[n:]}
    components = tuple(mark.mark for mark in bare[:n])
    if len(components) < n or len(totals) > 1 or None in (*components, *totals):
        return nothing
    at = 0
    for position, mark in enumerate(bare[:n], 1):  # a number before it may name another component
        numbers = set(map(int, re.findall(r"\d+", text[at : mark.start][-200:])))
        if numbers & set(range(1, n + 1)) - {position}:
            return nothing
        at = mark.end
    total = next(iter(totals), None)
    parsed = replace(nothing, components=components, total=total, doubt=None)
    on_weights = [mark and mark.out_of for mark in components] == [*parsed.weights]
    return parsed if (parsed.confirmed if total else on_weights) else nothing


# Stage 6, checks of scales and sums.


def _checked(parsed: ParsedReply) -> ParsedReply:
    """The reply with its first doubt: impossible marks come before unreadable ones."""
    doubt, missing = parsed.doubt, parsed.components.count(None)
    if any(mark is not None and not mark.possible for mark in (*parsed.components, parsed.total)):
        doubt = Unscored("off_scale", "a score is negative, above full marks, or out of none")
    elif doubt is None and missing:
        doubt = Unscored("off_scale", f"{missing} of the components have no score")
    elif doubt is None and not _is_plausible(parsed):
        doubt = Unscored("unparsed", "its scales are not those of the components, nor its sums")
    return replace(parsed, doubt=doubt)


def _is_plausible(parsed: ParsedReply) -> bool:
    """Whether the scales show that each mark is read as it was meant.

    Points that add up to a total on the same scale as each of them may be parts of a whole: 6/10
    and 4/10 make 10/10.
    """
    marks, total = [mark for mark in parsed.components if mark is not None], parsed.total
    points, scales = sum(mark.points for mark in marks), [mark.out_of for mark in marks]
    if scales == [*parsed.weights] or parsed.confirmed:
        return True
    if sorted(scales) == sorted(parsed.weights):  # the scales of other components
        return False
    parts = total is not None and {*scales} == {total.out_of} and points == total.points
    return total == (points, sum(scales)) or (len({*scales}) == 1 and not parts)
