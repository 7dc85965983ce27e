"""The official reader of a judge's reply, quirk for quirk.

Source: ``find_score`` and the loop after it in ``main.py`` (Lillianwei-h/MMIE at eb0fd6e), lines
26-33 and 181-199.
"""

from __future__ import annotations

import re

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

FULL_MARKS = 6

_HEADING = "### Score"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")  # digits of any script, as in theirs
_SHOWN = 40  # characters of a number in a message


def read_official(reply: str) -> Verdict:
    r"""The points, a whole number from 0 to 6, as the official script reads them.

    Quirks kept, because every published number went through them:

    * The first number after the first ``### Score`` counts, however far away and whatever it means:
      ``### Score (0-6): 4`` is 0, ``### Score\n1) Clear. Final: 5`` is 1, and ``.5`` is 5.
    * No other spelling of the heading counts.
    * Halves go to the even side, then the range is checked: 4.5 is 4, 6.5 is 6, -0.4 is 0.

    Replies that the script drops uncounted are `Unscored` here. The script fails on a number too
    large for a float; here the number is off the scale.

    >>> read_official("### Feedback\nClear steps.\n### Score\n5")
    Scored(points=5, reading='5')
    >>> read_official("Score: 5").reason
    'unparsed'
    """
    heading = reply.find(_HEADING)
    # Without a number after the first heading there is none after a later one.
    number = _NUMBER.search(reply, heading + len(_HEADING)) if heading >= 0 else None
    if number is None:
        return Unscored(
            "unparsed", f"there is no {'number after ' if _HEADING in reply else ''}`{_HEADING}`"
        )
    return _on_scale(number[0])


def _on_scale(number: str) -> Verdict:
    try:
        points = round(float(number))
    except OverflowError:
        return Unscored(
            "off_scale", f"a number of {len(number)} characters, on which the official script ends"
        )
    if 0 <= points <= FULL_MARKS:
        return Scored(points, number)
    return Unscored("off_scale", f"{number[:_SHOWN]} is not in 0 to {FULL_MARKS}")


def rounded_mean(mean: float) -> float:
    """A mean of points, 0 to 6, rounded to 3 decimals.

    Source: ``average`` in ``main.py``, which rounds with numpy: a thousand times the mean to the
    nearest whole, half to even. Python's ``round`` uses the exact decimals and differs.

    >>> rounded_mean(10 / 3)
    3.333
    """
    return round(mean * 1000) / 1000


def percent_of(mean: float) -> float:
    """A mean of points, 0 to 6, in percent of full marks.

    The mean is rounded first (`rounded_mean`), then its percentage to 2 decimals, as in the paper's
    table. No mean of 3 decimals is half-way between two percentages, so the rounding of halves does
    not matter.

    Source: the author in issue 10 of the official repository; all 80 published cells have this
    form.

    >>> percent_of(3.928), percent_of(10 / 3)
    (65.47, 55.55)
    """
    return round(rounded_mean(mean) / FULL_MARKS * 100, 2)
