"""The robust reading: what the judge evidently meant, however it put it.

Beside the official one, never instead of it. A reply is cut into sections at its headings; the
last section about the score is read, and all that it says must agree. What two careful people could
read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

# Where a line of a reply says so many points out of six.
#
# A claim is a number of points, or `DOUBT`: something is said there that two careful people could
# read differently, or on another scale.

FULL_MARKS = 6.0


class _Doubt(Enum):
    DOUBT = "doubt"


DOUBT: Final = _Doubt.DOUBT

Claim: TypeAlias = "float | Literal[_Doubt.DOUBT]"

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = r"-?(?:\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
ENDS = r"(?![\w%]|[.,]\d)"  # a number is whole: no 4th, 4%, 4,5 or 1.2.3
UNIT = r"(?:[ \t]{0,2}(?:points?|pts|marks?)\b\.?)?"
OUT_OF = (
    r"[ \t]{0,3}[(\[]?[ \t]{0,3}(?:/|out[ -]of\b|of\b(?=[ \t]{1,3}(?:\d|six|a (?:max|possible))))"
    r"(?:[ \t]{1,3}(?:an?|the|possible|maximum|max|total|of)\b){0,4}[ \t]{0,3}"
    rf"(?P<d>\d{{1,9}}(?:\.0+)?|{'|'.join(_WORDS)}){ENDS}(?![ \t]{{0,2}}/)[)\]]?"
)
_ON_SCALE = (
    r"[ \t]{1,2}[(\[]?(?:on (?:an? |the )?)?(?:scale )?(?:of |from )?[01][ \t]?(?:-|to)[ \t]?6\b"
    r"(?: scale)?[)\]]?"
)
_VALUE = re.compile(
    rf"(?P<n>{DIGITS}|{'|'.join(_WORDS)}){ENDS}{UNIT}(?:{OUT_OF}{UNIT}|{_ON_SCALE})?",
    re.IGNORECASE,
)
_SCALE = re.compile(  # "(0-6)", "[out of 6]", "(max 6)", "/6:"
    r"[ \t]{0,3}(?:[(\[][ \t]{0,2}"
    r"(?P<said>(?:(?:on|a|scale|range|from|of|between|out|max|maximum|integer|:)[ \t]{0,2}){0,6}/?)"
    r"[ \t]{0,2}(?:(?P<low>\d{1,3})[ \t]{0,2}(?:-|to|and|~|\.{2,3}|,)[ \t]{0,2})?"
    r"(?P<high>\d{1,3})(?:[ \t]{0,2}(?:points?|scale|max(?:imum)?)){0,2}[ \t]{0,2}[)\]]"
    r"(?=[ \t]{0,3}(?:[:=\-|]|is\b|\d|$))|/[ \t]{0,2}(?P<slash>\d{1,3})(?=[ \t]{0,2}[:=]))",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"(?:[ \t]{0,3}(?:[:=|]|-{1,2}(?=[ \t])|>(?=[ \t])|(?:is|was)\b)){0,3}[ \t]{0,3}", re.IGNORECASE
)
_OPENING = re.compile(r"[\"'(\[{]{0,3}[ \t]{0,2}")
_CLOSED = re.compile(r"[\s\"')\]}>|.,;:!]*$")
_GOES_ON = re.compile(
    r"[ \t]{0,2}(?:(?P<sentence>[.!;][ \t]+(?=[^\W\d]))|[:,][ \t]+(?=[^\W\d])"
    r"|[ \t]-{1,2}[ \t]+(?=[^\W\d])|\([ \t]{0,2}(?=[^\W\d])"
    r"|(?=[ \t](?:because|since|due to|reflecting|based on)\b))",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:deduct\w*|subtract\w*|minus|penal\w+|reduc\w+|lower(?:ed|ing)?|rais(?:ed|ing)|adjust\w*"
    r"|revis\w+|reconsider\w*|reflection|correct(?:ion|ed)|actually|instead|wait|mistake"
    r"|chang(?:e|ed|ing)|updat\w+|becomes?|off|final score|scale"
    rf"|(?:or|and|to)(?: an?)? (?:{'|'.join(_WORDS)}))\b",
    re.IGNORECASE,
)
_REVISES = re.compile(
    r"\b(?:revis(?:e|ed|ing|ion)|reconsider\w*|on reflection|actually|correction:|scratch that|wait"
    r"|mistaken?|should (?:have been|instead)|(?:deduct|subtract|minus|less)[ \t]+(?:an?\b|one|\d)"
    r"|after (?:the )?(?:deduct|penal|subtract)\w*|changed?[ \t](?:to|my|the)|-[1-6][ \t]point)",
    re.IGNORECASE,
)
_ENUMERATES = re.compile(r"\d{1,2}[.)][ \t]+[^\W\d]")
_STARTS_AS_NUMBER = re.compile(rf"[^\w]{{0,6}}(?:\d|(?:{'|'.join(_WORDS)})\b)", re.IGNORECASE)


def value(rest: str, *, own_line: bool = False) -> Claim | None:
    """What is said after a label, or on a line of its own; None where it is no number.

    Args:
        rest: The text after ``Score``, or the whole line.
        own_line: Nothing stands before it, so that a ``-`` there is a minus.

    >>> value(" (0-6): 4/6"), value(": 4/5"), value(" reflects the quality")
    (4.0, <_Doubt.DOUBT: 'doubt'>, None)
    """
    start = 0
    scale = _SCALE.match(rest)
    if scale and (scale["said"] or scale["low"] or scale["slash"]):  # "[4]" is none
        if int(scale["high"] or scale["slash"]) != FULL_MARKS or int(scale["low"] or 0) > 1:
            return DOUBT
        start = scale.end()
    separator = _SEPARATOR.match(rest, start)
    begin = _after(_OPENING, rest, separator.end() if separator else start)
    found = _VALUE.match(rest, begin)
    if found is None:
        return DOUBT if _STARTS_AS_NUMBER.match(rest, begin) else None
    separated = own_line or bool(separator and separator[0].strip())
    if found["n"].startswith("-") and not separated:
        return DOUBT  # "Score -4": a minus, or a dash
    if not _ends_well(rest, found.end()):
        return DOUBT
    return points_of(found["n"], found["d"])


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start


def _ends_well(text: str, end: int) -> bool:
    """Whether what follows a number leaves it as it is."""
    if _CLOSED.match(text, end):
        return True
    goes_on = _GOES_ON.match(text, end)
    if goes_on is None or _CHANGES.search(text, goes_on.end()):
        return False
    return bool(goes_on["sentence"]) or not re.search(r"\d", text[goes_on.end() :])


def points_of(number: str, out_of: str | None) -> Claim:
    """The points of a number; `DOUBT` where it is out of another maximum than six."""
    if out_of is not None and _number(out_of) != FULL_MARKS:
        return DOUBT
    return _number(number)


def _number(said: str) -> float:
    word = said.lower()
    return float(_WORDS.index(word)) if word in _WORDS else float(said)


def enumerates(line: str) -> bool:
    """Whether a line is an entry of a numbered list: ``1) Clear``."""
    return _ENUMERATES.match(line) is not None


def revises(line: str) -> bool:
    """Whether a line takes something back that was said before, or may."""
    return _REVISES.search(line) is not None


def in_range(points: float) -> bool:
    """Whether it is between none and full marks."""
    return 0 <= points <= FULL_MARKS and not str(points).startswith("-")


# A judge's reply in plain lines, before anything is looked for in it.

_CHARACTERS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2014\u2015", " - "),  # a dash that is no minus
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2018\u2019\u201a", "'"),
    "\u00a0": " ",
    "\u3000": " ",
    "\u20e3": "",  # the frame of a keycap
    "\ufe0f": "",
}
_TOKEN = re.compile(r"<\|[^|<>\n]{1,30}\|>")
_OPENS = re.compile(r"<(?:final[ _]?)?(?:score|rating)>", re.IGNORECASE)
_CLOSES = re.compile(r"</(?:final[ _]?)?(?:score|rating)>", re.IGNORECASE)
_STRUCK = re.compile(r"~~[^~\n]*~~")  # what is struck out is not said
_BOXED = re.compile(r"\$?\\boxed\{([^{}\n]{1,30})\}\$?")
_EMPHASIS = re.compile(r"(?<!\d)\*+|\*+(?!\d)|(?<!\w)_+|_+(?!\w)")
_CODE = re.compile(r"`([^`\n]{1,30})`")
_ON_ONE_LINE = re.compile(r"(?<=[.!?)])[ \t]{1,8}(?=#{2,6}[ \t]{0,3}\w)")
_FENCE = re.compile(r"[ \t]{0,8}(?:```|~~~)")
_VALUE_ONLY = re.compile(r"[-\d./ \t]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a reply, without emphasis.

    Attributes:
        text: Stripped.
        quoted: It is a block quote, and so somebody else's words.
        fenced: It stands in a code block: somebody else's words, or the verdict.
    """

    text: str
    quoted: bool = False
    fenced: bool = False

    @property
    def own(self) -> bool:
        """Whether it is the judge's own, as far as its marks say."""
        return not (self.quoted or self.fenced)


