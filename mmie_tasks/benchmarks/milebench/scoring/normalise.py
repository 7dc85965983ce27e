"""The text normaliser of the official scorer, bug for bug.

Source: ``Eval.process`` and ``Eval.processPunctuation`` in ``evaluate.py`` of MileBench at 9583e1f.
"""

from __future__ import annotations

import re

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
