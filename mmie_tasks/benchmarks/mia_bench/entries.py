"""The entries of a reply: its marks in order, with the sentences and remarks around them.

Marks are at the beginning of a line or sentence, after each other, or in the line below their label
(rules 2 and 3 of the robust reader). Before one, in the same sentence, only an announcement may be
(4): "Sure! Based on the image and the response, here are my final scores:".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mmie_tasks.benchmarks.mia_bench.doubts import reports_or_denies
from mmie_tasks.benchmarks.mia_bench.marks import (
    ENTRY,
    LABEL_ALONE,
    MARK_ALONE,
    Mark,
    component_number,
    pattern,
    read_mark,
)
from mmie_tasks.benchmarks.mia_bench.own_words import BLANK
from mmie_tasks.benchmarks.reply_text import FINAL

_LINE_START = pattern(r"^(?:[\s#>•·*|]|[-+] |\d{1,2}[.)] (?=c|the |score|total)|[^\w\x00-\u2100])+")
_CELL_END = pattern(r" {0,20}\|[ |]{0,20}")
_HAS_WORDS = re.compile(rf"[\w{BLANK}]")
_SENTENCE_END = re.compile(rf"(?<=[.!?])(?<!\A\d[.])[){BLANK}]?\s+")

_BASIS = (
    r"(?:based on|considering|after (?:reviewing|comparing)|of|for)"
    r"(?: (?:the|this|image|instructions?|prompt|response|answer|and|with|each|all|components?"
    r"|criteria)(?!['\w]),?)+"
)
_ANNOUNCING = (
    rf"(?:(?:{_BASIS}|{FINAL}|sure|okay|so|here(?:'s)?|below|is|are|my"
    r"|the(?= (?:final )?(?:sco|eva|ver))|I|give|as|follows|scor(?:es?|ing)|evaluation|assessment"
    r"|verdict|results?|breakdown|summary)(?!['\w])[ ,.:!]*)"
)
_ANNOUNCEMENT = pattern(rf"{_ANNOUNCING}{{1,12}}")
_FINAL = pattern(rf"\b{FINAL}\b")
_ANNOUNCED_ENTRY = pattern(rf"{_ANNOUNCING}{{0,12}}{ENTRY.pattern}")
_SEPARATOR = pattern(r"[\s,;:|/&.]*(?:\band\b)?[\s,;:|/-]*")
_SAYS_NOTHING = pattern(
    r"(?:(?:component|criterion|score|points|max|weight|reason|#)s?\b|[ :|-])*"  # a table's head
    r"|(?:I hope this helps|(?:please )?let me know if you have (?:any )?(?:\w+ )?questions)\W*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkEntry:
    """A mark in a reply, with its component and the words around it.

    Attributes:
        number: Its component, from 1; 0 for the total, -1 for "component 0".
        mark: As written.
        before: The sentences since the entry before it.
        remark: What follows it, up to the next entry or to the end of its sentence.
        is_final: Whether its label or announcement calls it final, revised or the like.
    """

    number: int
    mark: Mark
    before: tuple[str, ...]
    remark: str
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyEntries:
    """The entries of a reply in order, and the sentences after the last one."""

    entries: tuple[MarkEntry, ...]
    after: tuple[str, ...]


def reply_entries(text: str) -> ReplyEntries:
    """The entries in the judge's own words.

    Each line or sentence is the first of these that it can be:

    1. It begins with a label and mark, perhaps after an announcement: an entry, and more entries if
       it has more marks. What is between them are their remarks.
    2. It begins with a mark, and the one before it is a label: an entry.
    3. An announcement alone: dropped. If it says "final" or the like, it makes an entry of kind 1
       that follows at once a final one.
    4. A label alone, the head of a table, or "I hope this helps!": dropped.
    5. A sentence. A mark in the middle of one is none.

    >>> first, second = reply_entries("Clear. Component 1: 6/6, component 2: 2/4 (short)").entries
    >>> first.before, second.number, second.mark, second.remark
    (('Clear.',), 2, Mark(points=2.0, out_of=4.0), ' (short)')
    """
    entries: list[MarkEntry] = []
    sentences: list[str] = []  # since the last entry
    label_above: re.Match[str] | None = None  # the unit before, if it is a label
    is_final_announced = False  # by the unit before
    for unit in _units(text):
        label, announces_final = None, False
        if first := _first_entry(unit):
            is_final = is_final_announced or _calls_final(unit[: first.start("label")])
            entries += _entries(unit, first, before=tuple(sentences), is_final=is_final)
            sentences = []
        elif label_above and (below := MARK_ALONE.match(unit)):
            entry = MarkEntry(
                number=component_number(label_above),
                mark=read_mark(below["mark"]),
                before=tuple(sentences),
                remark=unit[below.end() :],
            )
            entries.append(entry)
            sentences = []
        elif _ANNOUNCEMENT.fullmatch(unit):
            announces_final = is_final_announced or _calls_final(unit)
        elif (label := _label_alone(unit)) is None and not _SAYS_NOTHING.fullmatch(unit):
            sentences.append(unit)
        label_above, is_final_announced = label, announces_final
    return ReplyEntries(entries=tuple(entries), after=tuple(sentences))


def _units(text: str) -> Iterator[str]:
    """The lines of a text, without list marks and bars of tables; each sentence by itself."""
    for written_line in text.split("\n"):
        line = _LINE_START.sub("", written_line).strip(" |")
        line = _CELL_END.sub(" : ", line)
        starts = [0, *(end.end() for end in _SENTENCE_END.finditer(line)), len(line)]
        sentences = (line[start:end] for start, end in pairwise(starts))
        yield from (sentence.strip() for sentence in sentences if _HAS_WORDS.search(sentence))


def _first_entry(unit: str) -> re.Match[str] | None:
    """The label and mark that a unit begins with, perhaps after an announcement."""
    match = ENTRY.match(unit) or _ANNOUNCED_ENTRY.match(unit)
    return match if match and not reports_or_denies(match["title"]) else None


def _label_alone(unit: str) -> re.Match[str] | None:
    match = LABEL_ALONE.fullmatch(unit)
    return match if match and not reports_or_denies(match["title"]) else None


def _calls_final(text: str) -> bool:
    return _FINAL.search(text) is not None


def _entries(
    unit: str, first: re.Match[str], *, before: tuple[str, ...], is_final: bool
) -> Iterator[MarkEntry]:
    """The entries in a unit that begins with one. A total called final is just a total."""
    matches = [first, *ENTRY.finditer(unit, first.end())]
    ends = [*(match.start() for match in matches[1:]), len(unit)]
    for match, end in zip(matches, ends, strict=True):
        number, remark = component_number(match), unit[match.end() : end]
        is_separator = match is not matches[-1] and _SEPARATOR.fullmatch(remark)
        yield MarkEntry(
            number=number,
            mark=read_mark(match["mark"]),
            before=before if match is first else (),
            remark="" if is_separator else remark,
            is_final=is_final or (number > 0 and _calls_final(match["label"])),
        )
