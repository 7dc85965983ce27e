"""The robust reader: the points that a judge evidently meant, however it wrote them.

It stands beside the official reader and never replaces it. A reply is cut into sections at its
headings; the last section about the score is read, and everything in it must agree. What two
careful people could read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

_FULL_MARKS = 6.0


class _Doubt(Enum):
    DOUBT = "doubt"


_DOUBT: Final = _Doubt.DOUBT
_Claim: TypeAlias = "float | Literal[_Doubt.DOUBT]"  # points, or a score that could mean several


def read_robust(reply: str) -> Verdict:
    r"""The points, 0 to 6, as a careful person would take them from the reply; decimals stay.

    Never raises. `Unscored` is ``off_scale`` if the judge names an impossible number, and
    ``unparsed`` if it names none, several, or one on another scale.

    >>> read_robust("Clear.\n**Score (0-6):** 4.5/6")
    Scored(points=4.5, reading='4.5')
    >>> read_robust("### Score\nSomewhere between 4 and 5").reason
    'unparsed'
    """
    if len(reply) > LONGEST:
        return Unscored("unparsed", f"the reply has {len(reply):,} characters")
    text = reply.rpartition("</think>")[2]  # without the thoughts of a reasoning model
    text = "" if text.lstrip().startswith("<think>") else text
    claim = _claim_of_object(text)
    if claim is None:
        lines = _fold(text)
        claim = _claim_of_lines(lines)
        if claim is None and not _quotes_code(lines):  # a block of code may be the verdict itself
            claim = _claim_of_lines([replace(line, fenced=False) for line in lines])
    if claim is None:
        return Unscored("unparsed", "the reply states no score")
    if claim is _DOUBT:
        return Unscored("unparsed", "the score in the reply can be read in several ways")
    if 0 <= claim <= _FULL_MARKS and not str(claim).startswith("-"):
        return Scored(claim, f"{claim:g}")
    return Unscored("off_scale", f"{claim:g} is not in 0 to 6")


# Folding: a reply in plain lines.

_CHARACTERS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2014\u2015", " - "),  # a dash that is no minus
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2018\u2019\u201a", "'"),
    **dict.fromkeys("\u00a0\u3000", " "),
    **dict.fromkeys("\u20e3\ufe0f", ""),  # the frames of keycaps
}
_CODE_VALUE = re.compile(r"`([-\d./ \t]{1,30})`")
_MARKUP = (
    (re.compile(r"<\|[^|<>\n]{1,30}\|>"), "\n"),  # a token of the judge
    (re.compile(r"(?i)<(?:final[ _]?)?(?:score|rating)>"), "\nScore: "),
    (re.compile(r"(?i)</(?:final[ _]?)?(?:score|rating)>"), "\n"),
    (re.compile(r"~~[^~\n]*~~"), ""),  # struck out
    (re.compile(r"\$?\\boxed\{([^{}\n]{1,30})\}\$?"), r"\1"),
    (re.compile(r"(?<!\d)\*+|\*+(?!\d)|(?<!\w)_+|_+(?!\w)"), ""),  # emphasis
    (re.compile(r"(?<=[.!?)])[ \t]{1,8}(?=#{2,6}[ \t]{0,3}\w)"), "\n"),  # a heading in a line
    (_CODE_VALUE, r"\1"),
)
_FENCE = re.compile(r"[ \t]{0,8}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class _Line:
    """A stripped line of a reply; in a block quote or in a block of code it may be foreign."""

    text: str
    quoted: bool = False
    fenced: bool = False

    @property
    def own(self) -> bool:
        return not (self.quoted or self.fenced)


def _fold(text: str) -> list[_Line]:
    """The lines that are not empty; the work grows linearly with the length of the text."""
    if not text.isascii():
        text = "".join(map(_plain, text))
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    texts = text.splitlines()
    paired = sum(_FENCE.match(line) is not None for line in texts) % 2 == 0
    lines, fenced = [], False
    for line in texts:
        if _FENCE.match(line):
            fenced = not fenced and paired  # an unclosed block means nothing
        elif stripped := line.strip():
            lines.append(_Line(stripped, quoted=stripped.startswith(">"), fenced=fenced))
    return lines


def _plain(character: str) -> str:
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if "\uff01" <= character <= "\uff5e":  # the full-width forms of ASCII
        return chr(ord(character) - 0xFEE0)
    if character > "\x80" and unicodedata.category(character) == "Cf":  # zero-width marks
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


# Values: "4", "4/6", "(0-6): 4 out of 6", "four".

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ANY_WORD = "|".join(_WORDS)
_DIGITS = r"-?(?:\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
_WHOLE = r"(?![\w%]|[.,]\d)"  # no 4th, 4%, 4,5 or 1.2.3
_UNIT = r"(?:[ \t]{0,2}(?:points?|pts|marks?)\b\.?)?"
_OUT_OF = (
    r"[ \t]{0,3}[(\[]?[ \t]{0,3}(?:/|out[ -]of\b|of\b(?=[ \t]{1,3}(?:\d|six|a (?:max|possible))))"
    r"(?:[ \t]{1,3}(?:an?|the|possible|maximum|max|total|of)\b){0,4}[ \t]{0,3}"
    rf"(?P<d>\d{{1,9}}(?:\.0+)?|{_ANY_WORD}){_WHOLE}(?![ \t]{{0,2}}/)[)\]]?"
)
_VALUE = re.compile(
    rf"(?i)(?P<n>{_DIGITS}|{_ANY_WORD}){_WHOLE}{_UNIT}(?:{_OUT_OF}{_UNIT}"
    r"|[ \t]{1,2}[(\[]?(?:on (?:an? |the )?)?(?:scale )?(?:of |from )?[01][ \t]?(?:-|to)[ \t]?6\b"
    r"(?: scale)?[)\]]?)?"
)
_SCALE = re.compile(  # "(0-6)", "[out of 6]", "(max 6)", "/6:"
    r"(?i)[ \t]{0,3}(?:[(\[][ \t]{0,2}"
    r"(?P<words>(?:(?:on|a|scale|range|from|of|between|out|max|maximum|integer|:)[ \t]?){0,6}/?)"
    r"[ \t]{0,2}(?:(?P<low>\d{1,3})[ \t]{0,2}(?:-|to|and|~|\.{2,3}|,)[ \t]{0,2})?"
    r"(?P<high>\d{1,3})(?:[ \t]{0,2}(?:points?|scale|max(?:imum)?)){0,2}[ \t]{0,2}[)\]]"
    r"(?=[ \t]{0,3}(?:[:=\-|]|is\b|\d|$))|/[ \t]{0,2}(?P<slash>\d{1,3})(?=[ \t]{0,2}[:=]))"
)
_SEPARATOR = re.compile(
    r"(?i)(?:[ \t]{0,3}(?:[:=|]|-{1,2}(?=[ \t])|>(?=[ \t])|(?:is|was)\b)){0,3}[ \t]{0,3}"
)
_OPENING = re.compile(r"[\"'(\[{]{0,3}[ \t]{0,2}")
_CLOSED = re.compile(r"[\s\"')\]}>|.,;:!]*$")
_GOES_ON = re.compile(
    r"(?i)[ \t]{0,2}(?:(?P<sentence>[.!;][ \t]+(?=[^\W\d]))|[:,][ \t]+(?=[^\W\d])"
    r"|[ \t]-{1,2}[ \t]+(?=[^\W\d])|\([ \t]{0,2}(?=[^\W\d])"
    r"|(?=[ \t](?:because|since|due to|reflecting|based on)\b))"
)
_CHANGES = re.compile(
    r"(?i)\b(?:deduct\w*|subtract\w*|minus|penal\w+|reduc\w+|lower(?:ed|ing)?|rais(?:ed|ing)"
    r"|adjust\w*|revis\w+|reconsider\w*|reflection|correct(?:ion|ed)|actually|instead|wait|mistake"
    r"|chang(?:e|ed|ing)|updat\w+|becomes?|off|final score|scale"
    rf"|(?:or|and|to)(?: an?)? (?:{_ANY_WORD}))\b"
)
_BEGINS_AS_NUMBER = re.compile(rf"(?i)[^\w]{{0,6}}(?:\d|(?:{_ANY_WORD})\b)")


def _value(text: str, *, own_line: bool = False) -> _Claim | None:
    """The value after a label, or on a line of its own; None if the text begins with none.

    A ``-`` with nothing before it (`own_line`) is a minus; in ``Score -4`` it may be a dash.

    >>> _value(" (0-6): 4/6"), _value(": 4/5"), _value(" reflects the quality")
    (4.0, <_Doubt.DOUBT: 'doubt'>, None)
    """
    start = 0
    scale = _SCALE.match(text)
    if scale and (scale["words"] or scale["low"] or scale["slash"]):  # "[4]" is no scale
        if int(scale["high"] or scale["slash"]) != _FULL_MARKS or int(scale["low"] or 0) > 1:
            return _DOUBT
        start = scale.end()
    separator = _SEPARATOR.match(text, start)
    begin = _end_of(_OPENING, text, _end_of(_SEPARATOR, text, start))
    number = _VALUE.match(text, begin)
    if number is None:
        return _DOUBT if _BEGINS_AS_NUMBER.match(text, begin) else None
    separated = own_line or bool(separator and separator[0].strip())
    is_dash = number["n"].startswith("-") and not separated
    return _DOUBT if is_dash or _is_changed(text, number.end()) else _points(number)


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _is_changed(text: str, end: int) -> bool:
    """Whether the words after a number may change it."""
    if _CLOSED.match(text, end):
        return False
    more = _GOES_ON.match(text, end)
    if more is None or _CHANGES.search(text, more.end()):
        return True
    return not more["sentence"] and re.search(r"\d", text[more.end() :]) is not None


def _points(match: re.Match[str]) -> _Claim:
    """The points of a number; `_DOUBT` if it is out of another maximum than six."""
    number, out_of = (
        float(_WORDS.index(word) if (word := (match[name] or "6").lower()) in _WORDS else word)
        for name in ("n", "d")
    )
    return number if out_of == _FULL_MARKS else _DOUBT


def _only(claims: Iterable[_Claim | None]) -> _Claim | None:
    """The claim that all agree on; `_DOUBT` if they differ, None if there is none."""
    distinct = {claim for claim in claims if claim is not None}
    return distinct.pop() if len(distinct) == 1 else (_DOUBT if distinct else None)


# JSON: {"feedback": "...", "score": 4}.

_SCORE_KEYS = {"score", "finalscore", "overallscore", "totalscore", "rating", "mmiescore"}
_MAXIMUM_KEYS = {"max", "maxscore", "maximum", "outof", "maximumscore", "fullmarks"}


class _Pairs(list[tuple[str, object]]):
    """The pairs of a JSON object; a key may be repeated."""


def _claim_of_object(text: str) -> _Claim | None:
    """The score in a reply that is one JSON object; None if it is none, or has no score."""
    content = text.strip()
    if content.startswith("```") and content.endswith("```"):
        content = content.partition("\n")[2].removesuffix("```").strip()
    if not (content.startswith("{") and content.endswith("}")):
        return None
    try:
        pairs = json.loads(content, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    keyed = [(re.sub(r"[^a-z]", "", key.lower()), value) for key, value in pairs]
    if any(value not in (_FULL_MARKS, "6") for key, value in keyed if key in _MAXIMUM_KEYS):
        return _DOUBT
    return _only(_claim_of_json(value) for key, value in keyed if key in _SCORE_KEYS)


def _claim_of_json(value: object) -> _Claim:
    if isinstance(value, str):
        claim = _value(value, own_line=True)
        return _DOUBT if claim is None else claim
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _DOUBT
    try:
        return float(value)
    except OverflowError:
        return float("inf")


# Prose: "I give it 4 out of 6", "the final score is 4".

_REPORTS = re.compile(  # somebody else's words
    r"(?i)\b(?:claim|say|state|write|wrote|end(?:s|ing) with|includ|contain|quot|read|tell|assert"
    r"|insist|adds|output|append|print|declar|itself|himself|herself|themsel|own score|prompt"
    r"|instruct|pretend|inject|fake|paste|insert|mention|copies|copied|repeat)"
)
_HYPOTHETICAL = re.compile(
    r"(?i)\b(?:would|could|might|may|if|unless|not|never|cannot|to (?:earn|get|reach|achieve"
    r"|receive|merit|deserve|obtain)|between|than|instead|maximum|minimum|perfect|full|reserved"
    r"|requires?|should be an?|each|every|text|image|criteri\w+)\b|n't\b"
)
_MY_WOULD = re.compile(r"\bI(?:'d| would| will|'ll)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z\"'(])")
_GAP = r"(?:[ \t]\w{1,30}){0,6}?[ \t]{1,2}"
_END = r"(?=[ \t]{0,2}(?:[.,;:!)\]][^\d]|[.,;:!)\]]?$|because\b|since\b))"
_STRICT = rf"(?P<n>{_DIGITS}){_WHOLE}{_UNIT}"
_OPTIONAL = rf"{_STRICT}(?:{_OUT_OF}{_UNIT})?{_END}"
_I_GIVE = re.compile(
    r"(?i)\bI(?:'d|'ll)?[ \t](?:(?:would|will|have|must|therefore|thus)[ \t]){0,2}(?:give|gave"
    rf"|rated?|award(?:ed)?|assign(?:ed)?|scored?|grade){_GAP}(?:an?[ \t])?{_OPTIONAL}"
)
_STATEMENTS = (
    re.compile(
        r"(?i)\b(?:final|overall|total)(?:[ _](?:score|rating|grade|mark|verdict))?"
        rf"[ \t]{{0,2}}[:=][ \t]{{0,2}}{_OPTIONAL}"
    ),
    re.compile(
        rf"(?i)\b(?:score|rating|grade)(?:{_GAP}|[ \t]{{1,2}})(?:is|of|at|as|be)[ \t]{{1,2}}"
        rf"(?:an?[ \t])?{_OPTIONAL}"
    ),
    _I_GIVE,
    re.compile(
        r"(?i)\b(?:earns?|deserves?|receives?|gets?|merits?|scor(?:es?|ed|ing)|awarded|given|rated)"
        rf"{_GAP}(?:an?[ \t])?{_STRICT}{_OUT_OF}{_UNIT}{_END}"
    ),
)


def _statements(line: str, *, strict: bool = False) -> Iterator[_Claim]:
    """The scores that the sentences of a line state, hypothetical and reported ones excluded.

    If `strict` (outside a score section, where a number may count anything), only with the scale or
    in the judge's own name.
    """
    for sentence in _SENTENCE.split(line):
        if _REPORTS.search(sentence) or _HYPOTHETICAL.search(_MY_WOULD.sub("I", sentence)):
            continue
        for pattern in _STATEMENTS:
            for match in pattern.finditer(sentence):
                if match["d"] is not None or pattern is _I_GIVE or not strict:
                    yield _points(match)


def _announces_quotation(text: str) -> bool:
    """Whether a text announces somebody else's words: ``The response claims:``."""
    ending = _SENTENCE.split(text)[-1].rstrip()
    return ending.endswith((":", ",", '"', "'", "`")) and _REPORTS.search(ending) is not None


