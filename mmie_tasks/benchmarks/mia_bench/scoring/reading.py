"""What a careful reader takes from a judge's reply, or why nothing can be taken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.benchmarks.mia_bench.scoring import entries as pairing
from mmie_tasks.benchmarks.mia_bench.scoring import labels as naming
from mmie_tasks.benchmarks.mia_bench.scoring import marks as marking
from mmie_tasks.benchmarks.mia_bench.scoring.choosing import Choice, choose, in_line, share_of
from mmie_tasks.benchmarks.mia_bench.scoring.entries import Entry
from mmie_tasks.benchmarks.mia_bench.scoring.folding import fold
from mmie_tasks.benchmarks.mia_bench.scoring.labels import TOTAL
from mmie_tasks.benchmarks.mia_bench.scoring.marks import Mark, Place
from mmie_tasks.benchmarks.mia_bench.scoring.quotes import Passage, Quotes
from mmie_tasks.verdict import Unscored

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_UNNAMED = re.compile(
    r"(?:[\n.;,]\W{0,4}(?:score|grade|rating|marks?|verdict)\W{0,5}|=\s?)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reply as it stands: nothing clamped.

    Attributes:
        components: Points out of so many for each component; None where the reply gives none.
        total: The stated total; None where it states none as a fraction.
        recomputed: The total that the components make with their weights, as a fraction of full
            marks; None unless every component has a possible mark.
        agrees: Whether the stated total is that one, within half a point of its own scale; True
            where one of them is missing.
        doubt: Why it is no verdict; None where it is one.
    """

    components: tuple[Mark | None, ...]
    total: Mark | None = None
    recomputed: float | None = None
    agrees: bool = True
    doubt: Unscored | None = None


def read_reply(text: str, weights: Sequence[int]) -> Reading:
    """Read a reply on a sample whose components have these weights.

    Never a guess: what two careful people could read differently has a `Reading.doubt`.

    >>> reading = read_reply("**Component 2**: 1,5 out of 4; component one: 6/6", (6, 4))
    >>> reading.components, reading.total, round(reading.recomputed, 2)
    ((Mark(points=6, out_of=6), Mark(points=1.5, out_of=4)), None, 0.75)
    """
    folded = fold(_after_thought(text))
    for weak in (False, True):
        found = _entries(folded, weak=weak)
        if any(entry.number != TOTAL for entry in found):
            return _checked(_spoken(folded, found, weights), weights)
    return _checked(_by_position(folded, found, weights), weights)


def _after_thought(text: str) -> str:
    """Without what a reasoning model thinks before it speaks."""
    text = text.lstrip()
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def _entries(text: str, *, weak: bool) -> list[Entry]:
    labels = naming.find(text, weak=weak)
    places = marking.find(text, {label.end for label in labels})
    return pairing.find(text, labels, places)


def _spoken(text: str, found: Sequence[Entry], weights: Sequence[int]) -> Choice:
    """The judge's own verdict; one in quotes only where it has no other and nothing disowns it."""
    own = [entry for entry in found if entry.own]
    if any(entry.number != TOTAL for entry in own):
        return _with_unnamed_total(text, found, choose(text, own, weights))
    passages = [entry.passage for entry in found if entry.passage]
    if passages and Quotes(text).trusted(passages[0], passages[-1]):
        return choose(text, found, weights)
    return Choice((None,) * len(weights), doubt="no verdict of the judge's own")


def _with_unnamed_total(text: str, found: Sequence[Entry], choice: Choice) -> Choice:
    """``Score: 8/10`` after the components is their total, if it is what they make."""
    if choice.total is not None:
        return choice
    quotes = Quotes(text)
    last = max(entry.end for entry in found)
    marks = {
        place.mark
        for place in marking.find(text, ())
        if place.start >= last
        and _UNNAMED.search(text, max(0, place.start - 30), place.start)
        and quotes.around(place.start, place.end) is None
    }
    if not marks:
        return choice
    total = marks.pop()
    if marks or total is None:
        return replace(choice, doubt=choice.doubt or "a last score that may be another total")
    return replace(choice, total=total, attached=False)


