"""The judgement of a sample: each judge's replies and verdicts, and a panel's combined verdicts.

The panel's rule is applied to verdicts, so another rule needs no new requests.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.core.verdict import SCORE_KINDS, Scored, ScoreKind, Unscored, Verdict, Verdicts
from mmie_tasks.record.panel import Panel
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
class Judged:
    """The verdicts on an answer, with each judge's.

    Attributes:
        verdicts: The judge's or the panel's verdicts, on the benchmark's own scale.
        judgements: One for each judge, in the panel's order; empty if no request was sent.
        panel: The rule of the panel; None for a single judge.
    """

    verdicts: Verdicts
    judgements: tuple[Judgement, ...] = ()
    panel: Panel | None = None

    @classmethod
    def by(cls, judgements: Sequence[Judgement], panel: Panel | None) -> Judged:
        """The verdicts of a single judge, or the combined verdicts of a panel."""
        verdicts = combine(judgements, panel) if panel else judgements[0].verdicts
        return cls(verdicts=verdicts, judgements=tuple(judgements), panel=panel)


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


def combine(judgements: Sequence[Judgement], panel: Panel) -> Verdicts:
    """The panel's verdicts: the rule applied to the judges' points, separately for each kind.

    Components are combined one by one. Points are not rounded. There is at least one judgement.

    >>> from mmie_tasks.record.signature import Signature
    >>> def by(points: float) -> Judgement:
    ...     verdicts = Verdicts(official=Scored(points), robust=Scored(points))
    ...     return Judgement(judge=Signature(), result=JudgeResult(), verdicts=verdicts)
    >>> combine([by(4), by(5), by(5)], Panel(rule="median", min_valid=2)).official
    Scored(points=5, reading='')
    """
    verdicts = {kind: _combined(judgements, panel, kind) for kind in SCORE_KINDS}
    shares = {
        kind: _combined_shares(judgements, panel, kind)
        for kind in SCORE_KINDS
        if isinstance(verdicts[kind], Scored)
    }
    return Verdicts(
        official=verdicts["official"],
        robust=verdicts["robust"],
        shares={kind: of_kind for kind, of_kind in shares.items() if of_kind},
    )


def _combined(judgements: Sequence[Judgement], panel: Panel, kind: ScoreKind) -> Verdict:
    verdicts = [judgement.verdicts.verdict(kind) for judgement in judgements]
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if len(points) >= panel.min_valid:
        return Scored(panel.combined(points))
    reasons = [
        (judgement.judge.kind_and_model, verdict.reason)
        for judgement, verdict in zip(judgements, verdicts, strict=True)
        if isinstance(verdict, Unscored)
    ]
    most_frequent = Counter(reason for _, reason in reasons).most_common(1)[0][0]
    listed = ", ".join(f"{name}: {reason}" for name, reason in reasons)
    needed = f"{len(points)} of {len(judgements)} judges gave points, {panel.min_valid} are needed"
    return Unscored(most_frequent, f"{needed} ({listed})")


def _combined_shares(
    judgements: Sequence[Judgement], panel: Panel, kind: ScoreKind
) -> dict[str, float]:
    shares: dict[str, list[float]] = {}
    for judgement in judgements:
        if isinstance(judgement.verdicts.verdict(kind), Scored):
            for component, share in judgement.verdicts.shares.get(kind, {}).items():
                shares.setdefault(component, []).append(share)
    return {component: panel.combined(values) for component, values in shares.items()}
