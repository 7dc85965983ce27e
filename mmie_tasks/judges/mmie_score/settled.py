"""When the score of a reply that is still being written can no longer change."""

from __future__ import annotations

import re

# As `find_score` in main.py of Lillianwei-h/MMIE at eb0fd6e: the first number after the first
# heading. `\d` is a digit of any script.
_SCORE = re.compile(r"### Score.*?-?\d+(?P<fraction>\.\d+)?", re.DOTALL)

_UNFINISHED = "\ufffd"  # how the first bytes of a character are decoded while the rest is missing


def score_settled(text: str) -> bool:
    r"""Whether the official ``find_score`` gives one and the same score whatever follows.

    It says no as long as the number touches the end of the text, or a point does that may become
    a decimal one, or the text ends inside a character, which may turn out to be a digit.

    Only the official reading is meant: another one may look at what follows the first number.

    >>> [score_settled(f"### Score: {more}") for more in ("4", "4.", "4.5", "4. ", "4/6")]
    [False, False, False, True, True]
    """
    found = _SCORE.search(text)
    if found is None or text.endswith(_UNFINISHED):
        return False
    rest = text[found.end() :]
    return rest != "" and (rest != "." or found["fraction"] is not None)
