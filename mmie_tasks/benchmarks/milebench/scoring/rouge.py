"""ROUGE-L as the official scorer computes it, without its recursion and its table in a dict.

Source: ``Eval.evaluate_rouge`` in ``evaluate.py`` of MileBench at 9583e1f, which calls
``rouge==1.0.1``: summary level, sets of unique words.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.benchmarks.milebench.scoring.normalise import normalise
from mmie_tasks.verdict import Scored, Unscored, Verdict

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
