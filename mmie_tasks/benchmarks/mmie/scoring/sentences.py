"""What the sentences of a reply say the score is, and whose words they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mmie_tasks.benchmarks.mmie.scoring.claims import (
    DIGITS,
    ENDS,
    OUT_OF,
    UNIT,
    Claim,
    points_of,
)

_SAYS = re.compile(
    r"\b(?:claim|say|state|write|wrote|end(?:s|ing) with|includ|contain|quot|read|tell|assert"
    r"|insist|adds|output|append|print|declar|itself|himself|herself|themsel|own score|prompt"
    r"|instruct|pretend|inject|fake|paste|insert|mention|copies|copied|repeat)",
    re.IGNORECASE,
)
_HYPOTHETICAL = re.compile(
    r"\b(?:would|could|might|may|if|unless|not|never|cannot|to (?:earn|get|reach|achieve|receive"
    r"|merit|deserve|obtain)|between|than|instead|maximum|minimum|perfect|full|reserved|requires?"
    r"|should be an?|each|every|text|image|criteri\w+)\b|n't\b",
    re.IGNORECASE,
)
_MY_WOULD = re.compile(r"\bI(?:'d| would| will|'ll)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z\"'(])")
_STRICT = rf"(?P<n>{DIGITS}){ENDS}{UNIT}"
_SAID_END = r"(?=[ \t]{0,2}(?:[.,;:!)\]][^\d]|[.,;:!)\]]?$|because\b|since\b))"
_GAP = r"(?:[ \t]\w{1,30}){0,6}?[ \t]{1,2}"
_FINAL = re.compile(
    r"\b(?:final|overall|total)(?:[ _](?:score|rating|grade|mark|verdict))?[ \t]{0,2}[:=][ \t]{0,2}"
    rf"{_STRICT}(?:{OUT_OF}{UNIT})?{_SAID_END}",
    re.IGNORECASE,
)
_SCORE_IS = re.compile(
    rf"\b(?:score|rating|grade)(?:{_GAP}|[ \t]{{1,2}})(?:is|of|at|as|be)[ \t]{{1,2}}(?:an?[ \t])?"
    rf"{_STRICT}(?:{OUT_OF}{UNIT})?{_SAID_END}",
    re.IGNORECASE,
)
_I_GIVE = re.compile(
    r"\bI(?:'d|'ll)?[ \t](?:(?:would|will|have|must|therefore|thus)[ \t]){0,2}"
    rf"(?:give|gave|rate|rated|award|awarded|assign|assigned|score|scored|grade){_GAP}(?:an?[ \t])?"
    rf"{_STRICT}(?:{OUT_OF}{UNIT})?{_SAID_END}",
    re.IGNORECASE,
)
_EARNS = re.compile(
    r"\b(?:earns?|deserves?|receives?|gets?|merits?|scores?|scored|scoring|awarded|given|rated)"
    rf"{_GAP}(?:an?[ \t])?{_STRICT}{OUT_OF}{UNIT}{_SAID_END}",
    re.IGNORECASE,
)


def told(line: str, *, strictly: bool = False) -> Iterator[Claim]:
    """What the sentences of a line say the score is.

    Not those that say what it would be, or what somebody else says.

    Args:
        line: Prose.
        strictly: Outside a score section, where a number may count anything: only with the scale,
            or in the judge's own name.
    """
    for sentence in _SENTENCE.split(line):
        if _SAYS.search(sentence) or _HYPOTHETICAL.search(_MY_WOULD.sub("I", sentence)):
            continue
        for pattern in (_FINAL, _SCORE_IS, _I_GIVE, _EARNS):
            for found in pattern.finditer(sentence):
                scaled = "d" in found.re.groupindex and found["d"] is not None
                if scaled or pattern is _I_GIVE or not strictly:
                    yield points_of(found["n"], found["d"])


def quotes(text: str) -> bool:
    """Whether a text announces the words of somebody else: ``The response claims:``."""
    ending = _SENTENCE.split(text)[-1].rstrip()
    return ending.endswith((":", ",", '"', "'", "`")) and _SAYS.search(ending) is not None
