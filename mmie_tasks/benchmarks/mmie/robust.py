"""The robust reader: the points that a judge states in its own form, loosely spelt.

1. Only JSON objects and the judge's own words (`reply_text.own_words`) are read.
2. A verdict is a label with a value after it or below it, at the beginning of a line or sentence:
   ``### Score``, ``**Final score:** 4/6``, ``My rating is four``; or a sentence such as ``I would
   give it 4 out of 6``; or a key of a JSON object; or a line that is only a value.
3. A value is a number, or its word, out of 6 points. Words without numbers may follow punctuation.
4. Two different verdicts, another maximum, or a label with something else in the value's place:
   ``unparsed``. A verdict below a line that is somebody else's (`reply_text.is_of_others`) does not
   count.
5. Points below 0 or above 6 are ``off_scale``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from mmie_tasks.benchmarks.reply_text import (
    LONGEST,
    NUMBER,
    is_of_others,
    json_objects,
    own_words,
    points_of,
)
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_FULL_MARKS = 6

_MARKS = r"^(?:[#•+|]|-(?= ))[#•+| -]*"  # of headings, lists and tables
_OF_SIX = re.compile(
    r"(?i) ?\(?(?:on )?(?:an? |the )?(?:scale )?(?:of |from |: ?)?\b[01] ?(?:-|to) ?6\b\)?"
    r"| ?\(?(?:/|out of|max(?:imum)?:?) ?(?:6|six)\b(?: points?)?\)?"
)
_OTHER_SCALE = re.compile(
    r"(?i)\b(?:max(?:imum)?|scale|range|full marks|(?:score|rate) out of)\b[^\n\d]{0,30}(?:[01] ?"
    r"(?:-|to) ?)?(?!6\b)\d|(?<!6)(?<!six)[ -]point scale|(?:\([01]|\b0) ?(?:-|to) ?(?!6\b)\d"
)
_OBJECT = r"(?:(?:the|this) (?:answer|response)|this|it)"
_LABEL = (
    r"(?:(?:my|the|this|total|final|overall|revised|corrected)[ _-]){0,3}"
    rf"(?:scores?|rating|grade|verdict|overall)(?: (?:for|of) {_OBJECT}\b)?"
)
_LABELLED = re.compile(
    rf"(?i)(?:\d[.)] )?{_LABEL}\b(?P<is>(?: {{0,2}}(?:[:=|]|-+>?(?= )|(?:is|was)\b)){{0,3}})"
    r" *(?P<rest>.*)"
)
_VALUE = re.compile(
    rf"(?i)(?!1[.)] ?[a-z])…? ?[\[({{]*(?P<points>-?{NUMBER})[\])}}]*(?: points?)?"
    r"(?: ?[.!;:,\u2600-\U0001faff]| \(| -+ |\Z)(?P<words>\D*)"
)
_GIVES = re.compile(
    rf"(?i)\b(?:I(?:'d| would)? (?:give|rate|score|award)(?: {_OBJECT})?"
    rf"|{_OBJECT} (?:deserves|earns|merits)|(?:the|my)(?: final| overall)? (?:score|rating)"
    rf"(?: (?:for|of) {_OBJECT})? (?:is|would be))"
    r"(?: an?(?: \w+)?)?(?: (?:score|rating))?(?: of)?:? (?=\d|[a-z]+\b\W*\Z)(?P<rest>.*)"
)


def read_robust(reply: str) -> Verdict:
    r"""The points, 0 to 6, by the rules of this module; decimals stay. Never raises.

    >>> read_robust("Clear.\n**Score (0-6):** 4.5/6")
    Scored(points=4.5, reading='4.5')
    >>> read_robust("### Score\nSomewhere between 4 and 5").reason
    'unparsed'
    """
    if len(reply) > LONGEST:
        return Unscored("unparsed", f"the reply has {len(reply):,} characters")
    text = _OF_SIX.sub("", own_words(reply))
    verdicts = {*_in_json(reply), *_in_text(text)}
    if not verdicts:
        return Unscored("unparsed", "the reply states no score of its own")
    points = verdicts.pop()
    if verdicts or points is None or _OTHER_SCALE.search(text):
        return Unscored("unparsed", "the score in the reply can be read in several ways")
    if 0 <= points <= _FULL_MARKS:
        return Scored(points, f"{points:g}")
    return Unscored("off_scale", f"{points:g} is not in 0 to 6")


def _in_json(reply: str) -> Iterator[float | None]:
    """The verdicts of JSON objects; None for one that cannot be read."""
    for key, value in itertools.chain.from_iterable(json_objects(reply)):
        if re.fullmatch(_LABEL, key, re.IGNORECASE):
            is_text = isinstance(value, (str, float))
            yield _value(_OF_SIX.sub("", str(value))) if is_text else None
        elif re.search("(?i)max|scale|range|out_?of|total", key) and value not in (6, "6", "0-6"):
            yield None


def _in_text(text: str) -> Iterator[float | None]:
    """The verdicts in the judge's own words; None for one that cannot be read."""
    lines = [line for line in (line.strip(" |\t\r") for line in text.splitlines()) if line]
    for index, line in enumerate(lines):
        below, above = "".join(lines[index + 1 : index + 2]), "".join(lines[:index][-1:])
        if is_of_others(above):
            continue
        is_value = (value := _VALUE.fullmatch(line)) and not value["words"] and line[-1] != ":"
        if is_value and not (above.startswith("#") or _LABELLED.fullmatch(above)):
            yield _value(line)
        for sentence in re.split(r"(?<=[.!?…]) +", re.sub(_MARKS, "", line)):
            if given := _GIVES.search(sentence):
                yield _value(given["rest"])
            elif label := _LABELLED.fullmatch(sentence):
                yield from _labelled(label, below)


def _labelled(label: re.Match[str], below: str) -> Iterator[float | None]:
    """The verdict of a label; nothing for prose that begins like one: "Overall, it is clear"."""
    value = _value(label["rest"] or below)
    if value is not None or (label["is"] and re.search(r"\d", label["rest"])):
        yield value


def _value(text: str) -> float | None:
    value = _VALUE.fullmatch(re.sub(_MARKS, "", text).rstrip("#| "))
    if value is None:
        return None
    points = points_of(value["points"].lstrip("-"))
    return -points if value["points"].startswith("-") else points
