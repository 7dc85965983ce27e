"""Multiple choice as the official scorer reads it.

Source: ``Eval.match_choice``, ``judge_multi_choice`` and ``process_sample`` in ``evaluate.py`` of
MileBench at 9583e1f. The official code joins the options into one regular expression per answer;
the leftmost literal, the earlier option on a tie, is the same thing found with ``str.find``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

# The text normaliser of the official scorer, bug for bug.
#
# Source: ``Eval.process`` and ``Eval.processPunctuation`` in ``evaluate.py`` of MileBench at 9583e1f.

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_MARKED = re.compile(f"[{re.escape(_PUNCTUATION)}.'\n\t]")
_DIGIT_COMMA_DIGIT = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
_PERIODS_DELETED = 32  # `re.UNICODE` stands where `re.sub` takes its count, and its value is 32


def normalise(text: str) -> str:
    r"""Normalise as ``Eval.process``.

    Quirks kept, because every published number went through them:

    * One punctuation mark beside a space *anywhere*, or one ``1,000`` anywhere, decides for the
      whole text: every such mark is then deleted. Otherwise each becomes a space.
    * A period not followed by a digit is deleted, the first 32 of them only.
    * ``\r`` and other white space inside the text stay; so do ``: * # $ % & | ^ ~``.

    Not idempotent.

    >>> normalise("1,000 a-b"), normalise("a-b"), normalise("The U.S. is 5.")
    ('1000 ab', 'a b', 'the us is 5')
    """
    if not _MARKED.search(text):  # most options: nothing below would change them
        return text.strip().lower()
    text = text.replace("\n", " ").replace("\t", " ").strip()
    present = [mark for mark in _PUNCTUATION if mark in text]
    if present:
        text = text.translate(_replacements(text, present))
    if "." in text:
        text = _PERIOD.sub("", text, count=_PERIODS_DELETED)
    return text.strip("'").strip('"').strip().lower()


def _replacements(text: str, present: list[str]) -> dict[int, str]:
    glued = "," in present and _DIGIT_COMMA_DIGIT.search(text) is not None
    return {
        ord(mark): "" if glued or f"{mark} " in text or f" {mark}" in text else " "
        for mark in present
    }


_REGEX_SPECIAL = frozenset("\\.^$*+?{}[]|()")


def label(index: int) -> str:
    """The official label of option ``index`` (from 0): ``A``..``Z``, ``AA``..``AZ``, ``BA``...

    >>> label(0), label(26), label(52)
    ('A', 'AA', 'BA')
    """
    if index < 26:
        return chr(65 + index)
    return "A" + chr(39 + index) if index < 52 else "B" + chr(13 + index)


def score_choice(gold: object, answer: object, options: Sequence[object]) -> Verdict:
    """1 if the label read from the answer is the gold's label, else 0.

    Where the official code raises and so ends the whole dataset (something is no text, the gold is
    not among the options), the sample is `Unscored`.

    Returns:
        `Scored` with 0 or 1 point and the label read, or `Unscored`.

    >>> score_choice("a cat", "B. a cat", ["a dog", "a cat"])
    Scored(points=1.0, reading='B')
    """
    if not isinstance(gold, str) or not all(isinstance(option, str) for option in options):
        return Unscored("bad_gold", "the gold or an option is not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    texts = [normalise(str(option)) for option in options]
    target = normalise(gold)
    if target not in texts:
        return Unscored("bad_gold", "the gold is not among the options")
    chosen = match_choice(normalise(answer), texts)
    return Scored(float(chosen == label(texts.index(target))), chosen)


def match_choice(text: str, options: Sequence[str]) -> str:
    """The label the official scorer reads from a normalised answer.

    Quirks kept (``evaluate.py`` at 9583e1f, ``match_choice``):

    * an empty answer is ``C``;
    * ``B some option`` anywhere gives the first *character* of the label, so a label beyond ``Z``
      is never read;
    * else the leftmost option text, spaces ignored, inside longer words too; one that contains a
      character special in regular expressions is found and then not recognised;
    * else an answer of one or two letters that is a label;
    * else every letter of the answer that is a label, strung together.

    Args:
        text: The answer after `normalise`.
        options: The options after `normalise`; they are normalised once more here, as official.

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
    found = _leftmost(text.replace(" ", ""), literals)
    if found is not None and not _REGEX_SPECIAL.intersection(found):
        found = found.strip()
        if found in literals:
            return labels[literals.index(found)].upper()
    if len(text) <= 2 and text.upper() in labels:
        return text.upper()
    return "".join(letter for letter in map(str.upper, text) if letter in labels)


def _leftmost(text: str, literals: Sequence[str]) -> str | None:
    """The literal that begins first in the text; the earlier one where two begin together."""
    best, winner = len(text) + 1, None
    for literal in literals:
        at = text.find(literal, 0, best + len(literal) - 1)  # only what begins before the best
        if at >= 0:
            best, winner = at, literal
            if at == 0:
                break
    return winner


