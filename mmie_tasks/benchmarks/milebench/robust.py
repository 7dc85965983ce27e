"""The robust reading: what the official scorer evidently meant, without its slips.

Beside the official verdict, never instead of it. The README of this room lists each difference.
Multiple choice is in ``robust_choice.py``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.milebench.official import common_words, f_measure, label
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

# Words, as the robust reading sees them: every mark is judged where it stands.

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERIOD = re.compile(r"(?<!\d)\.|\.(?!\d)")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")


def fold(text: str) -> str:
    """Compatible characters made equal, case and outer white space gone, inner squeezed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a text; letters and digits part, marks separate.

    A comma between thousands, an apostrophe inside a word and a period not between digits join
    their neighbours, each by itself and whatever stands elsewhere in the text.

    >>> words("**1,000** U.S. dollars, 3–1; image10 don't 1.5cm")
    ('1000', 'us', 'dollars', '3', '1', 'image', '10', 'dont', '1.5', 'cm')
    """
    folded = _THOUSANDS.sub("", fold(text))
    return tuple(_WORD.findall(_APOSTROPHE.sub("", _PERIOD.sub("", folded))))


def phrase(text: str) -> str:
    """The words between single spaces, one more at each end: a whole-word search is then ``in``.

    >>> phrase("no") in phrase("I know"), phrase("no") in phrase("No, never")
    (False, True)
    """
    return f" {' '.join(words(text))} "


def read_rouge(gold: object, answer: object) -> Verdict:
    """ROUGE-L F (0 to 1) over `words`: the same measure, each text one sentence.

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
    common = common_words(reference, hypothesis)
    return Scored(f_measure(len(common), len(set(reference)), len(set(hypothesis))))


