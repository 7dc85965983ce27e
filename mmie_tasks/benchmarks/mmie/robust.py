r"""The robust reader: the points that a judge evidently meant. In doubt `unparsed`: never a guess.

1. **Own words.** Not read: thinking, text in quotation marks of any kind (also over several lines),
   in fences and in code, block quotes, struck text, and what is between tags or rules that name
   something (``<answer>``, ``=== RESPONSE ===``; but not score, rating, image and br). If one with
   a number in it is never closed, the reply is `unparsed`. A fence around the whole reply is taken
   off. A line in bold letters is a heading.
2. **Verdict.** A line of a label and a value, or a line that is a label and below it a value:
   ``### Score``, ``**Final Score:** 4/6``, ``My rating is 4``, ``| Overall | 4 |``. Labels are
   score, scores, rating, grade, verdict and overall, with nothing before them but list marks and up
   to three of my, the, this, total, final, overall, revised, corrected, updated, adjusted, amended:
   "image score" is none. Between label and value may be ``: = | - ->``, is, was. Also
   ``<score>4</score>`` and ``<rating>``, a JSON object with one ``score`` or ``rating`` among its
   keys, and a reply that is a value. Without a verdict, the reply is `unparsed`.
3. **Value.** ``4``, ``4.5``, ``four out of six``, ``4/6 points``, ``I give it 4``, ``(4)``, ``my
   score is 4``; words may follow after ``. ! ; : , - (`` if they have no number and no word of
   reporting (`_REPORTS`), denial or condition (`_CONDITIONS`) or change (`_CHANGES`), nor or, only,
   alone, for: ``4 - clear, but short``.
4. **Somebody else's.** The one verdict right below a line does not count if the last sentence of
   that line hands it to somebody else, denies it or makes it conditional: it ends with a colon or a
   comma and has a word of reporting, denial or condition (says, requested, example, not, would,
   if); or it has up to eight words and no full stop, is no list item, and breaks off (ends with
   such a word or one of `_OPEN_END`: "The answer demanded") or has such a word and no heading below
   it. So does a line right below the verdict that has such a word, no colon at its end, and points
   back: it begins with a small letter, this, that, these, it, so, "the above", quote, copy, from or
   "the model's own", or ends with this, that, above. Nor does one count below a heading that names
   something else than `_TOPIC` (``### Images``, then ``Score: 3``), nor, if its label is no
   heading, below a bare title of up to three words (``Step 1``), a doubt after another verdict.
5. **Doubt**, and the reply is `unparsed`: another maximum than 6 for points anywhere (``4/5``, "a
   10-point scale", "max score: 10", but not "2 out of 3 steps"); a label other than overall with
   other numbers, or a score or rating with nothing, in the place of its value; a verdict below any
   other line that ends with a colon, unless it announces the judge's own ("My verdict:"); below a
   verdict a second value, a number with a word that takes it back (`_TAKES_BACK`: "actually, 3"),
   and in the next line also words that withdraw it (`_WITHDRAWS`: "I take that back") or up to four
   words that end with a number; two verdicts that differ, unless the last one is called final,
   overall, revised, corrected, updated, adjusted or amended by its label or the line before it
   (also "I revise", "I change", as in `_REVISES`), and no other one is.
6. **Scale.** Points below 0 or above 6 are `off_scale`.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.reply_text import (
    FINAL,
    LONGEST,
    NUMBER_WORD,
    NUMBER_WORDS,
    QUOTATION,
    without_fence,
    without_invisible,
)
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_FULL_MARKS = 6.0

# 1. Own words.

_SPELLINGS = {"-": "‐‑‒–—−", '"': "“”„‟«»‹›「」『』", "'": "‘’‚", "/": "⁄∕"}
_CHARACTERS = str.maketrans({char: plain for plain, chars in _SPELLINGS.items() for char in chars})
_FENCED = (
    r"^[ >]{0,8}(?:[-*+] )?(?P<fence>`{3,}|~{3,})"
    r".*?(?:^[ >]{0,8}(?P=fence)[^\n]*$|(?P<open>\Z))"
)
_RULED = (
    r"^(?![^\w\n]{0,40}end\b)[^\n=*_-]{0,40}(?P<rule>[=*_-])(?P=rule){2,} *[a-z][^\n]{0,60}"
    r"(?P=rule){3,} *$.*?(?:^[^\n]{0,40}(?P=rule){3,}[^\n]*$|(?P<open>\Z))"
)
_BLANKED = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    for pattern in (
        _FENCED,
        r"<(?P<tag>(?!score\b|rating\b|image\b|br\b)[a-z]\w{0,20})\b[^<>\n]{0,80}>.*?(?:</(?P=tag)>|(?P<open>\Z))",
        _RULED,
        r"^ {0,3}>[^\n]*(?:\n(?! *(?:#|\n))[^\n]+)*",
        rf"{QUOTATION}|‚[^‚‘’]*[‘’]",
        r"(?<![\w`])`(?!`)(?=[^`]{1,2000}`)[^`]*[a-z]{2}[^`]*`",
        r"(?<![\w\"])\"(?=\S)[^\"]*\"(?!\w)|(?<!\w)['‘](?=\S)(?:[^'‘’]|(?<=\w)['’](?=\w))*['’](?!\w)",
        r"(?:(?<![\w\"])\"|[“„«‹「『]).*(?P<open>\Z)",
    )
)
_OPEN = "\1"  # in the place of a passage with a number that is never closed: it may hold a verdict
_MARKUP = (
    (re.compile(r"(?m)^ {0,3}\*\*(?=[A-Za-z])([^*\n]{1,80})\*\*:? *$"), r"###### \1"),  # a title
    (re.compile(r"<\|(?:end|im_end|eot_id|end_of_text)\|>|\r"), "\n"),  # tokens of judges
    (re.compile(r"(?i)<(score|rating)>"), r"\n\1: "),
    (re.compile(r"(?i)</(?:score|rating)>|~~[^~\n]*~~"), "\n"),
    (re.compile(r"(?<!`)``(?!`)|''"), '"'),  # quotation marks of LaTeX
    (re.compile(r"(?<!\d)(?<![*\n])\*+|(?<=[*\n])\*\*+|(?<=\S)\*+(?!\d)|(?<!\w)_+|_+(?!\w)"), ""),
    (re.compile(r"`([-\d./ ]{1,12})`"), r"\1"),
    (re.compile(r"[”＂]([^”＂]*)[”＂]"), r'"\1"'),
)


def _plain(reply: str) -> str:
    """The reply without thinking, markup, or a fence around all of it."""
    text = html.unescape(reply.rpartition("</think>")[2])
    if text.lstrip().startswith("<think>"):
        return ""
    text = without_fence(without_invisible(text))
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text


def _own_words(text: str) -> str:
    """The text in plain characters, with a mark in the place of each passage that is not the
    judge's.
    """
    for pattern in _BLANKED:
        text = pattern.sub(_blank, text)
    return _folded(text)


def _blank(passage: re.Match[str]) -> str:
    is_open = passage.groupdict().get("open") is not None
    return _OPEN if is_open and _HAS_NUMBER.search(passage[0]) else "\0"


def _folded(text: str) -> str:
    """One spelling for each character."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
    return re.sub(r"\d", lambda digit: str(int(digit[0])), text)


