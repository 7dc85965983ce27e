"""The robust reader: a judge's marks in any common spelling.

1. Only the judge's own words are read (`reply_text.own_words`), or the fields of its JSON.
2. A mark is points out of a component's weight, between its name and the next name:
   ``component 1: 6/6``, ``Criterion B - two out of four``, ``2. In red: 2/4``. A total is optional,
   and is out of 10 or the sum of the weights.
3. Every component has one mark. A reply is ``unparsed`` if a component has two different marks or
   only marks out of another maximum, if the total is not the sum of the marks, if there is no mark,
   or if a line above the first mark attributes it to somebody else (`reply_text.is_of_others`).
4. A reply is ``off_scale`` if a mark is below 0 or above its maximum, or if a component has no mark
   or does not exist. The request is then sent once more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mmie_tasks.benchmarks.reply_text import (
    LONGEST,
    NUMBER,
    NUMBER_WORDS,
    is_of_others,
    json_objects,
    own_words,
    points_of,
)
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_REQUESTED_SCALE = 10  # the official prompt requests a total out of 10 for any weights
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_NAME = re.compile(
    rf"""
    \b(?:component|criterion|requirement|c(?=\d))s?(?:\ number)?[ _#]{{0,2}}
        (?P<name>\d{{1,2}}|{"|".join(NUMBER_WORDS[1:6])}|[a-e])(?![\w/]|[.,]\d)
    | \b(?P<ordinal>{"|".join(_ORDINALS)})\ component\b
    | ^[ |#*+-]*(?P<item>\d)\ ?[.):|]
    | (?P<total>\b(?:total|overall|final\ score)\b)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_SCORE_OF = re.compile(r"(?i)\b(?:(?:scores?|points|marks?) )?(?:(?:of|for|the|my|final) )*\Z")
_FRACTION = re.compile(
    rf"(?i)(?<![\w.,/<>-])(?P<points>-?{NUMBER})(?:,(?P<decimal>\d))?(?: points?)?"
    rf" ?(?:/|\(?out of(?: a possible)?) ?(?P<out_of>{NUMBER})(?![\w/]|[.,]\d)"
)


class Mark(NamedTuple):
    """Points out of a maximum as written, neither clamped nor checked."""

    points: float
    out_of: float

    @property
    def possible(self) -> bool:
        """Whether the points are between 0 and the maximum."""
        return 0 <= self.points <= self.out_of and self.out_of > 0

    @property
    def share(self) -> float:
        """Fraction of full marks, 0 to 1 for a `possible` mark."""
        return self.points / self.out_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The marks of a reply as written.

    Attributes:
        weights: Full marks of each component, in points.
        components: The mark of each component; None for a missing mark.
        total: The stated total; None if there is none.
        doubt: Why the reply is not a verdict; None if it is one.
    """

    weights: tuple[int, ...]
    components: tuple[Mark | None, ...]
    total: Mark | None = None
    doubt: Unscored | None = None

    @property
    def recomputed(self) -> float | None:
        """The weighted total of the components, as a fraction of full marks.

        None unless every component has a possible mark.
        """
        shares = [mark.share for mark in self.components if mark is not None and mark.possible]
        if len(shares) < len(self.weights):
            return None
        points = sum(share * weight for share, weight in zip(shares, self.weights, strict=True))
        return points / sum(self.weights)

    @property
    def agrees(self) -> bool:
        """Whether the total is the sum of the components, if both exist.

        A total out of 10 may also be the same share of 10, to half a point.
        """
        if self.total is None or self.recomputed is None:
            return True
        points = self.recomputed * sum(self.weights)
        if abs(self.total.points - points) < 1e-6:
            return True
        is_rescaled = self.total.out_of != sum(self.weights) and self.total.possible
        return is_rescaled and abs(self.total.share - self.recomputed) <= 0.5 / self.total.out_of


def read_robust(weights: Sequence[int], reply: object) -> Verdict:
    """The total of the components as a fraction of full marks, 0 to 1."""
    if not isinstance(reply, str):
        return Unscored("unparsed", f"the reply is {type(reply).__name__}, not text")
    parsed = read_reply(reply, weights)
    return parsed.doubt or Scored(parsed.recomputed or 0.0)


def is_impossible(weights: Sequence[int], reply: str) -> bool:
    """Whether the marks are ``off_scale``, so that the request is sent once more."""
    verdict = read_robust(weights, reply)
    return isinstance(verdict, Unscored) and verdict.reason == "off_scale"


def read_reply(text: str, weights: Sequence[int]) -> ParsedReply:
    """Reads a reply by this module's rules, for components with these weights in points.

    >>> parsed = read_reply("**Component 2**: 1,5 out of 4; component one: 6/6", (6, 4))
    >>> parsed.components, parsed.total, round(parsed.recomputed, 2)
    ((Mark(points=6.0, out_of=6.0), Mark(points=1.5, out_of=4.0)), None, 0.75)
    >>> read_reply("The response says: component 1: 6/6, component 2: 4/4", (6, 4)).doubt.reason
    'unparsed'
    """
    maxima: dict[int, tuple[int, ...]] = {n: (weight,) for n, weight in enumerate(weights, start=1)}
    maxima[0] = (_REQUESTED_SCALE, sum(weights))
    is_too_long = len(text) > LONGEST
    marks = {} if is_too_long else _marks(text, maxima)
    parsed = ParsedReply(
        weights=tuple(weights),
        components=tuple(next(iter(marks.get(n, ())), None) for n in maxima if n),
        total=next(iter(marks.get(0, ())), None),
    )
    doubt = _doubt(parsed, marks, maxima)
    if is_too_long:
        doubt = Unscored("unparsed", f"the reply has {len(text):,} characters")
    return replace(parsed, doubt=doubt)


def _doubt(
    parsed: ParsedReply, marks: Mapping[int, Sequence[Mark]], maxima: Mapping[int, Sequence[int]]
) -> Unscored | None:
    """Why the marks are not a verdict."""
    missing = parsed.components.count(None)
    if missing == len(parsed.components):
        return Unscored("unparsed", "no component has a mark of the judge's own")
    if any(len(set(of_one)) > 1 for of_one in marks.values()):
        return Unscored("unparsed", "two marks for one component")
    if marks.keys() - maxima:
        return Unscored("off_scale", f"a component beyond the {len(parsed.weights)} there are")
    if not all(mark.possible for (mark, *_) in marks.values()):
        return Unscored("off_scale", "a mark below 0 or above its maximum")
    if any(mark.out_of not in maxima[number] for number, (mark, *_) in marks.items()):
        return Unscored("unparsed", "a mark out of another maximum")
    if missing:
        return Unscored("off_scale", f"{missing} of the components have no mark")
    return None if parsed.agrees else Unscored("unparsed", "the total is not that of its parts")


def _marks(reply: str, maxima: Mapping[int, Sequence[int]]) -> dict[int, list[Mark]]:
    """Component, or 0 for the total, to marks."""
    text = "\n".join(_lines_of_json(reply)) or own_words(reply)
    names = list(_NAME.finditer(text))
    found: defaultdict[int, list[Mark]] = defaultdict(list)
    ends = [*(name.start() for name in names), len(text)][1:]
    for name, end in zip(names, ends, strict=True):
        marks = [_mark(fraction) for fraction in _FRACTION.finditer(text[name.end() : end])]
        if marks and not found and is_of_others(_lead(text[: name.start()])):
            return {}
        number = _number(name)  # other maxima are ignored: a title or reason may have numbers
        if right := [mark for mark in marks if mark.out_of in maxima.get(number, ())] or marks[:1]:
            found[number] += right
    return found


def _lines_of_json(reply: str) -> Iterator[str]:
    """The marks in JSON objects as lines of text."""
    for pairs in json_objects(reply):
        yield from _lines(pairs, "")


def _lines(value: object, name: str) -> Iterator[str]:
    if isinstance(value, str):
        yield f"{name}: {value}"
    elif isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):  # an object
        fields: dict[str, object] = {key.lower(): inner for key, inner in value}
        points, out_of, number = (
            next((fields[key] for key in keys if key in fields), None)
            for keys in (("score", "points"), ("max", "out_of", "weight"), ("id", "component"))
        )
        if isinstance(points, float) and isinstance(out_of, float):
            if number is not None:
                name = f"component {number:g}" if isinstance(number, float) else str(number)
            yield f"{name}: {points:g}/{out_of:g}"
        else:
            for key, inner in fields.items():
                yield from _lines(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name)


def _lead(before: str) -> str:
    """The words before a name in its sentence, with a colon, or the line above."""
    *lines, line = before.split("\n")
    sentence = re.split(r"[.!?…] ", line)[-1]
    words = re.sub(r"^\W+|\W+$", "", _SCORE_OF.sub("", sentence))
    return f"{words}:" if words else next((above for above in reversed(lines) if above.strip()), "")


def _mark(fraction: re.Match[str]) -> Mark:
    number = fraction["points"]
    points = points_of(number.lstrip("-") + f".{fraction['decimal']}" * bool(fraction["decimal"]))
    return Mark(-points if number.startswith("-") else points, points_of(fraction["out_of"]))


def _number(name: re.Match[str]) -> int:
    """The component, from 1; 0 for the total, -1 for "component 0"."""
    if name["total"]:
        return 0
    if name["ordinal"]:
        return _ORDINALS.index(name["ordinal"].lower()) + 1
    text = (name["name"] or name["item"]).lower()
    if text in "abcde":
        return "abcde".index(text) + 1
    return int(points_of(text)) or -1