def read_needle(gold: object, answer: object) -> Verdict:
    """1 if the gold's digits, or words, stand in the answer as a whole, else 0.

    >>> read_needle("7984462", "It is **7,984,462**.").points
    1.0
    >>> read_needle("7984462", "17984462").points
    0.0
    """
    if not isinstance(gold, str) or not fold(gold):
        return Unscored("bad_gold", "the gold is empty or not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    number = fold(gold).replace(",", "")
    if not number.isdecimal():
        return read_phrase(gold, answer)
    said = re.sub(r"(?<=\d),(?=\d)", "", fold(answer))
    return Scored(float(re.search(rf"(?<!\d){number}(?!\d)", said) is not None))


def read_phrase(gold: object, answer: object) -> Verdict:
    """1 if the gold's words stand together in the answer as whole words, else 0.

    >>> read_phrase("no", "I know").points, read_phrase("3-1", "They won 3–1.").points
    (0.0, 1.0)
    """
    if not isinstance(gold, str) or not fold(gold):
        return Unscored("bad_gold", "the gold is empty or not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    if not words(gold):  # marks only: there is no word to bound
        return Scored(float(fold(gold) in fold(answer)))
    return Scored(float(phrase(gold) in phrase(answer)))


# Multiple choice, read robustly: whole words, whole labels, the longest option, no free points.

_MARKUP = re.compile(r"[*`#]+|\\(?:boxed|text(?:bf)?)\b")
_OPEN, _CLOSE = r"[$(\[{\"'“‘]*", r"[$)\]}\"'”’]*"
_ALONE = re.compile(rf"{_OPEN}([A-Za-z]{{1,2}}){_CLOSE}[.:,;]?{_CLOSE}")
_LEAD = re.compile(rf"{_OPEN}([A-Z]{{1,2}})(?![A-Za-z0-9])")
_DECLARED = re.compile(
    r"\b(?:answer|choice|option)\b(?:\s+(?:is|are|was|would\s+be|should\s+be|must\s+be))?\s*[:=]?\s*",
    re.IGNORECASE,
)
_ISOLATED = re.compile(r"(?<![A-Za-z0-9'’])([(\[{]?)([A-Z]{1,2})(?![A-Za-z0-9'’])([)\]}.:]?)")
_SMALL = re.compile(rf"{_OPEN}([a-z]){_CLOSE}[.,;]?\s*(?:\n|$)")
_ALSO_WORDS = frozenset({"A", "I"})
_DECLARATIONS, _DECLARED_CHARACTERS = 8, 500


@dataclass(frozen=True, slots=True)
class _Options:
    """Options as `phrase` and as `fold`; an empty one can never be chosen."""

    phrases: tuple[str, ...]
    folded: tuple[str, ...]
    index_of_label: dict[str, int]

    @classmethod
    def of(cls, options: Sequence[str]) -> _Options:
        named = {label(i): i for i, option in enumerate(options) if fold(option)}
        return cls(tuple(map(phrase, options)), tuple(map(fold, options)), named)

    def equal_to(self, text: str) -> frozenset[int]:
        """Options that say the same: character by character, or else word by word."""
        exact = fold(text)
        same = frozenset(i for i, option in enumerate(self.folded) if exact and option == exact)
        said = phrase(text)
        return same or frozenset(
            i for i, option in enumerate(self.phrases) if said.strip() and option == said
        )

    def named(self, name: str) -> frozenset[int]:
        index = self.index_of_label.get(name)
        return frozenset() if index is None else frozenset({index})

    def mentioned(self, text: str) -> frozenset[int]:
        """The one option that stands in the text as whole words; several give none.

        Character by character first, which tells ``$5`` from ``€5``, then word by word. An option
        that only occurs within a longer one that is mentioned does not count.
        """
        return _only_one(fold(text), self.folded) or _only_one(phrase(text), self.phrases)


def _only_one(text: str, options: Sequence[str]) -> frozenset[int]:
    found = set()
    for option in sorted(set(options), key=len, reverse=True):
        if option.strip() and (rest := _without(text, option.strip())) != text:
            found.add(option)
            text = rest
    if len(found) != 1:
        return frozenset()
    return frozenset(i for i, option in enumerate(options) if option in found)


def _without(text: str, part: str) -> str:
    """The text with every whole-word occurrence of the part blotted out."""
    pieces, done, at = [], 0, text.find(part)
    while at >= 0:
        end = at + len(part)
        inside = (part[0].isalnum() and text[at - 1 : at].isalnum()) or (
            part[-1].isalnum() and text[end : end + 1].isalnum()
        )
        if not inside:
            pieces += [text[done:at], " | "]
            done = end
        at = text.find(part, at + 1 if inside else end)
    return "".join([*pieces, text[done:]])


def read_choice(gold: object, answer: object, options: Sequence[object]) -> Verdict:
    """1 if the answer names the gold, by its text or by its label, else 0.

    Tried in this order, the first that finds something decides: the answer is an option; it is a
    label; it begins with a label; it declares one ("the answer is B", the last such phrase); it
    declares an option's text; it mentions exactly one option; it holds exactly one label.

    Returns:
        `Scored` with 0 or 1 and the label read (empty where nothing was), or `Unscored` where the
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
    known = _Options.of([str(option) for option in options])
    right = known.equal_to(gold)
    if not right:
        return Unscored("bad_gold", "the gold is not among the options")
    chosen = _chosen(answer, known)
    reading = label(min(chosen)) if chosen else ""
    return Scored(float(bool(chosen) and chosen <= right), reading)


def _chosen(answer: str, options: _Options) -> frozenset[int]:
    if same := options.equal_to(answer):
        return same
    text = _MARKUP.sub("", answer).strip()
    if same := options.equal_to(text):
        return same
    if (alone := _ALONE.fullmatch(text)) and (named := options.named(alone[1].upper())):
        return named
    return (
        _label_at(text, options)
        or _declared(text, options)
        or options.mentioned(text)
        or _isolated(text, options)
    )


def _label_at(text: str, options: _Options) -> frozenset[int]:
    """The label a text begins with, if what follows shows that it is one.

    ``B.``, ``(B) text``, ``B: text`` and ``B`` on its own line are; ``A man`` is not, unless the
    words that follow are option A's.
    """
    lead = _LEAD.match(text)
    named = options.named(lead[1]) if lead else frozenset()
    if not lead or not named:
        return frozenset()
    rest = text[lead.end() :]
    (index,) = named
    bounded = not rest.strip() or rest.lstrip(" ")[0] in ")]}.:,;\n-–—=\"'”’"
    if bounded or phrase(rest).startswith(options.phrases[index]):
        return named
    return frozenset() if lead[1] in _ALSO_WORDS else named


def _declared(text: str, options: _Options) -> frozenset[int]:
    """What the last "answer is", "option" or "choice" that leads to something names.

    Only the last few such phrases and the beginning of what follows count: that bounds the work
    on an answer that repeats itself for a megabyte.
    """
    for match in reversed(deque(_DECLARED.finditer(text), maxlen=_DECLARATIONS)):
        rest = text[match.end() : match.end() + _DECLARED_CHARACTERS]
        small = _SMALL.match(rest)
        found = (
            options.named(small[1].upper()) if small else _label_at(rest, options)
        ) or options.mentioned(rest.partition("\n")[0])
        if found:
            return found
    return frozenset()


def _isolated(text: str, options: _Options) -> frozenset[int]:
    """The one label that stands by itself somewhere; ``A`` and ``I`` need a mark beside them."""
    found: set[int] = set()
    for before, name, after in _ISOLATED.findall(text):
        if before or after or name not in _ALSO_WORDS:
            found |= options.named(name)
    return frozenset(found) if len(found) == 1 else frozenset()