# 2. and 3. Verdicts and values.

_NUMBER = rf"(?:\d{{1,400}}(?:\.\d{{1,400}})?|\.\d{{1,400}}|{NUMBER_WORD}\b)"
_HAS_NUMBER = re.compile(rf"(?i)\d|\b{NUMBER_WORD}\b")
_ENDS_AS_NUMBER = re.compile(rf"(?i)(?<![\d.]){_NUMBER}\W*\Z")
_LABEL = re.compile(
    r"(?i)(?P<level>\#{0,6})[ •+*-]{0,4}(?:\d{1,2}[.)] {0,2})?"
    rf"(?P<kind>(?:(?:my|the|this|total|{FINAL})[ _-]){{0,3}})"
    r"(?P<name>scores?|rating|grade|verdict|overall)\b(?P<separator>(?: {0,2}(?:[:=|]|--?>?(?= )"
    r"|(?:is|was)\b)){0,3}) {0,3}(?P<rest>(?:.*[^ \#])?)[ \#]*"
)
_VALUE = re.compile(
    r"(?i)(?:I (?:give|rate|award|assign|score)(?: (?:it|this(?: answer| response)?))?(?: an?)?"
    r"(?: score of)? |(?:the |my )?(?:final |overall )?(?:score|rating) is |- )?"
    rf"[\[(]{{0,2}}(?P<points>-?{_NUMBER})[\])]{{0,2}}(?: (?:points?|marks?))?"
    r"(?P<words>(?: {0,2}[.!;:,]| ?\(| -{1,2} ).*)?"
)