def _quotes_code(lines: Sequence[_Line]) -> bool:
    """Whether a block of code is announced as somebody else's words."""
    return any(
        _announces_quotation(line.text)
        for line, following in pairwise(lines)
        if following.fenced and not line.fenced
    )


# Sections: "### Score" and what follows it.

_MODIFIERS = (
    r"(?P<mods>(?:(?:my|the|your|this|our|given|assigned|mmie|final|overall|total)"
    r"[ \t_-]{1,3}){0,3})"
)
_NAME = rf"{_MODIFIERS}(?P<label>scores?|rating|grade|verdict|marks?|final|overall|total)(?![\w'])"
_HASHES = re.compile(r"#{1,6}[ \t]{0,3}(?:\d{1,2}[.)][ \t]{0,3})?(?P<title>.*)")
_TITLE = re.compile(
    rf"(?i){_NAME}(?P<also>[ \t]{{1,3}}(?:and|&|with|\+)[ \t]{{1,3}}(?:justification|explanation"
    r"|reason(?:ing)?|rationale|feedback)\b)?(?P<rest>.*)"
)
_OF_A_PART = re.compile(
    r"(?i)[ \t]{0,3}(?:[(:-]?[ \t]{0,3}(?:for|by|per)\b|of\b|on\b|breakdown|justification"
    r"|explanation|details?|criteria|rubric|guide|scale|summary|table|analysis|rationale|range)"
    r"(?![ \t]{1,3}(?:this|the)[ \t]{1,3}(?:answer|response|story|method|solution|model)\b)"
)
_SEPARATED = re.compile(r"(?i)[\"']?[ \t]{0,3}(?:[:=|(\[/]|-{1,2}[ \t]|is\b|\d|$)")
_FINAL = re.compile(r"final|overall|total", re.IGNORECASE)
_SCORE_TITLE = re.compile(r"(?:scores?|rating|grade|marks?)$", re.IGNORECASE)
_LABEL = re.compile(
    rf"(?i)(?P<lead>[ \t|*\-•+\"'({{\[]{{0,8}})(?:\d{{1,2}}[.)][ \t]{{1,3}})?{_NAME}(?P<rest>.*)"
)
_SURE_LABELS = {"score", "scores", "rating", "overall"}  # "Total: 3" may be part of an answer
_BULLET = re.compile(r"(?:[-+•*][ \t]{1,3})?")
_ENUMERATION = re.compile(r"\d{1,2}[.)][ \t]+[^\W\d]")
_REVISES = re.compile(
    r"(?i)\b(?:revis(?:e|ed|ing|ion)|reconsider\w*|on reflection|actually|correction:|scratch that"
    r"|wait|mistaken?|should (?:have been|instead)"
    r"|(?:deduct|subtract|minus|less)[ \t]+(?:an?\b|one|\d)"
    r"|after (?:the )?(?:deduct|penal|subtract)\w*|changed?[ \t](?:to|my|the)|-[1-6][ \t]point)"
)


