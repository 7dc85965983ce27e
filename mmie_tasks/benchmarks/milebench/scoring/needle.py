"""Needles and MMCoQA as the official scorer reads them.

Source: ``Eval.evaluate_needle`` in ``evaluate.py`` of MileBench at 9583e1f.
"""

from __future__ import annotations

from mmie_tasks.benchmarks.milebench.scoring.normalise import normalise
from mmie_tasks.verdict import Scored, Unscored, Verdict


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
