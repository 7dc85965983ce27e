"""Strangers' texts and numbers, made fit for JSON in UTF-8."""

from __future__ import annotations

import math
import re
from typing import TypeAlias

Json: TypeAlias = dict[str, object]
"""An object of the payload."""

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NEW_LINE = re.compile("\r\n?")
_DIGITS = 6  # of a number in the payload: far more than is shown, far less than a float has


def plain(text: str) -> str:
    r"""A text without what JSON in UTF-8 or a page cannot hold.

    Control characters become their pictures, half of a surrogate pair the replacement character.

    >>> plain("a\x00b\r\nc\ud83d")
    'a␀b\nc�'
    """
    if _UNFIT.search(text) is None:
        return text
    return _UNFIT.sub(_picture, _NEW_LINE.sub("\n", text))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def cut(text: str, most: int) -> str:
    """A text, as `plain` gives it, of at most `most` characters, and how many more there are.

    >>> cut("abcdef", 4)
    'abcd … (2 more characters in the log)'
    """
    if len(text) <= most:
        return plain(text)
    return f"{plain(text[:most])} … ({counted(len(text) - most, 'more character')} in the log)"


def counted(count: int, what: str) -> str:
    """So many of something.

    >>> counted(1, "run"), counted(20_000, "sample")
    ('1 run', '20,000 samples')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def finite(value: float | None) -> float | None:
    """A number, rounded to what can matter; None where it is none that JSON knows.

    >>> finite(1 / 3), finite(float("nan"))
    (0.333333, None)
    """
    return round(value, _DIGITS) if value is not None and math.isfinite(value) else None
