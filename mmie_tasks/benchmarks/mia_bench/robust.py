"""The robust reader: the marks that a judge evidently gave, in whatever form it wrote them.

It stands beside the official reader; the README lists the differences. What is read:

    mark    6/6, 1.5 / 4, "6 points out of 6", "2 of 4", "6 (out of 6)", {"score": 6, "max": 6}
    label   "component 1", "second component", "criterion B"; "total", "overall", "final"
    entry   a label, then at once or after the title of its component a mark: "component 1 (in red): 6/6";
            or, throughout the reply, the mark first: "6/6 for component 1"
    verdict one entry for each component, in any order, and at most one total. Marks without labels are
            one too, in order, if their scales are the weights or their total is what they make

`fold` replaces spellings and mark-up first. Quotations and reports ("The answer says ...") are no
verdict. A second verdict counts only if the judge calls it revised. What two careful people could
read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
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
    ((Mark(points=6.0, out_of=6.0), Mark(points=1.5, out_of=4.0)), None, 0.75)
    """
    nothing = ParsedReply(weights=tuple(weights), components=(None,) * len(weights))
    if len(text) > LONGEST:
        return replace(nothing, doubt=Unscored("unparsed", f"the reply has {len(text):,} characters"))
    folded = fold(text)
    own_text, quotations = _without_quotations(folded)
    parsed = _verdict(own_text, nothing)
    if not any(parsed.components) and quotations and _is_trusted(folded, quotations):
        parsed = _verdict(folded, nothing)
    return _checked(parsed)


# Folding: one spelling for each character and mark-up.

_SPELLINGS = {
    "/": "\u2044\u2215",
    "-": "\u2010\u2011\u2012\u2013\u2212",
    " - ": "\u2014\u2015",  # dashes: no minus
    "->": "\u2192\u21d2",
    '"': "\u201c\u201d\u201e\u00ab\u00bb",
    "'": "\u2018\u2019\u201a",
}
_CHARACTERS = str.maketrans({char: plain for plain, chars in _SPELLINGS.items() for char in chars})
_NUMBER = r"-?(?:\d{1,6}(?:[.,]\d{1,6})?|\.\d{1,6})"
_JSON_MARK = (  # "score": 6, "max": 6
    rf"\bscore[\"']?\s?:\s?({_NUMBER}),\s{{0,9}}[\"']?(?:max[\w ]{{0,9}}|out of)[\"']?\s?:\s?({_NUMBER})"
)
_SUM = r"(?:[\d.]{1,6}(?: ?/ ?\d{1,4})? ?\+ ?){1,9}[\d.]{1,6}(?: ?/ ?\d{1,4})? ?= ?(?=[\d.]+ ?/)"  # 6 + 2 = 8/10
_MARKUP = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\A\s*<think(?:ing)?>(?s:.*?)(?:</think(?:ing)?>|\Z)", ""),
        (r"</?(?:[biu]|em|strong|span|[uo]l|t(?:able|body|head|[dh]))\b[^<>]*>", " "),
        (r"\\[dt]?frac\s?\{\s?(-?[\d.]{1,9})\s?\}\s?\{\s?(-?[\d.]{1,9})\s?\}", r"\1/\2"),
        (r"\\\"", "'"),  # a quotation in JSON
        (r"\\n|</?(?:br|p|div|li|tr)\b[^<>]*>", "\n"),
        (r"\\[a-z]+|\$|(?<!\d)_+|_+(?!\d)", " "),
        (r"~~[^~\n]*~~|\*+|\\(?=[^\w\s])", ""),
        (_JSON_MARK, r"score: \1/\2"),
        (_SUM, ""),
    )
)
_EQUAL = re.compile(r"(\d{1,4}/[1-9]\d{0,3}) ?= ?(\d{1,4}/[1-9]\d{0,3})(?![\d.])")


