"""MileBench's robust readers: the official rules without the official scorer's errors.

Reported beside the official verdict, never instead of it. The README lists each difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.milebench.official import common_words, f_measure, label
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERIOD = re.compile(r"(?<!\d)\.|\.(?!\d)")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")

_MARKUP = re.compile(r"[*`#]+|\\(?:boxed|text(?:bf)?)\b")
_OPEN, _CLOSE = r"[$(\[{\"'“‘]*", r"[$)\]}\"'”’]*"
_ONLY_LABEL = re.compile(rf"{_OPEN}([A-Za-z]{{1,2}}){_CLOSE}[.:,;]?{_CLOSE}")
_LEADING_LABEL = re.compile(rf"{_OPEN}([A-Z]{{1,2}})(?![A-Za-z0-9])")
_DECLARATION = re.compile(
    r"\b(?:answer|choice|option)\b(?:\s+(?:is|are|was|would\s+be|should\s+be|must\s+be))?\s*[:=]?\s*",
    re.IGNORECASE,
)
_SEPARATE_LABEL = re.compile(r"(?<![A-Za-z0-9'’])([(\[{]?)([A-Z]{1,2})(?![A-Za-z0-9'’])([)\]}.:]?)")
_SMALL_LABEL = re.compile(rf"{_OPEN}([a-z]){_CLOSE}[.,;]?\s*(?:\n|$)")
_LABELS_THAT_ARE_WORDS = frozenset({"A", "I"})
_MAX_DECLARATIONS, _MAX_DECLARED_CHARACTERS = 8, 500


def fold(text: str) -> str:
    """The text in NFKC and case-folded, with single spaces and none at its ends."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a text, split between letters and digits and at punctuation.

    A comma between thousands, an apostrophe inside a word and a period not between digits are
    removed, each by its own neighbours.

    >>> words("**1,000** U.S. dollars, 3–1; image10 don't 1.5cm")
    ('1000', 'us', 'dollars', '3', '1', 'image', '10', 'dont', '1.5', 'cm')
    """
    folded = _THOUSANDS.sub("", fold(text))
    return tuple(_WORD.findall(_APOSTROPHE.sub("", _PERIOD.sub("", folded))))


def phrase(text: str) -> str:
    """The words separated and surrounded by single spaces, so that ``in`` finds whole words.

    >>> phrase("no") in phrase("I know"), phrase("no") in phrase("No, never")
    (False, True)
    """
    return f" {' '.join(words(text))} "


def read_rouge(gold: object, answer: object) -> Verdict:
    """ROUGE-L F (0 to 1) over `words`: the same measure, with each text as one sentence.

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
    return Scored(
        f_measure(
            len(common_words(reference, hypothesis)), len(set(reference)), len(set(hypothesis))
        )
    )


def read_needle(gold: object, answer: object) -> Verdict:
    """1 point if the gold's digits, or words, occur as a whole in the answer, otherwise 0.

    >>> read_needle("7984462", "It is **7,984,462**.").points
    1.0
    >>> read_needle("7984462", "17984462").points
    0.0
    """
    if problem := _containment_problem(gold, answer):
        return problem
    number = fold(str(gold)).replace(",", "")
    if not number.isdecimal():
        return read_phrase(gold, answer)
    text = re.sub(r"(?<=\d),(?=\d)", "", fold(str(answer)))
    return Scored(float(re.search(rf"(?<!\d){number}(?!\d)", text) is not None))


def read_phrase(gold: object, answer: object) -> Verdict:
    """1 point if the gold's words occur together as whole words in the answer, otherwise 0.

    >>> read_phrase("no", "I know").points, read_phrase("3-1", "They won 3–1.").points
    (0.0, 1.0)
    """
    if problem := _containment_problem(gold, answer):
        return problem
    gold_text, answer_text = str(gold), str(answer)
    if not words(gold_text):  # punctuation only: it has no word boundaries
        return Scored(float(fold(gold_text) in fold(answer_text)))
    return Scored(float(phrase(gold_text) in phrase(answer_text)))


