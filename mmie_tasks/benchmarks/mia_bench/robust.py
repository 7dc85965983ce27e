"""The robust reader: the marks that a judge gives in its own form, loosely spelt.

1. Only the judge's own words are read (`reply_text.own_words`), or lines made of its JSON.
2. A mark is points out of a component's weight, after its name and before the next one:
   ``component 1: 6/6``, ``Criterion B - two out of four``, ``2. In red: 2/4``. A total, if there is
   one, is out of 10 or of all weights.
3. Every component has one mark. Two different marks, marks only out of something else, or a total
   that is not their sum: ``unparsed``. So is a reply without a mark, or whose first mark is below a
   line that hands it to somebody else (`reply_text.is_of_others`).
4. A mark below 0 or above its maximum, or a component without one or that does not exist:
   ``off_scale``, and the judge is asked once more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mmie_tasks.benchmarks.mia_bench.sample import Sample
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

_REQUESTED_SCALE = 10  # the official prompt requests a total out of 10, whatever the weights
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
        doubt: Why the reply is not a verdict; None where it is one.
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
    def agrees(self) -> bool:
        """Whether the total is the sum of the components, if both exist.

        Out of 10 it may be the sum, or the same share of 10, to half a point.
        """
        if self.total is None or self.recomputed is None:
            return True
        points = self.recomputed * sum(self.weights)
        if abs(self.total.points - points) < 1e-6:
            return True
        is_rescaled = self.total.out_of != sum(self.weights) and self.total.possible
        return is_rescaled and abs(self.total.share - self.recomputed) <= 0.5 / self.total.out_of


def read_robust(sample: Sample, reply: object) -> Verdict:
    """The total of the components as a fraction of full marks, 0 to 1."""
    if not isinstance(reply, str):
        return Unscored("unparsed", f"the reply is {type(reply).__name__}, not text")
    parsed = read_reply(reply, sample.weights)
    return parsed.doubt or Scored(parsed.recomputed or 0.0)


def is_impossible(sample: Sample, reply: str) -> bool:
    """Whether the marks of a reply cannot be meant, so that the judge is asked once more."""
    verdict = read_robust(sample, reply)
    return isinstance(verdict, Unscored) and verdict.reason == "off_scale"


def read_reply(text: str, weights: Sequence[int]) -> ParsedReply:
    """Read a reply on a sample whose components have these weights, by the rules of this module.

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
    """The marks of each component, of 0 the total.

    Marks out of its maximum hide its others, because a title or reason may have numbers.
    """
    text = "\n".join(_lines_of_json(reply)) or own_words(reply)
    names = list(_NAME.finditer(text))
    found: defaultdict[int, list[Mark]] = defaultdict(list)
    ends = [*(name.start() for name in names), len(text)][1:]
    for name, end in zip(names, ends, strict=True):
        marks = [_mark(fraction) for fraction in _FRACTION.finditer(text[name.end() : end])]
        if marks and not found and is_of_others(_lead(text[: name.start()])):
            return {}
        number = _number(name)
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
    """What announces a name, with a colon: the words before it in its sentence, or the line
    above.
    """
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
