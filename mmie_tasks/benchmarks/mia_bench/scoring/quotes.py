"""Which passages of a reply are not the judge's own words.

The judged answer may hold a verdict on itself, and the judge may quote it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

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
_BREAK = re.compile(r"[.!?](?:\s|$)|\n\s*\n")
_NEAR = 120  # characters before a verdict that say whose it is
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
        before = _NAME_BEGINS.sub("", self._text[max(0, start - _NEAR) : start])
        return _ATTRIBUTED.search(before.rstrip("\"'` \n>")) is not None

    def same_breath(self, start: int, end: int) -> bool:
        """Whether no sentence or paragraph ends in a short stretch between two scores."""
        return end - start <= _NEAR and _BREAK.search(self._text, start, end) is None

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
        before = self._text[max(0, passage.start - _NEAR) : passage.start]
        announced = _OURS.search(before) is not None and _DISOWNED.search(before) is None
        return passage.kind == "block" and announced

    def _outside(self, end: int) -> str:
        """What stands before a place and in no passage; JSON's keys do not count as words."""
        before = self._text[:end]
        return re.sub(r'"[^"]*"|```(?:json|python|text|yaml|xml)?', " ", before)
