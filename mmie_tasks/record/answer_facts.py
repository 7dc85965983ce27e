"""Counts about an answer with pictures, logged with its sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mmie_tasks.core.wording import counted, listed
from mmie_tasks.record.text_facts import TextFacts

_COUNTS = {
    "unread": "texts and images not read",
    "not_drawn": "pictures not drawn",
    "unused": "not used of the writer's answer",
}
UNPLACED = "pictures without a place"
"""Pictures that follow the text because it does not say where they go."""
LOOKS_UNREAD = "looks like JSON or an image reference"
"""A text that may hold images or words in a form that is not read."""

_UNFILLED = "placeholders without an image"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts(TextFacts):
    """Counts about an answer of any benchmark.

    Attributes:
        shape: How the answer was written.
        unread: Texts and pictures of the answer that were not read, by key or type.
        unfilled_placeholders: Placeholders of the answer without an image.
        unplaced: Pictures that the text has no place for: they follow it.
        looks_unread: Whether a text looks like JSON or like the reference of an image.
        drawn: Pictures that a drawer drew; None for answers of runs without one.
        not_drawn: Pictures that could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use, by name.
    """

    shape: str = ""
    unread: Mapping[str, int] = field(default_factory=dict)
    unfilled_placeholders: int = 0
    unplaced: int = 0
    looks_unread: bool = False
    drawn: int | None = None
    not_drawn: Mapping[str, int] = field(default_factory=dict)
    unused: Mapping[str, int] = field(default_factory=dict)

    @property
    def of_text(self) -> TextFacts:
        """The facts about the text alone."""
        return TextFacts(thinking=self.thinking, tag=self.tag, short_text=self.short_text)


def properties_of(
    facts: AnswerFacts, titles: Mapping[str, str], counts: Mapping[str, str]
) -> dict[str, str | float | bool]:
    """Title to value, without zeros, empty texts and unset flags.

    `titles` and `counts` have a benchmark's own titles by name of field: `titles` of texts, numbers
    and flags, `counts` of counts by reason.
    """
    values = {
        **titles,
        "unfilled_placeholders": _UNFILLED,
        "unplaced": UNPLACED,
        "looks_unread": LOOKS_UNREAD,
    }
    shown = {title: getattr(facts, name) for name, title in values.items() if getattr(facts, name)}
    for name, title in {**counts, **_COUNTS}.items():
        reasons = {reason: count for reason, count in getattr(facts, name).items() if count > 0}
        shown |= {title: listed(reasons)} if reasons else {}
    return shown


def total_of(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The counts added by name, without zeros."""
    return sum(map(Counter, counts), Counter[str]())


def answer_notes(facts: Sequence[AnswerFacts]) -> Iterator[str]:
    """Log lines about the answers of a run, without counts of zero."""
    drawn = [sample.drawn for sample in facts if sample.drawn is not None]
    not_drawn = total_of(sample.not_drawn for sample in facts)
    if drawn:
        lacking = sum(bool(sample.not_drawn) for sample in facts)
        failed = (
            f"; not drawn: {listed(not_drawn)}; answers without a picture they ask for: {lacking:,}"
        )
        yield f"pictures drawn: {sum(drawn):,}{failed if not_drawn else ''}"
    counts = {
        "of the writer not used": (sample.unused for sample in facts),
        "texts and images of answers that were not read": (sample.unread for sample in facts),
    }
    for title, of_samples in counts.items():
        if total := total_of(of_samples):
            yield f"{title}: {listed(total)}"
    if unread := sum(sample.looks_unread for sample in facts):
        yield f"{LOOKS_UNREAD}: {counted(unread, 'answer')}"
    if unfilled := sum(sample.unfilled_placeholders for sample in facts):
        yield f"{_UNFILLED}: {unfilled:,}"
    if unplaced := sum(bool(sample.unplaced) for sample in facts):
        yield f"{UNPLACED}: {counted(unplaced, 'answer')}"
