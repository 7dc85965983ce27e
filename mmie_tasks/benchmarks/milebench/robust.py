"""MileBench's robust readers: the official rules without the official scorer's errors.

Robust verdicts are reported next to the official ones. The README lists each difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from mmie_tasks.benchmarks.milebench.official import common_words, f_measure, label
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERIOD = re.compile(r"(?<!\d)\.|\.(?!\d)")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")

_MARKUP = re.compile(r"[*`#]+|\\(?:boxed|text(?:bf)?)\b")
_LATIN = "A-Za-zÀ-ɏ0-9"
_CAPITALS = (  # not in `Aérien`, `A's`, `N/A`, `U.S.A`, `A-frame`
    rf"(?<![{_LATIN}])(?<![{_LATIN}]['’/&-])(?<![A-Z]\.)([A-Z]{{1,2}})(?!['’/&-]?[{_LATIN}])"
)
_MARKED = re.compile(rf"(?<![{_LATIN}])([A-Z]{{1,2}})[*`#]+")
_WORD_A_OR_I = re.compile(rf"[AI][^\S\n]+(?!(?i:is)\b)[{_LATIN}]")
_LABEL = re.compile(rf"(?!{_WORD_A_OR_I.pattern}){_CAPITALS}[^\S\n]*([^\w\s]?)")
_ALONE = re.compile(r"[\W_]*([A-Za-z]{1,2})[\W_]*")
_OPTION = r"(?i:\b(?:answer|option|choice))\b"
_OPTION_LABEL = re.compile(rf"{_OPTION}[^\w.,;:!?]*{_CAPITALS}")
_LEADING_LABEL = re.compile(rf"[\W_]*(?:{_OPTION}[^\w\n]*)?{_CAPITALS}[^\S\n]*([^\w\s]?)")
_DECLARATION = re.compile(
    rf"(?<!/){_OPTION}[\"'”’)\]]*\s*(?:[:=>]"
    r"|(?i:is|are|was|would\s+be|should\s+be|must\s+be)\b\s*[:=]?)"
)
_LISTED = rf"(?![AI][^\S\n]+(?!(?i:is|and|n?or)\b)[{_LATIN}]){_CAPITALS}"
_JOINED = re.compile(
    rf"{_LISTED}(?:[^\w\n]{{0,8}}(?:\b(?:and|n?or)\b|[,;/|&])[^\w\n]{{0,8}}{_LISTED})+"
)
_A_LINE = re.compile(r"^A[^\S\n]*:(.{1,500})", re.MULTILINE)
_NEXT_QUESTION = re.compile(r"\n[^\S\n]*(?:question|q|user)[^\S\n]*\d*:", re.IGNORECASE)
_MAX_DECLARATIONS, _MAX_DECLARED_CHARACTERS = 8, 500  # bound the work on a repeated megabyte


def fold(text: str) -> str:
    """The text in NFKC, case-folded, with single spaces and none at the ends."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a text, split between letters and digits and at punctuation.

    Commas between thousands, apostrophes inside words and periods not between digits are removed.

    >>> words("**1,000** U.S. dollars, 3–1; image10 don't 1.5cm")
    ('1000', 'us', 'dollars', '3', '1', 'image', '10', 'dont', '1.5', 'cm')
    """
    folded = _THOUSANDS.sub("", fold(text))
    return tuple(_WORD.findall(_APOSTROPHE.sub("", _PERIOD.sub("", folded))))


def phrase(text: str) -> str:
    """`words`, separated and surrounded by single spaces, so that ``in`` finds whole words.

    >>> phrase("no") in phrase("I know"), phrase("no") in phrase("No, never")
    (False, True)
    """
    return f" {' '.join(words(text))} "


def read_rouge(gold: object, answer: object) -> Verdict:
    """ROUGE-L F (0 to 1) over `words`, with each text as one sentence.

    >>> round(read_rouge("Pick up the mug.", "pick-up the **mug**").points, 6)
    1.0
    """
    if not isinstance(gold, str) or not words(gold):
        return Unscored("bad_gold", "the reference holds no words")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    reference, hypothesis = words(gold), words(answer)
    if not hypothesis:
        return Scored(0.0)
    common = len(common_words(reference, hypothesis))
    return Scored(f_measure(common, len(set(reference)), len(set(hypothesis))))


def read_needle(gold: object, answer: object) -> Verdict:
    """1 point if the answer has the gold's number, or its words, as a whole, otherwise 0.

    >>> read_needle("7984462", "It is **7,984,462**.").points
    1.0
    >>> read_needle("7984462", "17984462").points
    0.0
    """
    number = fold(gold).replace(",", "") if isinstance(gold, str) else ""
    if not (isinstance(answer, str) and number.isdecimal()):
        return read_phrase(gold, answer)
    text = re.sub(r"(?<=\d),(?=\d)", "", fold(answer))
    return Scored(float(re.search(rf"(?<!\d){number}(?!\d)", text) is not None))


def read_phrase(gold: object, answer: object) -> Verdict:
    """1 point if the answer has the gold's words together, as whole words, otherwise 0.

    >>> read_phrase("no", "I know").points, read_phrase("3-1", "They won 3–1.").points
    (0.0, 1.0)
    """
    if not isinstance(gold, str) or not fold(gold):
        return Unscored("bad_gold", "the gold is empty or not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    if not words(gold):  # punctuation only: it has no word boundaries
        return Scored(float(fold(gold) in fold(answer)))
    return Scored(float(phrase(gold) in phrase(answer)))


def read_choice(gold: object, answer: object, options: Sequence[object]) -> Verdict:
    r"""1 point if the answer names the gold, by its text or by its label, otherwise 0.

    A label is a capital letter, or two, and not a part of a word; alone on its line, it may be
    lower case. *A* and *I* are words before a blank and a word on the same line (``A man``), except
    "is". Labels that "and", "or", a comma or a slash joins (``B or C``) are none. ``A:`` before
    another label or option on its line means "Answer:".
    A line that begins with ``Question:``, ``Q:`` or ``User:`` begins another question, which is not
    read unless it repeats all options after an answer that chooses none.

    The first of these rules that gives an option decides:

    1. The answer is an option or a label.
    2. It declares a label or an option ("the answer is B", "choice: B", ``<answer>B``; the last
       such phrase). A declared *A* is a label also before a word, unless an option begins there.
    3. Of its lines, those that are only an option or a label name one.
    4. It begins with a label. Two labels with the same mark (``A. cat B. dog``) are a list.
    5. It has exactly one label after the word "option", "choice" or "answer" ("I take option B").
    6. It mentions exactly one option.
    7. It contains exactly one label.

    The verdict's reading is the label, or empty. `Unscored` if the gold is not an option.

    >>> read_choice("dog", "A. cat\nB. dog\n\nB", ["cat", "dog"]).reading
    'B'
    >>> read_choice("cat", "A bird is shown, so A", ["cat", "dog"]).reading
    'A'
    >>> read_choice("cat", "A or B", ["cat", "dog"])
    Scored(points=0.0, reading='')
    """
    if not isinstance(gold, str) or not all(isinstance(option, str) for option in options):
        return Unscored("bad_gold", "the gold or an option is not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    choices = _AnswerOptions.of([str(option) for option in options])
    correct = choices.equal_to(gold)
    if not correct:
        return Unscored("bad_gold", "the gold is not among the options")
    text = _MARKED.sub(r"\1)", unicodedata.normalize("NFKC", answer))
    text = _MARKUP.sub("", text).strip()
    before, *after = _NEXT_QUESTION.split(text, maxsplit=1)
    chosen = choices.equal_to(answer) or _chosen(before, choices)
    if not chosen and after and all(option in phrase(after[0]) for option in choices.phrases):
        chosen = _chosen(text, choices)
    return Scored(float(bool(chosen) and chosen <= correct), label(min(chosen)) if chosen else "")


@dataclass(frozen=True, slots=True)
class _AnswerOptions:
    """Options as `phrase` and `fold`. Methods return indices, several only for equal options."""

    phrases: tuple[str, ...]
    folded: tuple[str, ...]
    labels: dict[str, frozenset[int]]

    @classmethod
    def of(cls, options: Sequence[str]) -> _AnswerOptions:
        labels = {label(i): frozenset({i}) for i, option in enumerate(options) if fold(option)}
        return cls(tuple(map(phrase, options)), tuple(map(fold, options)), labels)

    def equal_to(self, text: str) -> frozenset[int]:
        """The options with the same text, or else the same words if no other text has them."""
        for options, key in ((self.folded, fold(text)), (self.phrases, phrase(text))):
            equal = frozenset(i for i, option in enumerate(options) if option == key)
            if key.strip() and len({self.folded[i] for i in equal}) == 1:
                return equal
        return frozenset()

    def alone(self, text: str) -> frozenset[int]:
        """The option that has this text or label."""
        name = _ALONE.fullmatch(text)
        return self.equal_to(text) or (self.labelled([name[1].upper()]) if name else frozenset())

    def labelled(self, names: Iterable[str]) -> frozenset[int]:
        """The option that all names are the label of."""
        labelled = frozenset[int]().union(*(self.labels.get(name, ()) for name in names))
        return labelled if len(labelled) == 1 else frozenset()

    def mentioned(self, text: str) -> frozenset[int]:
        """The only option in the text as whole words outside longer options, or none."""
        # `folded` first, because it distinguishes ``$5`` from ``€5``
        for options, key in ((self.folded, fold(text)), (self.phrases, phrase(text))):
            named: list[str] = []
            texts = sorted({option for option in options if option.strip()}, key=len, reverse=True)
            for _, same_length in groupby(texts, len):
                here = [option for option in same_length if option.strip() in key]
                here = [option for option in here if _whole(option).search(key)]
                for option in here:
                    key = _whole(option).sub(" | ", key)
                named += here
            if named:
                return frozenset(i for i, option in enumerate(options) if named == [option])
        return frozenset()


def _whole(option: str) -> re.Pattern[str]:
    """The option, not inside a word."""
    text = option.strip()
    before = r"(?<![^\W_])" if text[0].isalnum() else ""
    after = r"(?![^\W_])" if text[-1].isalnum() else ""
    return re.compile(f"{before}{re.escape(text)}{after}")


def _chosen(answer: str, options: _AnswerOptions) -> frozenset[int]:
    """The option that the rules of `read_choice` give."""

    def answer_line(line: re.Match[str]) -> str:
        other = (_leading(line[1], options) or options.equal_to(line[1])) - options.labelled("A")
        return f"Answer:{line[1]}" if other else line[0]

    text = _A_LINE.sub(answer_line, answer, count=_MAX_DECLARATIONS)
    text = _JOINED.sub(" | ", text)
    alone = {options.alone(line) for line in set(answer.split("\n"))} - {frozenset()}
    return (
        options.alone(answer)
        or _declared(text, options)
        or (alone.pop() if len(alone) == 1 else frozenset())
        or _leading(text, options)
        or options.labelled(_OPTION_LABEL.findall(text))
        or options.mentioned(answer)
        or options.labelled(name for name, _ in _LABEL.findall(text))
    )


def _declared(text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option that the last "answer is", "choice:" or ``<answer>`` declares."""
    for match in reversed(deque(_DECLARATION.finditer(text), maxlen=_MAX_DECLARATIONS)):
        declared = text[match.end() : match.end() + _MAX_DECLARED_CHARACTERS].strip()
        line = declared.partition("\n")[0]
        if chosen := (
            options.alone(line.partition("<")[0])
            or _leading(declared, options, is_declared=True)
            or options.mentioned(line)
        ):
            return chosen
    return frozenset()


def _leading(text: str, options: _AnswerOptions, *, is_declared: bool = False) -> frozenset[int]:
    """The option whose label begins a text."""
    lead = _LEADING_LABEL.match(text)
    if not lead or not (chosen := options.labelled([lead[1]])):
        return frozenset()
    if _WORD_A_OR_I.match(text, lead.start(1)):
        starts = (phrase(text[lead.start(1) :]), phrase(text[lead.end(1) :]))
        is_text = any(start.startswith(option) for option in options.phrases for start in starts)
        return chosen if is_declared and lead[1] == "A" and not is_text else frozenset()
    others = {name for name, mark in _LABEL.findall(text) if mark and mark == lead[2]} - {lead[1]}
    return chosen if is_declared or others.isdisjoint(options.labels) else frozenset()
