"""The robust reading: what the official scorer evidently meant, without its slips.

Beside the official verdict, never instead of it. The README of this room lists each difference.
Multiple choice is in ``robust_choice.py``.
"""

from __future__ import annotations

import re

from mmie_tasks.benchmarks.milebench.scoring.rouge import common_words, f_measure
from mmie_tasks.benchmarks.milebench.scoring.words import fold, phrase, words
from mmie_tasks.verdict import Scored, Unscored, Verdict


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
