"""The judgement of a sample: each judge's replies and verdicts, and a panel's combined verdicts."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.core.verdict import SCORE_KINDS, Scored, ScoreKind, Unscored, Verdict, Verdicts
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.signature import SharedSignature


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge's replies and verdicts for an answer.

    Attributes:
        judge: The judge's signature.
        result: The replies, or why there are none.
        verdicts: The verdicts, on the benchmark's own scale.
    """

    judge: SharedSignature
    result: JudgeResult
    verdicts: Verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """How far the official points of several judges differ, on the benchmark's own scale.

    Attributes:
        range: The most points minus the fewest.
        sd: The population standard deviation.
    """

    range: float
    sd: float


def disagreement(judgements: Sequence[Judgement]) -> Disagreement | None:
    """How far the judges' official points differ; None unless two judges gave points."""
    verdicts = [judgement.verdicts.official for judgement in judgements]
    points = [
        entry.points
        for entry in verdicts
        if isinstance(entry, Scored) and math.isfinite(entry.points)
    ]
    return (
        Disagreement(range=max(points) - min(points), sd=statistics.pstdev(points))
        if len(points) > 1
        else None
    )


def combine(judgements: Sequence[Judgement]) -> Verdicts:
    """The verdicts of a single judge, or a panel's: the median of the judges' points by kind.

    The sample is unscored if half or fewer of the judges gave points. Each component has its own
    median. Points are not rounded.

    >>> from mmie_tasks.record.signature import Signature
    >>> def by(points: float) -> Judgement:
    ...     verdicts = Verdicts(official=Scored(points), robust=Scored(points))
    ...     return Judgement(judge=Signature(), result=JudgeResult(), verdicts=verdicts)
    >>> combine([by(4), by(5), by(5)]).official
    Scored(points=5, reading='')
    """
    if len(judgements) == 1:
        return judgements[0].verdicts
    verdicts = {kind: _combined(judgements, kind) for kind in SCORE_KINDS}
    shares = {
        kind: _combined_shares(judgements, kind)
        for kind in SCORE_KINDS
        if isinstance(verdicts[kind], Scored)
    }
    return Verdicts(
        official=verdicts["official"],
        robust=verdicts["robust"],
        shares={kind: of_kind for kind, of_kind in shares.items() if of_kind},
    )


def _combined(judgements: Sequence[Judgement], kind: ScoreKind) -> Verdict:
    verdicts = [judgement.verdicts.verdict(kind) for judgement in judgements]
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if 2 * len(points) > len(judgements):
        return Scored(statistics.median(points))
    reasons = [
        (judgement.judge.name, verdict.reason)
        for judgement, verdict in zip(judgements, verdicts, strict=True)
        if isinstance(verdict, Unscored)
    ]
    most_frequent = Counter(reason for _, reason in reasons).most_common(1)[0][0]
    listed = ", ".join(f"{name}: {reason}" for name, reason in reasons)
    count = f"{len(points)} of {len(judgements)} judges gave points"
    return Unscored(most_frequent, f"{count} ({listed})")


def _combined_shares(judgements: Sequence[Judgement], kind: ScoreKind) -> dict[str, float]:
    shares: dict[str, list[float]] = {}
    for judgement in judgements:
        if isinstance(judgement.verdicts.verdict(kind), Scored):
            for component, share in judgement.verdicts.shares.get(kind, {}).items():
                shares.setdefault(component, []).append(share)
    return {component: statistics.median(values) for component, values in shares.items()}
