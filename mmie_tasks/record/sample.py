"""A scored sample, as read from a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mmie_tasks.core.verdict import SCORE_KINDS, ScoreKind, Verdict, differ
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.record.text_facts import TextFacts

__all__ = ["ALL", "SCORE_KINDS", "LoggedSample", "Needle", "ScoreKind"]

ALL = "all"
"""The group of all samples; not listed in `LoggedSample.groups`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """What a question asks to retrieve from a haystack.

    Attributes:
        length: The haystack's length, such as its number of images; 0 or more.
        depth: The needle's position from 0 (beginning) to 1 (end); None if unknown.
    """

    length: float
    depth: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSample:
    """A scored sample, read from a log.

    Attributes:
        id: Unique within the benchmark.
        official: Official verdict, on the benchmark's own scale.
        robust: Robust verdict, on the same scale.
        groups: Kind of group to the sample's groups: ``{"category": ("SA",)}``.
        shares: For each score, component to share of full marks, 0 to 1.
        question: The question as the tested model got it.
        gold: The reference answer; empty if there is none.
        answer: The tested model's answer.
        judgements: Replies and verdicts of each judge, in order; empty without judge requests.
        signature: Everything that can move the score.
        pictures_not_drawn: Number of pictures that the answer requests and that were not drawn.
        text: What is unusual about the text of the answer.
        looks_unread: Whether the answer's text looks like JSON or an image reference.
        unfilled_placeholders: Number of the answer's placeholders without an image.
        pictures_unplaced: Number of pictures that the answer's text has no place for.
        answer_cut: Whether a limit on images cut the answer for the judge.
        needle: The needle of a haystack question; None for other questions.
        properties: Title to further values, for display.
    """

    id: str
    official: Verdict
    robust: Verdict
    groups: Mapping[str, tuple[str, ...]]
    shares: Mapping[ScoreKind, Mapping[str, float]] = field(default_factory=dict)
    question: Segments = ()
    gold: Segments = ()
    answer: Segments = ()
    judgements: tuple[Judgement, ...] = ()
    signature: Signature = field(default_factory=Signature)
    pictures_not_drawn: int = 0
    text: TextFacts = field(default_factory=TextFacts)
    looks_unread: bool = False
    unfilled_placeholders: int = 0
    pictures_unplaced: int = 0
    answer_cut: bool = False
    needle: Needle | None = None
    properties: Mapping[str, str | float | bool] = field(default_factory=dict)

    @property
    def replies(self) -> tuple[JudgeReply, ...]:
        """All judges' replies, judge by judge."""
        return tuple(r for judgement in self.judgements for r in judgement.result.replies)

    @property
    def members(self) -> tuple[Judgement, ...]:
        """The judgements of a panel; empty for a single judge."""
        return self.judgements if self.signature.is_panel else ()

    @property
    def differs(self) -> bool:
        """Whether official and robust points differ, or only one verdict has points."""
        return differ(self.official, self.robust)

    def verdict(self, kind: ScoreKind) -> Verdict:
        """The verdict of this kind, on the benchmark's own scale."""
        return self.official if kind == "official" else self.robust

    def names(self, kind: str) -> tuple[str, ...]:
        """The sample's groups of this kind."""
        return (ALL,) if kind == ALL else self.groups.get(kind, ())
