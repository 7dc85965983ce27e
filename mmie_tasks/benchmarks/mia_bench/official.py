"""The official reader of a verdict, bug for bug.

Source: ``process_rawscore`` in ``evaluation.ipynb`` of apple/ml-mia-bench at 5422852d (cell 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

TOTAL = "total_score"

_RAISED = (
    ValueError,  # no whole number where one is expected
    IndexError,  # no colon, no slash, or more components than the sample has
    ZeroDivisionError,
    OverflowError,  # numbers beyond what a float holds
    UnboundLocalError,  # no comma
    AttributeError,  # no text
)


def scores(categories: Sequence[str], reply: object) -> dict[str, float]:
    """Category, or `TOTAL`, to the fraction of full marks, as ``process_rawscore``.

    Quirks kept, because every published number went through them:

    * Only the text before the first period is read, split at commas.
    * Scores go by position; a label is never read. The last one is the total, whatever it says.
    * The character after the first colon is dropped, whatever it is: ``:10/10`` is 0/10.
    * Of a category that a sample has twice, only the last component is kept.
    * Nothing is clamped: a score may be negative or above 1.

    The notebook strips the reply first; that changes nothing here.

    Raises:
        ValueError, IndexError, ZeroDivisionError, OverflowError, UnboundLocalError, AttributeError:
            Whichever the notebook raises.

    >>> scores(["describe", "mention"], "a: 6/6, b: 2/4, c: 8/10. Why.")
    {'describe': 1.0, 'mention': 0.5, 'total_score': 0.8}
    """
    if not isinstance(reply, str):
        raise AttributeError(f"{type(reply).__name__} has no `split`")  # noqa: TRY004 - theirs
    *components, total = reply.split(".")[0].split(",")
    shares: dict[str, float] = {}
    for i, segment in enumerate(components):
        share = _share(segment)  # before the category: its errors come first
        shares[categories[i]] = share
    if not components:
        raise UnboundLocalError("no comma, so no component was read")
    shares[TOTAL] = _share(total)
    return shares


def _share(segment: str) -> float:
    numbers = segment.split(":")[1][1:].split("/")
    return int(numbers[0]) / int(numbers[1])


def read_official(categories: Sequence[str], reply: object) -> Verdict:
    """The official total, as a fraction of full marks that may lie outside 0 to 1.

    What makes the notebook raise, and so leave the sample out of every mean, is `Unscored`.

    >>> read_official(["describe", "mention"], "a: 1/1, b: 1/1, c: 0.5/1.")
    Unscored(reason='unparsed', detail='the official reader raises IndexError')
    """
    try:
        return Scored(scores(categories, reply)[TOTAL])
    except _RAISED as error:
        return Unscored("unparsed", f"the official reader raises {type(error).__name__}")
