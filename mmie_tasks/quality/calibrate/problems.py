"""Problems of labels: why they are not used, and why there is no corrected score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.core.tables import short_name
from mmie_tasks.core.wording import counted

ProblemName: TypeAlias = Literal[
    "hand_picked",  # labels without a seed or without the answer's digest: not from a plan
    "several_seeds",  # labels of two plans
    "gaps",  # samples that come earlier in the plan than labelled ones have no label
    "too_few",  # no interval from so few labels
    "no_score",  # the run's score has no value that could be corrected
    "unknown_ids",  # labels of samples that are not in the run
    "other_answers",  # labels of answers that are not the run's
    "left_out",  # labels of samples that the official script leaves out
    "unscored",  # labels of samples without points of the judge
]
_SHOWN_IDS = 3
_SINGULAR = {"are": "is", "have": "has"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Labels that cannot be used, or why there is no corrected score.

    Attributes:
        name: What kind of problem.
        text: A sentence, with up to three ids.
        count: Of labels or samples; `ids` has all of them.
        hint: What to do about it; empty if nothing is to be done.
    """

    name: ProblemName
    text: str
    count: int
    ids: tuple[str, ...] = ()
    hint: str = ""


def problem_with_ids(
    name: ProblemName,
    noun: str,
    verb: Literal["are", "have"],
    what: str,
    ids: Sequence[str],
    hint: str = "",
) -> Problem:
    """A problem whose text has the first ids.

    >>> problem_with_ids("gaps", "sample", "have", "no label", ["SA-1"]).text
    '1 sample has no label: SA-1'
    """
    form = _SINGULAR[verb] if len(ids) == 1 else verb
    distinct = tuple(dict.fromkeys(ids))
    more = ["..."] if len(distinct) > _SHOWN_IDS else []
    shown = ", ".join([*map(short_name, distinct[:_SHOWN_IDS]), *more])
    text = f"{counted(len(ids), noun)} {form} {what}: {shown}"
    return Problem(name=name, text=text, count=len(ids), ids=distinct, hint=hint)
