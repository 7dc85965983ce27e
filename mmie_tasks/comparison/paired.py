"""Whether a difference between two runs over the same samples could be chance.

A difference is that of a weighted mean of group means; samples are resampled in pairs and within
the groups. Everything is drawn with fixed seeds, and the order of the samples does not matter.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mmie_tasks.intervals import Interval, bootstrap_means

Correction: TypeAlias = Literal["holm", "bh", "none"]
_Floats: TypeAlias = npt.NDArray[np.float64]

EXACT = 16
"""Up to so many pairs that differ, every one of the 2 ** 16 ways to flip them is looked at."""

_SAME = 1e-9  # of two ways to one sum
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
