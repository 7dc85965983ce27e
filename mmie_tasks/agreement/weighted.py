"""Statistics of pairs of ratings for many resamples at once.

Every function takes weights of shape ``(resamples, distinct pairs)``, how often each pair is
drawn, and returns one value a resample; NaN where it is not defined. With the counts as they are
for the only line, the values are those of scipy and scikit-learn; tests compare them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmie_tasks.agreement.pairs import Pairs
from mmie_tasks.agreement.resampling import Floats, Ints

_ROUNDING = 1e-12  # a variance smaller than this share of the mean square is none
_SLACK = 1e-9  # of points that are the same


def ratio(above: Floats, below: Floats) -> Floats:
    """A quotient; NaN where there is nothing to divide by."""
    quotient: Floats = np.full(above.shape, np.nan)
    np.divide(above, below, out=quotient, where=below > 0)
    return quotient


def cosine(pairs: Pairs, weights: Floats) -> Floats:
    """Cosine of the two vectors of points: sum of xy / (|x| |y|), -1 to 1; 1 is the best.

    The paper of MMIE reports a cosine similarity and does not define it; this is the usual one.
    It is high for any points above 0, however unrelated.
    """
    x, y = pairs.judge, pairs.reference
    return ratio(weights @ (x * y), np.sqrt(weights @ x**2) * np.sqrt(weights @ y**2))


def mse(pairs: Pairs, weights: Floats) -> Floats:
    """Mean squared difference, in squared points; 0 is the best."""
    return _mean((pairs.judge - pairs.reference) ** 2, weights)


def mae(pairs: Pairs, weights: Floats) -> Floats:
    """Mean absolute difference, in points; 0 is the best."""
    return _mean(np.abs(pairs.judge - pairs.reference), weights)


def bias(pairs: Pairs, weights: Floats) -> Floats:
    """Mean difference, judge minus reference, in points: above 0 is a lenient judge."""
    return _mean(pairs.judge - pairs.reference, weights)


def sd(pairs: Pairs, weights: Floats) -> Floats:
    """Standard deviation of the differences, in points, with n - 1."""
    total = weights.sum(axis=1)
    off = pairs.judge - pairs.reference
    off = off - off.mean()
    squares = weights @ off**2
    spread = squares - (weights @ off) ** 2 / total
    spread[spread <= _ROUNDING * squares] = 0
    return np.sqrt(ratio(spread, total - 1))


def within(pairs: Pairs, weights: Floats, points: float) -> Floats:
    """Share of samples whose points differ by `points` at most, 0 to 1."""
    near = np.abs(pairs.judge - pairs.reference) <= points + _SLACK
    return _mean(near.astype(np.float64), weights)


def kappa(pairs: Pairs, weights: Floats) -> Floats:
    """Cohen's kappa with quadratic weights; 1 is the best, 0 is chance.

    In moments: 1 - mean of (x - y)² / mean of (x - y)² over all pairs of any x with any y.
    """
    total = weights.sum(axis=1)
    x, y = pairs.judge, pairs.reference
    chance = weights @ (x**2 + y**2) - 2 * (weights @ x) * (weights @ y) / total
    chance[chance < _ROUNDING * total] = 0
    return 1 - ratio(weights @ (x - y) ** 2, chance)


def pearson(pairs: Pairs, weights: Floats) -> Floats:
    """Pearson's correlation, -1 to 1."""
    n = pairs.samples
    x = pairs.judge - pairs.counts @ pairs.judge / n
    y = pairs.reference - pairs.counts @ pairs.reference / n
    return _correlation(
        np.broadcast_to(x, weights.shape), np.broadcast_to(y, weights.shape), weights
    )


def spearman(pairs: Pairs, weights: Floats) -> Floats:
    """Spearman's rank correlation, -1 to 1; equal points share the middle of their ranks."""
    middle = weights.sum(axis=1, keepdims=True) / 2
    x, y = (_ranks(points, weights) - middle for points in (pairs.judge, pairs.reference))
    return _correlation(x, y, weights)


def kendall(pairs: Pairs, weights: Floats) -> Floats:
    """Kendall's tau-b, -1 to 1, from the table of the two raters' distinct points.

    Memory goes with the number of cells of that table: see `cells`.
    """
    (x_values, x), (y_values, y) = (_codes(p) for p in (pairs.judge, pairs.reference))
    table: Floats = np.zeros((len(weights), x_values, y_values))
    table[:, x, y] = weights
    above = table[:, ::-1, ::-1].cumsum(axis=1).cumsum(axis=2)[:, ::-1, ::-1]
    concordant = (table[:, :-1, :-1] * above[:, 1:, 1:]).sum(axis=(1, 2))
    of_all = _two(weights.sum(axis=1))
    tied_x, tied_y = (_two(table.sum(axis=axis)).sum(axis=1) for axis in (2, 1))
    tied_both = _two(table).sum(axis=(1, 2))
    difference = 2 * concordant - (of_all - tied_x - tied_y + tied_both)
    return ratio(difference, np.sqrt(of_all - tied_x) * np.sqrt(of_all - tied_y))


def cells(pairs: Pairs) -> int:
    """Cells of the table of the two raters' distinct points."""
    return _codes(pairs.judge)[0] * _codes(pairs.reference)[0]


def _mean(values: Floats, weights: Floats) -> Floats:
    mean: Floats = weights @ values / weights.sum(axis=1)
    return mean


def _two(counts: Floats) -> Floats:
    """How many pairs can be made of so many."""
    return counts * (counts - 1) / 2


def _codes(points: Floats) -> tuple[int, Ints]:
    """How many distinct points there are, and which of them each entry is."""
    values, codes = np.unique(points, return_inverse=True)
    return len(values), codes


def _ranks(points: Floats, weights: Floats) -> Floats:
    """The rank of each entry among the samples drawn, less a half; shape of `weights`."""
    _, codes = _codes(points)
    return middle_ranks(tallied(codes, weights))[:, codes]


def tallied(codes: Ints, weights: Floats) -> Floats:
    """How often each code is drawn; shape ``(resamples, codes)``."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return np.add.reduceat(weights[:, order], starts, axis=1)


def middle_ranks(tallies: Floats) -> Floats:
    """Of each value, ranks from 0: those below it, and half of its own."""
    return tallies.cumsum(axis=1) - tallies / 2


def _correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Pearson's correlation of what is centred already, but for the resampling."""
    total = weights.sum(axis=1)
    sums = [np.einsum("rd,rd->r", weights, each) for each in (x, y)]
    squares = [_spread(each, weights, sum_, total) for each, sum_ in zip((x, y), sums, strict=True)]
    together = np.einsum("rd,rd,rd->r", weights, x, y) - sums[0] * sums[1] / total
    return np.clip(ratio(together, np.sqrt(squares[0]) * np.sqrt(squares[1])), -1, 1)


def _spread(x: Floats, weights: Floats, sum_: Floats, total: Floats) -> Floats:
    """Sum of squares about the mean; exactly 0 where nothing differs but by rounding."""
    about_zero = np.einsum("rd,rd,rd->r", weights, x, x)
    spread: Floats = about_zero - sum_**2 / total
    spread[spread <= _ROUNDING * about_zero] = 0
    return spread


Statistic = Callable[[Pairs, Floats], Floats]
