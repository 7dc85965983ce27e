"""MileBench's official scorer, quirks included: multiple choice, needles, MMCoQA and ROUGE-L.

Source: class ``Eval`` in ``evaluate.py`` of MileBench at 9583e1f, and the package ``rouge==1.0.1``
that it calls, here without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product, starmap

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_CHANGED_BY_NORMALISING = re.compile(f"[{re.escape(_PUNCTUATION)}.'\n\t]")
_DIGIT_COMMA_DIGIT = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
_PERIODS_DELETED = 32  # `re.UNICODE`, value 32, is passed as the count of `re.sub`
_REGEX_SPECIAL = frozenset("\\.^$*+?{}[]|()")
_EPSILON = 1e-8  # in the denominator of F, so that a perfect answer scores 0.999999995


def normalise(text: str) -> str:
    r"""Normalises a text as ``Eval.process`` and ``Eval.processPunctuation``; not idempotent.

    Quirks reproduced, because every published number has them:

    * If a punctuation mark is next to a space *anywhere*, all marks of its kind are deleted, and
      one ``1,000`` deletes all marks of all kinds. Other marks become spaces.
    * Only the first 32 periods not followed by a digit are deleted.
    * ``\r`` and other white space inside the text stay, as do ``: * # $ % & | ^ ~``.

    >>> normalise("1,000 a-b"), normalise("a-b"), normalise("The U.S. is 5.")
    ('1000 ab', 'a b', 'the us is 5')
    """
    if not _CHANGED_BY_NORMALISING.search(text):  # a shortcut for most options
        return text.strip().lower()
    text = text.replace("\n", " ").replace("\t", " ").strip()
    marks = [mark for mark in _PUNCTUATION if mark in text]
    if marks:
        has_thousands = "," in marks and _DIGIT_COMMA_DIGIT.search(text) is not None
        deleted = [m for m in marks if has_thousands or f"{m} " in text or f" {m}" in text]
        text = text.translate({ord(mark): "" if mark in deleted else " " for mark in marks})
    if "." in text:
        text = _PERIOD.sub("", text, count=_PERIODS_DELETED)
    return text.strip("'").strip('"').strip().lower()


def label(index: int) -> str:
    """The official label of option ``index`` (from 0): ``A``..``Z``, ``AA``..``AZ``, ``BA``...

    >>> label(0), label(26), label(52)
    ('A', 'AA', 'BA')
    """
    if index < 26:
        return chr(65 + index)
    return "A" + chr(39 + index) if index < 52 else "B" + chr(13 + index)


def score_choice(gold: object, answer: object, options: Sequence[object]) -> Verdict:
    """1 point if the label read from the answer is the gold's label, otherwise 0.

    Source: ``judge_multi_choice`` and ``process_sample``. The sample is `Unscored` if the official
    code raises, which ends its whole dataset (a value is not text, the gold is not an option).

    >>> score_choice("a cat", "B. a cat", ["a dog", "a cat"])
    Scored(points=1.0, reading='B')
    """
    if not isinstance(gold, str) or not all(isinstance(option, str) for option in options):
        return Unscored("bad_gold", "the gold or an option is not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    texts = [normalise(str(option)) for option in options]
    normalised_gold = normalise(gold)
    if normalised_gold not in texts:
        return Unscored("bad_gold", "the gold is not among the options")
    choice = match_choice(normalise(answer), texts)
    return Scored(float(choice == label(texts.index(normalised_gold))), choice)


def match_choice(text: str, options: Sequence[str]) -> str:
    """The label that the official scorer reads from a normalised answer.

    The official code joins the options into a regular expression. ``str.find`` for the leftmost
    literal, and the earlier option on a tie, gives the same result.

    Quirks reproduced (``Eval.match_choice``), in this order:

    * an empty answer is ``C``;
    * ``B some option`` anywhere gives the first *character* of the label, so a label beyond ``Z``
      is never read;
    * the leftmost option text, spaces ignored, also inside longer words, but not if it has a
      special character of regular expressions;
    * an answer of one or two letters that is a label;
    * every letter of the answer that is a label, concatenated.

    Args:
        text: The answer after `normalise`.
        options: The options after `normalise`, normalised again here as in the official code.

    >>> match_choice("the answer is b", ["cat", "dog"])
    'AB'
    """
    if not text:
        return "C"
    labels = [label(index) for index in range(len(options))]
    lead = _leftmost(text, [normalise(f"{k} {v}") for k, v in zip(labels, options, strict=True)])
    if lead:
        return lead[0].upper()
    literals = [normalise(option).replace(" ", "") for option in options]
    match = _leftmost(text.replace(" ", ""), literals)
    if match is not None and not _REGEX_SPECIAL.intersection(match):
        match = match.strip()
        if match in literals:
            return labels[literals.index(match)].upper()
    if len(text) <= 2 and text.upper() in labels:
        return text.upper()
    return "".join(letter for letter in map(str.upper, text) if letter in labels)


def _leftmost(text: str, literals: Sequence[str]) -> str | None:
    """The literal that begins first in the text, the earlier one on a tie."""
    first, leftmost = len(text) + 1, None
    for literal in literals:
        position = text.find(literal, 0, first + len(literal) - 1)  # only those that begin earlier
        if position >= 0:
            first, leftmost = position, literal
            if position == 0:
                break
    return leftmost


def score_needle(gold: object, answer: object) -> Verdict:
    """1 point if the normalised gold is a white-space token of the answer, otherwise 0.

    Source: ``Eval.evaluate_needle``. ``**7984462**`` and ``number:7984462`` score 0, and a gold of
    two words never matches.

    >>> score_needle("7984462", "It is 7,984,462.").points
    1.0
    """
    return _score_containment(gold, answer, whole_token=True)


def score_substring(gold: object, answer: object) -> Verdict:
    """1 point if the normalised gold occurs anywhere in the answer, otherwise 0 (MMCoQA).

    Source: ``Eval.evaluate_needle``. ``no`` matches ``know``, and an empty gold every answer.

    >>> score_substring("no", "I know").points
    1.0
    """
    return _score_containment(gold, answer, whole_token=False)


def _score_containment(gold: object, answer: object, *, whole_token: bool) -> Verdict:
    if not isinstance(gold, str):
        return Unscored("bad_gold", "the gold is not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    text = normalise(answer)
    return Scored(float(normalise(gold) in (text.split() if whole_token else text)))


def score_rouge(gold: object, answer: object) -> Verdict:
    """ROUGE-L F, 0 to 1.

    Source: ``Eval.evaluate_rouge``, which calls ``rouge==1.0.1``. An answer that is empty after
    `normalise` scores 0. The sample is `Unscored` if the official code raises (not text, an empty
    gold, only periods), but is scored beyond the official recursion limit (about 985 words).

    >>> round(score_rouge("pick up the mug", "pick the cup").points, 3)
    0.571
    """
    if not isinstance(gold, str) or not normalise(gold):
        return Unscored("bad_gold", "the reference is empty or not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    hypothesis = normalise(answer)
    if not hypothesis:
        return Scored(0.0)
    return rouge_l(hypothesis, normalise(gold))


def rouge_l(hypothesis: str, reference: str) -> Verdict:
    """ROUGE-L F (0 to 1) of ``rouge==1.0.1`` for two non-empty texts, at summary level.

    Sentences end at periods. The common words are the union of `common_words` over all pairs of
    sentences. Precision and recall count *unique* words.

    >>> rouge_l("a b", "...")
    Unscored(reason='not_scorable', detail='the reference holds no words')
    """
    hypotheses, references = _sentences(hypothesis), _sentences(reference)
    if not hypotheses or not references:
        text = "reference" if hypotheses else "answer"
        return Unscored("not_scorable", f"the {text} holds no words")
    common: set[str] = set().union(*starmap(common_words, product(references, hypotheses)))
    n_reference, n_hypothesis = len(set().union(*references)), len(set().union(*hypotheses))
    return Scored(f_measure(len(common), n_reference, n_hypothesis))


def f_measure(common: int, reference: int, hypothesis: int) -> float:
    """F1 as in ``rouge==1.0.1``, from counts of unique words (the last two above 0)."""
    recall, precision = common / reference, common / hypothesis
    return 2.0 * ((precision * recall) / (precision + recall + _EPSILON))


def _sentences(text: str) -> list[list[str]]:
    """Words per sentence; a sentence of white space is one empty word, as in the package."""
    return [sentence.split() or [""] for sentence in text.split(".") if sentence]


def common_words(reference: Sequence[str], hypothesis: Sequence[str]) -> set[str]:
    """The words of *the* longest common subsequence that ``rouge==1.0.1`` reconstructs.

    Its back-trace chooses among several: from the end, a match goes diagonal; otherwise left (to
    the previous word of the answer), unless only up (to the previous word of the reference) keeps
    the length.

    A row of the table is one integer, with a cleared bit where the length grows from the column
    before (Hyyrö's bit-parallel recurrence), so a pair costs words x words / 64 machine steps.
    Words that are not in the reference are dropped first: the back-trace skips them by going left.

    >>> sorted(common_words("a b c d".split(), "x a c b d".split()))
    ['a', 'c', 'd']
    """
    reference_words = set(reference)
    columns = [word for word in hypothesis if word in reference_words]
    rows = _rows(reference, columns)
    words: set[str] = set()
    i, j = len(reference), len(columns)
    while i and j:
        if reference[i - 1] == columns[j - 1]:
            words.add(reference[i - 1])
            i, j = i - 1, j - 1
        elif rows[i - 1] >> (j - 1) & 1:
            j -= 1
        else:
            i -= 1
    return words


def _rows(reference: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Row ``i``: bit ``j`` is clear iff table[i+1][j+1] is greater than table[i+1][j]."""
    column_bits: dict[str, bytearray] = {}
    for j, word in enumerate(columns):
        bits = column_bits.setdefault(word, bytearray(len(columns) // 8 + 1))
        bits[j >> 3] |= 1 << (j & 7)
    bits_of = {word: int.from_bytes(bits, "little") for word, bits in column_bits.items()}
    full = (1 << len(columns)) - 1
    row, rows = full, []
    for word in reference:
        hit = row & bits_of.get(word, 0)
        row = ((row + hit) | (row - hit)) & full
        rows.append(row)
    return rows