def _containment_problem(gold: object, answer: object) -> Unscored | None:
    if not isinstance(gold, str) or not fold(gold):
        return Unscored("bad_gold", "the gold is empty or not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    return None


def read_choice(gold: object, answer: object, options: Sequence[object]) -> Verdict:
    """1 point if the answer names the gold, by its text or by its label, otherwise 0.

    These rules are tried in order, and the first that names an option decides: the answer is an
    option; it is a label; it begins with a label; it declares one ("the answer is B", the last
    such phrase); it declares an option's text; it mentions exactly one option; it contains exactly
    one label.

    Returns:
        `Scored` with 0 or 1 point and the label (empty if there is none), or `Unscored` if the
        gold is no option.

    >>> read_choice("dog", "The answer is B", ["cat", "dog"]).reading
    'B'
    >>> read_choice("cat", "", ["cat", "dog"])
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
    chosen = _chosen(answer, choices)
    return Scored(float(bool(chosen) and chosen <= correct), label(min(chosen)) if chosen else "")


@dataclass(frozen=True, slots=True)
class _AnswerOptions:
    """Options as `phrase` and as `fold`; an empty option can never be chosen.

    Methods return the indices of options: several only where options have the same text.
    """

    phrases: tuple[str, ...]
    folded: tuple[str, ...]
    labels: dict[str, frozenset[int]]

    @classmethod
    def of(cls, options: Sequence[str]) -> _AnswerOptions:
        labels = {label(i): frozenset({i}) for i, option in enumerate(options) if fold(option)}
        return cls(tuple(map(phrase, options)), tuple(map(fold, options)), labels)

    def equal_to(self, text: str) -> frozenset[int]:
        """Options with the same text: character by character, otherwise word by word."""
        for options, key in ((self.folded, fold(text)), (self.phrases, phrase(text))):
            equal = frozenset(i for i, option in enumerate(options) if option == key)
            if key.strip() and equal:
                return equal
        return frozenset()

    def with_label(self, name: str) -> frozenset[int]:
        return self.labels.get(name, frozenset())

    def mentioned(self, text: str) -> frozenset[int]:
        """The only option that occurs in the text as whole words; none if several do.

        Character by character first, which distinguishes ``$5`` from ``€5``, then word by word. An
        option that only occurs within a longer one that is mentioned does not count.
        """
        return _only_one(fold(text), self.folded) or _only_one(phrase(text), self.phrases)


def _only_one(text: str, options: Sequence[str]) -> frozenset[int]:
    matches = set()
    for option in sorted(set(options), key=len, reverse=True):
        if option.strip() and (remaining := _without(text, option.strip())) != text:
            matches.add(option)
            text = remaining
    if len(matches) != 1:
        return frozenset()
    return frozenset(i for i, option in enumerate(options) if option in matches)


def _without(text: str, part: str) -> str:
    """The text with every whole-word occurrence of the part replaced by a bar."""
    pieces, copied, start = [], 0, text.find(part)
    while start >= 0:
        end = start + len(part)
        inside_word = (part[0].isalnum() and text[start - 1 : start].isalnum()) or (
            part[-1].isalnum() and text[end : end + 1].isalnum()
        )
        if not inside_word:
            pieces += [text[copied:start], " | "]
            copied = end
        start = text.find(part, start + 1 if inside_word else end)
    return "".join([*pieces, text[copied:]])


def _chosen(answer: str, options: _AnswerOptions) -> frozenset[int]:
    text = _MARKUP.sub("", answer).strip()
    only_label = _ONLY_LABEL.fullmatch(text)
    return (
        options.equal_to(answer)
        or options.equal_to(text)
        or (only_label and options.with_label(only_label[1].upper()))
        or _leading(text, options)
        or _declared(text, options)
        or options.mentioned(text)
        or _separate(text, options)
    )


def _leading(text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option whose label a text begins with, if what follows shows that it is a label.

    ``B.``, ``(B) text``, ``B: text`` and ``B`` on its own line are labels; ``A man`` is not,
    unless the words that follow are option A's.
    """
    lead = _LEADING_LABEL.match(text)
    labelled = options.with_label(lead[1]) if lead else frozenset()
    if not lead or not labelled:
        return frozenset()
    tail = text[lead.end() :]
    (index,) = labelled
    is_separate = not tail.strip() or tail.lstrip(" ")[0] in ")]}.:,;\n-–—=\"'”’"
    if is_separate or phrase(tail).startswith(options.phrases[index]):
        return labelled
    return frozenset() if lead[1] in _LABELS_THAT_ARE_WORDS else labelled


def _declared(text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option that the last "answer is", "option" or "choice" names.

    Only the last few such phrases and the beginning of what follows count: that bounds the work
    on an answer that repeats itself for a megabyte.
    """
    for match in reversed(deque(_DECLARATION.finditer(text), maxlen=_MAX_DECLARATIONS)):
        declared = text[match.end() : match.end() + _MAX_DECLARED_CHARACTERS]
        small = _SMALL_LABEL.match(declared)
        labelled = options.with_label(small[1].upper()) if small else _leading(declared, options)
        if chosen := labelled or options.mentioned(declared.partition("\n")[0]):
            return chosen
    return frozenset()


def _separate(text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option of the only separate label; ``A`` and ``I`` need a mark beside them."""
    labelled: frozenset[int] = frozenset()
    for opening, name, closing in _SEPARATE_LABEL.findall(text):
        if opening or closing or name not in _LABELS_THAT_ARE_WORDS:
            labelled |= options.with_label(name)
    return labelled if len(labelled) == 1 else frozenset()