# Needles and MMCoQA as the official scorer reads them.
#
# Source: ``Eval.evaluate_needle`` in ``evaluate.py`` of MileBench at 9583e1f.


def score_needle(gold: object, answer: object) -> Verdict:
    """1 if the normalised gold is one of the answer's white-space tokens, else 0.

    So ``**7984462**`` and ``number:7984462`` score 0, and a gold of two words can never match.

    >>> score_needle("7984462", "It is 7,984,462.").points
    1.0
    """
    return _score(gold, answer, whole_token=True)


def score_substring(gold: object, answer: object) -> Verdict:
    """1 if the normalised gold occurs anywhere in the answer, else 0.

    So ``no`` is found in ``know``, and an empty gold in everything.

    >>> score_substring("no", "I know").points
    1.0
    """
    return _score(gold, answer, whole_token=False)


def _score(gold: object, answer: object, *, whole_token: bool) -> Verdict:
    if not isinstance(gold, str):
        return Unscored("bad_gold", "the gold is not text")
    if not isinstance(answer, str):
        return Unscored("not_text", type(answer).__name__)
    said = normalise(answer)
    return Scored(float(normalise(gold) in (said.split() if whole_token else said)))


# ROUGE-L as the official scorer computes it, without its recursion and its table in a dict.
#
# Source: ``Eval.evaluate_rouge`` in ``evaluate.py`` of MileBench at 9583e1f, which calls
# ``rouge==1.0.1``: summary level, sets of unique words.

_EPSILON = 1e-8  # in the denominator of F, so that a perfect answer scores 0.999999995


def score_rouge(gold: object, answer: object) -> Verdict:
    """ROUGE-L F between 0 and 1.

    An answer that is empty after `normalise` scores 0. Where the official code raises (no text, an
    empty gold, nothing but periods), the sample is `Unscored`; where it raises only because it ran
    into the recursion limit (about 985 words), the score it would have given stands here.

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
    """ROUGE-L F of ``rouge==1.0.1`` for two non-empty texts.

    Sentences end at periods. The common words are the union, over all pairs of sentences, of the
    words in one longest common subsequence; precision and recall count *unique* words.

    >>> rouge_l("a b", "...")
    Unscored(reason='not_scorable', detail='the reference holds no words')
    """
    hypotheses, references = _sentences(hypothesis), _sentences(reference)
    if not hypotheses or not references:
        who = "reference" if hypotheses else "answer"
        return Unscored("not_scorable", f"the {who} holds no words")
    common: set[str] = set()
    for one in references:
        for other in hypotheses:
            common |= common_words(one, other)
    m, n = len(set().union(*references)), len(set().union(*hypotheses))
    return Scored(f_measure(len(common), m, n))


def f_measure(common: int, reference: int, hypothesis: int) -> float:
    """F1 as ``rouge==1.0.1`` computes it, from counts of unique words (the last two above 0)."""
    recall, precision = common / reference, common / hypothesis
    return 2.0 * ((precision * recall) / (precision + recall + _EPSILON))


def _sentences(text: str) -> list[list[str]]:
    """Words per sentence; a sentence of white space alone is one empty word, as in the package."""
    return [sentence.split() or [""] for sentence in text.split(".") if sentence]


def common_words(reference: Sequence[str], hypothesis: Sequence[str]) -> set[str]:
    """The words of *the* longest common subsequence that ``rouge==1.0.1`` reconstructs.

    Of several longest ones it takes the one its back-trace meets: from the end, a match goes
    diagonal; else left (an answer's word less), unless only up (a reference word less) keeps the
    length.

    One integer holds a row of the table, a cleared bit where the length grows from the column
    before (Hyyrö's bit-parallel recurrence), so a pair costs words x words / 64 machine steps.
    A word that the reference lacks is always skipped by going left: it is dropped beforehand.

    >>> sorted(common_words("a b c d".split(), "x a c b d".split()))
    ['a', 'c', 'd']
    """
    known = set(reference)
    columns = [word for word in hypothesis if word in known]
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
    matches = _matches(columns)
    full = (1 << len(columns)) - 1
    row, rows = full, []
    for word in reference:
        hit = row & matches.get(word, 0)
        row = ((row + hit) | (row - hit)) & full
        rows.append(row)
    return rows


def _matches(columns: Sequence[str]) -> dict[str, int]:
    """For each word, a bit for every column that holds it."""
    places: dict[str, bytearray] = {}
    for j, word in enumerate(columns):
        bits = places.setdefault(word, bytearray(len(columns) // 8 + 1))
        bits[j >> 3] |= 1 << (j & 7)
    return {word: int.from_bytes(bits, "little") for word, bits in places.items()}
