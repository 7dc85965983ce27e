"""Two runs of one task: every number, the samples they differ on, and what is left over."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mmie_tasks.core.bootstrap import Interval, bootstrap_means
from mmie_tasks.results.alignment import Aligned, Shared
from mmie_tasks.runs.benchmark import Metric, ScoreKind
from mmie_tasks.runs.log_files import TaskRun

# Whether a difference between two runs over the same samples could be chance.
#
# A difference is that of a weighted mean of group means; samples are resampled in pairs and within
# the groups. Everything is drawn with fixed seeds, and the order of the samples does not matter.

Correction: TypeAlias = Literal["holm", "bh", "none"]
_Floats: TypeAlias = npt.NDArray[np.float64]

EXACT = 16
"""Up to so many pairs that differ, every one of the 2 ** 16 ways to flip them is looked at."""

_CHUNK = 4_000_000  # numbers held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """Pairs whose mean difference has a weight in the number.

    Attributes:
        key: Names the draws: the same key must have the same differences.
        weight: Of the mean; those of a number add up to 1.
        differences: B minus A of each pair, at least one, in any order.
    """

    key: str
    weight: float
    differences: _Floats


def difference(strata: Sequence[Stratum]) -> float:
    """The weighted mean of the mean differences."""
    return float(sum(each.weight * np.sort(each.differences).mean() for each in strata))


class Resampling:
    """Draws for many numbers; what strata have in common is drawn once.

    Args:
        resamples: How many, of the bootstrap and of the permutation test.
    """

    def __init__(self, resamples: int) -> None:
        self._resamples = resamples
        self._means: dict[str, _Floats] = {}
        self._flips: dict[str, _Floats] = {}

    def interval(self, strata: Sequence[Stratum], level: float = 0.95) -> Interval | None:
        """Percentile bootstrap of the weighted mean difference, pairs drawn within strata.

        Returns:
            In the unit of the differences; None where a stratum has fewer than two pairs.
        """
        if any(len(each.differences) < 2 for each in strata):
            return None
        means = np.zeros(self._resamples)
        for each in strata:
            if each.key not in self._means:
                drawn = bootstrap_means(each.differences.tolist(), self._resamples, _seed(each.key))
                self._means[each.key] = drawn
            means += each.weight * self._means[each.key]
        tail = (1 - level) / 2
        low, high = np.quantile(means, (tail, 1 - tail))
        return Interval(float(low), float(high))

    def p_value(self, strata: Sequence[Stratum]) -> float:
        """Two-sided p of the paired permutation test of the weighted mean difference.

        Which of a pair is A and which is B is thrown like a coin: the sign of each difference.
        Exact up to `EXACT` pairs that differ; else ``(k + 1) / (resamples + 1)``, where k draws
        are at least as far from 0 as what was found (Phipson and Smyth 2010).
        """
        steps = np.concatenate(
            [each.weight * each.differences / len(each.differences) for each in strata]
        )
        steps = np.abs(steps[steps != 0])
        found = abs(difference(strata)) - _SAME * float(steps.sum())
        if len(steps) <= EXACT:
            return float((np.abs(_every_sum(steps)) >= found).mean())
        flipped = np.zeros(self._resamples)
        for each in strata:
            if each.key not in self._flips:
                random = np.random.default_rng(_seed(f"flip {each.key}"))
                self._flips[each.key] = _flipped(each.differences, self._resamples, random)
            flipped += each.weight * self._flips[each.key]
        return float((1 + (np.abs(flipped) >= found).sum()) / (1 + self._resamples))


def _seed(key: str) -> int:
    return zlib.crc32(key.encode())


def _every_sum(steps: _Floats) -> _Floats:
    """The sum for every choice of signs, shape ``(2 ** steps,)``."""
    sums = np.zeros(1)
    for step in np.sort(steps):
        sums = np.concatenate([sums - step, sums + step])
    return sums


def _flipped(differences: _Floats, resamples: int, random: np.random.Generator) -> _Floats:
    """Means with signs at random. Of n equal ones, it is binomial how many keep their sign."""
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    sums = np.zeros(resamples)
    for count in np.unique(counts):
        alike = sizes[counts == count]
        for begin, size in _chunks(resamples, len(alike)):
            kept = _kept(int(count), (size, len(alike)), random)
            sums[begin : begin + size] += 2 * (kept @ alike) - count * alike.sum()
    means: _Floats = sums / len(differences)
    return means


def _kept(count: int, shape: tuple[int, int], random: np.random.Generator) -> npt.NDArray[np.int64]:
    if count == 1:  # quicker
        return random.integers(2, size=shape, dtype=np.int8).astype(np.int64)
    return random.binomial(count, 0.5, size=shape)


def _chunks(resamples: int, width: int) -> Iterator[tuple[int, int]]:
    """Begin and size of pieces of at most `_CHUNK` numbers, or of one resample."""
    most = max(1, _CHUNK // width)
    for begin in range(0, resamples, most):
        yield begin, min(most, resamples - begin)


def corrected(p_values: Sequence[float], correction: Correction) -> list[float]:
    """p-values as they are where all of them were looked at.

    Holm's step-down keeps the chance of any false alarm; Benjamini and Hochberg's keeps the
    expected share of false alarms.

    >>> corrected([0.01, 0.04, 0.03], "holm")
    [0.03, 0.06, 0.06]
    """
    if not p_values or correction == "none":
        return list(p_values)
    if correction == "bh":
        from scipy.stats import false_discovery_control

        return [float(p) for p in false_discovery_control(p_values)]
    order = np.argsort(p_values, kind="stable")
    times = np.arange(len(p_values), 0, -1)
    stepped = np.minimum(np.maximum.accumulate(np.asarray(p_values)[order] * times), 1)
    found = np.empty(len(p_values))
    found[order] = stepped
    return [float(p) for p in found]


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

    number: Metric
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
    reading: ScoreKind,
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
    whole = aligned.columns(Metric(name="", title="", kind=""))
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


def _number(aligned: Aligned, number: Metric, resampling: Resampling) -> Compared | None:
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
