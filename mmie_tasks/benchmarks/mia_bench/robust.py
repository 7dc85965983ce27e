"""The robust reader: the marks that a judge evidently gave, in whatever form it wrote them.

It stands beside the official reader; the README lists the differences. `fold` makes many spellings
one, quotations of somebody else are blanked, each name of a component or of the total is paired
with its mark, and the verdict is chosen among the pairs. What two careful people could read
differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from mmie_tasks.benchmarks.mia_bench.marks import (
    FRACTION,
    TOTAL,
    Mark,
    Span,
    Spans,
    find_marks,
    fold,
)
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_REQUESTED_SCALE = 10  # the official prompt requests a total out of 10, whatever the weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The marks of a reply as they are written, nothing clamped; None where it gives none.

    Attributes:
        components: The mark of each component.
        total: The stated total.
        recomputed: The total that the components make with their weights, as a fraction of full
            marks; None unless every component has a possible mark.
        agrees: Whether total and `recomputed`, if both exist, are within half a point of a scale.
        doubt: Why the reply is no verdict; None where it is one.
    """

    components: tuple[Mark | None, ...]
    total: Mark | None = None
    recomputed: float | None = None
    agrees: bool = True
    doubt: Unscored | None = None


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
    folded = fold(text)
    own_text, quotations = _without_quotations(folded)
    entries = _without_attributed(own_text, _entries(own_text))
    named = any(entry.number != TOTAL for entry in entries)
    if not named and quotations and _is_trusted(folded, quotations):
        own_text, entries = folded, _without_attributed(folded, _entries(folded))
    if any(entry.number != TOTAL for entry in entries):
        return _chosen(own_text, entries, weights)
    return _by_position(folded, weights)


# Labels: the names of components and of the total.

_NAMES = "one first 1st a two second 2nd b three third 3rd c four fourth 4th d five fifth 5th e"
_ORDINAL = "first|second|third|fourth|fifth|1st|2nd|3rd|[45]th"
_COMPONENT = (
    r"(?:[ck]omponent\w{0,2}|comp\.?|criteri(?:on|a)|sub-?instructions?|requirements?|parts?|aspects?"
    r"|items?|组件|部分)"
)
_STRONG = re.compile(
    rf"(?i)(?<![A-Za-z-])(?:{_COMPONENT}[\s#.:(\[\"'=>-]{{0,4}}"
    r"(?:(?:no|nr|number|num|id|index)[\s.:\"'=>]{0,5})?"
    r"(?P<number>[0-9]{1,3}(?![0-9A-Za-z]|[.,][0-9]|\s{0,3}/|\s+out of\s)"
    r"|(?:one|two|three|four|five|(?-i:[A-E]))(?![A-Za-z]))[)\]\"']{0,2}"
    rf"|(?P<named>{_ORDINAL})\s+{_COMPONENT}(?![A-Za-z]))"
    r"|(?<![A-Za-z])(?<!sub-)(?<!max )(?<!maximum )(?<!possible )"
    r"(?P<total>total|gesamt\w{0,12}|over-?all|final|sum|总分|总计)(?![A-Za-z])"
)
_WEAK = re.compile(  # a list number, a table cell, "id": 1, "First"
    r"(?i)(?:^|(?<=\n)|(?<=[!:] ))[ \t]*(?:[-\u2022>#|][ \t]*){0,4}[(\[]?(?P<list>[0-9]{1,2})"
    r"[ \t]?[.)\]:|](?![0-9])"
    r"|(?<![A-Za-z0-9])(?-i:C)(?P<letter>[1-9])(?!\w)"
    r"|\b(?:id|index|number|no)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<id>[1-9])(?![\w/.])"
    rf"|(?<![A-Za-z])(?P<ordinal>{_ORDINAL})(?![A-Za-z])"
)


def _labels(text: str, *, weak: bool) -> list[Span]:
    matches = [*_STRONG.finditer(text), *(_WEAK.finditer(text) if weak else ())]
    labels = []
    for match in matches:
        kind = str(match.lastgroup)
        word = match[kind].lower()
        names = _NAMES.split()
        number = names.index(word) // 4 + 1 if word in names else word.isdigit() and int(word)
        number = TOTAL if kind == "total" else number or -1
        adjacent = kind in ("total", "ordinal")
        labels.append(Span(match.start(), match.end(), number=number, adjacent=adjacent))
    return sorted(labels, key=lambda label: label.start)


