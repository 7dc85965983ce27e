"""The marks that a reply gives, in order, with the sentences and remarks around them.

Marks stand at the beginning of a line or sentence, after each other, or in the line below their
label. Before one, in the same sentence or the one before, only an announcement may be: "Sure! Based
on the image and the response, here are my final scores:".
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
class GivenMark:
    """A mark in a reply.

    Attributes:
        number: Its component, from 1; 0 for the total, -1 for "component 0".
        mark: As written.
        before: The sentences since the mark before it.
        remark: What follows it, up to the next mark or to the end of its sentence.
        is_final: Whether its label or announcement calls it final, revised or the like.
    """

    number: int
    mark: Mark
    before: tuple[str, ...]
    remark: str
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenMarks:
    """The marks in a reply, and the sentences after the last one."""

    marks: tuple[GivenMark, ...]
    after: tuple[str, ...]


def given_marks(text: str) -> GivenMarks:
    """The marks in the judge's own words.

    >>> first, second = given_marks("Clear. Component 1: 6/6, component 2: 2/4 (short)").marks
    >>> first.before, second.number, second.mark, second.remark
    (('Clear.',), 2, Mark(points=2.0, out_of=4.0), ' (short)')
    """
    marks: list[GivenMark] = []
    sentences: list[str] = []  # since the last mark
    label_above: re.Match[str] | None = None  # the unit before, if it is a label
    is_final_announced = False  # by the unit before
    for unit in _units(text):
        label, announces_final = None, False
        if entry := _first_entry(unit):
            is_final = is_final_announced or _calls_final(unit[: entry.start("label")])
            marks += _entries(unit, entry, before=tuple(sentences), is_final=is_final)
            sentences = []
        elif label_above and (mark := MARK_ALONE.match(unit)):
            marks.append(
                GivenMark(
                    number=component_number(label_above),
                    mark=read_mark(mark["mark"]),
                    before=tuple(sentences),
                    remark=unit[mark.end() :],
                )
            )
            sentences = []
        elif _ANNOUNCEMENT.fullmatch(unit):
            announces_final = is_final_announced or _calls_final(unit)
        elif (label := _label_alone(unit)) is None and not _SAYS_NOTHING.fullmatch(unit):
            sentences.append(unit)
        label_above, is_final_announced = label, announces_final
    return GivenMarks(marks=tuple(marks), after=tuple(sentences))


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
    entry = ENTRY.match(unit) or _ANNOUNCED_ENTRY.match(unit)
    return entry if entry and not reports_or_denies(entry["title"]) else None


def _label_alone(unit: str) -> re.Match[str] | None:
    label = LABEL_ALONE.fullmatch(unit)
    return label if label and not reports_or_denies(label["title"]) else None


def _calls_final(text: str) -> bool:
    return _FINAL.search(text) is not None


def _entries(
    unit: str, first: re.Match[str], *, before: tuple[str, ...], is_final: bool
) -> Iterator[GivenMark]:
    """The marks in a unit that begins with one."""
    entries = [first, *ENTRY.finditer(unit, first.end())]
    ends = [*(entry.start() for entry in entries[1:]), len(unit)]
    for entry, end in zip(entries, ends, strict=True):
        number, remark = component_number(entry), unit[entry.end() : end]
        is_separator = entry is not entries[-1] and _SEPARATOR.fullmatch(remark)
        yield GivenMark(
            number=number,
            mark=read_mark(entry["mark"]),
            is_final=is_final or (number > 0 and _calls_final(entry["label"])),
            before=before if entry is first else (),
            remark="" if is_separator else remark,
        )