# 4. Somebody else's words, and doubts.

_REPORTS = (
    r"sa(?:ys?|id|ying)\b|claim|stat(?:es?|ed|ing)\b|writ|wrote|end(?:s|ed|ing)?\b|includ|contain"
    r"|quot|reads?\b|tells?\b|told|assert|insist|add(?:s|ed)\b|append|output|print|declar|ask"
    r"|request|demand|want|tr(?:y|ied|ies|ying)\b|trick|instruct|pretend|inject|paste|insert|mention"
    r"|cop(?:y|ied|ies)\b|repeat|itself|himself|herself|themsel|prompt|example|format|template"
    r"|reference|from the|own words|(?:displays?|shows?)\b"
)
_CONDITIONS = (
    r"not\b|no\b|never|cannot|neither|nor\b|without|would|could|might|may\b|should|if\b|unless"
    r"|were\b|had\b|instead|hypothe|suppos|imagin|perfect|maybe|perhaps|about\b|between"
)
_CHANGES = (
    r"actually|reconsider|reflection|correct(?:ion|ed|ing)|revis|scratch|wait\b|mistake|i mean"
    r"|deduct|subtract|minus|lower|rais|chang|rather|instead|should|off\b|becomes?|penal|reduc"
)
_LEADS = re.compile(rf"(?i)\b(?:{_REPORTS}|{_CONDITIONS})|n't\b")
_DOUBTS = re.compile(rf"{_LEADS.pattern}|\b(?:{_CHANGES}|or\b|only\b|alone\b|for\b)")
_TAKES_BACK = re.compile(
    rf"(?i)\b(?:{_CHANGES}|however|but\b|I(?:'d)? (?:give|rate|award|score|say)\b|my "
    r"(?:final|answer|score|verdict))"
)
_WITHDRAWS = re.compile(
    r"(?i)\b(?:take \w+ back|ignore|disregard|too (?:high|low|harsh|generous)|wrong|kidding"
    r"|second thoughts?|think again|edit|not really)\b|\A\W{0,8}(?:hmm|no|wait)\b"
)
_POINTS_BACK = re.compile(
    r"[a-z]|(?i:(?:this|that|these|it|so|the above)\b|.*\b(?:this|that|above)\W*\Z"
    r"|\W*(?:quot|cop|from|(?:the )?\w+'s own))"
)
_OPEN_END = re.compile(
    rf"(?i)(?:\b(?:{_REPORTS}|{_CONDITIONS})\w*|n't|\b(?:giv\w*|gets?|be|been|is|was|are|an?|the|for"
    r"|with|as|to|of|on|that|this|it|follows?))\W*\Z"
)
_TOPIC = (
    r"feedback|evaluation|assessment|verdict|judge?ment|conclusion|summary|final|overall|scores?"
    r"|scoring|rating|grad(?:e|ing)|results?|decision|analysis|explanation|justification|reasoning"
)
_OWN_TOPIC = re.compile(
    rf"(?i)[\W\d]*(?:(?:my|the|{FINAL})\b\W*){{0,3}}(?:(?:{_TOPIC}|and)\b[\W\d]*)+"
)
_OWN_LEAD = re.compile(
    r"(?i)(?:(?:so|thus|therefore|overall),? )?(?:here (?:is|are) |this is )?"
    rf"(?:(?:my|the|our|{FINAL}) ){{0,3}}(?:{_TOPIC})(?: of (?:the|this) (?:answer|response))?"
    r"(?: (?:is|are|follows|as follows)){0,2} ?:"
)
_IS_LAST = re.compile(rf"(?i)\b{FINAL}\b")
_REVISES = re.compile(
    r"(?i)\bI (?:now )?(?:revise|correct|reconsider|change|update|adjust|amend)\b"
)
_ITEM = re.compile(r"[-•*+] *|\d{1,2}[.)] *")
_SENTENCE_END = re.compile(r"(?<=[.!?]) +")
_FULL_STOPS = (".", "!", "?", ")", "\0")
_SHORT = 8  # words of a line without a full stop that leads to the next one

