"""The robust reader: the points that a judge evidently meant, however it wrote them.

It stands beside the official reader and never replaces it. `_plain` writes equal things equally;
`_value` reads a number with what surrounds it, wherever it stands: after a label, in a heading, on
a line of its own, in a JSON string. The last section about the score counts, and everything in it
must agree. What two careful people could read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

_FULL_MARKS = 6.0

_Claims: TypeAlias = "set[float | None]"
"""The scores that a text states; None is one that could mean several. One number is a verdict."""


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
    claims = _claims_of_object(text) or _claims_of_text(text)
    if not claims:
        return Unscored("unparsed", "the reply states no score")
    points = claims.pop()
    if claims or points is None:
        return Unscored("unparsed", "the score in the reply can be read in several ways")
    if 0 <= points <= _FULL_MARKS and not str(points).startswith("-"):
        return Scored(points, f"{points:g}")
    return Unscored("off_scale", f"{points:g} is not in 0 to 6")


# Plain text: one spelling for each thing.

_SPELLINGS = {
    "-": "\u2010\u2011\u2012\u2013\u2212",
    " - ": "\u2014\u2015",  # a dash that is no minus
    "/": "\u2044\u2215",
    '"': "\u201c\u201d\u201e\u00ab\u00bb",
    "'": "\u2018\u2019\u201a",
    " ": "\u00a0\u3000",
    "": "\u20e3\ufe0f\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff",  # keycaps, invisible
}
_CHARACTERS = {ord(char): plain for plain, chars in _SPELLINGS.items() for char in chars}
_CHARACTERS |= {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width ASCII
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORD = f"(?:{'|'.join(_WORDS)})"
_MARKUP = (
    (re.compile(r"<\|[^|<>\n]{1,30}\|>"), "\n"),  # a token of the judge: <|end|>
    (re.compile(r"(?i)<(?:final[ _])?(?:score|rating)>"), "\nScore: "),
    (re.compile(r"(?i)</(?:final[ _])?(?:score|rating)>"), "\n"),
    (re.compile(r"~~[^~\n]*~~"), ""),  # struck out
    (re.compile(r"\$?\\boxed\{([^{}\n]{1,30})\}\$?"), r"\1"),
    (re.compile(r"(?<!\d)\*+|\*+(?!\d)|(?<!\w)_+|_+(?!\w)"), ""),  # emphasis, but not 2*2
    (re.compile(r"(?<=[.!?)])[ \t]{1,8}(?=#{2,6}[ \t]{0,3}\w)"), "\n"),  # Good. ### Score 4
    (re.compile(r"`([-\d./ \t]{1,30})`"), r"\1"),  # a value as code
)
_SCALES = (  # each becomes "/6"
    re.compile(  # "4 out of 6", "(out of a possible 6)"
        r"(?i)[(\[]?\bout[ -]of(?:[ \t]{1,3}(?:an?|the|possible|maximum|total|of)\b){0,4}"
        rf"[ \t]{{1,3}}(\d{{1,9}}(?:\.0)?|{_WORD})(?![\w%]|[.,]\d)[)\]]?"
    ),
    re.compile(  # "(0-6)", "[1 to 6]", "(on a scale from 0 to 6)", "(max 6)"; not "(4)"
        r"(?i)[(\[][ \t]{0,2}(?:(?:(?:on|an?|scale|range|from|of|between|max|maximum|integer|:|/)"
        r"[ \t]?){1,6}(?:[01][ \t]?(?:-|to|and|,)[ \t]?)?|[01][ \t]?(?:-|to|,|\.{2,3})[ \t]?)"
        r"(\d{1,3})(?: (?:points?|scale|max(?:imum)?))?[ \t]?[)\]]"
    ),
    re.compile(  # "4 on a scale of 0 to 6", "on the 0-6 scale"
        r"(?i)\bon (?:an? |the )(?:scale )?(?:of |from )?[01] ?(?:-|to) ?(\d{1,3})\b(?: scale)?"
    ),
)
_FENCE = re.compile(r"[ \t]{0,8}(?:```|~~~)")
_CODE = "```"  # before every line in a block of code
_FOREIGN = (_CODE, ">")  # such a line may be somebody else's words


def _plain(text: str) -> str:
    """The text in ASCII where possible, without markup; every scale is written as ``/6``."""
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(int(digit[0])), text.translate(_CHARACTERS))
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    for pattern in _SCALES:
        text = pattern.sub(r" /\1", text)
    return text


def _lines(text: str) -> list[str]:
    """The stripped lines that are not empty; those in a block of code begin with `_CODE`."""
    texts = _plain(text).splitlines()
    paired = sum(_FENCE.match(line) is not None for line in texts) % 2 == 0
    lines, fenced = [], False
    for line in map(str.strip, texts):
        if _FENCE.match(line):
            fenced = not fenced and paired  # an unclosed block means nothing
        elif line:
            lines.append(_CODE * fenced + line)
    return lines


# Values: a number, its scale and what may follow: "(0-6): 4", "4/6 points", "four - clear".

_DIGITS = r"-?(?:\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
_END_OF_NUMBER = r"(?![\w%]|[.,]\d)"  # no 4th, 4%, 4,5 or 1.2.3
_UNIT = r"(?:[ \t]{0,2}(?:points?|pts|marks?)\b\.?)?"
_OUT_OF = rf"[ \t]{{0,3}}(?:/|of\b)[ \t]{{0,3}}(?P<max>\d{{1,9}}(?:\.0)?|{_WORD}){_END_OF_NUMBER}(?!/)"
_SCALE = re.compile(rf"(?i){_OUT_OF}")
_SIX = ("6", "6.0", "six")
_VALUE = re.compile(
    r"(?i)(?P<separator>(?:[ \t]{0,3}(?:[:=|]|[-=]>|-{1,2}(?=[ \t])|>(?=[ \t])|(?:is|was)\b)){0,3})"
    rf"[ \t]{{0,3}}[\"'(\[{{]{{0,3}}[ \t]{{0,2}}(?P<number>{_DIGITS}|{_WORD}){_END_OF_NUMBER}"
    rf"{_UNIT}(?:{_OUT_OF}{_UNIT})?"
)
_BEGINS_AS_NUMBER = re.compile(rf"(?i)(?:\W|(?:is|was)\b){{0,8}}(?:\d|{_WORD}\b)")  # "~4", "4th"
_CLOSING = " \t\n\"')]}>|.,;:!"
_COMMENT = re.compile(  # "4. Clear", "4 - clear", "4 (clear)", "4 because ..."
    r"(?i)[ \t]{0,2}(?:(?P<sentence>[.!;][ \t]+)|[:,][ \t]+|[ \t]-{1,2}[ \t]+|\([ \t]?"
    r"|[ \t](?=(?:because|since|due to|reflecting|based on)\b))(?=[^\W\d])"
)
_REVISION = (
    r"revis(?:ed?|ing|ion)|reconsider\w*|on reflection|actually|correction:|scratch that|wait"
    r"|mistaken?|should (?:have been|instead)|(?:deduct|subtract|minus|less)[ \t]+(?:an?\b|one|\d)"
    r"|after (?:the )?(?:deduct|penal|subtract)\w*|changed? (?:to|my|the)|-[1-6] point"
)
_REVISES = re.compile(rf"(?i)\b(?:{_REVISION})")  # a line below a score takes it back
_CHANGES = re.compile(  # words after a number that may change it
    rf"(?i)\b(?:{_REVISION}|(?:deduct|subtract|penal|reduc|adjust|revis|chang|updat|lower)\w*|off"
    r"|minus|rais(?:ed|ing)|reflection|correct(?:ion|ed)|instead|becomes?|final score|scale"
    rf"|(?:or|and|to)(?: an?)? {_WORD})\b"
)


def _value(text: str, *, own_line: bool = False, ends: bool = False) -> _Claims:
    """The claim of a text that begins with a value; empty if it begins with none.

    On a line of its own (`own_line`) a ``-`` is a minus; in ``Score -4`` it may be a dash. If
    `ends`, a value with words after it is ignored.

    >>> _value(" /6: 4/6"), _value(": 4/5"), _value(" reflects the quality")
    ({4.0}, {None}, set())
    """
    scale = _SCALE.match(text)
    if scale and scale["max"].lower() not in _SIX:
        return {None}
    start = scale.end() if scale else 0
    value = _VALUE.match(text, start)
    if value is None:
        return {None} if _BEGINS_AS_NUMBER.match(text, start) and not ends else set()
    words = text[value.end() :]
    comment = _COMMENT.match(words)
    if not words.strip(_CLOSING):
        is_changed = False
    elif ends and (comment is None or len(words.split()) > 2):
        return set()
    elif comment is None or _CHANGES.search(words, comment.end()):
        is_changed = True
    else:
        is_changed = not comment["sentence"] and re.search(r"\d", words) is not None
    is_dash = value["number"].startswith("-") and not (own_line or value["separator"])
    return {None} if is_dash or is_changed else {_points(value)}


def _points(match: re.Match[str]) -> float | None:
    """The points of a number; None if it is out of another maximum than six."""
    number = match["number"].lower()
    if (match["max"] or "6").lower() not in _SIX:
        return None
    return float(_WORDS.index(number) if number in _WORDS else number)


# Labels: "Score: 4", "| Overall | 4 |", "### 2. Final Score (0-6): 4".

_LABEL = re.compile(
    r"(?i)[ \t|*\-•+({\[]{0,8}(?:\d{1,2}[.)][ \t]{0,3})?(?P<quote>[\"']?)"
    r"(?:(?:my|the|your|this|our|given|assigned|mmie|final|overall|total)[ \t_-]{0,3}){0,3}"
    r"(?P<name>scores?|rating|grade|verdict|marks?|final|overall|total)\b(?!')(?P=quote)"
    r"(?:[ \t]+(?:and|with|&|\+)[ \t]+(?:justification|explanation|reason(?:ing)?|rationale"
    r"|feedback)\b)?"
    # no part: "Score for text: 4"; no quotation: '"Score: 6" is what it wants'
    r"(?!(?:[ \t]*/\d+)?\W{0,4}(?:for|by|per|of|on)\b(?! (?:this|the) (?:answer|response)\b))"
    r"(?P<rest>(?:[ \t]{0,3}(?:[:=|(\[/]|-{1,2}[ \t])|[ \t]+(?:is|was|of)\b|\W{0,6}(?:\d|$)"
    rf"|\W{{1,6}}{_WORD}[ \t]*(?:\W?$|/)).*)"
)
_PADDING = " \t:=-|"
_SURE_NAMES = ("score", "scores", "rating", "overall")  # "Total: 3" may stand in an answer
_FINAL = re.compile(r"(?i)final|overall|total")


def _claims_of_labels(lines: Sequence[str], *, final_only: bool = False) -> _Claims:
    """The claims of the labelled lines: from the first final one on, or else of all of them."""
    claims: _Claims = set()
    final = False
    for previous, line, following in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        label = _LABEL.match(line)
        if not label or label["name"].lower() not in _SURE_NAMES or _announces(previous):
            continue
        is_alone = not label["rest"].strip(_PADDING)  # the value is on the next line
        claim = _claims_of_body([following]) if is_alone else _value(label["rest"])
        if claim and not final and _FINAL.search(line, 0, label.start("rest")):
            claims, final = set(), True
        claims |= claim
    return claims if final or not final_only else set()


# JSON: {"feedback": "...", "score": 4}.


def _claims_of_object(text: str) -> _Claims:
    """The score in a reply that is one JSON object; empty if it is none, or has no score."""
    content = text.strip()
    if content.startswith("```") and content.endswith("```"):
        content = content.partition("\n")[2].removesuffix("```").strip()
    if not (content.startswith("{") and content.endswith("}")):
        return set()
    try:
        pairs = json.loads(content, object_pairs_hook=list, parse_int=float)
    except (ValueError, RecursionError):
        return set()
    claims: _Claims = set()
    for key, value in pairs:
        label = _LABEL.fullmatch(_plain(key))
        if label and label["name"].lower() in ("score", "rating"):
            text = value if isinstance(value, str) else ""
            number = value if isinstance(value, float) else None
            claims |= _value(_plain(text), own_line=True) or {number}
        elif re.match(r"(?i)max|out.?of", key) and value not in (_FULL_MARKS, "6"):
            return {None}
    return claims


# Sentences: "I give it 4 out of 6", "the final score is 4".

_REPORTS = re.compile(  # somebody else's words
    r"(?i)\b(?:claim|say|state|write|wrote|end(?:s|ing) with|includ|contain|quot|read|tell|assert"
    r"|insist|adds|output|append|print|declar|itself|himself|herself|themsel|own score|prompt"
    r"|instruct|pretend|inject|fake|paste|insert|mention|copies|copied|repeat)"
)
_HYPOTHETICAL = re.compile(  # not this answer as it is, or a part of it
    r"(?i)\b(?:(?<!\bI )would|could|might|may|if|unless|not|never|cannot|between|than|instead"
    r"|to (?:earn|get|reach|achieve|receive|merit|deserve|obtain)|maximum|minimum|perfect"
    r"|full|reserved|requires?|should be an?|each|every|text|image|criteri\w+)\b|n't\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z\"'(])")
_GAP = r"(?:[ \t]\w{1,30}){0,6}?[ \t]{1,2}(?:an?[ \t])?"
_NUMBER = rf"(?P<number>{_DIGITS}|{_WORD}(?= {{1,3}}/)){_END_OF_NUMBER}{_UNIT}"
_END = r"(?=[ \t]{0,2}(?:[.,;:!)\]][^\d]|[.,;:!)\]]?$|because\b|since\b))"
_STATEMENT = re.compile(  # a lookahead, since statements overlap: "deserves a score of 4"
    r"(?i)\b(?=(?:(?P<own>I(?:'d|'ll)?(?:[ \t](?:would|will|must|therefore|thus)){0,2}[ \t]"
    rf"(?:give|gave|rated?|award(?:ed)?|assign(?:ed)?|scored?){_GAP})"
    r"|(?P<named>(?:final|overall|total)(?:[ _](?:score|rating))?[ \t]?[:=][ \t]{0,2}"
    rf"|(?:score|rating|grade){_GAP}(?:is|of|at|as|be)[ \t](?:an?[ \t])?)"
    r"|(?:earns?|deserves?|receives?|gets?|merits?|scor(?:es|ed|ing)|awarded|given|rated)"
    rf"{_GAP}){_NUMBER}(?:{_OUT_OF}{_UNIT})?{_END})"
)


def _statements(line: str, *, strict: bool = False) -> _Claims:
    """The scores that the sentences of a line state, hypothetical and reported ones excluded.

    "It earns 4" may count anything: the scale must be named, unless the judge speaks of itself or,
    if not `strict` (in a score section), of a score.
    """
    return {
        _points(match)
        for sentence in _SENTENCE.split(line)
        if not _REPORTS.search(sentence) and not _HYPOTHETICAL.search(sentence)
        for match in _STATEMENT.finditer(sentence)
        if match["max"] or match["own"] or (match["named"] and not strict)
    }


def _announces(line: str) -> bool:
    """Whether a line announces somebody else's words: ``The response claims:``."""
    ending = _SENTENCE.split(line)[-1].rstrip()
    return ending.endswith((":", ",", '"', "'", "`")) and _REPORTS.search(ending) is not None