def fold(reply: str) -> list[Line]:
    """The lines of a reply that hold something.

    Without a reasoning model's thoughts, emphasis, struck passages and the marks of code blocks;
    digits of any script are ASCII. A heading after the end of a sentence gets its own line. The
    work grows with the length of the reply and no faster.

    >>> [line.text for line in fold("Clear. **### Score:** ４")]
    ['Clear.', '### Score: 4']
    """
    text = spoken(reply)
    if not text.isascii():
        text = "".join(_folded(character) for character in text)
    text = _CLOSES.sub("\n", _OPENS.sub("\nScore: ", _TOKEN.sub("\n", text)))
    text = _EMPHASIS.sub("", _BOXED.sub(r"\1", _STRUCK.sub("", text)))
    text = _CODE.sub(_without_marks, _ON_ONE_LINE.sub("\n", text))
    return _lines(text.splitlines())


def spoken(reply: str) -> str:
    """A reply without what a reasoning model thinks before it speaks."""
    _, closed, after = reply.rpartition("</think>")
    said = after if closed else reply
    return "" if said.lstrip().startswith("<think>") else said


def _lines(texts: list[str]) -> list[Line]:
    fences = [position for position, text in enumerate(texts) if _FENCE.match(text)]
    paired = len(fences) % 2 == 0  # a block that is not closed says nothing
    lines, fenced = [], False
    for text in texts:
        if _FENCE.match(text):
            fenced = not fenced and paired
        elif text.strip():
            quoted = text.lstrip().startswith(">")
            lines.append(Line(text.strip(), quoted=quoted, fenced=fenced))
    return lines


