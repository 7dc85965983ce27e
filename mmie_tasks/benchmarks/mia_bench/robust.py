"""The robust reader: the marks that a judge evidently gave. In doubt `unparsed`: never a guess.

1. **Own words.** Not read: thinking, quotation marks, code, fences, block quotes, struck text, and
   passages between tags or named rules (``=== ANSWER ===``). If one has only one end: `unparsed`. A
   fence around the whole reply is taken off; a JSON object is read as its text.
2. **Mark.** ``component 1: 6/6``: a label (component, criterion or requirement with its number,
   letter or number in words: 1, A, one; "score of" may precede it, a short title follow), then
   points out of the component's weight: ``1.5/4``, ``2 out of 4``, ``two/four``. Another maximum is
   a doubt. The mark may be in the line below. A total ("total", "total score", "overall", "final
   score") is out of 10 or all weights.
3. **Verdict.** A mark for every component and at most one total, their sum. Marks stand at the
   beginning of a line or sentence, or after each other. After one: an explanation (after "-", ":",
   "because", a full stop), or a comma or brackets without numbers, only, "half of", minus, "at
   most", "at best", sic, wrong, according, per, put, reports (4) and denials (5b).
4. **Before it**, in the same sentence, only an announcement: "Sure! Based on the image and the
   response, here are my final scores:". Sentences before that are finished, and without other
   points (5a), score words (5b), "I" and "me" as in 5d, and reports: say, claim, end, close, wrote,
   written by, copied, quote, this, these, following, follow, thus, own, from, placeholder, example,
   belong, and next, last, line, come, "part of", "text of", fake, itself, footer (``says "..."``
   and ``claims "..."`` may). The same holds between two verdicts. A line between two marks must not
   end in a colon or comma, nor have give, get, earn or deserve and no full stop.
5. **Doubt** in a sentence after the first mark, and the reply is `unparsed` (but "I hope this
   helps!" and "Let me know if you have any questions." may follow):
   a. A fraction ("1/4" or "1 out of 4", but not "1 of 4") of a weight or total that is not that
      of the verdict, or another number in a sentence with a score word, "I", point or component,
      or at the end of at most six words. Points that the verdict lacks ("I deducted one point")
      and what is in brackets may be.
   b. A score word (score, scoring, mark, grade, verdict, total, numbers, figures), and a report or
      one of no, not, never, cannot, none, would, could, should, might, may, if, unless; both in
      front of ``says "..."`` or ``claims "..."``, if that is in the sentence.
   c. "This", "that", "these", "those" or "please" as the first word, perhaps after "all of" or
      "none of", unless note, poem or image is the next one; "above" anywhere.
   d. "Me", "my", "mine"; "I", unless with see, find, say, think, note, gave, like or deduct.
   e. At first, or among at most five words, one that takes back: disregard, ignore, scratch,
      strike, wait, joking, kidding, void, invalid, fake, withdrawn, retract, take, correction,
      "on second", "do not", "never mind", "not final", assuming. Among at most five words also a
      report or a score word.
   f. A second verdict that differs, unless it alone, and as a whole, is announced as final,
      overall, revised, corrected, updated, adjusted or amended.
6. **Impossible.** Marks below 0 or above their maximum, or components that are missing or do not
   exist: `off_scale`, and the judge is asked once more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

_REQUESTED_SCALE = 10  # the official prompt requests a total out of 10, whatever the weights


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
        doubt: Why the reply is no verdict; None where it is one.
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
    nothing = ParsedReply(weights=tuple(weights), components=(None,) * len(weights))
    if len(text) <= LONGEST:
        text = _folded(text)
    if len(text) > LONGEST:
        detail = f"the reply has {len(text):,} characters"
        return replace(nothing, doubt=Unscored("unparsed", detail))
    own = _own_words(text)
    if own is None:
        detail = "a quotation, fence or tag in it has only one end"
        return replace(nothing, doubt=Unscored("unparsed", detail))
    reading = _Reading(tuple(weights))
    for unit in _units(own):
        reading.add(unit)
    return reading.result(nothing)


# 1. Own words.

_SPELLINGS = {
    "/": "⁄∕",
    "-": "‐‑‒−",
    " - ": "–—",
    "->": "→",
    '"': "＂",
    "'": "’‚",
    ". ": "。",
    ".5": "½",
}
_CHARACTERS = str.maketrans({char: plain for plain, chars in _SPELLINGS.items() for char in chars})
_WHOLE_FENCE = re.compile(r"(?s)\s*(```|~~~)\w*\n((?:(?!\1).)*)\1\s*")
_MARKUP = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?i)\A\s*<think(?:ing)?>(?s:.*?)</think(?:ing)?>", ""),
        (r"(?i)</?(?:br|p)\b[^<>]{0,80}>", "\n"),
        (r"(?i)</?(?:[biu]|em|strong)\b[^<>]{0,80}>", ""),
        (r"\\[dt]?frac\s?\{\s?([\d.]{1,9})\s?\}\s?\{\s?([\d.]{1,9})\s?\}", r"\1/\2"),
        (r"\\[()\[\]]", ""),
        (r"组件(\d)得分", r"component \1"),
        (r"总分", "total"),
        (r"(?m)^ ?\| ?([1-9]) ?(?=\|)", r"| component \1 "),  # a row of a table
        (r"(?<=: )(\d|10)0%", r"\1/10"),
        (r"~~[^~\n]*~~|\*+|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])", ""),
        (r"(?<=[A-Za-z])_(?=[A-Za-z\d])", " "),
        (r"`([-\d./ ]{1,12})`|(?<!\w)['\"]([-\d./ ]{1,12})['\"](?!\w)", r"\1\2"),
        (r"(?i)\b([ie])\.([eg])\.", r"\1\2"),
        (r"(?<=[\d.]/10)(?: \(ie| \(| ?=|,) ?\d{1,3} ?%\)?", ""),  # a share of the total in percent
    )
)
_BLANKED = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"^[ >]{0,8}(?P<fence>`{3,}|~{3,})(?s:.*?)(?:^[ >]{0,8}(?P=fence)[^\n`~]*$|(?P<open>\Z))",
        r"<(?P<tag>[a-z]\w{0,20})\b[^<>\n]{0,80}>(?s:.*?)(?:</(?P=tag)>|(?P<open>\Z))",
        (
            r"^[^\w\n]{0,9}(?P<rule>[=*_-])(?P=rule){2,} *[a-z][^\n]{0,60}(?P=rule){3,} *$"
            r"(?s:.*?)(?:^[^\n]{0,40}(?P=rule){3,}[^\n]*$|(?P<open>\Z))"
        ),
        r"^ {0,3}>[^\n]*(?:\n(?! *\n)[^\n]+)*",
        r"“[^“”„]*”|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|‹[^‹›]*›|「[^「」]*」|『[^『』]*』|‘[^‘'\n]*'(?!\w)",
        r"``[^`]*``|`[^`]*`|\"[^\"]*\"",
        r"(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)",
    )
)
_HALF = re.compile(
    r"(?im)[\"“”„«»‹›「」『』]|```|~~~|<[a-z]\w{0,20}\b[^<>\n]{0,80}>|</|</?think|^<<<"
    r"|^[^\w\n]{0,9}[=*_-]{3,} *[a-z][^\n]{0,60}[=*_-]{3,} *$"
)
_PAIR = r"score ?: ?([\d.]{1,9}), (?:max[\w ]{0,9}|out of) ?: ?([\d.]{1,9})"
_OBJECT = (
    (re.compile(r"[{}\[\]\n]|(?<=[{, ])'|'(?=\s*[:,}])"), " "),
    (re.compile(r" {2,}"), " "),
    (re.compile(rf"(?:id|component|number) ?: ?(\w{{1,9}}), {_PAIR}"), r"component \1: \2/\3"),
    (re.compile(_PAIR), r"\1/\2"),
    (re.compile(r"\A ?(?:components?|scores?) ?: (?=component)"), ""),
)


def _folded(text: str) -> str:
    """A reply in plain characters, without thinking, markup, or a fence around all of it."""
    text = "\n".join(text.splitlines()).replace("\t", " ")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
        text = text.replace("  -  ", " - ")
        text = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Me", "Mn"))
    if whole := _WHOLE_FENCE.fullmatch(text):
        text = whole[2]
    if re.match(r"\s*\[?\s*{", text) and text.rstrip().endswith(("}", "]")):
        text = text.replace(r"\"", "\1").replace('"', "").replace("\1", '"').replace("_", " ")
        for pattern, replacement in _OBJECT:
            text = pattern.sub(replacement, text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text


def _own_words(text: str) -> str | None:
    """The text with a mark for each passage of somebody else's; None if one has only one end."""
    for pattern in _BLANKED:
        text = pattern.sub(lambda m: '"' if m.groupdict().get("open") is not None else "\0", text)
    return None if _HALF.search(text) else text


