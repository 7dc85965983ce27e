"""The verdict on one answer: points, or the reason why there are none. No score is not zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

UnscoredReason: TypeAlias = Literal[
    # the answer: `benchmarks.text_answer`, `benchmarks.model_answers`; images also `request` of
    # the benchmark and `Benchmark.process_results`
    "no_answer",  # the tested model gave no answer: missing, or its API failed; `MiaBench.answer`
    "not_text",  # the answer is null, a number or a list
    "not_drawn",  # a picture was withheld for a reason outside the models: see `answers.drawn`
    "bad_image",  # an image for the tested model or the judge cannot be used
    # the sample: `request` of MMIE, `official` and `robust` of MileBench and OpenING
    "bad_gold",  # the sample cannot be scored: gold missing, empty, or not among its options
    "not_scorable",  # the official scorer raises an error for this pair of texts
    "left_out",  # the official script leaves the sample out
    # the judge's errors: `judges.batch`; official prompts that are missing: `request` of MMIE
    "unavailable",  # no reply from the judge: down, overloaded, or no longer configured correctly
    "unfit",  # the judge cannot take the request: too long, or it contains the judge's own marks
    "refused",  # the judge declined to judge, or a content filter withheld its reply
    "budget",  # the judge was not called: the spending limit was reached
    # the judge's reply: `record.reply`, `official` and `robust` of the benchmark
    "empty_reply",  # the judge's reply has no text
    "cut_off",  # the judge's reply reached its token limit
    "unparsed",  # the judge's reply contains no readable verdict
    "off_scale",  # the verdict in the reply is impossible: more than full marks, or negative
]


@dataclass(frozen=True, slots=True)
class Scored:
    """Points on the benchmark's own scale, and the part of the text they were read from."""

    points: float
    reading: str = ""


@dataclass(frozen=True, slots=True)
class Unscored:
    """No points, and why. Never counted as zero."""

    reason: UnscoredReason
    detail: str = ""


Verdict: TypeAlias = Scored | Unscored

ScoreKind: TypeAlias = Literal["official", "robust"]
"""Which of the `Verdicts` on one answer a score is computed from."""

SCORE_KINDS: tuple[ScoreKind, ...] = get_args(ScoreKind)

_SAME = 1e-9  # points closer than this are equal: fractions computed in two ways


def differ(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts on one sample have different points, or only one has points.

    >>> differ(Scored(0.1 + 0.2), Scored(0.3)), differ(Scored(0), Unscored("unparsed"))
    (False, True)
    """
    match one, other:
        case Scored(points=points), Scored(points=other_points):
            return abs(points - other_points) > _SAME
        case Unscored(), Unscored():
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The verdicts on one answer, on the benchmark's own scale.

    Attributes:
        official: What the official script reads in the reply or answer.
        robust: What the reply or answer evidently means.
        shares: For each score, component to its share of full marks, 0 to 1; empty for benchmarks
            without components.
    """

    official: Verdict
    robust: Verdict
    shares: Mapping[ScoreKind, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def unscored(cls, reason: UnscoredReason, detail: str) -> Verdicts:
        """No score of any kind, for a reason that does not depend on a reader."""
        verdict = Unscored(reason, detail)
        return cls(official=verdict, robust=verdict)

    def verdict(self, kind: ScoreKind) -> Verdict:
        """The verdict of this kind."""
        return self.official if kind == "official" else self.robust

    @property
    def differ(self) -> bool:
        """Whether official and robust points differ, or only one of them exists."""
        return differ(self.official, self.robust)