@dataclass(slots=True)
class _Section:
    """A heading and the lines below it.

    Attributes:
        title: The heading.
        value: The text after the label on the heading's line; None if it is not about the score.
        final: Whether the heading names a final score.
        foreign: Whether the line before announces somebody else's words.
    """

    title: str = ""
    value: str | None = None
    final: bool = False
    foreign: bool = False
    lines: list[_Line] = field(default_factory=list)


def _sections(lines: Sequence[_Line]) -> list[_Section]:
    sections = [_Section()]
    previous = ""
    for line in lines:
        if line.own and (heading := _HASHES.match(line.text)):
            sections.append(_section(heading["title"].strip(), previous))
        else:
            sections[-1].lines.append(line)
        previous = line.text
    return sections


def _section(title: str, previous: str) -> _Section:
    name = _TITLE.match(title)
    if (
        name is None
        or (_OF_A_PART.match(name["rest"]) and not name["also"])
        or (_FINAL.fullmatch(name["label"]) and not _SEPARATED.match(name["rest"]))
    ):
        return _Section(title)  # "### Final Answer", "### Score breakdown"
    final = _FINAL.search(title, 0, name.start("rest")) is not None
    return _Section(title, name["rest"].rstrip("# \t"), final, _announces_quotation(previous))


def _claim_of_lines(lines: Sequence[_Line]) -> _Claim | None:
    claim = _claim_of_sections(_sections(lines))
    if claim is None:
        claim = _claim_of_labels(lines)
    if claim is None:
        claim = _claim_of_prose([line.text for line in lines if line.own])
    if claim is not None and lines and lines[-1].fenced:  # a last block of code must agree
        code = _only(_labelled(line.text) for line in lines if line.fenced)
        return claim if code in (None, claim) else _DOUBT
    return claim