# Entries: which mark belongs to which label.

_SCORE = (
    r"scor\w{1,3}|rat(?:ed?|ing)|grade[ds]?|marks?|points?|value|gets?|got|earn(?:s|ed)?"
    r"|receive[sd]?|deserves?|award(?:s|ed)?|given?|gives?|assign(?:ed)?"
)
_FILLER = re.compile(
    r"(?i)(?:[\s:=|(\[{\"'`>)\]}~#-]"
    rf"|,[\s\"']{{0,4}}(?=(?:(?:the|its|my|i|it)\s+)?(?:{_SCORE})\b)"
    r"|[(\[](?:out of|of|max(?:imum)?|worth|weight)?:?\s?\d{1,3}(?:\s?(?:points?|marks?|%))?[)\]]"
    r"|(?<![\d.])\d{1,3}(?:\.\d{1,3})?\s{0,2}[+=]\s{0,2}"
    rf"|\b(?:{_SCORE}|evaluation|verdict|is|are|was|of|an?|the|for|its?|my|this|therefore|thus"
    r"|then|so|hence|equals|component|response|answer|total|sum|overall|final|to|i|s)\b"
    r"|得分|分数|为|是)*"
)
_LEADS = re.compile(
    rf"(?i)(?:[:=|(\[>\"'`-]|\b(?:{_SCORE}|is|with|at)(?:\s+(?:an?|the|it|of|is)){{0,2}})\s{{0,3}}$"
)
_STOP = re.compile(r"[.!?](?=\s)|\n")
_MORE_NUMBERS = re.compile(r"\s{0,3}(?:and|&|,|to|-|/)\s{0,3}(?:component\s)?\d")
_BACKWARD = re.compile(
    r"(?i)[ \t(-]{0,4}(?P<preposition>(?:for|on|to|in|as)\s)?(?:the\s|a\s)?(?:score of\s)?[(]?"
)
_LONGEST_TITLE = 400  # characters between the name of a component and its mark
_TRIES = 4  # marks after a name that may be its own


def _entries(text: str) -> list[Span]:
    """The entries of a folded text; list numbers name components only where nothing else does."""
    for weak in (False, True):
        labels = _labels(text, weak=weak)
        marks = find_marks(text)
        entries = list(_pairs(text, labels, marks))
        if any(entry.number != TOTAL for entry in entries):
            break
    return entries


def _pairs(text: str, labels: Spans, marks: Spans) -> Iterator[Span]:
    starts = [mark.start for mark in marks]
    firsts = [bisect_left(starts, label.end) for label in labels]
    naming = [
        (label, first)
        for label, first in zip(labels, firsts, strict=True)
        if not label.adjacent
        or (first < len(marks) and _is_adjacent(text, label, marks[first]))
        or (first > 0 and _is_behind(text, label, marks[first - 1], None))
    ]
    claimed = -1  # marks up to this one have a name
    for (label, first), following in zip_longest(naming, naming[1:]):
        limit = following[0].start if following else len(text)
        near = [mark for mark in marks[first : first + _TRIES] if mark.start < limit]
        mark = _ahead(text, label, near)
        if first - 1 > claimed and _is_behind(text, label, marks[first - 1], mark):
            claimed, mark = first - 1, marks[first - 1]
        elif mark is not None:
            claimed = bisect_left(starts, mark.start)
        if mark is not None:
            start, end = min(label.start, mark.start), max(label.end, mark.end)
            yield Span(start, end, mark.mark, label.number)


def _is_behind(text: str, label: Span, mark: Span, ahead: Span | None) -> bool:
    """``6/6 for component 1``; or ``6/6 component 1`` where no mark follows on the line."""
    between = _BACKWARD.fullmatch(text, mark.end, label.start) if mark.end <= label.start else None
    last = ahead is None or (label.number != TOTAL and "\n" in text[label.end : ahead.start])
    return between is not None and (last or between["preposition"] is not None)


def _ahead(text: str, label: Span, marks: Spans) -> Span | None:
    """The mark that follows a name: at once, or after the title of a component."""
    marks = [mark for mark in marks if mark.start - label.end <= _LONGEST_TITLE]
    if marks and _is_adjacent(text, label, marks[0]):
        return marks[0]
    if label.number == TOTAL or _MORE_NUMBERS.match(text, label.end):
        return None
    titled = [mark for mark in marks if _ends_title(text[label.end : mark.start])]
    if len({mark.mark for mark in titled}) > 1:
        return titled[0]._replace(mark=None)
    return titled[0] if titled else None


