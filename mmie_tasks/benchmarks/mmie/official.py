"""The official reader of a judge's reply, quirk for quirk.

Source: ``find_score`` and the loop after it in ``main.py`` (Lillianwei-h/MMIE at eb0fd6e), lines
26-33 and 181-199.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

FULL_MARKS = 6

_HEADING = "### Score"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")  # in the digits of any script, as theirs
_SHOWN = 40  # characters of a number in a message


def read_official(reply: str) -> Verdict:
    r"""The points, a whole number from 0 to 6, as the official script reads them.

    Quirks kept, because every published number went through them:

    * The first number after the first ``### Score``, however far away and whatever it counts:
      ``### Score (0-6): 4`` is 0, ``### Score\n1) Clear. Final: 5`` is 1, and ``.5`` is 5.
    * No other spelling of the heading is one.
    * Halves go to the even side, then the range is checked: 4.5 is 4, 6.5 is 6, -0.4 is 0.

    What the script drops uncounted is `Unscored` here. A number too large for a float ends the
    script; here it is off the scale like any other.

    >>> read_official("### Feedback\nClear steps.\n### Score\n5")
    Scored(points=5, reading='5')
    >>> read_official("Score: 5").reason
    'unparsed'
    """
    heading = reply.find(_HEADING)
    if heading < 0:
        return Unscored("unparsed", f"there is no `{_HEADING}`")
    # No later heading can have a number after it where the first has none.
    found = _NUMBER.search(reply, heading + len(_HEADING))
    if found is None:
        return Unscored("unparsed", f"there is no number after `{_HEADING}`")
    return _on_scale(found[0])


def _on_scale(number: str) -> Verdict:
    try:
        points = round(float(number))
    except OverflowError:
        size = f"a number of {len(number)} characters, on which the official script ends"
        return Unscored("off_scale", size)
    if 0 <= points <= FULL_MARKS:
        return Scored(points, number)
    return Unscored("off_scale", f"{number[:_SHOWN]} is not in 0 to {FULL_MARKS}")


# From points to the percentages of the paper, rounded as they are there.
#
# Source: ``average`` in ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and its author in issue 10: the
# mean, out of 6, in percent. All 80 cells of the published table are a mean of 3 decimals.


def mean_points(points: Sequence[float]) -> float | None:
    """The mean, 0 to 6, rounded to 3 decimals; None where there are no points.

    Rounded as numpy does it, which the official script leaves it to: a thousand times the mean to
    the nearest whole, half to even. Python's own ``round`` looks at the exact decimals and differs.

    >>> mean_points([4, 3, 3]), mean_points([])
    (3.333, None)
    """
    if not points:
        return None
    return round(math.fsum(points) / len(points) * 1000) / 1000


def percent_of(mean: float) -> float:
    """A mean of 3 decimals, 0 to 6, in percent of full marks, to 2 decimals.

    No such mean lies half-way between two, so it does not matter how halves are rounded.

    >>> percent_of(3.928)
    65.47
    """
    return round(mean / FULL_MARKS * 100, 2)


def percent(points: Sequence[float]) -> float | None:
    """The mean in percent of full marks, to 2 decimals; None where there are no points.

    >>> percent([4, 3, 3])
    55.55
    """
    mean = mean_points(points)
    return None if mean is None else percent_of(mean)
