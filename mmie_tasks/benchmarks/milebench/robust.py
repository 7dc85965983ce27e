"""MileBench's robust readers: the official rules without the official scorer's errors.

Robust verdicts are reported next to the official ones. The README lists each difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from mmie_tasks.benchmarks.milebench.official import common_words, f_measure, label
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERIOD = re.compile(r"(?<!\d)\.|\.(?!\d)")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")

_MARKUP = re.compile(r"[*`#]+|\\(?:boxed|text(?:bf)?)\b")
_OPEN, _CLOSE = r"[$(\[{\"'“‘]*", r"[$)\]}\"'”’]*"
_ONLY_LABEL = re.compile(rf"{_OPEN}([A-Za-z]{{1,2}}){_CLOSE}[.:,;]?{_CLOSE}")
# Labels are not parts of words: `Aérien`, `A's`, `N/A`, `U.S.A`, `A-frame`.
_LATIN = "A-Za-zÀ-ɏ0-9"
_MARKED_LABEL = re.compile(rf"(?<![{_LATIN}])([A-Z]{{1,2}})[*`#]+")
_CAPITALS = (
    rf"(?<![{_LATIN}])(?<![{_LATIN}]['’/&-])(?<![A-Z]\.)([A-Z]{{1,2}})(?!['’/&-]?[{_LATIN}])"
)
_WORD_A_OR_I = re.compile(rf"[AI][^\S\n]+(?!(?i:is)\b)[{_LATIN}]")
_LABEL = re.compile(rf"(?!{_WORD_A_OR_I.pattern}){_CAPITALS}")
_OPTION = r"(?i:\b(?:answer|option|choice))\b"
_LEADING_LABEL = re.compile(rf"[\W_]*(?:{_OPTION}[^\w\n]*)?{_CAPITALS}")
_SMALL_ALONE = rf"([a-z])(?![{_LATIN}])[^\w\n<]*(?:[\n<]|$)"
_SMALL_LABEL = re.compile(rf"[\W_]*{_SMALL_ALONE}")
_DECLARATION = re.compile(
    rf"(?<!/){_OPTION}[\"'”’)\]]*\s*"
    r"(?:(?i:is|are|was|would\s+be|should\s+be|must\s+be)\b\s*[:=]?|[:=>]"
    rf"|(?=[\W_]{{0,3}}{_SMALL_ALONE}))"
)
_OPTION_LABEL = re.compile(rf"{_OPTION}[^\w.,;:!?]*{_CAPITALS}")
_A_LINE = re.compile(r"^A[^\S\n]*:(.{1,500})", re.MULTILINE)
_NEXT_QUESTION = re.compile(r"\n[^\S\n]*(?:question|q|user)[^\S\n]*\d*:", re.IGNORECASE)
_LISTED_LABEL = re.compile(
    r"(?:\b(?i:option|choice)\s+)?(?P<open>[$(\[{<\"'“‘]{0,3})(?<![A-Za-z0-9'’])"
    r"(?P<label>[A-Z]{1,2}|[a-z]{1,2})(?![A-Za-z0-9]|['’][A-Za-z])"
    r"(?P<close>[$)\]}>\"'”’]{0,3})(?:[^\S\n]?(?P<mark>[.:=–—-]))?"
)
_AND_OR = re.compile(r"\b(?:and|n?or)\b")
_BETWEEN_LISTED = re.compile(r"[\W_]*(?:(?:and|n?or)\b[\W_]*)*")
_GOES_ON = re.compile(r"[^\S\n]+[a-z]{2}")
_AFTER_LIST = " \t\r\n.,;:!?|)]}>"
_MAX_DECLARATIONS, _MAX_DECLARED_CHARACTERS = 8, 500


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
    return Scored(
        f_measure(
            len(common_words(reference, hypothesis)), len(set(reference)), len(set(hypothesis))
        )
    )


def read_needle(gold: object, answer: object) -> Verdict:
    """1 point if the answer has the gold's number, or its words, as a whole, otherwise 0.

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
    """1 point if the answer has the gold's words together, as whole words, otherwise 0.

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
    r"""1 point if the answer names the gold, by its text or by its label, otherwise 0.

    A label is a capital letter, or two, and not a part of a word (``Aérien``, ``N/A``); alone on
    its line, it may be lower case. *A* and *I* are words where a blank and a word other than "is"
    follow on the same line (``A man``), unless the answer begins so and that word begins their
    option's text (option A is "man").

    These parts are not the answer:

    * A list of options: labels of several options in the same form, alone or with the options'
      texts (the question's options repeated, ``B or C``).
    * What follows a line that begins with ``Question:``, ``Q:`` or ``User:``, with or without a
      number: another question. It is this one if no option is chosen before it and all are
      repeated after it.
    * The label in ``A: B``, which is short for "Answer": a line that begins with ``A:`` and names
      another option, but not A's text.

    Then the first of these rules that gives an option decides:

    1. The answer, or the text after the list, is an option or a label.
    2. It declares a label or an option's text ("the answer is B", "choice: B", ``<answer>B``; the
       last such phrase). A declared *A* is a label also before a word ("The answer is A because"),
       unless an option's text begins there.
    3. It begins with a label.
    4. It has exactly one label after the word "option", "choice" or "answer" ("I take option B").
    5. It mentions exactly one option.
    6. It contains exactly one label.

    The verdict's reading is the label, or empty. `Unscored` if the gold is not an option.

    >>> read_choice("dog", "The answer is B", ["cat", "dog"]).reading
    'B'
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
    chosen = _chosen(answer, choices)
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
        """The options with the same text, or else with the same words."""
        for options, key in ((self.folded, fold(text)), (self.phrases, phrase(text))):
            equal = frozenset(i for i, option in enumerate(options) if option == key)
            if key.strip() and equal:
                return equal
        return frozenset()

    def with_label(self, name: str) -> frozenset[int]:
        return self.labels.get(name, frozenset())

    def mentioned(self, text: str) -> frozenset[int]:
        """The only option in the text, outside longer options; empty if there are several."""
        # `folded` first, because it distinguishes ``$5`` from ``€5``
        return _only_one(fold(text), self.folded) or _only_one(phrase(text), self.phrases)