def _is_adjacent(text: str, label: Span, mark: Span) -> bool:
    """Whether only words without a meaning stand between a name and the mark after it."""
    between = text[label.end : mark.start]
    if text[mark.start] in "\"'" or text[mark.start].isalpha():  # "score": 6, "max": 6
        between = between.rstrip(", ")
    return _FILLER.fullmatch(between) is not None


def _ends_title(title: str) -> bool:
    """Whether the words before a mark introduce it as the score of what they name."""
    *_, stop = [None, *_STOP.finditer(title)]
    if stop is None:
        return _LEADS.search(title) is not None
    tail = title[stop.end() :]
    return bool(_FILLER.fullmatch(tail)) and (stop[0] == "\n" or bool(tail.strip()))


# Quotations: the judged answer may hold a verdict on itself, and the judge may quote it.

_QUOTATIONS = (
    re.compile(r"```[^`]*```"),
    re.compile(r"(?:^|(?<=\n))[ \t]{0,3}>[^\n]*(?:\n[ \t]{0,3}>[^\n]*)*"),
    re.compile(r"(?<!`)`[^`\n]+`(?!`)"),
    re.compile(r"<(?:response|answer|output|quote)>[^<]*<", re.IGNORECASE),
    re.compile(r'"[^"]*"(?!\w)'),
    re.compile(r"(?<!\w)'(?=\S)[^'\n]*(?:(?<=\w)'\w[^'\n]*)*'(?!\w)"),
)
_BLANK = "\0"
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
_NAME_BEGINS = re.compile(r"(?:\bthe\s+)?\bscores?\s+(?:of|for)\s+(?:the\s+)?$", re.IGNORECASE)
_GRADING = re.compile(r"(?i)\b(?:grad|scor|verdict|evaluat|assess|result|judg)")
_DISOWNED = re.compile(
    r"(?i)\b(?:quot|claim|fake|inject|itself|its own|wrote|writes|written|cannot|can't|unable"
    r"|pretend|says|said|in the (?:response|answer)|part of|no verdict)"
)
_GOES_ON = re.compile(r"[ \t`'\")\]}]*(?:[\w(-])")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n\s*\n")
_NEAR = 120  # characters before a verdict that show whose it is
_AFTER = 150  # characters after a quotation that may disown it


def _without_quotations(text: str, *, strict: bool = False) -> tuple[str, list[tuple[int, int]]]:
    """The text with claims in quotations blanked, and where these stood.

    A quoted value stays: ``component 1: "6/6, all named"``; not if `strict`.
    """
    blanked: list[tuple[int, int]] = []

    def blank(match: re.Match[str]) -> str:
        if not _is_claim(match[0], strict=strict):
            return match[0]
        blanked.append(match.span())
        return _BLANK * len(match[0])

    for pattern in _QUOTATIONS:
        text = pattern.sub(blank, text)
    return text, sorted(blanked)


def _is_claim(quotation: str, *, strict: bool) -> bool:
    mark = FRACTION.search(quotation)
    if mark is None or not re.search(r"[^\W\d_]{3}", quotation):
        return False
    value_first = not quotation[: mark.start()].strip("\"'`> \n")
    short = len(quotation) - len(mark[0]) <= 12
    return strict or _STRONG.search(quotation) is not None or not (value_first or short)


def _is_trusted(text: str, quotations: Sequence[tuple[int, int]]) -> bool:
    """Whether a verdict that stands wholly in quotations may be the judge's own.

    The reply must begin with it, or announce a block as a grade; and nothing after may disown it.
    """
    start, end = quotations[0][0], quotations[-1][1]
    after = text[end : end + _AFTER]
    is_block = text[start] not in "\"'"
    if _DISOWNED.search(after) or (not is_block and _GOES_ON.match(after)):
        return False
    outside = re.sub(r'"[^"]*"|```(?:json|python|text|yaml|xml)?', " ", text[:start])
    before = text[max(0, start - _NEAR) : start]
    announced = _GRADING.search(before) is not None and _DISOWNED.search(before) is None
    return not re.search(r"[^\W\d_]", outside) or (is_block and announced)