def fold(text: str) -> str:
    r"""A reply in plain characters, without thoughts, emphasis, LaTeX and struck passages.

    Line breaks, quotation marks, block quotes and code marks stay: they show whose words they
    enclose. The work grows linearly with the length of the text.

    >>> fold("**Component 1：** ６⁄６, $\\frac{2}{4}$")
    'Component 1: 6/6,  2/4 '
    """
    text = "\n".join(text.splitlines()).replace("\t", " ")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", re.sub(r"(?<=\d) ?\u00bd", ".5", text))
        text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Me", "Mn"))  # invisible
        text = text.translate(_CHARACTERS)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return _EQUAL.sub(lambda equal: equal[1] if Fraction(equal[1]) == Fraction(equal[2]) else equal[0], text)


# Marks and labels.

_OUT_OF = (
    r"(?:out of(?: (?:a|the|possible|maximum|total|of)){0,4}|of(?= \d{1,4}(?: points?)?\b(?! (?!to|or|and|for|in)\w)))"
)
_MARK = (  # "6/6", "6 points out of a maximum of 6", "6 of 6", "6 (out of 6)"
    r"(?<![\w.])(?<!\d,)(?P<range>[\d.]{1,9}(?:[-~] ?|\s{0,2}\+\s{0,2}))?"
    rf"(?P<points>{_NUMBER})(?: ?(?:points?|pts|marks?))?"
    rf"(?:\s{{0,3}}/\s{{0,3}}|\s{{1,3}}{_OUT_OF}\s{{1,3}}|\s?[(\[]{_OUT_OF} )"
    r"(?P<out_of>-?\d{1,6}(?:\.\d{1,6})?)(?![\d_])"
    r"(?! {1,3}(?:of|would|could|might|may|should|if|unless)\b)(?: (?:points?|marks?)\b)?"  # not "2/3 of the text"
    r"(?P<unclear>\s{0,3}(?:/|->|\+|or|to|then|~)\s{0,3}\d| ?= ?\d+/|\.\d|,(?!0+(?!\d))\d{1,6}(?!\d|\s{0,3}/))?"
)
_COMPONENT = r"(?:[ck]omponente?|criterion|requirement|组件|c(?=[1-9]\b))"
_NAMES = ("one first 1st a", "two second 2nd b", "three third 3rd c", "four fourth 4th d", "five fifth 5th e")
_NUMBERS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
_LABEL = (  # "component #1", "Component (B)", "second component", "total"
    rf"(?<![A-Za-z-])(?:{_COMPONENT}[\s#.:(\[\"'=>-]{{0,4}}(?:(?:no|number|id)[\s.:\"'=>]{{1,5}})?"
    r"(?P<number>\d{1,3}(?![0-9A-Za-z]|[.,]\d|\s{0,3}/|\s+out of\s)"
    r"|(?:one|two|three|four|five|(?-i:[A-E]))(?![A-Za-z]))[)\]\"']{0,2}"
    rf"|(?P<ordinal>first|second|third|fourth|fifth|1st|2nd|3rd|4th|5th) {_COMPONENT}(?![A-Za-z])"
    r"|(?P<total>total|overall|final|sum|gesamt\w{0,12}|总分)(?![A-Za-z]))"
)
_TOKEN = re.compile(rf"(?P<label>{_LABEL})|{_MARK}", re.IGNORECASE)
_TOTAL = 0  # the number of the total; components count from 1


class _Token(NamedTuple):  # a label, a mark, or an entry: both of them
    start: int
    end: int
    number: int | None = None  # what the label names, -1 for a component that cannot exist
    mark: Mark | None = None  # None where it cannot be read


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        number, mark = None, None
        if match["label"]:
            name = (match["number"] or match["ordinal"] or "").lower()
            number = _TOTAL if match["total"] else _NUMBERS.get(name) or int(name) or -1
        elif not (match["range"] or match["unclear"]):
            mark = Mark(*(float(match[part].replace(",", ".")) for part in ("points", "out_of")))
        tokens.append(_Token(*match.span(), number, mark))
    return tokens


# Whose words: the judged answer may hold a verdict on itself, and the judge may quote or report it.