# 2. Marks.

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_DIGITS = rf"-?\d{{1,4}}(?:\.\d{{1,3}}|,\d{{1,2}})?(?!\d)|-?\.\d{{1,3}}|(?:{'|'.join(_WORDS)})\b"
_NUMBER = rf"(?:{_DIGITS})(?: ?(?:points?|marks?|pts)\b)?"
_MARK = (
    rf"{_NUMBER}(?: ?/ ?| ?\(?out of(?: (?:a|the|possible|maximum|total|of)\b){{0,4}} )"
    rf"{_NUMBER}\)?(?![\d/]|[.,]\d)"
)
_LAST = r"(?:final|overall|revised|corrected|updated|adjusted|amended)"
_LABEL = (
    rf"(?:and |the |my |{_LAST} |for |so ){{0,4}}(?:(?:(?:scores?|points|marks?|rating) "
    r"(?:of|for) (?:the )?)?(?:"
    r"(?:component|criterion|requirement)(?: number)?[ _#:.(]{0,3}(?P<n>\d{1,3}(?![\d/]|[.,]\d)|"
    rf"(?:{'|'.join(_WORDS[1:6])}|(?-i:[A-E]))\b)\)?|(?P<nth>{'|'.join(_ORDINALS)}) component"
    r"|c(?P<c>[1-9])\b)(?:'s)?(?: score\b)?"
    rf"|(?P<total>(?:total(?: scores?| points| mark)?|{_LAST}(?: (?:score|mark|grade|rating))?)\b))"
)
_IS = (
    r"(?:[ :=|]|->|-(?![\d.])|,(?= )|\b(?:is|was|gets|receives|scores?|a|the|points)\b){0,12}[(\[]?"
)
_TITLE = (
    r"(?P<title> ?\([^()\n]{1,200}\)| ?\[[^\[\]\n]{1,200}\]"
    r"| ?[:-] ?[^\W\d](?:(?!\bout of\b|component|criterion|\btotal)[^\d:|()\n]){0,80}"
    r"(?:\([^()\n]{1,40}\))?(?=[:(|]| - ))?"
)
_ENTRY = re.compile(rf"(?i)(?P<label>{_LABEL}){_TITLE}{_IS}(?P<mark>{_MARK})[)\]]?")
_LABEL_ONLY = re.compile(rf"(?i)(?P<label>{_LABEL})(?P<title>(?: ?[:(-][^\d.!?]{{0,80}})?)")
_MARK_ONLY = re.compile(rf"(?i)(?:(?:score|points|mark|rating)\b)?{_IS}(?P<mark>{_MARK})[)\]]?")


