"""Words, as the robust reading sees them: every mark is judged where it stands."""

from __future__ import annotations

import re
import unicodedata

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERIOD = re.compile(r"(?<!\d)\.|\.(?!\d)")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")


def fold(text: str) -> str:
    """Compatible characters made equal, case and outer white space gone, inner squeezed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a text; letters and digits part, marks separate.

    A comma between thousands, an apostrophe inside a word and a period not between digits join
    their neighbours, each by itself and whatever stands elsewhere in the text.

    >>> words("**1,000** U.S. dollars, 3–1; image10 don't 1.5cm")
    ('1000', 'us', 'dollars', '3', '1', 'image', '10', 'dont', '1.5', 'cm')
    """
    folded = _THOUSANDS.sub("", fold(text))
    return tuple(_WORD.findall(_APOSTROPHE.sub("", _PERIOD.sub("", folded))))


def phrase(text: str) -> str:
    """The words between single spaces, one more at each end: a whole-word search is then ``in``.

    >>> phrase("no") in phrase("I know"), phrase("no") in phrase("No, never")
    (False, True)
    """
    return f" {' '.join(words(text))} "