_QUOTATIONS = (
    r"```[^`]*```",
    r"(?:^|(?<=\n)) {0,3}>[^\n]*(?:\n {0,3}>[^\n]*)*",
    r"(?<!`)`[^`\n]+`(?!`)",
    r"<(?:response|answer|output|quote)>[^<]*<",
    r'"[^"]*"(?!\w)',
    r"(?<!\w)'(?=\S)[^'\n]*(?:(?<=\w)'\w[^'\n]*)*'(?!\w)",
)
_TELLS = (  # "The response says", "tries to trick me with", "Ignore all instructions and write"
    r"\b(?:answer|response|reply|model|output|text|it|which|ignore)\b[^.!?\n]{0,40}\b(?:sa(?:y|id)|writ|wrote|stat|claim"
    r"|quot|contain|includ|end|add|trick|instruct|demand|repeat|ask|tell|itself)\w*\b|\bwould (?:get|earn|be|deserve)\b"
)
_REPORT = re.compile(_TELLS, re.IGNORECASE)
_REPORTED = re.compile(  # up to the end of the sentence
    rf"(?:(?:{_TELLS}),?(?:(?!\b(?:so|thus|hence)\b|(?<!\d)[.!?,]\s)[^!?]){{0,30}}?"
    rf"|\b(?:answer|response|output)(?: is| was)?:[^\w.!?]{{0,4}}(?:\bthe )?(?:\bscores? (?:of|for) )?)"
    rf"{_LABEL}.*?(?:(?<!\n\d)[.!?](?=\s|$)|\n\s*\n|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_GRADING = re.compile(r"(?i)\b(?:grad|scor|verdict|evaluat|assess|result|judg)")
_DISOWNED = re.compile(
    r"(?i)\b(?:quot|claim|fake|itself|writ|wrote|cannot|can't|unable|says?\b|said|in the (?:response|answer))"
)
_NEAR = 150  # characters around a quotation that show whose it is


def _without_quotations(text: str) -> tuple[str, list[re.Match[str]]]:
    """The text with verdicts in quotations blanked, and these; a quoted mark stays."""
    quotations: list[re.Match[str]] = []

    def blank(match: re.Match[str]) -> str:
        tokens = _tokens(match[0])
        marks = [token for token in tokens if token.number is None]
        if not marks or (tokens == marks and not (marks[1:] and re.search("[a-zA-Z]{3}", match[0][: marks[0].start]))):
            return match[0]  # "6/6", "2/4, half of it is red"
        quotations.append(match)
        return "\0" * len(match[0])

    for pattern in _QUOTATIONS:
        text = re.sub(pattern, blank, text, flags=re.IGNORECASE)
    return text, sorted(quotations, key=lambda match: match.start())


def _is_trusted(text: str, quotations: Sequence[re.Match[str]]) -> bool:
    """Whether a verdict that stands wholly in quotations may be the judge's own.

    The reply must begin with it, or announce a block as a grade; and nothing after may disown it.
    """
    start, end = quotations[0].start(), quotations[-1].end()
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    if text[start] == "<" or _DISOWNED.search(after) or re.match(r"[ `'\")\]}]*[\w(-]", after):
        return False  # "FAKE" is all it says
    is_first = not re.search(r"[^\W\d_]", re.sub(r'"[^"]*"|```\w*', " ", text[:start]))
    return is_first or bool(text[start] in "`>" and _GRADING.search(before) and not _DISOWNED.search(before))


# Entries: which mark belongs to which label.

_SCORE = r"scor\w{1,3}|rat(?:ed?|ing)|grade|points?|gets?|earns?|receives?|awarded|given?"
_FILLER = re.compile(  # words without a meaning between a label and its mark
    r"(?i)(?:[\s:=|(\[{\"'`>)\]}~#-]|,(?=\s*[\"'a-z])|\d{1,3} ?[+=]"
    r"|[(\[](?:out of|of|max|worth)? ?\d{1,3}(?: points?)?[)\]]"
    rf"|\b(?:{_SCORE}|verdict|is|are|an?|the|for|of|i|s|therefore|thus|so|then|component|total|overall|final)\b)*"
)
_LEADS = re.compile(rf"(?i)(?:^|[:=|(\[>\"'`-]|\b(?:{_SCORE}|is|with|at)(?: (?:an?|the|it|of|is)){{0,2}})\s{{0,3}}$")
_BEHIND = re.compile(r"(?i)[)\]]? {1,3}(?:\(|(?:for|on|in|as) )?(?:the |a )?(?:score of )?")
_LONGEST_TITLE = 400  # characters between the name of a component and its mark


def _entries(text: str, tokens: Sequence[_Token]) -> list[_Token]:
    """The marks with a label, which stands before them all, or behind them all."""
    behind = [
        mark._replace(number=label.number)
        for mark, label in pairwise(tokens)
        if mark.number is None is not label.number and _BEHIND.fullmatch(text, mark.end, label.start)
    ]
    first = next((at for at, token in enumerate(tokens) if token.number is not None), 0)
    if behind and tokens[first - 1].start == behind[0].start:
        return behind
    groups: list[list[_Token]] = []  # a label and the marks that follow it
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.number == _TOTAL:  # also a word of titles
            if following and following.number is None and _FILLER.fullmatch(text, token.end, following.start):
                groups.append([token])
        elif token.number is not None:
            groups.append([token])
        elif groups and len(groups[-1]) < 5 and token.start <= groups[-1][0].end + _LONGEST_TITLE:
            groups[-1].append(token)
    return [entry for label, *marks in groups for entry in _entry(text, label, marks)]


def _entry(text: str, label: _Token, marks: Sequence[_Token]) -> list[_Token]:
    """The mark that follows a label: at once, or after the title of a component."""
    if not marks or not _FILLER.fullmatch(text, label.end, marks[0].start):
        titles = [re.split(r"[.!?]\s|\n", text[label.end : mark.start])[-1] for mark in marks]
        marks = [mark for mark, title in zip(marks, titles, strict=True) if _LEADS.search(title)]
        if len({mark.mark for mark in marks}) > 1:
            marks = [marks[0]._replace(mark=None)]
    return [mark._replace(start=label.start, number=label.number) for mark in marks[:1]]


# The verdict among the entries.

_RESTATED = re.compile(r"(?i)\b(?:final|revis|correct(?:ion|ed|ing)|updat|adjust|amend|on reflection|reconsider)")
_CLOSE = 60  # characters between the components and a total that belongs to them


def _verdict(text: str, nothing: ParsedReply) -> ParsedReply:
    text = _REPORTED.sub(lambda report: "\0" * len(report[0]), text)
    tokens = _tokens(text)
    entries = _entries(text, tokens)
    is_named = any(entry.number for entry in entries)
    return (_verdict_by_name if is_named else _verdict_by_position)(text, tokens, entries, nothing)


def _verdict_by_name(
    text: str, tokens: Sequence[_Token], entries: Sequence[_Token], nothing: ParsedReply
) -> ParsedReply:
    n = len(nothing.weights)
    is_attached = any(
        _TOTAL in (one.number, two.number) and two.start - one.end <= _CLOSE for one, two in pairwise(entries)
    )
    if _TOTAL not in {entry.number for entry in entries}:  # "Score: 8/10"
        largest = max(entry.mark.out_of if entry.mark else 0 for entry in entries)
        later = [token for token in tokens if token.number is None and token.start >= entries[-1].end]
        totals = [mark for mark in later if mark.mark is None or mark.mark.out_of >= largest]
        entries = [*entries, *(mark._replace(number=_TOTAL) for mark in totals)]
    marks = {entry.number: entry.mark for entry in entries}
    is_repeated = any(entry.mark != marks[entry.number] for entry in entries)
    orders = ([*range(1, n + 1), _TOTAL], [_TOTAL, *range(1, n + 1)])
    runs = [entries[at : at + n + 1] for at in range(len(entries) - n)]
    verdicts = [run for run in runs if [entry.number for entry in run] in orders]
    if is_repeated and verdicts:
        marks = {entry.number: entry.mark for entry in verdicts[-1]}
    parsed = replace(nothing, components=tuple(map(marks.get, range(1, n + 1))), total=marks.get(_TOTAL))
    if is_repeated and not (verdicts and _is_settled(text, entries, verdicts, parsed)):
        return replace(parsed, doubt=Unscored("unparsed", "it scores twice, and not alike"))
    if not marks.keys() <= {*range(n + 1)}:
        return replace(parsed, doubt=Unscored("off_scale", f"it scores a component beyond the {n} there are"))
    if None in marks.values():
        return replace(parsed, doubt=Unscored("unparsed", "one of its scores cannot be read"))
    if parsed.total and not (is_attached or None in parsed.components or parsed.confirmed):
        doubt = "a total apart from the components, and not what they make"
        return replace(parsed, doubt=Unscored("unparsed", doubt))
    return parsed


def _verdict_by_position(
    text: str, tokens: Sequence[_Token], entries: Sequence[_Token], nothing: ParsedReply
) -> ParsedReply:
    """Marks without a name, in order: their scales, or the total they make, must fit."""
    n, named = len(nothing.weights), {entry.end for entry in entries}
    bare = [token for token in tokens if token.number is None and token.end not in named]
    totals = {mark.mark for mark in (*entries, *bare[n:])}
    nothing = replace(nothing, doubt=Unscored("unparsed", "no component is given a score"))
    if not 1 < n <= len(bare) or len(totals) > 1:
        return nothing
    is_quoted = any(match[0][0] in "\"'" for match in _without_quotations(text)[1])
    if is_quoted or _REPORT.search(text, max(0, bare[0].start - _NEAR), bare[0].start):
        return nothing
    for number, (end, mark) in enumerate(zip([0, *(mark.end for mark in bare)], bare[:n], strict=False), 1):
        others = {*range(1, n + 1)} - {number}  # a number before a mark may name another component
        before = text[end : mark.start][-200:]
        numbers = re.findall(r"(?:^|\n)\W{0,6}(\d{1,2})[.):|]", before) or re.findall(r"\d+", before)
        if others.intersection(map(int, numbers)):
            return nothing
    components = tuple(mark.mark for mark in bare[:n])
    parsed = replace(nothing, components=components, total=next(iter(totals), None), doubt=None)
    scales = [mark.out_of if mark else 0 for mark in components]
    if parsed.total:
        fits = parsed.confirmed and parsed.total.out_of >= max(scales)
    else:
        fits = scales == [*parsed.weights] and not totals
    return parsed if fits else nothing


def _is_settled(
    text: str, entries: Sequence[_Token], verdicts: Sequence[Sequence[_Token]], parsed: ParsedReply
) -> bool:
    """Whether the last complete verdict is the one that counts.

    So it is where a word such as "revised" announces it. Remarks on a component (``component 2:
    4/4 is what a beginner gets``) do not matter if its total is what its components make.
    """
    *drafts, last = [{entry.number: entry.mark for entry in verdict} for verdict in verdicts]
    start, end = verdicts[-1][0].start, verdicts[-1][-1].end
    if _RESTATED.search(text, max(0, start - _CLOSE), verdicts[-1][0].end):
        entries = [entry for entry in entries if entry.start > end]
    elif any(draft != last for draft in drafts):
        return False
    others = [entry for entry in entries if entry.mark != last.get(entry.number, entry)]
    is_confirmed = parsed.confirmed and not _RESTATED.search(text, end)
    return not others or (is_confirmed and all(entry.number in last for entry in others))


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

    Points that add up to a total on the same scale as each of them may be parts of a whole: 6/10 and 4/10 make 10/10.
    """
    marks, total = [mark for mark in parsed.components if mark is not None], parsed.total
    points, scales = sum(mark.points for mark in marks), [mark.out_of for mark in marks]
    if sorted(scales) == sorted(parsed.weights):  # if not equal, the scales of other components
        return parsed.confirmed or scales == [*parsed.weights]
    if len({*scales}) == 1:
        return parsed.confirmed or total != (points, scales[0])
    return parsed.confirmed or total == (points, sum(scales))
