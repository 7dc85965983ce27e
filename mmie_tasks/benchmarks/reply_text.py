"""How robust readers prepare a judge's reply, and the words that they know, for any benchmark."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
)
"""The words for 0 to 10, in order."""

NUMBER_WORD = rf"(?:{'|'.join(NUMBER_WORDS)})"
"""Pattern of one of them."""

FINAL = r"(?:final|overall|revised|corrected|updated|adjusted|amended)"
"""Pattern of the words that make a second verdict the last one."""

QUOTATION = r"“[^“”„]*”|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|‹[^‹›]*›|「[^「」]*」|『[^『』]*』"
"""Pattern of a passage between quotation marks that differ at both ends."""

_WHOLE_FENCE = re.compile(r"(?s)\s*(```|~~~)\w*\n((?:(?!\1).)*)\1\s*")
_INVISIBLE = ("Cf", "Me", "Mn")  # Unicode's categories of formats and of marks on other characters


def without_fence(text: str) -> str:
    """The text without a fence around all of it."""
    whole = _WHOLE_FENCE.fullmatch(text)
    return whole[2] if whole else text


def without_invisible(text: str) -> str:
    """The text without invisible characters and accents of their own."""
    if text.isascii():
        return text
    return "".join(char for char in text if unicodedata.category(char) not in _INVISIBLE)