def _claim_of_sections(sections: Sequence[_Section]) -> _Claim | None:
    """The claim of the last section about the score, unless another one contradicts it."""
    scored = [
        (index, _only(_claims(section)))
        for index, section in enumerate(sections)
        if section.value is not None and not section.foreign
    ]
    scored = [  # "### Overall" without a number is a summary; "### Score" without one is a doubt
        (index, claim)
        for index, claim in scored
        if claim is not None or _SCORE_TITLE.search(sections[index].title.rstrip(":# \t"))
    ]
    if not scored:
        return _DOUBT if any(section.foreign for section in sections) else None
    last, claim = scored[-1]
    other_topics = [
        index
        for index, section in enumerate(sections[:last])
        if section.value is None and not section.title.lower().startswith("feedback")
    ]
    before = {earlier for index, earlier in scored if index < max(other_topics, default=-1)}
    if not sections[last].final and before - {None, claim}:
        return _DOUBT  # the score of another answer, or of one part
    after = {_claim_of_labels(section.lines, final_only=True) for section in sections[last + 1 :]}
    return _DOUBT if claim is None or after - {None, claim} else claim


def _claims(section: _Section) -> Iterator[_Claim | None]:
    """Every claim of a score section; `_DOUBT` for a line that revises something."""
    heading = section.value or ""
    value = _value(heading)
    if heading.strip(" \t:=-|"):
        yield value if value is not None else _only(_statements(section.title))
    lines = [line.text for line in section.lines if line.own]
    entries = [line for line in lines if _ENUMERATION.match(line)]
    listed = len(entries) > 1 or any(line.startswith(("1.", "1)")) for line in entries)
    for position, line in enumerate(lines):
        claim = _labelled(line)
        if claim is None and not (listed and line in entries):
            claim = _alone(line, first=position == 0 and value is None)
        if claim is None:
            yield from _statements(line)
        else:
            yield claim
        if _REVISES.search(line):
            yield _DOUBT


