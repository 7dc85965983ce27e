"""What each judge of a sample replied: verdicts that a panel combines, and how far they differ.

Each judge's replies are read by the benchmark's own readers and cached under the judge's own
signature. The rule is applied to the verdicts, so another rule makes no requests.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.core.verdict import ALL_KINDS, Scored, ScoreKind, Unscored, Verdict, Verdicts
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResult:
    """What one judge replied to a request.

    Attributes:
        judge: Its signature.
        result: Its replies, or why there are none.
        verdicts: Its verdicts, on the benchmark's own scale.
    """

    judge: Signature
    result: JudgeResult
    verdicts: Verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """How far the official points of several judges differ, on the benchmark's own scale.

    Attributes:
        range: The most points less the fewest.
        sd: The standard deviation, with these judges as the whole population.
    """

    range: float
    sd: float


def disagreement(members: Sequence[MemberResult]) -> Disagreement | None:
    """How far the judges' official points differ; None with fewer than two judges that gave
    points.
    """
    verdicts = [member.verdicts.official for member in members]
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


def combine(members: Sequence[MemberResult], panel: Panel) -> Verdicts:
    """The panel's verdicts: official, robust and expected each by the rule, over the judges with
    points of that kind.

    Points are not rounded: the mean of whole points may have decimals. Components are combined one
    by one.

    Args:
        members: The judges that were asked; at least one.
        panel: The rule.

    >>> def member(points: float) -> MemberResult:
    ...     verdicts = Verdicts(official=Scored(points), robust=Scored(points))
    ...     return MemberResult(judge=Signature("judge:a"), result=JudgeResult(), verdicts=verdicts)
    >>> combine([member(4), member(5), member(5)], Panel(rule="median", min_valid=2)).official
    Scored(points=5, reading='')
    """
    verdicts = {kind: _combined(members, panel, kind) for kind in ALL_KINDS}
    parts = {
        kind: _combined_parts(members, panel, kind)
        for kind in ALL_KINDS
        if isinstance(verdicts[kind], Scored)
    }
    return Verdicts(
        official=verdicts["official"],
        robust=verdicts["robust"],
        expected=verdicts["expected"],
        parts={kind: components for kind, components in parts.items() if components},
    )


def _combined(members: Sequence[MemberResult], panel: Panel, kind: ScoreKind) -> Verdict:
    verdicts = [member.verdicts.verdict(kind) for member in members]
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if len(points) >= panel.min_valid:
        return Scored(panel.combined(points))
    reasons = [
        (member.judge.kind_and_model, verdict.reason)
        for member, verdict in zip(members, verdicts, strict=True)
        if isinstance(verdict, Unscored)
    ]
    most_frequent = Counter(reason for _, reason in reasons).most_common(1)[0][0]
    listed = ", ".join(f"{name}: {reason}" for name, reason in reasons)
    needed = f"{len(points)} of {len(members)} judges gave points, {panel.min_valid} are needed"
    return Unscored(most_frequent, f"{needed} ({listed})")


def _combined_parts(
    members: Sequence[MemberResult], panel: Panel, kind: ScoreKind
) -> dict[str, float]:
    shares: dict[str, list[float]] = {}
    for member in members:
        if isinstance(member.verdicts.verdict(kind), Scored):
            for component, share in member.verdicts.parts.get(kind, {}).items():
                shares.setdefault(component, []).append(share)
    return {component: panel.combined(values) for component, values in shares.items()}