# Sections: "### Score" and what follows it.

_ENTRY = re.compile(r"(?P<number>\d{1,2})[.)][ \t]+[^\W\d]")  # of a list


def _claims_of_text(text: str) -> _Claims:
    lines = _lines(text)
    claims = _claims_of_lines(lines)
    unfenced = [line.removeprefix(_CODE) for line in lines]
    if claims and lines[-1].startswith(_CODE):  # a last block of code must agree
        labels = [_LABEL.match(line.removeprefix(_CODE)) for line in lines if _CODE in line[:3]]
        return claims.union(*(_value(label["rest"]) for label in labels if label))
    quotes_code = any(
        after.startswith(_CODE) and not line.startswith(_CODE) and _announces(line) for line, after in pairwise(lines)
    )
    # A block of code may be the verdict itself.
    return claims if claims or quotes_code else _claims_of_lines(unfenced)


def _claims_of_lines(lines: Sequence[str]) -> _Claims:
    return _claims_of_sections(lines) or _claims_of_labels(lines) or _claims_of_prose(lines)


def _claims_of_prose(lines: Sequence[str]) -> _Claims:
    """The claims of a reply without headings and labels; its last line must state one."""
    own = [line for line in lines if not line.startswith(_FOREIGN)]
    if len(own) == 1 and re.match(r"\W*\d", own[0]) and not _ENTRY.match(own[0]):
        claims = _value(own[0], own_line=True)
        if None not in claims:
            return claims
    if not own or not _statements(own[-1], strict=True):
        return set()
    return {claim for line in own for claim in _statements(line, strict=True)}