def _only_one(text: str, options: Sequence[str]) -> frozenset[int]:
    matches: set[str] = set()
    for _, equally_long in groupby(sorted(set(options), key=len, reverse=True), key=len):
        found = {o for o in equally_long if o.strip() and _without(text, o.strip()) != text}
        for option in found:
            text = _without(text, option.strip())
        matches |= found
    if len(matches) != 1:
        return frozenset()
    return frozenset(i for i, option in enumerate(options) if option in matches)


def _without(text: str, part: str) -> str:
    """Replaces every whole-word occurrence of the part by a bar."""
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
    text = _MARKED_LABEL.sub(r"\1)", unicodedata.normalize("NFKC", answer))
    text = _MARKUP.sub("", text).strip()
    before, *after = _NEXT_QUESTION.split(text, maxsplit=1)
    chosen = options.equal_to(answer) or _chosen_in(before, options)
    if chosen or not after:
        return chosen
    question = phrase(after[0])
    is_own = all(option in question for option in options.phrases)
    return _chosen_in(text, options) if is_own else frozenset()


def _chosen_in(text: str, options: _AnswerOptions) -> frozenset[int]:
    text = _answer_lines(text, options)
    parts = _around_lists(text, options)
    rest = "\n".join(parts).strip()
    return (
        _alone(parts[-1], options)
        or _declared(rest, options)
        or _leading(rest, options)
        or _only_label(_OPTION_LABEL, rest, options)
        or options.mentioned(rest)
        or _only_label(_LABEL, rest, options)
        or options.mentioned(text)  # an option such as "both A and B" looks like a list
    )


def _answer_lines(text: str, options: _AnswerOptions) -> str:
    """Writes ``A: B`` as ``Answer: B`` where the line names an option other than A."""
    a = options.with_label("A")

    def answer_line(line: re.Match[str]) -> str:
        labels = frozenset().union(*map(options.with_label, _LABEL.findall(line[1])))
        has_text_of_a = any(options.phrases[index] in phrase(line[1]) for index in a)
        is_answer = (labels | options.mentioned(line[1])) - a and not has_text_of_a
        return f"Answer:{line[1]}" if is_answer else line[0]

    return _A_LINE.sub(answer_line, text, count=_MAX_DECLARATIONS)