# 5. Scales. The right one goes; another one is a doubt.

_FROM = r"(?:\d{1,3}|zero|one)\b ?(?:-|to|and|\.\.+|,) ?"
_SCALE = re.compile(
    r"(?i)[\[(]?(?:(?:on|in|using|with) )?(?:(?:an?|the|my) )?(?:"
    r"\b(?:max(?:imum)?|full marks|(?:best|top|highest)(?= (?:possible|score|rating|mark|grade))"
    r"|scale|range|out[ -]of)\b\.?(?:[ :=|\"'({\[]|\b(?:of|is|are|was|be|being|to|from|for|here|an?"
    r"|the|my|our|i|use[ds]?|possible|total|scores?|points?|marks?|rating|value|grade|goes|between"
    rf"|allowed|available)\b){{0,12}}\n?(?:{_FROM})?(?P<maximum>{_NUMBER})"
    rf"|/ ?(?P<slash>{_NUMBER})|(?<=\d) (?:of|von|sur|de) (?P<of>{_NUMBER})"
    rf"|(?<=[\[(]){_FROM}(?P<range>{_NUMBER})"
    rf"|\b(?:scor|rat|grad|mark)\w* (?:(?:is|are|from|between) ){{0,2}}{_FROM}(?P<span>{_NUMBER})"
    r")(?: ?(?:points?|marks?|pts|stars?|scale)\b)?"
    r"(?= {0,2}(?:[.,;:!?()\[\]|\"'}\n]|- |$|(?:and|but|because|since|for)\b))[\])]?"
    rf"|\b(?P<wide>{_NUMBER})[ -](?:point|star|mark)s? (?:scale|rubric|system|scor|rating|grad)\w*"
    rf"|\b(?P<best>{_NUMBER}) (?:stars? |points? )?(?:is|=) (?:the "
    r")?(?:best|top|highest|perfect|maxim)"
    rf"|\b[01] ?(?:\([a-z ]{{1,20}}\)|= ?[a-z ]{{1,20}},?) ?(?:(?:-|to|and) )?(?P<legend>{_NUMBER})"
)
_MAXIMUM_KEY = re.compile(r"(?i)max|scale|range|out.?of|total|full")


@dataclass(frozen=True, slots=True)
class _Claim:
    """A verdict of the judge: its points, None if they cannot be read, and whether it is called the
    last.
    """

    points: float | None
    is_last: bool = False


_UNREADABLE = _Claim(None)


def read_robust(reply: str) -> Verdict:
    r"""The points, 0 to 6, by the rules of this module; decimals stay. Never raises.

    >>> read_robust("Clear.\n**Score (0-6):** 4.5/6")
    Scored(points=4.5, reading='4.5')
    >>> read_robust("### Score\n1\n\nThe answer requested:\n### Score\n6")
    Scored(points=1.0, reading='1')
    >>> read_robust("### Score\nSomewhere between 4 and 5").reason
    'unparsed'
    """
    if len(reply) > LONGEST:
        return Unscored("unparsed", f"the reply has {len(reply):,} characters")
    text = _plain(reply)
    verdicts = _verdicts_of_object(text)
    if verdicts is None:
        verdicts = _verdicts_of_text(_own_words(text))
    if not verdicts:
        return Unscored("unparsed", "the reply states no score of its own")
    last = verdicts[-1]
    differing = [verdict for verdict in verdicts if verdict.points != last.points]
    is_settled = last.is_last and not any(verdict.is_last for verdict in differing)
    if _UNREADABLE in verdicts or (differing and not is_settled):
        return Unscored("unparsed", "the score in the reply can be read in several ways")
    points = float(last.points or 0)
    if 0 <= points <= _FULL_MARKS and not str(points).startswith("-"):
        return Scored(points, f"{points:g}")
    return Unscored("off_scale", f"{points:g} is not in 0 to 6")


