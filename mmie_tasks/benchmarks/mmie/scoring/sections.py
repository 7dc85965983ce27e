"""A reply cut at its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mmie_tasks.benchmarks.mmie.scoring.folding import Line
from mmie_tasks.benchmarks.mmie.scoring.sentences import quotes

MODIFIERS = (
    r"(?P<mods>(?:(?:my|the|your|this|our|given|assigned|mmie|final|overall|total)"
    r"[ \t_-]{1,3}){0,3})"
)
_HASHES = re.compile(r"#{1,6}[ \t]{0,3}(?:\d{1,2}[.)][ \t]{0,3})?(?P<title>.*)")
_TITLE = re.compile(
    rf"{MODIFIERS}(?P<label>scores?|rating|grade|verdict|marks?|final|overall|total)(?![\w'])"
    r"(?P<also>[ \t]{1,3}(?:and|&|with|\+)[ \t]{1,3}(?:justification|explanation|reason(?:ing)?"
    r"|rationale|feedback)\b)?(?P<rest>.*)",
    re.IGNORECASE,
)
_OF_A_PART = re.compile(
    r"[ \t]{0,3}(?:[(:-]?[ \t]{0,3}(?:for|by|per)\b|of\b|on\b|breakdown|justification|explanation"
    r"|details?|criteria|rubric|guide|scale|summary|table|analysis|rationale|range)"
    r"(?![ \t]{1,3}(?:this|the)[ \t]{1,3}(?:answer|response|story|method|solution|model)\b)",
    re.IGNORECASE,
)
SEPARATED = re.compile(r"[\"']?[ \t]{0,3}(?:[:=|(\[/]|-{1,2}[ \t]|is\b|\d|$)", re.IGNORECASE)
_NOT_ALONE = {"final", "overall", "total"}  # "### Final Answer" is another heading


@dataclass(slots=True)
class Section:
    """What stands under a heading: the lines, with what follows the heading on its own line."""

    title: str = ""
    rest: str | None = None  # after the label; None where the heading is not about the score
    lines: list[Line] = field(default_factory=list)
    final: bool = False
    foreign: bool = False  # the words of somebody else, as the line before says


def sections(lines: Sequence[Line]) -> Iterator[Section]:
    """What stands before the first heading, and then under each."""
    section = Section()
    before = ""
    for line in lines:
        heading = _HASHES.match(line.text) if line.own else None
        if heading:
            yield section
            section = _heading(heading["title"].strip(), before)
        else:
            section.lines.append(line)
        before = line.text
    yield section


def _heading(title: str, before: str) -> Section:
    found = _TITLE.match(title)
    another = found and (
        (_OF_A_PART.match(found["rest"]) and not found["also"])
        or (found["label"].lower() in _NOT_ALONE and not SEPARATED.match(found["rest"]))
    )
    if found is None or another:
        return Section(title=title)
    final = bool(
        re.search(r"final|overall|total", found[0][: -len(found["rest"]) or None], re.IGNORECASE)
    )
    rest = found["rest"].rstrip("# \t")
    return Section(title=title, rest=rest, final=final, foreign=quotes(before))