def _without_attributed(text: str, entries: Spans) -> list[Span]:
    """Entries that the words before them, in their sentence, do not attribute to somebody else."""
    own: list[Span] = []
    foreign_end = -_NEAR  # of the last entry, if it is somebody else's
    for entry in entries:
        near = entry.start - foreign_end <= _NEAR
        same_sentence = near and not _SENTENCE_END.search(text, max(0, foreign_end), entry.start)
        if (foreign_end > 0 and same_sentence) or _is_attributed(text, entry.start):
            foreign_end = entry.end
        else:
            foreign_end = -_NEAR
            own.append(entry)
    return own


def _is_attributed(text: str, start: int) -> bool:
    before = _NAME_BEGINS.sub("", text[max(0, start - _NEAR) : start])
    return _ATTRIBUTED.search(before.rstrip("\"'` \n>")) is not None


# The verdict among the entries.

_RESTATED = re.compile(
    r"(?i)\b(?:final|revis|correct(?:ion|ed|ing)|updat|adjust|amend|on reflection|reconsider)"
)
_UNNAMED = re.compile(r"(?:[\n.;,]\W{0,4}(?:score|grade|rating)\W{0,5}|=\s?)$", re.IGNORECASE)
_CLOSE = 60  # characters between the components and a total that belongs to them


def _chosen(text: str, entries: Spans, weights: Sequence[int]) -> ParsedReply:
    n = len(weights)
    distinct = {(entry.number, entry.mark) for entry in entries}
    repeated = len(distinct) > len({number for number, _ in distinct})
    orders = ([*range(1, n + 1), TOTAL], [TOTAL, *range(1, n + 1)])  # of a verdict in full
    runs = (entries[at : at + n + 1] for at in range(len(entries) - n))
    complete = [run for run in runs if [entry.number for entry in run] in orders]
    verdicts = complete if repeated else [entries]
    doubt = _contradiction(text, entries, verdicts, weights) if repeated else ""
    marks = {entry.number: entry.mark for verdict in verdicts[-1:] for entry in verdict}
    components = tuple(marks.get(number) for number in range(1, n + 1))
    attached = repeated or any(
        (one.number == TOTAL) != (two.number == TOTAL)
        and len(text[one.end : two.start].strip()) <= _CLOSE
        for one, two in pairwise(entries)
    )
    if TOTAL not in marks and (totals := _unnamed_totals(text, entries)):
        attached = False
        marks[TOTAL] = totals.pop()
        doubt = doubt or ("a last score that may be another total" if totals else "")
    total = marks.get(TOTAL)
    if None in marks.values():
        doubt = doubt or "one of its scores cannot be read"
    elif total and not (attached or None in components or _agrees(total, components, weights)):
        doubt = doubt or "a total apart from the components, and not what they make"
    unscored = Unscored("unparsed", doubt) if doubt else None
    if not repeated and not {*marks} <= {*range(n + 1)}:
        unscored = Unscored("off_scale", f"it scores a component beyond the {n} there are")
    return _checked(components, total, weights, unscored)


def _unnamed_totals(text: str, entries: Spans) -> set[Mark | None]:
    """``Score: 8/10`` after the components is their total, if it is what they make."""
    end = max(entry.end for entry in entries)
    return {
        mark.mark
        for mark in find_marks(text)
        if mark.start >= end and _UNNAMED.search(text, max(0, mark.start - 30), mark.start)
    }


def _contradiction(
    text: str, entries: Spans, verdicts: Sequence[Spans], weights: Sequence[int]
) -> str:
    """Why the last complete verdict is in doubt; empty where it is not.

    Remarks on a component do not matter (``component 2: 4/4 is what a beginner gets``), nor does
    another total if the verdict's own is the one that its components make.
    """
    if not verdicts:
        return "one component is given two different scores"
    *drafts, last = [{entry.number: entry.mark for entry in verdict} for verdict in verdicts]
    revised = _RESTATED.search(text, max(0, verdicts[-1][0].start - _CLOSE), verdicts[-1][0].end)
    if not revised and any(draft != last for draft in drafts):
        return "it holds two different verdicts"
    sound = _agrees(last[TOTAL], [last[i] for i in range(1, len(weights) + 1)], weights)
    for entry in entries:
        draft = revised and entry.start < verdicts[-1][0].start
        if draft or entry.mark == last.get(entry.number, entry):
            continue
        if not 0 <= entry.number <= len(weights) or _RESTATED.search(
            text, max(0, entry.start - _CLOSE), entry.end
        ):
            return "it takes part of a verdict back"
        if entry.number == TOTAL and not sound:
            return "it states two different totals"
    return ""