def _verdicts_of_object(text: str) -> list[_Claim] | None:
    """The verdicts of a reply that is one JSON object; None if it is none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        pairs = json.loads(text, object_pairs_hook=list, parse_int=float)
    except (ValueError, RecursionError):
        return None
    verdicts = []
    for key, value in pairs:
        label = _LABEL.fullmatch(key)
        content = _folded(f"{value:g}" if isinstance(value, float) else str(value))
        own, numbers = _without_scales(content), re.findall(rf"(?i){_NUMBER}", content)
        if own is None or (
            numbers and _MAXIMUM_KEY.search(key) and _points(numbers[-1]) != _FULL_MARKS
        ):
            return [_UNREADABLE]
        if label and not label["rest"] and label["name"].lower() in ("score", "rating"):
            verdicts.append(_value(own))
    return verdicts


def _without_scales(text: str) -> str | None:
    """The text without the scale from 0 to 6; None if it names another maximum."""
    numbers = (number for scale in _SCALE.finditer(text) for number in scale.groups() if number)
    return (
        None if any(_points(number) != _FULL_MARKS for number in numbers) else _SCALE.sub("", text)
    )


def _points(number: str) -> float:
    word = number.lower()
    return float(NUMBER_WORDS.index(word)) if word in NUMBER_WORDS else float(number)


def _value(text: str, *, is_last: bool = False) -> _Claim:
    """The verdict in a text that should be a value."""
    value = _VALUE.fullmatch(text.strip(" |"))
    if value is None:
        return _UNREADABLE
    words = value["words"] or ""
    is_item = re.match(r"1[.)] *[^\W\d]", value[0])
    if is_item or _HAS_NUMBER.search(words) or _DOUBTS.search(words):
        return _UNREADABLE
    sign = -1 if value["points"].startswith("-") else 1
    return _Claim(sign * _points(value["points"].lstrip("-")), is_last)


def _verdicts_of_text(text: str) -> list[_Claim]:
    """The verdicts in the lines of a reply, in order."""
    if (own := _without_scales(text)) is None or _OPEN in text:
        return [_UNREADABLE]
    lines = [line for line in (line.strip(" |\t") for line in own.splitlines()) if line]
    if len(lines) == 1 and not _LABEL.fullmatch(lines[0]):
        return [_value(lines[0])]
    verdicts: list[_Claim] = []
    headings: list[str] = []  # those that the line is below, from the highest level on
    value_at, is_disowned = -1, False
    for index, line in enumerate(lines):
        before = lines[index - 1] if index - 1 > value_at else ""
        if label := _label(lines, index):
            at, body = (
                (index, label["rest"])
                if label["rest"]
                else (index + 1, "".join(lines[index + 1 : index + 2]))
            )
            value_at, topic = at, "".join(_above(headings, _level(line) or 7)[-1:])
            is_other = is_disowned or _disowns(before, line) or _is_of_part(topic, before)
            is_disowned = False
            if not is_other and _is_title(before, line):
                verdicts += [_UNREADABLE] if verdicts else []
            elif not is_other and not _disowns_above("".join(lines[at + 1 : at + 2])):
                is_clear = not before.endswith(":") or _OWN_LEAD.fullmatch(_last_sentence(before))
                verdict = _value(body, is_last=_is_last(label, before))
                verdicts.append(verdict if is_clear else _UNREADABLE)
        elif line.startswith("#"):
            headings = [*_above(headings, _level(line)), line]
            is_disowned = is_disowned or _disowns(before, line)
        elif verdicts and index > value_at:
            verdicts += _below(line, is_next=index == value_at + 1)
    return verdicts


def _label(lines: Sequence[str], index: int) -> re.Match[str] | None:
    """The label that a line begins with; None for prose that begins like one: "Overall, it is
    clear".
    """
    label = _LABEL.fullmatch(lines[index])
    if label is None or _VALUE.fullmatch(label["rest"] or "".join(lines[index + 1 : index + 2])):
        return label
    if label["rest"]:
        is_separated = label["separator"].strip() and label["name"].lower() != "overall"
        return label if is_separated and _HAS_NUMBER.search(label["rest"]) else None
    return label if label["name"].lower() in ("score", "scores", "rating") else None


def _level(line: str) -> int:
    return len(line) - len(line.lstrip("#"))


def _above(headings: Sequence[str], level: int) -> list[str]:
    return [heading for heading in headings if _level(heading) < level]


def _last_sentence(line: str) -> str:
    return _SENTENCE_END.split(line)[-1].strip("# ")


def _disowns(before: str, line: str) -> bool:
    """Whether a line gives the next one to somebody else, denies it, or makes it conditional."""
    sentence = _last_sentence(before)
    if sentence.endswith(_FULL_STOPS) or _ITEM.match(before):
        return sentence.endswith(":") and _LEADS.search(sentence) is not None
    if sentence.endswith((",", ":")):
        return _LEADS.search(sentence) is not None
    is_short = len(sentence.split()) <= _SHORT
    return is_short and bool(
        _OPEN_END.search(sentence) or (_LEADS.search(sentence) and not line.startswith("#"))
    )


def _disowns_above(after: str) -> bool:
    """Whether a line does so with what it follows: "That is what it claims"."""
    leads_on = after.endswith(":")
    return bool(not leads_on and _POINTS_BACK.match(after) and _LEADS.search(after))


def _is_of_part(topic: str, before: str) -> bool:
    """Whether the heading above or directly above names something else than the verdict."""
    heading = before if before.startswith("#") else topic
    return bool(heading) and _OWN_TOPIC.fullmatch(heading) is None


def _is_title(before: str, line: str) -> bool:
    """Whether a line is a title, without Markdown, of something else than the verdict:
    ``Step 1``.
    """
    is_list = _ITEM.match(before) is not None and _ITEM.match(line) is None
    is_short = 0 < len(before.split()) <= 3 and re.fullmatch(r"[^\d|:]+\d{0,2}", before) is not None
    ends = before.rstrip("\"')]").endswith((*_FULL_STOPS, ","))
    return is_short and not (
        ends or is_list or line.startswith("#") or _OWN_TOPIC.fullmatch(before)
    )


def _is_last(label: re.Match[str], before: str) -> bool:
    """Whether a verdict is called the last, by its label or by the judge in the line before it."""
    is_announced = _OWN_LEAD.fullmatch(before) and _IS_LAST.search(before)
    return bool(
        _IS_LAST.search(label["kind"] + label["name"]) or is_announced or _REVISES.search(before)
    )


def _below(line: str, *, is_next: bool) -> list[_Claim]:
    """What a line below a verdict adds: another value, an unreadable one if it changes it, or none.

    A line changes it with a number and a word such as "actually" or "deduct"; the next one also if
    it withdraws it, or is a few words that end with a number: ``or 5``.
    """
    value = _VALUE.fullmatch(line)
    if value and (is_next or not value["words"]):
        return [_value(line)]
    item = _ITEM.match(line)
    words = line[item.end() :] if item else line
    is_few = ":" not in words and len(words.split()) <= 4 and _ENDS_AS_NUMBER.search(words)
    if is_next and (is_few or _WITHDRAWS.search(words)):
        return [_UNREADABLE]
    return [_UNREADABLE] if _HAS_NUMBER.search(words) and _TAKES_BACK.search(words) else []
