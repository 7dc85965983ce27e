"""The robust reader: the points that a judge evidently meant, however it wrote them.

It stands beside the official reader and never replaces it. What is read:

    value      4, 4.5, "four", "4/6", "4 out of 6 points", "4 - clear, but short"
    scale      "(0-6)", "out of 6": no value; with another maximum than six, the value is in doubt
    label      "Score: 4", "**Final Score** 4/6", "| Overall | 4 |", {"score": 4}
    section    a heading that is a label, "### Score", with values, labels and statements below it
    statement  "I give it 4 out of 6", "the final score is 4"

The last section about the score counts; without sections the labels do, without these a statement in the last line.
Everything there must agree. Blocks of code, quotations and reports ("The answer claims: ...") are no verdict. What two
careful people could read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import json
import re
import unicodedata
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
}
_CHARACTERS = {ord(char): plain for plain, chars in _SPELLINGS.items() for char in chars}
_CHARACTERS |= {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width ASCII
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORD = f"(?:{'|'.join(_WORDS)})"
_SIX = ("6", "6.0", "six")
_RANGE = r"[(\[](?:integer )?[01] ?(?:-|to|,|\.{2,3}) ?(\d{1,3})(?: (?:points?|scale))?[)\]]"  # (0-6), [1 to 6]
_MAXIMUM = (  # "out of a possible 6", "on a scale of 0 to 6", "(max 6)"
    r"[(\[]?\b(?:out[ -]of|on (?:an?|the)|max(?:imum)?|scale)\b:?"
    r"(?: {1,3}(?:an?|the|possible|maximum|total|scale|range|of|from)\b){0,4} {1,3}(?:[01] ?(?:-|to|and) ?)?"
    rf"(\d{{1,9}}(?:\.0)?|{_WORD})(?![\w%]|[.,]\d)(?: (?:points?|scale))?[)\]]?"
)
_MARKUP = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"<\|[^|<>\n]{1,30}\|>", "\n"),  # a token of the judge: <|end|>
        (r"<(?:final[ _])?(?:score|rating)>", "\nScore: "),
        (r"</(?:final[ _])?(?:score|rating)>", "\n"),
        (r"~~[^~\n]*~~", ""),  # struck out
        (r"\$?\\boxed\{([^{}\n]{1,30})\}\$?", r"\1"),
        (r"(?<!\d)\*+|\*+(?!\d)|(?<!\w)_+|_+(?!\w)", ""),  # emphasis, but not 2*2
        (r"(?<=[.!?)]) {1,8}(?=#{2,6} {0,3}\w)", "\n"),  # Good. ### Score 4
        (r"`([-\d./ ]{1,30})`", r"\1"),  # a value as code
        (_RANGE, r" /\1"),
        (_MAXIMUM, r" /\1"),
    )
)


def _plain(text: str) -> str:
    """The text in ASCII where possible, without markup; every scale is written as ``/6``."""
    text = text.replace("\t", " ")
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(int(digit[0])), text.translate(_CHARACTERS))
        text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Me", "Mn"))  # invisible
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text


# Values: a number, its scale and what may follow.

_DIGITS = r"-?(?:\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
_END_OF_NUMBER = r"(?![\w%]|[.,]\d)"  # no 4th, 4%, 4,5 or 1.2.3
_UNIT = r"(?: {0,2}(?:points?|pts|marks?)\b\.?)?"
_OUT_OF = rf" {{0,3}}(?:/|of\b) {{0,3}}(?P<max>\d{{1,9}}(?:\.0)?|{_WORD}){_END_OF_NUMBER}(?!/)"
_SCALE = re.compile(rf"(?i){_OUT_OF}")
_VALUE = re.compile(
    r"(?i)(?P<separator>(?: {0,3}(?:[:=|]|[-=]>|-{1,2}(?= )|>(?= )|(?:is|was)\b)){0,3}) {0,3}[\"'(\[{]{0,3} {0,2}"
    rf"(?P<number>{_DIGITS}|{_WORD}){_END_OF_NUMBER}{_UNIT}(?:{_OUT_OF}{_UNIT})?"
)
_BEGINS_AS_NUMBER = re.compile(rf"(?i)(?:\W|(?:is|was)\b){{0,8}}(?:\d|{_WORD}\b)")  # "~4", "4th"
_CLOSING = " \n\"')]}>|.,;:!"
_COMMENT = re.compile(  # "4. Clear", "4 - clear", "4 (clear)", "4 because ..."
    r"(?i) {0,2}(?:(?P<sentence>[.!;] +)|[:,] +| -{1,2} +|\( ?| (?=(?:because|since|due to|reflecting|based on)\b))"
    r"(?=[^\W\d])"
)
_REVISION = (
    r"revis(?:ed?|ing|ion)|reconsider\w*|on reflection|actually|correction:|scratch that|wait|mistaken?"
    r"|should (?:have been|instead)|(?:deduct|subtract|minus|less) +(?:an?\b|one|\d)|changed? (?:to|my|the)"
)
_REVISES = re.compile(rf"(?i)\b(?:{_REVISION})")  # a line below a score takes it back
_CHANGES = re.compile(  # words after a number that may change it
    rf"(?i)\b(?:{_REVISION}|(?:deduct|subtract|penal|reduc|adjust|revis|chang|updat|lower|rais)\w*|off|minus|reflection"
    rf"|correct(?:ion|ed)|instead|becomes?|final score|scale|(?:or|and|to)(?: an?)? {_WORD})\b"
)


def _value(text: str) -> _Claims:
    """The claim of a text that begins with a value; empty if it begins with none.

    >>> _value(" /6: 4/6"), _value(": 4/5"), _value(" reflects the quality")
    ({4.0}, {None}, set())
    """
    scale = _SCALE.match(text)
    if scale and scale["max"].lower() not in _SIX:
        return {None}
    start = scale.end() if scale else 0
    value = _VALUE.match(text, start)
    if value is None:
        return {None} if _BEGINS_AS_NUMBER.match(text, start) else set()
    words = text[value.end() :]
    if words.strip(_CLOSING):
        comment = _COMMENT.match(words)
        if comment is None or _CHANGES.search(words, comment.end()):
            return {None}
        if not comment["sentence"] and re.search(r"\d", words):
            return {None}
    is_dash = value["number"].startswith("-") and not value["separator"]
    return {None if is_dash else _points(value)}


def _points(match: re.Match[str]) -> float | None:
    """The points of a number; None if it is out of another maximum than six."""
    number = match["number"].lower()
    if (match["max"] or "6").lower() not in _SIX:
        return None
    return float(_WORDS.index(number) if number in _WORDS else number)


# Labels: "Score: 4", "| Overall | 4 |", "### 2. Final Score (0-6): 4".

_LABEL = re.compile(
    r"(?i)[ |*\-•+({\[]{0,8}(?:\d{1,2}[.)] {0,3})?(?P<quote>[\"']?)"
    r"(?:(?:my|the|your|this|our|given|assigned|mmie|final|overall|total)[ _-]{0,3}){0,3}"
    r"(?P<name>scores?|rating|grade|verdict|marks?|final|overall|total)\b(?!')(?P=quote)"
    r"(?: +(?:and|with|&|\+) +(?:justification|explanation|reason(?:ing)?|rationale|feedback)\b)?"
    # no part: "Score for text: 4"; no quotation: '"Score: 6" is what it wants'
    r"(?!(?: */\d+)?\W{0,4}(?:for|by|per|of|on)\b(?! (?:this|the) (?:answer|response)\b))"
    r"(?P<rest>(?: {0,3}(?:[:=|(\[/]|-{1,2} )| +(?:is|was|of)\b|\W{0,6}(?:\d|$)"
    rf"|\W{{1,6}}{_WORD} *(?:\W?$|/)).*)"
)
_SURE_NAMES = ("score", "scores", "rating", "overall")  # "Total: 3" may stand in an answer
_FINAL = re.compile(r"(?i)final|overall|total")


def _claims_of_object(text: str) -> _Claims:
    """The score in a reply that is one JSON object; empty if it is none, or has no score."""
    content = re.sub(r"\A\s*```\w*\n|```\s*\Z", "", text).strip()
    if not content.startswith("{"):
        return set()
    try:
        pairs = json.loads(content, object_pairs_hook=list, parse_int=float)
    except (ValueError, RecursionError):
        return set()
    claims: _Claims = set()
    for key, value in pairs:
        if re.match(r"(?i)max|out.?of", key) and value not in (_FULL_MARKS, "6"):
            return {None}
        label = _LABEL.fullmatch(_plain(key))
        if label and label["name"].lower() in ("score", "rating"):
            number = value if isinstance(value, float) else None
            claims |= (_value(f": {_plain(value)}") if isinstance(value, str) else set()) or {number}
    return claims


# Sentences: "I give it 4 out of 6", "the final score is 4".

_REPORTS = re.compile(  # quoted words
    r"(?i)\b(?:claim|say|state|write|wrote|end(?:s|ing) with|includ|contain|quot|read|tell|assert|insist|adds|output"
    r"|append|print|declar|itself|himself|herself|themsel|own score|prompt|instruct|pretend|inject|fake|paste|insert"
    r"|mention|copies|copied|repeat)"
)
_HYPOTHETICAL = re.compile(  # not this answer as it is, or a part of it
    r"(?i)\b(?:(?<!\bI )would|could|might|may|if|unless|not|never|cannot|between|than|instead|maximum|minimum|perfect"
    r"|to (?:earn|get|reach|achieve|receive|merit|deserve|obtain)|full|reserved|requires?|should be an?|each|every"
    r"|text|image|criteri\w+)\b|n't\b"
)
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z\"'(])")
_GAP = r"(?: \w{1,30}){0,6}? {1,2}(?:an? )?"
_STATEMENT = re.compile(  # a lookahead, since statements overlap: "deserves a score of 4"
    r"(?i)\b(?=(?:(?P<own>I(?:'d|'ll)?(?: (?:would|will|must|therefore|thus)){0,2}"
    rf" (?:give|gave|rated?|award(?:ed)?|assign(?:ed)?|scored?){_GAP})"
    r"|(?P<named>(?:final|overall|total)(?:[ _](?:score|rating))? ?[:=] {0,2}"
    rf"|(?:score|rating|grade){_GAP}(?:is|of|at|as|be) (?:an? )?)"
    rf"|(?:earns?|deserves?|receives?|gets?|merits?|scor(?:es|ed|ing)|awarded|given|rated){_GAP})"
    rf"(?P<number>{_DIGITS}|{_WORD}(?= {{1,3}}/)){_END_OF_NUMBER}{_UNIT}(?:{_OUT_OF}{_UNIT})?"
    r"(?= {0,2}(?:[.,;:!)\]][^\d]|[.,;:!)\]]?$|because\b|since\b)))"
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
    """Whether a line announces quoted words: ``The response claims:``."""
    ending = _SENTENCE.split(line)[-1].rstrip()
    return ending.endswith((":", ",", '"', "'", "`")) and _REPORTS.search(ending) is not None


# Sections: "### Score" and what follows it.

_BLOCK = re.compile(r"(?ms)^ {0,8}(?:```|~~~)(?P<code>.*?)^ {0,8}(?:```|~~~)[^\n]*$")  # quoted words
_FENCE = re.compile(r"(?m)^ {0,8}(?:```|~~~)[^\n]*$")
_ENTRY = re.compile(r"(?P<number>\d{1,2})[.)] +[^\W\d]")  # of a list


def _claims_of_text(text: str) -> _Claims:
    text = _plain(text)
    unfenced = _FENCE.sub("", text)
    blocks = list(_BLOCK.finditer(text)) if len(_FENCE.findall(text)) % 2 == 0 else []
    quoted = _BLOCK.sub(lambda block: re.sub("(?m)^", ">", block["code"].strip()), text)
    claims = _claims_of_lines(quoted if blocks else unfenced)
    if claims and blocks and not text[blocks[-1].end() :].strip():  # a last block must agree
        labels = map(_LABEL.match, blocks[-1]["code"].splitlines())
        return claims.union(*(_value(label["rest"]) for label in labels if label))
    starts = [text[max(0, block.start() - 500) : block.start()].rstrip() for block in blocks]
    is_quoted = any(_announces(start.rpartition("\n")[2]) for start in starts)
    return claims or (set() if is_quoted else _claims_of_lines(unfenced))  # a block may be the verdict itself


def _claims_of_lines(text: str) -> _Claims:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _claims_of_sections(lines) or _claims_of_sections(lines, headed=False) or _claims_of_prose(lines)


def _claims_of_prose(lines: Sequence[str]) -> _Claims:
    """The claims of a reply without headings and labels; its last line must state one."""
    own = [line for line in lines if not line.startswith(">")]
    if len(own) == 1 and re.match(r"\W*\d", own[0]) and not _ENTRY.match(own[0]):
        claims = _value(f": {own[0]}")
        if None not in claims:
            return claims
    if not own or not _statements(own[-1], strict=True):
        return set()
    return {claim for line in own for claim in _statements(line, strict=True)}


def _claims_of_sections(lines: Sequence[str], *, headed: bool = True) -> _Claims:
    """The claims of the last section about the score, and of what may contradict it.

    A section begins with a heading; if not `headed`, with a line that is a label.
    """
    earlier: _Claims = set()  # scores of other answers, or of parts
    last: _Claims = set()
    is_reported = is_final = False
    is_other_topic = not headed
    starts = [index for index, line in enumerate(lines) if (line.startswith("#") if headed else _is_label(line))]
    for start, end in pairwise([*starts, len(lines)]):
        title, body = lines[start].strip("# "), lines[start + 1 : end]
        label = _LABEL.match(title)
        if label is None:
            is_other_topic |= not title.lower().startswith("feedback")
            last |= _claims_of_sections(body, headed=False) if last else set()
        elif start and _announces(lines[start - 1]):
            is_reported = True
        elif claims := _claims_of_section(label, body, headed=headed):
            if not is_final and _FINAL.search(title, 0, label.start("rest")):
                earlier, is_final = set(), True
            elif is_other_topic or is_final:
                earlier |= last
            last, is_other_topic = claims, not headed
    return earlier | last or ({None} if is_reported and headed else set())


def _is_label(line: str) -> bool:
    label = _LABEL.match(line)
    return label is not None and label["name"].lower() in _SURE_NAMES


def _claims_of_section(label: re.Match[str], body: Sequence[str], *, headed: bool) -> _Claims:
    """Every claim of a score section; None if there should be one: ``### Score`` alone."""
    claims = _value(label["rest"])
    is_blank = not re.search(r"[^\W\d_]", label["rest"])
    if headed:
        claims = claims or _statements(label.string)
    elif not claims and not is_blank:
        return set()
    is_summary = label["name"].lower() in ("verdict", "final", "overall", "total")
    return _claims_of_body(body, claims) or (set() if is_summary or not is_blank else {None})


def _claims_of_body(body: Sequence[str], claims: _Claims) -> _Claims:
    """The claims of lines below a label, and None for a line that revises something."""
    lines = [line for line in body if not line.startswith(">")]
    numbers = [entry["number"] for entry in map(_ENTRY.match, lines) if entry]
    is_list = len(numbers) > 1 or "1" in numbers  # "4. The answer covers 2 of 3 steps" is none
    for previous, line in zip(["", *lines], lines, strict=False):
        if _announces(previous):
            continue
        label = _LABEL.match(line)
        claim = _value(label["rest"]) if label else set()
        is_text = (is_list and _ENTRY.match(line)) or ((claims or previous) and len(line.split()) > 3)
        if not claim and not is_text:
            claim = _value(": " + re.sub(r"^[-+•*] {1,3}", "", line))
        claims = claims | (claim or _statements(line))
        if _REVISES.search(line):
            claims.add(None)
    return claims