def _alone(text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option that has this text or label."""
    label_alone = _ONLY_LABEL.fullmatch(text)
    labelled = options.with_label(label_alone[1].upper()) if label_alone else frozenset()
    return options.equal_to(text) or labelled


def _around_lists(text: str, options: _AnswerOptions) -> list[str]:
    """The parts of a text around its lists of options; ``B, C is wrong`` is not a list."""
    runs: list[list[_Listed]] = []
    for item in _listed(text, options):
        if runs and item.continues(runs[-1][-1]):
            runs[-1].append(item)
        else:
            runs.append([item])
    parts, end = [], 0
    for run in runs:
        if len(run) > 2 or (len(run) == 2 and run[-1].is_whole):
            parts.append(text[end : run[0].start].lstrip(_AFTER_LIST))
            end = run[-1].end
    return [*parts, text[end:].lstrip(_AFTER_LIST) if end else text]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A label with or without its option's text, which may be an item of a list.

    Attributes:
        form: The marks around the label, with the last one only before the option's text.
        gap: The text between the previous item and this one.
        is_whole: Whether no words follow in its line.
    """

    index: int
    has_text: bool
    form: tuple[str, ...]
    gap: str
    is_whole: bool
    start: int
    end: int

    def continues(self, other: _Listed) -> bool:
        """Whether this is the next item of the other's list, in the same form."""
        is_joined = _AND_OR.search(self.gap) is not None
        is_enumerated = is_joined or ("\n" not in self.gap and any(c in self.gap for c in ",;/|&"))
        return (
            (self.has_text, self.form) == (other.has_text, other.form)
            and (self.index > other.index or (is_joined and self.index != other.index))
            and (self.has_text or is_enumerated)
            and _BETWEEN_LISTED.fullmatch(self.gap) is not None
        )


def _listed(text: str, options: _AnswerOptions) -> Iterator[_Listed]:
    """Every label that can be an item of a list; a lower-case one needs a mark."""
    end, match = 0, _LISTED_LABEL.search(text)
    while match:
        position, name, marks = match.end("label"), match["label"], (match["close"], match["mark"])
        for index in options.with_label(name.upper()) if name.isupper() or any(marks) else ():
            own_text = _pattern(options.folded[index]).match(text, position)
            gap = text[end : match.start()]
            position = end = own_text.end() if own_text else match.end()
            yield _Listed(
                index=index,
                has_text=own_text is not None,
                form=(match["open"][-1:], *(marks if own_text else marks[:1])),
                gap=gap,
                is_whole=not _GOES_ON.match(text, end) or _AND_OR.search(gap) is not None,
                start=match.start(),
                end=end,
            )
        match = _LISTED_LABEL.search(text, position)


@lru_cache(maxsize=512)
def _pattern(option: str) -> re.Pattern[str]:
    """The option's words, with any marks before and between them."""
    text = r"[\W_]*".join(map(re.escape, _WORD.findall(option) or [option]))
    return re.compile(rf"[\W_]*{text}(?![^\W_])", re.IGNORECASE)


def _declared(text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option that the last "answer is", "choice:" or ``<answer>`` declares."""
    # The limits bound the work on an answer that repeats itself for a megabyte.
    for match in reversed(deque(_DECLARATION.finditer(text), maxlen=_MAX_DECLARATIONS)):
        declared = text[match.end() : match.end() + _MAX_DECLARED_CHARACTERS]
        small = _SMALL_LABEL.match(declared)
        labelled = options.with_label(small[1].upper()) if small else frozenset()
        labelled = labelled or _leading(declared, options, is_declared=True)
        if chosen := labelled or options.mentioned(declared.strip().partition("\n")[0]):
            return chosen
    return frozenset()


def _leading(text: str, options: _AnswerOptions, *, is_declared: bool = False) -> frozenset[int]:
    """The option whose label begins a text."""
    lead = _LEADING_LABEL.match(text)
    labelled = options.with_label(lead[1]) if lead else frozenset()
    if not lead or not labelled or not _WORD_A_OR_I.match(text, lead.start(1)):
        return labelled
    (index,) = labelled
    following = phrase(text[lead.end() :])
    if following.startswith(options.phrases[index]):  # ``A man``, and option A is "man"
        return labelled
    texts = (following, phrase(text[lead.start(1) :]))
    is_text = any(t.startswith(option) for option in options.phrases for t in texts)
    return labelled if is_declared and lead[1] == "A" and not is_text else frozenset()


def _only_label(pattern: re.Pattern[str], text: str, options: _AnswerOptions) -> frozenset[int]:
    """The option of the only label that the pattern finds."""
    labelled = frozenset().union(*map(options.with_label, set(pattern.findall(text))))
    return labelled if len(labelled) == 1 else frozenset()