def _claims_of_sections(lines: Sequence[str]) -> _Claims:
    """The claims of the last section about the score, and of what may contradict it."""
    earlier: _Claims = set()  # scores of other answers, or of parts
    last: _Claims = set()
    later: _Claims = set()  # final scores after the last section about the score
    other_topic = foreign = final = False
    starts = [index for index, line in enumerate(lines) if line.startswith("#")]
    for start, end in pairwise([*starts, len(lines)]):
        title, body = lines[start].strip("# \t"), lines[start + 1 : end]
        label = _LABEL.match(title)
        if label is None:
            other_topic |= not title.lower().startswith("feedback")
            later |= _claims_of_labels(body, final_only=True)
        elif start and _announces(lines[start - 1]):
            foreign = True
        elif claims := _claims_of_section(title, label, body):
            earlier |= last if other_topic else set()
            last, later, other_topic = claims, set(), False
            final = _FINAL.search(title, 0, label.start("rest")) is not None
    if not last:
        return {None} if foreign else set()
    return last | later if final else earlier | last | later


def _claims_of_section(title: str, label: re.Match[str], body: Sequence[str]) -> _Claims:
    """Every claim of a score section; None if there should be one: ``### Score`` alone."""
    value = _value(label["rest"])
    claims = (value or _statements(title)) | _claims_of_body(body, first=not value)
    is_summary = label["name"].lower() in ("verdict", "final", "overall", "total")
    return claims or (set() if is_summary or label["rest"].strip(_PADDING) else {None})


def _claims_of_body(body: Sequence[str], *, first: bool = True) -> _Claims:
    """The claims of lines below a label; with None for a line that revises something.

    If `first`, no value stands before them, and the first line may be one that goes on in words.
    """
    lines = [line for line in body if not line.startswith(_FOREIGN)]
    numbers = [entry["number"] for entry in map(_ENTRY.match, lines) if entry]
    is_list = len(numbers) > 1 or "1" in numbers  # "4. The answer covers 2 of 3 steps" is none
    claims: _Claims = set()
    for position, line in enumerate(lines):
        if position and _announces(lines[position - 1]):
            continue
        label = _LABEL.match(line)
        claim = _value(label["rest"]) if label else set()
        if not claim and not (is_list and _ENTRY.match(line)):
            text = re.sub(r"^[-+•*][ \t]{1,3}", "", line)
            claim = _value(text, own_line=text == line, ends=position > 0 or not first)
        claims |= claim or _statements(line)
        if _REVISES.search(line):
            claims.add(None)
    return claims
