"""Which of the scores in a reply are its verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mmie_tasks.benchmarks.mia_bench.scoring.entries import Entry
from mmie_tasks.benchmarks.mia_bench.scoring.labels import TOTAL
from mmie_tasks.benchmarks.mia_bench.scoring.marks import Mark

_RESTATED = re.compile(
    r"\b(?:final|revis|correct(?:ion|ed|ing)|updat|adjust|amend|re-?evaluat|re-?assess"
    r"|on reflection|reconsider)\w{0,10}",
    re.IGNORECASE,
)
_NEAR = 60  # characters before a verdict that may say that it is the last word
_APART = 60  # characters between the components and a total that belongs to them


@dataclass(frozen=True, slots=True)
class Choice:
    """The verdict of a reply, not yet checked.

    Attributes:
        components: The mark of each; None where it has none.
        total: The stated one; None where there is none.
        attached: Whether the total stands beside the components.
        doubt: Why this is no verdict after all.
    """

    components: tuple[Mark | None, ...]
    total: Mark | None = None
    attached: bool = True
    doubt: str = ""


def share_of(components: Sequence[Mark | None], weights: Sequence[int]) -> float | None:
    """The weighted share of full marks (0 to 1); None unless every component has a possible mark.

    >>> share_of([Mark(6, 6), Mark(2, 4)], [6, 4])
    0.8
    """
    shares = [mark.share for mark in components if mark is not None and mark.possible]
    if len(shares) < len(weights):
        return None
    points = sum(share * weight for share, weight in zip(shares, weights, strict=True))
    return points / sum(weights)


def in_line(total: Mark, components: Sequence[Mark | None], weights: Sequence[int]) -> bool:
    """Whether a total is what its components make, within half a point of its own scale.

    >>> in_line(Mark(7, 10), [Mark(8, 10), Mark(5, 10)], [6, 4])  # 6.8 of 10
    True
    """
    share = share_of(components, weights)
    if share is None or not total.possible:
        return False
    return abs(total.share - share) <= 0.5 / total.out_of + 1e-9


def choose(text: str, entries: Sequence[Entry], weights: Sequence[int]) -> Choice:
    """The verdict among entries that one speaker made, in order."""
    found: dict[int, set[Mark | None]] = {number: set() for number in range(len(weights) + 1)}
    for entry in entries:
        found.setdefault(entry.number, set()).add(entry.mark)
    if all(len(values) <= 1 for values in found.values()):
        return _all_agree(text, entries, found, len(weights))
    groups = list(_groups(entries, len(weights)))
    if not groups:
        only = tuple(_only(found[number]) for number in range(1, len(weights) + 1))
        return Choice(only, doubt="one component is given two different scores")
    return _of_groups(text, entries, groups, weights)


def _only(values: set[Mark | None]) -> Mark | None:
    return next(iter(values)) if len(values) == 1 else None


def _all_agree(
    text: str, entries: Sequence[Entry], found: dict[int, set[Mark | None]], n: int
) -> Choice:
    components = tuple(_only(found[number]) for number in range(1, n + 1))
    beyond = sorted(number for number in found if not 0 <= number <= n)
    unreadable = any(None in values for values in found.values())
    doubt = "one of its scores cannot be read" if unreadable else ""
    if beyond:
        doubt = f"it scores a component that none of the {n} is"
    return Choice(components, _only(found[TOTAL]), _attached(text, entries), doubt)


def _attached(text: str, entries: Sequence[Entry]) -> bool:
    """Whether a total has a component beside it, with few words between."""
    for one, other in pairwise(entries):
        pair = {one.number == TOTAL, other.number == TOTAL}
        if len(pair) == 2 and len(text[one.end : other.start].strip()) <= _APART:
            return True
    return False


def _groups(entries: Sequence[Entry], n: int) -> Iterator[list[Entry]]:
    """Verdicts in full and in order, one after another: the total last, or first."""
    numbers = [entry.number for entry in entries]
    components = list(range(1, n + 1))
    at = 0
    while at < len(entries):
        here, next_ = numbers[at : at + n + 1], numbers[at + 1 : at + n + 2]
        last = here == [*components, TOTAL]
        first = here == [TOTAL, *components] and next_ != [*components, TOTAL]
        if last or first:
            yield list(entries[at : at + n + 1])
            at += n + 1
        else:
            at += 1


def _of_groups(
    text: str, entries: Sequence[Entry], groups: Sequence[list[Entry]], weights: Sequence[int]
) -> Choice:
    verdict = groups[-1]
    choice = _as_choice(verdict, len(weights))
    earlier = [group for group in groups if _as_choice(group, len(weights)) != choice]
    if earlier and not _restated(text, verdict[0]):
        return Choice(choice.components, choice.total, doubt="it holds two different verdicts")
    grouped = {entry.start for group in groups for entry in group}
    for entry in entries:
        if entry.start not in grouped and _contradicts(text, entry, choice, weights):
            return Choice(choice.components, choice.total, doubt="it takes part of a verdict back")
    return choice


def _as_choice(group: Sequence[Entry], n: int) -> Choice:
    marks = {entry.number: entry.mark for entry in group}
    components = tuple(marks[number] for number in range(1, n + 1))
    unreadable = None in marks.values()
    doubt = "one of its scores cannot be read" if unreadable else ""
    return Choice(components, marks[TOTAL], doubt=doubt)


def _restated(text: str, entry: Entry) -> bool:
    return _RESTATED.search(text, max(0, entry.start - _NEAR), entry.end) is not None


def _contradicts(text: str, entry: Entry, choice: Choice, weights: Sequence[int]) -> bool:
    """Whether an entry outside the verdict leaves it in doubt.

    A passing remark on a component does not: ``component 2: 4/4 would need no colour words``.
    Another total does, unless the verdict's own is the one that its components make.
    """
    if 1 <= entry.number <= len(weights):
        same = entry.mark == choice.components[entry.number - 1]
        return not same and _restated(text, entry)
    if entry.number != TOTAL:
        return True
    if entry.mark == choice.total:
        return False
    total = choice.total
    sound = total is not None and in_line(total, choice.components, weights)
    return not sound or _restated(text, entry)
