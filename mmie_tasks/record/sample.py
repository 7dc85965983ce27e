"""One scored sample, as it is read from a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mmie_tasks.core.verdict import NO_PROBABILITIES, READER_KINDS, ScoreKind, Verdict, differ
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.record.text_facts import TextFacts

__all__ = ["ALL", "READER_KINDS", "LoggedSample", "Needle", "ScoreKind"]

ALL = "all"
"""The group that contains every sample; it is not listed in `LoggedSample.groups`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """What a question asks to retrieve from a haystack.

    Attributes:
        length: Of the haystack, such as its number of images; 0 or more.
        depth: Of the needle, if known: 0 is the haystack's beginning, 1 its end.
    """

    length: float
    depth: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSample:
    """One scored sample, read from a log.

    Attributes:
        id: Unique within the benchmark.
        official: Official verdict, on the benchmark's own scale.
        robust: Robust verdict, on the benchmark's own scale.
        expected: The mean of the points under the judge's probabilities, at the position of the
            official score.
        entropy_bits: Entropy of these probabilities in bits, 0 if the judge is certain; None
            without them.
        groups: Kind of group to the groups the sample belongs to: ``{"category": ("SA",)}``.
        parts: For each score, component name to its fraction of full marks (0 to 1); empty for
            benchmarks without components.
        question: The question as the model was asked.
        gold: The reference answer; empty if there is none.
        answer: The tested model's answer.
        judgements: Replies and verdicts of each judge, in order; empty if no judge was asked.
        signature: Everything that can move the score.
        pictures_not_drawn: Pictures that the answer asks for and that could not be drawn.
        text: What is unusual about the text of the answer.
        picture_signs: Signs that the answer's text has pictures that were not read.
        pictures_unplaced: Pictures of the answer that its text has no place for.
        answer_cut: A limit on images cut the answer that the judge was shown.
        needle: What the question asks to retrieve from a haystack; None for other questions.
        facts: Further facts to display, title to value.
    """

    id: str
    official: Verdict
    robust: Verdict
    groups: Mapping[str, tuple[str, ...]]
    expected: Verdict = NO_PROBABILITIES
    entropy_bits: float | None = None
    parts: Mapping[ScoreKind, Mapping[str, float]] = field(default_factory=dict)
    question: Segments = ()
    gold: Segments = ()
    answer: Segments = ()
    judgements: tuple[Judgement, ...] = ()
    signature: Signature = field(default_factory=Signature)
    pictures_not_drawn: int = 0
    text: TextFacts = field(default_factory=TextFacts)
    picture_signs: tuple[str, ...] = ()
    pictures_unplaced: int = 0
    answer_cut: bool = False
    needle: Needle | None = None
    facts: Mapping[str, str | float | bool] = field(default_factory=dict)

    @property
    def replies(self) -> tuple[JudgeReply, ...]:
        """The judges' replies in order, of several judges one after the other."""
        return tuple(r for judgement in self.judgements for r in judgement.result.replies)

    @property
    def members(self) -> tuple[Judgement, ...]:
        """The judgements of a panel's judges; empty with a single judge."""
        return () if self.signature.panel is None else self.judgements

    @property
    def differs(self) -> bool:
        """Whether official and robust points differ, or only one of them exists."""
        return differ(self.official, self.robust)

    def verdict(self, kind: ScoreKind) -> Verdict:
        """The official, robust or expected verdict, on the benchmark's own scale."""
        return {"official": self.official, "robust": self.robust, "expected": self.expected}[kind]

    def names(self, kind: str) -> tuple[str, ...]:
        """The groups of this kind that contain the sample."""
        return (ALL,) if kind == ALL else self.groups.get(kind, ())
