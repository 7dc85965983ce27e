"""What a room says of a logged sample, to those who look at results after a run.

A room has a module ``review`` with an object ``REVIEW``, a `Reviewer`. Report, agreement, compare,
subset and rescore know no benchmark beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from mmie_tasks.core.verdict import Scored, Unscored, Verdict, differ
from mmie_tasks.judges.base import JudgeReply

Line: TypeAlias = Mapping[str, object]
"""One line of a sample log, as lmms-eval wrote it."""

ReadingName: TypeAlias = Literal["official", "robust"]
READINGS: tuple[ReadingName, ...] = ("official", "robust")

ALL = "all"
"""The group that every sample is in: ``groups["all"] == ("all",)`` without being written there."""


class BadRecord(ValueError):
    """A line that is no scored sample of this benchmark; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a question or an answer: a text, then an image, either of which may be absent.

    Attributes:
        text: Empty where there is none. Of a question or an answer it is a stranger's words.
        image: The file as the run logged it; it may be gone by now. None where there is none.
        problem: Why the image could not be used. `image` is then whatever was written in its
            place, never the name of a file to open.
    """

    text: str = ""
    image: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A logged sample.

    Attributes:
        id: Unique in its benchmark.
        official: On the benchmark's own scale.
        robust: On the benchmark's own scale.
        groups: Kind of group to those the sample is in: ``{"category": ("SA",)}``.
        parts: Of each reading, component to its fraction of full marks; empty where a benchmark
            has no components.
        question: As it was asked.
        gold: Empty where there is none.
        answer: What the tested model said.
        replies: The judge's, the last one last; empty where none was had.
        signature: Everything that moves the number.
        facts: What else is worth showing, name to value.
    """

    id: str
    official: Verdict
    robust: Verdict
    groups: Mapping[str, tuple[str, ...]]
    parts: Mapping[ReadingName, Mapping[str, float]] = field(default_factory=dict)
    question: tuple[Segment, ...] = ()
    gold: tuple[Segment, ...] = ()
    answer: tuple[Segment, ...] = ()
    replies: tuple[JudgeReply, ...] = ()
    signature: str = ""
    facts: Mapping[str, str | float | bool] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether the readings give different points, or only one gives any."""
        return differ(self.official, self.robust)

    def verdict(self, reading: ReadingName) -> Verdict:
        """The verdict of a reading, on the benchmark's own scale."""
        return self.official if reading == "official" else self.robust

    def names(self, kind: str) -> tuple[str, ...]:
        """The groups of a kind that the sample is in."""
        return (ALL,) if kind == ALL else self.groups.get(kind, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The benchmark's own scale: 0 to `full_marks`.

    Attributes:
        full_marks: 6, 1 or 100.
        unit: In words: ``points, 0 to 6``.
        whole: Points are whole numbers, so that they can be counted one by one.
        percent: A mean of points in percent of full marks, rounded as the benchmark's own table.
        tabled: What the runner's table has for full marks: 100, or 1 where it has fractions.
    """

    full_marks: float
    unit: str
    whole: bool = False
    percent: Callable[[float], float]
    tabled: float = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A mean that a benchmark reports: of samples, or a weighted mean of the means of groups.

    Attributes:
        name: What stands behind ``official_`` and ``robust_`` in the runner's table; empty for the
            headline of a benchmark that has one without a suffix.
        title: For people: ``Situational analysis``.
        kind: What it is one of, and is shown with: ``headline``, ``category``, ``field``, ...
        by: The kind of group whose means are averaged.
        weights: Group to its weight; they add up to 1. Without every one there is no number.
        part: Whose fraction of full marks is averaged, instead of the whole sample's points.
    """

    name: str
    title: str
    kind: str
    by: str = ALL
    weights: Mapping[str, float] = field(default_factory=lambda: {ALL: 1.0})
    part: str = ""

    def stratum(self, sample: Reviewed) -> str | None:
        """The group of `weights` that a sample counts for; None where it counts for none."""
        return next((name for name in sample.names(self.by) if name in self.weights), None)

    def verdict(self, sample: Reviewed, reading: ReadingName, scale: Scale) -> Verdict:
        """What a sample adds, on the benchmark's own scale; of a component, its share of it."""
        whole = sample.verdict(reading)
        if not self.part or isinstance(whole, Unscored):
            return whole
        share = sample.parts.get(reading, {}).get(self.part)
        if share is None:
            return Unscored("unparsed", "no mark for this component")
        return Scored(share * scale.full_marks)


class Reviewer(Protocol):
    """What a room knows of its own logs."""

    @property
    def title(self) -> str:
        """The benchmark's name for people."""
        ...

    @property
    def scale(self) -> Scale:
        """Of its verdicts."""
        ...

    @property
    def numbers(self) -> Sequence[Number]:
        """What can be averaged, the headline first. Those of groups a run lacks are left out."""
        ...

    def read(self, line: Line) -> Reviewed:
        """A line of the log, also of an older version that logged less.

        Raises:
            BadRecord: It is none of this benchmark, or not scored.
        """
        ...

    def reread(self, line: Line) -> Mapping[str, Verdict] | None:
        """Both readings of the saved replies (or, scored by rule, of the saved answer) as of now.

        Verdicts that never had a reply to read, because the judge failed or was not asked, come
        back as they are. None where the line does not hold what is needed.

        Raises:
            BadRecord: It is none of this benchmark, or not scored.
        """
        ...