def _value(number: str) -> float:
    word = number.lower().split(" ")[0]
    if word in _WORDS:
        return float(_WORDS.index(word))
    return float(re.sub(r"[a-z]+", "", word).replace(",", "."))


def _mark(text: str) -> Mark:
    points, out_of = re.findall(rf"(?i){_NUMBER}", text)
    return Mark(_value(points), _value(out_of))


def _number(label: re.Match[str]) -> int:
    """The number of the component that a label names, -1 if there is none such; 0 for the total."""
    if label["total"]:
        return 0
    name = (label["n"] or label["nth"] or label["c"]).lower()
    if name.isdecimal():
        return int(name) or -1
    names: tuple[str, ...] = (
        _ORDINALS if label["nth"] else (*"abcde",) if len(name) == 1 else _WORDS[1:]
    )
    return names.index(name) + 1


# 3. to 5. Sentences before, between and after the marks.

_LINE_START = re.compile(
    r"^(?:[\s#>•·*|]|[-+] |\d{1,2}[.)] (?=c|the |score|total)|[^\w\x00-\u2100])+", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\A\d[.])[)\0]?\s+")
_SEPARATOR = re.compile(r"(?i)[\s,;:|/&.]*(?:\band\b)?[\s,;:|/-]*")
_ANNOUNCED = (
    r"(?:(?:(?:based on|considering|after (?:reviewing|comparing)|of|for)(?: (?:the|this|image"
    r"|instructions?|prompt|response|answer|and|with|each|all|components?|criteria)(?!['\w]),?)+"
    rf"|{_LAST}|sure|okay|so|here(?:'s)?|below|is|are|my|the(?= (?:final )?(?:sco|eva|ver))|I|give"
    r"|as|follows|scor(?:es?|ing)|evaluation|assessment|verdict|results?|breakdown|summary)"
    r"(?!['\w])[ ,.:!]*)"
)
_LEAD = re.compile(rf"(?i){_ANNOUNCED}{{1,12}}")
_LED_ENTRY = re.compile(rf"(?i)(?P<lead>{_ANNOUNCED}{{0,12}}){_ENTRY.pattern[4:]}")
_HEADER = re.compile(
    r"(?i)(?:(?:component|criterion|score|points|max|weight|reason|#)s?\b|[ :|-])*"
)
_IS_LAST = re.compile(rf"(?i)\b{_LAST}\b")
_REPORT = (
    r"(?:says?|said|claim\w*|ends?|closes|wrote|written by|copied|quoted?|this|these|following|thus"
    r"|follow|own|from|placeholders?|example|belongs?)\b"
)
_DOUBT = re.compile(
    rf"(?i)\b{_REPORT}|\b(?:not?|never|cannot|none|(?:w|c|sh)ould|might|may|if|unless)\b|n't\b"
)
_AHEAD = r"(?:next|last|line|comes?|part of|text of|fake|itself|footer|follows)\b"
_CHANGES = re.compile(  # in a remark
    rf"(?i)\d|\b(?:{'|'.join(_WORDS)}|only|half of|minus|at most|at best|sic|wrong|according|per"
    r"|puts?)\b"
)
_LEADS_ON = re.compile(r"(?i)[:,]$|\b(?:giv|get|earn|deserv)\w*\b.*(?<![.!?])$")
_QUOTES = re.compile(r"(?i)\b(?:says|claims) \0")
_SCORE = r"(?:scores?|scoring|marks?|grades?|verdict|totals?|numbers|figures)"
_BACK = (
    r"(?:disregard|ignore|scratch|strike|wait|joking|kidding|void|invalid|fake|withdrawn|retract|take"
    r"|correction|on second|do not|don't|never mind|not(?: final|\W*$)|assuming)"
)
_I_MAY = r"(?:(?:would|have|can|cannot) )*(?:see|find|say|think|note|gave|liked?|deduct(?:ed)?)\b"
_CLOSING = re.compile(
    r"(?i)(?:I hope this helps|(?:please )?let me know if you have (?:any )?(?:\w+ )?questions)\W*"
)
_DOUBTFUL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\W*(?:(?:all|none) of )?(?:this|that|these|those|please)\b(?! (?:note|poem|image))",
        r".*\babove\b",
        rf".*\bI\b(?! {_I_MAY})|.*\b(?:me|my|mine)\b",
        rf"\W*{_BACK}(?!\w)",
    )
)