def _without_marks(code: re.Match[str]) -> str:
    return code[1] if _VALUE_ONLY.fullmatch(code[1]) else code[0]


def _folded(character: str) -> str:
    if character < "\x80":
        return character
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if "\uff01" <= character <= "\uff5e":  # the full-width forms of ASCII
        return chr(ord(character) - 0xFEE0)
    if unicodedata.category(character) == "Cf":  # zero-width marks, soft hyphens
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


# A verdict that is a JSON object: ``{"feedback": "...", "score": 4}``.

_FENCE_OBJECTS = "```"
_SCORES = {"score", "finalscore", "overallscore", "totalscore", "rating", "mmiescore"}
_MAXIMA = {"max", "maxscore", "maximum", "outof", "maximumscore", "fullmarks"}


def of_object(text: str) -> Claim | None:
    """What an object says that is the whole text; None where it is none, or says no score."""
    content = text.strip()
    if content.startswith(_FENCE_OBJECTS) and content.endswith(_FENCE_OBJECTS):
        content = content.partition("\n")[2].removesuffix(_FENCE_OBJECTS).strip()
    if not (content.startswith("{") and content.endswith("}")):
        return None
    try:
        pairs = json.loads(content, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    said = {_said(item) for key, item in pairs.items if _folded_objects(key) in _SCORES}
    maxima = [item for key, item in pairs.items if _folded_objects(key) in _MAXIMA]
    if any(maximum not in (FULL_MARKS, "6") for maximum in maxima) or len(said) > 1:
        return DOUBT
    return said.pop() if said else None


class _Pairs:
    """An object with its keys as often as they stand in it."""

    def __init__(self, items: Sequence[tuple[str, object]]) -> None:
        self.items = items


def _folded_objects(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def _said(item: object) -> Claim:
    if isinstance(item, str):
        claim = value(item, own_line=True)
        return DOUBT if claim is None else claim
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        return DOUBT
    try:
        return float(item)
    except OverflowError:
        return float("inf")


# What the sentences of a reply say the score is, and whose words they are.

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


# A reply cut at its headings.

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


LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

_LABEL = re.compile(
    r"(?P<lead>[ \t|*\-\u2022+\"'({\[]{0,8})(?:\d{1,2}[.)][ \t]{1,3})?"
    rf"{MODIFIERS}(?P<label>scores?|rating|grade|verdict|marks?|final|overall|total)(?![\w'])"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-+\u2022*][ \t]{1,3})?")
_SURE = {"score", "scores", "rating", "overall"}  # "Total: 3" may be part of an answer
_JUDGED = re.compile(r"(?:scores?|rating|grade|marks?)$", re.IGNORECASE)


def read_robust(reply: str) -> Verdict:
    r"""The points, 0 to 6, as whoever reads the reply would take them; decimals stay.

    Never raises. `Unscored` is ``off_scale`` where the judge names an impossible number, and
    ``unparsed`` where it names none, several, or one on another scale.

    >>> read_robust("Clear.\n**Score (0-6):** 4.5/6")
    Scored(points=4.5, reading='4.5')
    >>> read_robust("### Score\nSomewhere between 4 and 5").reason
    'unparsed'
    """
    if len(reply) > LONGEST:
        return Unscored("unparsed", f"the reply has {len(reply):,} characters")
    claim = of_object(spoken(reply))
    if claim is None:
        lines = fold(reply)
        claim = _of_lines(lines)
        if claim is None and any(line.fenced for line in lines) and not _announced(lines):
            claim = _of_lines([replace(line, fenced=False) for line in lines])
    return _verdict(claim)


def _verdict(claim: Claim | None) -> Verdict:
    if claim is None:
        return Unscored("unparsed", "the reply says no score")
    if claim is DOUBT:
        return Unscored("unparsed", "what the reply says of a score can be read in several ways")
    if in_range(claim):
        return Scored(claim, f"{claim:g}")
    return Unscored("off_scale", f"{claim:g} is not in 0 to 6")


def _announced(lines: Sequence[Line]) -> bool:
    """Whether a code block holds somebody else's words, as the line before it says."""
    return any(quotes(one.text) for one, two in pairwise(lines) if two.fenced and not one.fenced)


def _of_lines(lines: Sequence[Line]) -> Claim | None:
    claim = _of_headings(list(sections(lines)))
    if claim is None:
        claim = _of_labels(lines)
    if claim is None:
        claim = _of_prose([line for line in lines if line.own])
    return DOUBT if _contradicted(claim, lines) else claim


def _contradicted(claim: Claim | None, lines: Sequence[Line]) -> bool:
    """Whether the last lines are a code block that says another score."""
    if claim is None or not (lines and lines[-1].fenced):
        return False
    after = _one_of(_labelled(line.text) for line in lines if line.fenced)
    return after is not None and after != claim


# Headings.


def _of_headings(found: Sequence[Section]) -> Claim | None:
    """What the last heading about the score says, unless another contradicts it."""
    said = [(i, s, _of_section(s)) for i, s in enumerate(found) if s.rest is not None]
    foreign = [s for _, s, _ in said if s.foreign]
    own = [(i, s, c) for i, s, c in said if not s.foreign and _counts(s, c)]
    if not own:
        return DOUBT if foreign else None
    last, section, claim = own[-1]
    if claim is None:
        return DOUBT
    apart = {i for i, s in enumerate(found) if s.rest is None and not _is_feedback(s.title)}
    latest_apart = max((i for i in apart if i < last), default=-1)
    before = (other for i, _, other in own[:-1] if i < latest_apart)
    if not section.final and any(other not in (None, claim) for other in before):
        return DOUBT  # the score of another thing, or of one part
    later = (_of_labels(s.lines, finally_only=True) for s in found[last + 1 :])
    return DOUBT if any(c is not None and c != claim for c in later) else claim


def _counts(section: Section, claim: Claim | None) -> bool:
    """``### Overall`` without a number is a summary; ``### Score`` without one is a doubt."""
    return claim is not None or bool(_JUDGED.search(section.title.rstrip(":# \t")))


def _is_feedback(title: str) -> bool:
    return title.lower().startswith("feedback")


def _of_section(section: Section) -> Claim | None:
    return _one_of(_claims(section))


def _claims(section: Section) -> Iterator[Claim | None]:
    rest = section.rest or ""
    lines = [line.text for line in section.lines if line.own]
    numbered = [line for line in lines if enumerates(line)]
    listed = len(numbered) > 1 or any(re.match("1[.)]", line) for line in numbered)
    first = value(rest)
    if rest.strip(" \t:=-|"):
        yield first if first is not None else _one_of(told(section.title))
    claimed = first is not None
    for position, line in enumerate(lines):
        labelled = _labelled(line)
        of_list = listed and enumerates(line)
        alone = None if of_list else _alone(line, first=position == 0 and not claimed)
        if labelled is not None or alone is not None:
            yield labelled if labelled is not None else alone
        else:
            yield from told(line)
        if revises(line):
            yield DOUBT


def _alone(line: str, *, first: bool) -> Claim | None:
    """What a line says that is nothing but a number; the first may go on in words."""
    bare = line[_BULLET.match(line).end() :]  # type: ignore[union-attr]  # it matches anything
    claim = value(bare, own_line=bare is line or bare == line)
    if claim is DOUBT:
        return DOUBT if first else None
    if claim is not None and not first and not re.fullmatch(r"[\W\d]*\w{0,12}[\W\d]*", bare):
        return None
    return claim


def _labelled(line: str) -> Claim | None:
    """What a line says that begins with a label: ``Final score: 4``."""
    found = _LABEL.match(line)
    if found is None or not SEPARATED.match(found["rest"]):
        return None
    opened = found["lead"].strip()[-1:] in ('"', "'")
    if opened and found["rest"][:1] not in ('"', "'"):
        return None  # a quotation: "Score: 6"
    return value(found["rest"].lstrip("\"'"))


def _one_of(claims: Iterator[Claim | None]) -> Claim | None:
    """The one thing that all say; `DOUBT` where they differ."""
    said = {claim for claim in claims if claim is not None}
    return said.pop() if len(said) == 1 else (DOUBT if said else None)


# Labels and prose, where no heading speaks of a score.


def _of_labels(lines: Sequence[Line], *, finally_only: bool = False) -> Claim | None:
    """What the labelled lines say: the final ones, or else all of them together."""
    found: list[tuple[bool, Claim]] = []
    before = ""
    for position, line in enumerate(lines):
        label = _LABEL.match(line.text) if line.own else None
        claim = _labelled(line.text) if label else None
        if label and claim is None and not label["rest"].strip(" \t:=-|"):
            claim = _of_section(Section(rest="", lines=list(lines[position + 1 : position + 2])))
        sure = label and label["label"].lower() in _SURE
        if label and sure and claim is not None and not quotes(before):
            words = f"{label['mods']}{label['label']}".lower()
            found.append((re.search("final|overall|total", words) is not None, claim))
        before = line.text
    final = [claim for is_final, claim in found if is_final]
    if final or finally_only:
        after = found[found.index((True, final[-1])) :] if final else []
        return _one_of(iter([*final, *(claim for _, claim in after)]))
    return _one_of(claim for _, claim in found)


def _of_prose(lines: Sequence[Line]) -> Claim | None:
    if not lines:
        return None
    if len(lines) == 1 and (claim := value(lines[0].text, own_line=True)) not in (None, DOUBT):
        return claim if re.match(r"\W*\d", lines[0].text) else None
    last = _one_of(told(lines[-1].text, strictly=True))
    whole = _one_of(claim for line in lines for claim in told(line.text, strictly=True))
    return None if last is None else whole
