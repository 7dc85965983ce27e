"""Multiple choice as the official scorer reads it.

Source: ``Eval.match_choice``, ``judge_multi_choice`` and ``process_sample`` in ``evaluate.py`` of
MileBench at 9583e1f. The official code joins the options into one regular expression per answer;
the leftmost literal, the earlier option on a tie, is the same thing found with ``str.find``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.benchmarks.milebench.scoring.normalise import normalise
from mmie_tasks.verdict import Scored, Unscored, Verdict

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