def _by_position(text: str, found: Sequence[Entry], weights: Sequence[int]) -> Choice:
    """Marks without a name, as many as there are components, each out of its weight, in order.

    Without names the scale of each mark is what shows that it belongs to its component; a total
    that its components make shows it too.
    """
    nothing = Choice((None,) * len(weights), doubt="no component is given a score")
    n = len(weights)
    bare = _bare(text, found)
    totals = {entry.mark for entry in found if not entry.attributed}
    if n < 2 or not n <= len(bare) <= n + 1 or (len(totals) + len(bare) > n + 1):
        return nothing
    marks = [place.mark for place in bare]
    components, total = tuple(marks[:n]), next(iter([*totals, *marks[n:]]), None)
    if None in marks or None in totals or not _in_order(text, bare, n):
        return nothing
    if total is None and not _each_of_its_weight(components, weights):
        return nothing
    if total is not None and not in_line(total, components, weights):
        return nothing
    return Choice(components, total)


def _bare(text: str, found: Sequence[Entry]) -> list[Place]:
    """Marks that belong to no name; none where a name or a mark is in somebody else's words."""
    quotes = Quotes(text)
    places = marking.find(text, ())
    ends = [entry.end for entry in found]
    quoted = [
        passage
        for start, end in [(p.start, p.end) for p in places] + [(e.start, e.end) for e in found]
        if (passage := quotes.around(start, end)) and _holds_words(text, passage)
    ]
    quoted.sort(key=lambda passage: passage.start)
    if quoted and not quotes.trusted(quoted[0], quoted[-1]):
        return []
    if places and quotes.attributed(places[0].start):
        return []
    return [place for place in places if place.end not in ends]


def _holds_words(text: str, passage: Passage) -> bool:
    return re.search(r"[^\W\d_]{3}", text[passage.start : passage.end]) is not None


def _in_order(text: str, bare: Sequence[Place], n: int) -> bool:
    """Whether no number before a mark says that it belongs to another component."""
    begin = 0
    for position, place in enumerate(bare[:n], 1):
        said = {int(number) for number in _NUMBER.findall(text[begin : place.start][-200:])}
        if said & set(range(1, n + 1)) - {position}:
            return False
        begin = place.end
    return True


def _each_of_its_weight(components: Sequence[Mark | None], weights: Sequence[int]) -> bool:
    return all(
        mark is not None and mark.out_of == weight
        for mark, weight in zip(components, weights, strict=True)
    )


def _checked(choice: Choice, weights: Sequence[int]) -> Reading:
    recomputed = share_of(choice.components, weights)
    total = choice.total
    both = total is not None and recomputed is not None
    return Reading(
        components=choice.components,
        total=total,
        recomputed=recomputed,
        agrees=total is None or not both or in_line(total, choice.components, weights),
        doubt=next(_doubts(choice, weights), None),
    )


def _doubts(choice: Choice, weights: Sequence[int]) -> Iterator[Unscored]:
    """Why a choice is no verdict; what cannot be meant comes before what cannot be read."""
    marks = [mark for mark in (*choice.components, choice.total) if mark is not None]
    if any(not mark.possible for mark in marks):
        yield Unscored("off_scale", "a score is negative, above full marks, or out of none")
    given = sum(mark is not None for mark in choice.components)
    if choice.doubt.startswith("it scores a component"):
        yield Unscored("off_scale", choice.doubt)
    if choice.doubt:
        yield Unscored("unparsed", choice.doubt)
    if given < len(weights):
        yield Unscored("off_scale", f"{given} of {len(weights)} components have a score")
    if not _plausible(choice, weights):
        yield Unscored("unparsed", "its scales are not those of the components, nor its sums")
    if choice.total and not (choice.attached or in_line(choice.total, choice.components, weights)):
        yield Unscored("unparsed", "a total apart from the components, and not what they make")


def _plausible(choice: Choice, weights: Sequence[int]) -> bool:
    """Whether the scales show that each mark is read for what it is.

    They do where each is out of its weight, where all have one scale, where the total is what
    they make, and where points and scales add up to the total's. But points that add up to a total
    on the same scale as each of them may be parts of the whole: 6/10 and 4/10 make 10/10.
    """
    marks = [mark for mark in choice.components if mark is not None]
    total = choice.total
    if _each_of_its_weight(choice.components, weights):
        return True
    if total is not None and in_line(total, choice.components, weights):
        return True
    points, scales = sum(mark.points for mark in marks), [mark.out_of for mark in marks]
    if sorted(scales) == sorted(weights):  # the scales of other components
        return False
    if total is not None and total == (points, sum(scales)):
        return True
    parts = total is not None and {*scales} == {total.out_of} and points == total.points
    return len({*scales}) == 1 and not parts