def _units(text: str) -> Iterator[str]:
    """The lines of a text, without list marks and bars of tables; each sentence by itself."""
    for line in text.split("\n"):
        line = _LINE_START.sub("", line).strip(" |")
        line = re.sub(r" {0,20}\|[ |]{0,20}", " : ", line)
        starts = [0, *(end.end() for end in _SENTENCE_END.finditer(line)), len(line)]
        for start, end in pairwise(starts):
            if re.search(r"[\w\0]", line[start:end]):
                yield line[start:end].strip()


def _may_precede(text: str) -> bool:
    """Whether a sentence is finished and cannot give the verdict after it to somebody else."""
    plain = _QUOTES.sub("", text).rstrip("\0)\"' ")
    is_about = re.search(rf"(?i)\b(?:{_REPORT}|{_AHEAD})|\bI\b(?! {_I_MAY})|\b{_SCORE}\b", plain)
    return not plain or (plain.endswith((".", "!", "?")) and not is_about)


@dataclass(slots=True)
class _Reading:
    """The verdict of the units read so far."""

    weights: tuple[int, ...]
    marks: dict[int, Mark] = field(default_factory=dict)  # 0 is the total
    is_last: bool = False  # called final or the like
    lead_is_last: bool = False  # so is what the unit before announces
    label: int | None = None  # the label that the unit before is, without a mark
    between: list[str] = field(default_factory=list)  # sentences since the last mark
    before: list[str] = field(default_factory=list)  # sentences before the first mark
    texts: list[str] = field(default_factory=list)  # sentences after a mark
    doubt: str = ""
    impossible: str = ""

    def add(self, unit: str) -> None:
        """Read a line or sentence: marks, an announcement, a label or other text."""
        lead, entry = _LEAD.fullmatch(unit), _ENTRY.match(unit) or _LED_ENTRY.match(unit)
        led = lead[0] if lead else unit[: entry.start("label")] if entry else ""
        is_last = self.lead_is_last or _IS_LAST.search(led) is not None
        label, self.label, self.lead_is_last = self.label, None, False
        only = _LABEL_ONLY.fullmatch(unit)
        if entry and not _DOUBT.search(entry["title"] or ""):
            self._verdict(unit, entry, is_last=is_last)
        elif label is not None and (mark := _MARK_ONLY.match(unit)):
            self._mark(label, _mark(mark["mark"]), is_last=False)
            self._remark(unit[mark.end() :])
        elif lead:
            self.lead_is_last = is_last
        elif only and not _DOUBT.search(only["title"]):
            self.label = _number(only)
        elif not _HEADER.fullmatch(unit) and not _CLOSING.fullmatch(unit):
            self.between.append(unit)
            (self.texts if self.marks else self.before).append(unit)

    def _verdict(self, unit: str, entry: re.Match[str] | None, *, is_last: bool) -> None:
        while entry:
            number = _number(entry)
            is_named_last = number > 0 and _IS_LAST.search(entry["label"]) is not None
            self._mark(number, _mark(entry["mark"]), is_last=is_last or is_named_last)
            end, entry = entry.end(), _ENTRY.search(unit, entry.end())
            rest = unit[end : entry.start() if entry else len(unit)]
            if not entry or not _SEPARATOR.fullmatch(rest):
                self._remark(rest)

    def _mark(self, number: int, mark: Mark, *, is_last: bool) -> None:
        differs = self.marks.get(number, mark) != mark
        is_announced = is_last and not self.is_last and number in self.marks
        if not self.marks or differs or is_announced:
            is_own = all(map(_may_precede, self.between))
            if is_announced and is_own:
                self.marks, self.texts, self.doubt, self.impossible = {}, [], "", ""
            elif differs or not is_own:
                self.doubt = "two verdicts, or one that may be somebody else's"
        elif self.between and _LEADS_ON.search(self.between[-1]):
            self.doubt = "a line before a mark may give it to somebody else"
        self.is_last, self.between, self.marks[number] = self.is_last or is_last, [], mark
        if not 0 <= number <= len(self.weights):
            self.impossible = f"a component beyond the {len(self.weights)} there are"
        elif not mark.possible:
            self.impossible = "a mark below 0 or above its maximum"
        elif mark.out_of not in ((self.weights[number - 1],) if number else self._scales()):
            self.doubt = "a mark out of another maximum"

    def _remark(self, text: str) -> None:
        """What follows a mark up to the next one, or to the end of its sentence."""
        explained = re.match(r"[)\] ]*(?:[:;.!]|-(?! ?\d)|because\b|since\b)(?!\d)\W*", text)
        if explained and not text[explained.end() :].lower().startswith("that "):
            self.texts.append("Because " + text[explained.end() :])
        elif (
            not re.match(r"[\s,;.!|)\]]*$|[,(]|\s[(\[]", text)
            or _CHANGES.search(text)
            or _DOUBT.search(text)
        ):
            self.doubt = "words after a mark that may change it"

    def _scales(self) -> tuple[int, ...]:
        return (_REQUESTED_SCALE, sum(self.weights))

    def result(self, nothing: ParsedReply) -> ParsedReply:
        """The verdict, or the first doubt."""
        components = tuple(map(self.marks.get, range(1, len(self.weights) + 1)))
        parsed = replace(nothing, components=components, total=self.marks.get(0))
        if self.impossible:
            return replace(parsed, doubt=Unscored("off_scale", self.impossible))
        if self.doubt or not any(components):
            doubt = self.doubt or "no component has a mark of the judge's own"
        elif (missing := components.count(None)) and self.is_last:
            doubt = "only a part of the last verdict"
        elif missing:
            doubt = f"{missing} of the components have no mark"
            return replace(parsed, doubt=Unscored("off_scale", doubt))
        elif not parsed.agrees:
            doubt = "the total is not the sum of the components"
        elif any(map(self._names_others, self.before)) or any(map(self._is_doubtful, self.texts)):
            doubt = "a sentence may take the verdict back, or names other points"
        else:
            return parsed
        return replace(parsed, doubt=Unscored("unparsed", doubt))

    def _is_doubtful(self, text: str) -> bool:
        """Whether a sentence names other points, or may take the verdict back."""
        words = len(re.findall(r"[\w']+", text))
        own = re.split(_QUOTES, text)[0]
        return (
            any(pattern.match(text) for pattern in _DOUBTFUL)
            or bool(re.search(rf"(?i)\b{_SCORE}\b", own) and _DOUBT.search(own))
            or (
                words <= 5
                and re.search(rf"(?i)\b(?:{_BACK}(?!\w)|{_REPORT}|{_SCORE}\b)", text) is not None
            )
            or self._names_others(text)
        )

    def _names_others(self, text: str) -> bool:
        """Whether a sentence has a number of scores that is not one of the verdict."""
        total = sum(mark.points for number, mark in self.marks.items() if number)
        maxima = {*self._scales(), *self.weights}
        own = {*self.marks.values(), *(Mark(total, scale) for scale in self._scales())}
        text = re.sub(rf"(?i)^\W*(?:{_LABEL}) ?: ?(?!{_NUMBER})|(?<=\w) ?\([^()]*\)", "", text)
        words = len(re.findall(r"[\w']+", text))
        for found in re.finditer(rf"(?i)(?<![\w/.])(?:{_MARK})", text):
            mark = _mark(found[0])
            if mark.out_of in maxima and mark not in own:
                return True
            if mark in own:
                text = text.replace(found[0], "")
        is_of_scores = words <= 6 and re.search(rf"(?i)(?<![\w:.])(?:{_NUMBER})\W*$", text)
        if not is_of_scores and not re.search(
            rf"\bI\b|(?i:\b(?:{_SCORE}|points?|component)\b)", text
        ):
            return False
        labels = [self.marks.get(_number(m)) for m in re.finditer(rf"(?i)\b{_LABEL}", text)]
        text = re.sub(rf"(?i)\b{_LABEL}", "", text)
        named = [mark for mark in labels if mark] or [Mark(total, sum(self.weights))]
        allowed = {*(value for mark in named for value in mark), *self._scales()}
        lacking = max(mark.out_of - mark.points for mark in named)
        numbers = (_value(n) for n in re.findall(rf"(?i)(?<![\w.]){_NUMBER}", text))
        return any(number not in allowed and not 0 < number <= lacking for number in numbers)