def _by_position(text: str, weights: Sequence[int]) -> ParsedReply:
    """Marks without a name, in order: their scales, or the total they make, must fit."""
    n = len(weights)
    doubt = Unscored("unparsed", "no component is given a score")
    nothing = ParsedReply(components=(None,) * n, doubt=doubt)
    text, _ = _without_quotations(text, strict=True)
    named = _entries(text)
    marks = find_marks(text)
    if not marks or _is_attributed(text, marks[0].start):
        return nothing
    bare = [mark for mark in marks if all(mark.end != entry.end for entry in named)]
    totals = [
        *{entry.mark for entry in _without_attributed(text, named)},
        *(mark.mark for mark in bare[n:]),
    ]
    components = tuple(mark.mark for mark in bare[:n])
    if n < 2 or len(components) < n or len(totals) > 1 or None in (*components, *totals):
        return nothing
    at = 0
    for position, mark in enumerate(bare[:n], 1):  # a number before it may name another component
        numbers = set(map(int, re.findall(r"\d+", text[at : mark.start][-200:])))
        if numbers & set(range(1, n + 1)) - {position}:
            return nothing
        at = mark.end
    total = totals[0] if totals else None
    on_weights = [mark and mark.out_of for mark in components] == [*weights]
    fits = _agrees(total, components, weights) if total else on_weights
    return _checked(components, total, weights) if fits else nothing


# Checks of the marks.


def _checked(
    components: tuple[Mark | None, ...],
    total: Mark | None,
    weights: Sequence[int],
    doubt: Unscored | None = None,
) -> ParsedReply:
    """The parsed reply with its first doubt: impossible marks come before unreadable ones."""
    recomputed = _weighted_share(components, weights)
    agrees = _agrees(total, components, weights)
    if any(mark is not None and not mark.possible for mark in (*components, total)):
        doubt = Unscored("off_scale", "a score is negative, above full marks, or out of none")
    elif doubt is None and None in components:
        scored = len(weights) - components.count(None)
        doubt = Unscored("off_scale", f"{scored} of {len(weights)} components have a score")
    elif doubt is None and not _is_plausible(components, total, weights):
        doubt = Unscored("unparsed", "its scales are not those of the components, nor its sums")
    return ParsedReply(
        components=components,
        total=total,
        recomputed=recomputed,
        agrees=agrees or total is None or recomputed is None,
        doubt=doubt,
    )


def _is_plausible(
    components: Sequence[Mark | None], total: Mark | None, weights: Sequence[int]
) -> bool:
    """Whether the scales show that each mark is read as it was meant.

    Points that add up to a total on the same scale as each of them may be parts of a whole: 6/10
    and 4/10 make 10/10.
    """
    marks = [mark for mark in components if mark is not None]
    points, scales = sum(mark.points for mark in marks), [mark.out_of for mark in marks]
    if scales == [*weights] or _agrees(total, marks, weights):
        return True
    if sorted(scales) == sorted(weights):  # the scales of other components
        return False
    if total is not None and total == (points, sum(scales)):
        return True
    parts = total is not None and {*scales} == {total.out_of} and points == total.points
    return len({*scales}) == 1 and not parts


def _weighted_share(components: Sequence[Mark | None], weights: Sequence[int]) -> float | None:
    """Weighted share of full marks (0 to 1); None unless every component has a possible mark."""
    shares = [mark.share for mark in components if mark is not None and mark.possible]
    if len(shares) < len(weights):
        return None
    points = sum(share * weight for share, weight in zip(shares, weights, strict=True))
    return points / sum(weights)


def _agrees(total: Mark | None, components: Sequence[Mark | None], weights: Sequence[int]) -> bool:
    """Whether a total is what its components make, within half a point of its own scale."""
    share = _weighted_share(components, weights)
    if total is None or share is None or not total.possible:
        return False
    return abs(total.share - share) <= 0.5 / total.out_of + 1e-9