def _alone(line: str, *, first: bool) -> _Claim | None:
    """The claim of a line that is only a number; the first line may go on in words."""
    text = line[_end_of(_BULLET, line, 0) :]
    claim = _value(text, own_line=text == line)
    if first or claim is None:
        return claim
    is_number = claim is not _DOUBT and re.fullmatch(r"[\W\d]*\w{0,12}[\W\d]*", text)
    return claim if is_number else None


def _labelled(line: str) -> _Claim | None:
    """The claim of a line that begins with a label: ``Final score: 4``."""
    label = _LABEL.match(line)
    if label is None or not _SEPARATED.match(label["rest"]):
        return None
    quoted = label["lead"].strip()[-1:] in ('"', "'") and label["rest"][:1] not in ('"', "'")
    return None if quoted else _value(label["rest"].lstrip("\"'"))  # no quotation: "Score: 6"


def _claim_of_labels(lines: Sequence[_Line], *, final_only: bool = False) -> _Claim | None:
    """The claim of the labelled lines: of the final ones, or else of all of them together."""
    claims: list[tuple[bool, _Claim]] = []
    previous = ""
    for position, line in enumerate(lines):
        label = _LABEL.match(line.text) if line.own else None
        if label and label["label"].lower() in _SURE_LABELS and not _announces_quotation(previous):
            claim = _labelled(line.text)
            if claim is None and not label["rest"].strip(
                " \t:=-|"
            ):  # the value is on the next line
                claim = _only(
                    _claims(_Section(value="", lines=[*lines[position + 1 : position + 2]]))
                )
            if claim is not None:
                claims.append((bool(_FINAL.search(label["mods"] + label["label"])), claim))
        previous = line.text
    first_final = next((i for i, (final, _) in enumerate(claims) if final), None)
    if first_final is None:
        return None if final_only else _only(claim for _, claim in claims)
    return _only(claim for _, claim in claims[first_final:])


def _claim_of_prose(lines: Sequence[str]) -> _Claim | None:
    """The claim of a reply without headings and labels; its last line must state it."""
    if len(lines) == 1 and re.match(r"\W*\d", lines[0]):
        claim = _value(lines[0], own_line=True)
        if claim not in (None, _DOUBT):
            return claim
    if not lines or _only(_statements(lines[-1], strict=True)) is None:
        return None
    return _only(claim for line in lines for claim in _statements(line, strict=True))
