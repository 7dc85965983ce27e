"""The robust reader: the marks that a judge evidently gave. In doubt `unparsed`: never a guess.

1. **Own words**: only what is the judge's own is read (`own_words`).
2. **Mark**: a label and points out of the component's weight: ``component 1: 6/6`` (`marks`).
3. **Verdict**: a mark for every component and at most one total, their sum. Where marks may be and
   what may announce them is in `entries`, what may follow one in `doubts`.
4. **Before it** only an announcement, or finished sentences that give it to nobody (`doubts`).
5. **Doubt** in a sentence after the first mark, and the reply is `unparsed` (`doubts`). So is a
   second verdict that differs, unless it alone, and as a whole, is announced as final, overall,
   revised, corrected, updated, adjusted or amended.
6. **Impossible**: marks below 0 or above their maximum, or components that are missing or do not
   exist: `off_scale`, and the judge is asked once more.

Of several, the first in this order counts:

a. `unparsed`: too long, or a quotation, fence or tag with only one end (1).
b. `off_scale`: a mark that is impossible, or of a component that does not exist (6).
c. `unparsed`: two verdicts (5), another maximum (2), or words around a mark that may change it (3)
   or give it to somebody else (4).
d. `unparsed`: no mark of a component at all, or only a part of a verdict called final (5).
e. `off_scale`: components without a mark (6).
f. `unparsed`: a total that is not the sum (3).
g. `unparsed`: a sentence of doubt (5).

So an impossible mark wins over every doubt but the first, and a missing one only over the last two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.benchmarks.mia_bench.doubts import (
    explanation,
    leads_on,
    may_change_mark,
    may_precede,
    may_take_back,
    names_other_points,
)
from mmie_tasks.benchmarks.mia_bench.entries import MarkEntry, ReplyEntries, reply_entries
from mmie_tasks.benchmarks.mia_bench.marks import Mark, total_maxima
from mmie_tasks.benchmarks.mia_bench.own_words import own_words, plain_text
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.benchmarks.reply_text import LONGEST
from mmie_tasks.core.verdict import Scored, Unscored, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The marks of a reply as they are written, nothing clamped; None where it gives none.

    Attributes:
        weights: The full marks of each component.
        components: The mark of each component.
        total: The stated total.
        doubt: Why the reply is no verdict; None where it is one.
    """

    weights: tuple[int, ...]
    components: tuple[Mark | None, ...]
    total: Mark | None = None
    doubt: Unscored | None = None

    @property
    def recomputed(self) -> float | None:
        """Total of the components with their weights, as a fraction of full marks.

        None unless every component has a possible mark.
        """
        shares = [mark.share for mark in self.components if mark is not None and mark.possible]
        if len(shares) < len(self.weights):
            return None
        points = sum(share * weight for share, weight in zip(shares, self.weights, strict=True))
        return points / sum(self.weights)

    @property
    def agrees(self) -> bool:
        """Whether the total is the sum of the components, if both exist.

        Out of 10 it may be the sum, or the same share of 10, to half a point.
        """
        if self.total is None or self.recomputed is None:
            return True
        points = self.recomputed * sum(self.weights)
        if abs(self.total.points - points) < 1e-6:
            return True
        is_rescaled = self.total.out_of != sum(self.weights) and self.total.possible
        return is_rescaled and abs(self.total.share - self.recomputed) <= 0.5 / self.total.out_of


def read_robust(sample: Sample, reply: object) -> Verdict:
    """The total of the components as a fraction of full marks, 0 to 1."""
    if not isinstance(reply, str):
        return Unscored("unparsed", f"the reply is {type(reply).__name__}, not text")
    parsed = read_reply(reply, sample.weights)
    return parsed.doubt or Scored(parsed.recomputed or 0.0)


def is_impossible(sample: Sample, reply: str) -> bool:
    """Whether the marks of a reply cannot be meant, so that the judge is asked once more."""
    verdict = read_robust(sample, reply)
    return isinstance(verdict, Unscored) and verdict.reason == "off_scale"


