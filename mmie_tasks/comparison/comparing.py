"""Two runs of one task: every number, the samples they differ on, and what is left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from mmie_tasks.comparison.aligned import Aligned, Shared
from mmie_tasks.comparison.paired import (
    Correction,
    Resampling,
    Stratum,
    corrected,
    difference,
)
from mmie_tasks.intervals import Interval
from mmie_tasks.review import Number, ReadingName
from mmie_tasks.runs.run import TaskRun

LABELS = ("A", "B")
_SAME = 1e-9  # as in `verdict.differ`


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One number of two runs, over the samples that both have points for.

    Attributes:
        number: Which one.
        a: Percent of full marks, rounded as the benchmark's own table; None where there is none.
        b: The same of B.
        difference: B - A in percent points, not rounded.
        interval: 95 %, in percent points; None where there is no number, or too few pairs.
        p: Of the paired permutation test.
        p_corrected: Among the numbers of its kind.
        wins: Pairs with more points in B.
        ties: Pairs with the same points.
        losses: Pairs with fewer points in B.
        pairs: All of them.
        a_alone: A over all samples that A has points for; None where there is no such number.
        b_alone: The same of B.
        why_not: Why there is no number.
    """

    number: Number
    a: float | None = None
    b: float | None = None
    difference: float | None = None
    interval: Interval | None = None
    p: float | None = None
    p_corrected: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    pairs: int
    a_alone: float | None
    b_alone: float | None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """A sample on which the runs differ; points on the benchmark's own scale."""

    id: str
    a: float
    b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One task of two runs.

    Attributes:
        compared: The headline first, then kind by kind.
        apart: The samples on which they differ most, those first.
        left_over: Why samples are no pair, to their number.
        pairs: Samples that both have points for.
    """

    compared: tuple[Compared, ...]
    apart: tuple[Apart, ...]
    left_over: dict[str, int]
    pairs: int


def compare(
    a: TaskRun,
    b: TaskRun,
    reading: ReadingName,
    resampling: Resampling,
    correction: Correction,
    top: int,
) -> Comparison:
    """Compare one task of two runs.

    Args:
        a: The run that differences are counted from.
        b: The other.
        reading: Whose verdicts.
        resampling: Of the intervals and tests.
        correction: For looking at many numbers of one kind.
        top: How many samples to name.
    """
    aligned = Aligned([a, b], LABELS, reading)
    numbers = [one for each in aligned.numbers if (one := _number(aligned, each, resampling))]
    whole = aligned.columns(Number(name="", title="", kind=""))
    points = np.stack([column.points for column in whole])
    has, counts = np.isfinite(points), whole[0].due & whole[1].due
    present = np.stack([column.present for column in whole])
    left_over = {
        "only in A": ~present[1],
        "only in B": ~present[0],
        "left out by the official script": present.all(axis=0) & ~counts,
        "unscored in A only": present.all(axis=0) & counts & ~has[0] & has[1],
        "unscored in B only": present.all(axis=0) & counts & has[0] & ~has[1],
        "unscored in both": present.all(axis=0) & counts & ~has.any(axis=0),
    }
    return Comparison(
        compared=tuple(_corrected(numbers, correction)),
        apart=tuple(_apart(aligned.ids, points[1], points[0], top)),
        left_over={why: int(which.sum()) for why, which in left_over.items() if which.any()},
        pairs=int(has.all(axis=0).sum()),
    )


def _number(aligned: Aligned, number: Number, resampling: Resampling) -> Compared | None:
    shared = aligned.shared(number)
    if shared is None:
        return None
    scale = aligned.scale
    own = [aligned.alone(number, run) for run in range(2)]
    alone = [None if mean is None else scale.percent(mean) for mean in own]
    bare = Compared(
        number=number,
        pairs=shared.samples,
        a_alone=alone[0],
        b_alone=alone[1],
        why_not=shared.why_not,
    )
    if shared.why_not:
        return bare
    strata = _strata(shared, 100 / scale.full_marks)
    together = np.concatenate([each.differences for each in strata])
    means = shared.means
    return replace(
        bare,
        a=scale.percent(float(means[0])),
        b=scale.percent(float(means[1])),
        difference=difference(strata),
        interval=resampling.interval(strata),
        p=resampling.p_value(strata),
        wins=int((together > 0).sum()),
        ties=int((together == 0).sum()),
        losses=int((together < 0).sum()),
    )


def _strata(shared: Shared, percent: float) -> list[Stratum]:
    found = []
    for part in shared.parts:
        apart = part.points[1] - part.points[0]
        apart[np.abs(apart) <= _SAME] = 0
        found.append(Stratum(key=part.key, weight=part.weight, differences=apart * percent))
    return found


def _corrected(found: Sequence[Compared], correction: Correction) -> list[Compared]:
    """Kind by kind, in the order in which the kinds come first; the kind is the family."""
    kinds = list(dict.fromkeys(each.number.kind for each in found))
    ordered = sorted(found, key=lambda each: kinds.index(each.number.kind))
    done = []
    for _, family in groupby(ordered, key=lambda each: each.number.kind):
        members = list(family)
        p_values = iter(corrected([each.p for each in members if each.p is not None], correction))
        done += [
            each if each.p is None else replace(each, p_corrected=next(p_values))
            for each in members
        ]
    return done


def _apart(ids: Sequence[str], b: np.ndarray, a: np.ndarray, top: int) -> list[Apart]:
    """Those that differ most; of equals in the order of their ids."""
    far = np.where(np.isfinite(a) & np.isfinite(b), np.abs(b - a), 0)
    order = np.argsort(-far, kind="stable")[:top]
    return [
        Apart(id=ids[place], a=float(a[place]), b=float(b[place]))
        for place in order
        if far[place] > _SAME
    ]