def read_reply(text: str, weights: Sequence[int]) -> ParsedReply:
    """Read a reply on a sample whose components have these weights, by the rules of this module.

    >>> parsed = read_reply("**Component 2**: 1,5 out of 4; component one: 6/6", (6, 4))
    >>> parsed.components, parsed.total, round(parsed.recomputed, 2)
    ((Mark(points=6.0, out_of=6.0), Mark(points=1.5, out_of=4.0)), None, 0.75)
    >>> read_reply("The response says: component 1: 6/6, component 2: 4/4", (6, 4)).doubt.reason
    'unparsed'
    """
    nothing = ParsedReply(weights=tuple(weights), components=(None,) * len(weights))
    if len(text) <= LONGEST:
        text = plain_text(text)
    if len(text) > LONGEST:
        detail = f"the reply has {len(text):,} characters"
        return replace(nothing, doubt=Unscored("unparsed", detail))
    own = own_words(text)
    if own is None:
        detail = "a quotation, fence or tag in it has only one end"
        return replace(nothing, doubt=Unscored("unparsed", detail))
    reply = reply_entries(own)
    verdict = _last_verdict(reply.entries)
    marks = {entry.number: entry.mark for entry in verdict}
    parsed = replace(
        nothing,
        components=tuple(marks.get(number) for number in range(1, len(weights) + 1)),
        total=marks.get(0),
    )
    return replace(parsed, doubt=next(_doubts(parsed, marks, verdict, reply), None))


def _last_verdict(entries: Sequence[MarkEntry]) -> Sequence[MarkEntry]:
    """All entries; those of a second verdict if the judge's own words announce it as final."""
    start = _second_start(entries)
    is_own = start is not None and all(map(may_precede, entries[start].before))
    return entries[start:] if is_own else entries


def _second_start(entries: Sequence[MarkEntry]) -> int | None:
    """Index of the first entry called final, if one of the same component is before it."""
    numbers: set[int] = set()
    for index, entry in enumerate(entries):
        if entry.is_final:
            return index if entry.number in numbers else None
        numbers.add(entry.number)
    return None


def _doubts(
    parsed: ParsedReply,
    marks: Mapping[int, Mark],
    verdict: Sequence[MarkEntry],
    reply: ReplyEntries,
) -> Iterator[Unscored]:
    """Why a reply is no verdict, from b to g in the order above; the first reason counts.

    The ``verdict`` is the part of the reply's entries that counts, ``marks`` its marks by number.
    """
    # Of several marks, the last one is named.
    for entry in reversed(verdict):
        if not 0 <= entry.number <= len(parsed.weights):
            detail = f"a component beyond the {len(parsed.weights)} there are"
            yield Unscored("off_scale", detail)
        elif not entry.mark.possible:
            yield Unscored("off_scale", "a mark below 0 or above its maximum")
    for detail in reversed(list(_doubts_of_marks(verdict, parsed.weights))):
        yield Unscored("unparsed", detail)
    missing = parsed.components.count(None)
    if missing == len(parsed.components):
        yield Unscored("unparsed", "no component has a mark of the judge's own")
    if missing and any(entry.is_final for entry in verdict):
        yield Unscored("unparsed", "only a part of the last verdict")
    if missing:
        yield Unscored("off_scale", f"{missing} of the components have no mark")
    if not parsed.agrees:
        yield Unscored("unparsed", "the total is not the sum of the components")
    before = reply.entries[0].before
    after = [
        *(text for entry in verdict if (text := explanation(entry.remark)) is not None),
        *(sentence for entry in verdict[1:] for sentence in entry.before),
        *reply.after,
    ]
    if any(may_take_back(sentence) for sentence in after) or any(
        names_other_points(sentence, marks, parsed.weights) for sentence in (*before, *after)
    ):
        detail = "a sentence may take the verdict back, or names other points"
        yield Unscored("unparsed", detail)


def _doubts_of_marks(verdict: Sequence[MarkEntry], weights: Sequence[int]) -> Iterator[str]:
    """Doubts about marks of components that exist, and about the words around them."""
    beginnings = (0, _second_start(verdict))
    marks: dict[int, Mark] = {}
    for index, entry in enumerate(verdict):
        differs = marks.get(entry.number, entry.mark) != entry.mark
        marks[entry.number] = entry.mark
        is_beginning = index in beginnings
        if differs or (is_beginning and not all(map(may_precede, entry.before))):
            yield "two verdicts, or one that may be somebody else's"
        elif not is_beginning and entry.before and leads_on(entry.before[-1]):
            yield "a line before a mark may give it to somebody else"
        maxima = (weights[entry.number - 1],) if entry.number else total_maxima(weights)
        if entry.mark.out_of not in maxima:
            yield "a mark out of another maximum"
        if may_change_mark(entry.remark):
            yield "words after a mark that may change it"
