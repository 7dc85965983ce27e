"""What is measured of two raters: the paper's four numbers, and what they leave open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from mmie_tasks.results.agreement.ratings import Pairs
from mmie_tasks.results.agreement.resampling import (
    Floats,
    Ints,
    Measured,
    draws,
    measured,
    resamples_for,
)
from mmie_tasks.runs.benchmark import Scale

# Statistics of pairs of ratings as scipy and scikit-learn compute them.
#
# Their values are the ones that are shown; `mmie_tasks.results.agreement.measures` is for the intervals.

_KENDALL_WORK = 400_000  # samples times resamples
_LEAST = 100  # resamples


def pearson_library(pairs: Pairs) -> float:
    """Pearson's correlation, -1 to 1; neither rater is constant."""
    from scipy import stats

    return float(stats.pearsonr(*pairs.one_by_one).statistic)


def spearman_library(pairs: Pairs) -> float:
    """Spearman's rank correlation, -1 to 1; neither rater is constant."""
    from scipy import stats

    return float(stats.spearmanr(*pairs.one_by_one).statistic)


def kendall_library(pairs: Pairs) -> float:
    """Kendall's tau-b, -1 to 1; neither rater is constant."""
    from scipy import stats

    return float(stats.kendalltau(*pairs.one_by_one).statistic)


def kappa_library(pairs: Pairs, full_marks: int) -> float:
    """Cohen's kappa with quadratic weights, over all whole points from 0 to full marks.

    The raters do not give every sample the same one value: then it is not defined.
    """
    from sklearn.metrics import cohen_kappa_score

    x, y = (points.astype(int) for points in pairs.one_by_one)
    labels = range(full_marks + 1)
    return float(cohen_kappa_score(x, y, labels=list(labels), weights="quadratic"))


def kendalls(pairs: Pairs, draws: Iterator[Floats]) -> Floats:
    """Kendall's tau-b of every draw, one at a time: for many distinct points."""
    from scipy import stats

    def tau(weights: Floats) -> float:
        times = weights.astype(np.intp)
        if any(np.ptp(points[times > 0]) == 0 for points in (pairs.judge, pairs.reference)):
            return np.nan
        x, y = (np.repeat(points, times) for points in (pairs.judge, pairs.reference))
        return float(stats.kendalltau(x, y).statistic)

    return np.array([tau(weights) for chunk in draws for weights in chunk])


def library_resamples(samples: int, asked: int) -> int:
    """How many times tau is computed one at a time: fewer of very many samples.

    >>> library_resamples(400, 1000), library_resamples(20_000, 1000)
    (1000, 100)
    """
    return min(asked, max(_LEAST, _KENDALL_WORK // samples))


# Statistics of pairs of ratings for many resamples at once.
#
# Every function takes weights of shape ``(resamples, distinct pairs)``, how often each pair is
# drawn, and returns one value a resample; NaN where it is not defined. With the counts as they are
# for the only line, the values are those of scipy and scikit-learn; tests compare them.

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


PAPER = ("cosine", "mse", "mae", "pearson")
"""The table in which the paper of MMIE compares judges with people."""

RANKS = ("spearman", "kendall", "kappa")
STEPS = ("exact", "within", "bias", "sd")
EVERY = (*PAPER, *RANKS, *STEPS)
IN_GROUPS = ("pearson", "mae", "bias")

_SHARE_WITHIN = 0.1  # of full marks, where points are not whole numbers
_CELLS = 4096  # of the table of distinct points; above, tau is computed one resample at a time
_NOT_BOTH = "one of the two gives every sample the same points"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to measure.

    Attributes:
        scale: Of the points.
        resamples: For intervals; 0 for none.
    """

    scale: Scale
    resamples: int

    @property
    def near(self) -> float:
        """Points that are close by: one, or a tenth of full marks."""
        return 1 if self.scale.whole else self.scale.full_marks * _SHARE_WITHIN


def titles(asked: Asked) -> dict[str, str]:
    """The names of all measures, for people."""
    return {
        "cosine": "cosine",
        "mse": "MSE",
        "mae": "MAE",
        "pearson": "Pearson",
        "spearman": "Spearman",
        "kendall": "Kendall tau-b",
        "kappa": "quadratic kappa",
        "exact": "the same",
        "within": f"within {asked.near:g}",
        "bias": "bias",
        "sd": "SD of differences",
    }


def measure(pairs: Pairs, names: Sequence[str], asked: Asked) -> dict[str, Measured]:
    """Measures of two raters, by name.

    Args:
        pairs: What they gave.
        names: Of `EVERY`.
        asked: The scale, and how many resamples.
    """
    on_steps = pairs.rounded if asked.scale.whole else pairs
    found = {name: Measured(why_not=_why_not(name, pairs, on_steps, asked)) for name in names}
    statistics = _statistics(asked)
    possible = {name: statistics[name] for name, each in found.items() if not each.why_not}
    drawn = _drawn(pairs, on_steps, possible, asked)
    for name in possible:
        subject = on_steps if name in ("kappa", "exact", "within") else pairs
        value = _value(name, subject, possible[name], asked)
        found[name] = measured(value, drawn[name], pairs.samples)
    return found


def _statistics(asked: Asked) -> dict[str, Statistic]:
    return {
        "cosine": cosine,
        "mse": mse,
        "mae": mae,
        "pearson": pearson,
        "spearman": spearman,
        "kendall": kendall,
        "kappa": kappa,
        "exact": partial(within, points=0),
        "within": partial(within, points=asked.near),
        "bias": bias,
        "sd": sd,
    }


def _value(name: str, pairs: Pairs, statistic: Statistic, asked: Asked) -> float:
    """Of the samples as they are: by a library where it has the statistic."""
    match name:
        case "pearson":
            return pearson_library(pairs)
        case "spearman":
            return spearman_library(pairs)
        case "kendall":
            return kendall_library(pairs)
        case "kappa":
            return kappa_library(pairs, round(asked.scale.full_marks))
    return float(statistic(pairs, pairs.counts[np.newaxis].astype(np.float64))[0])


def _drawn(
    pairs: Pairs, on_steps: Pairs, statistics: Mapping[str, Statistic], asked: Asked
) -> dict[str, Floats]:
    """The statistics of every resample; all of them are of the same draws."""
    if pairs.samples < 2 or not asked.resamples:
        return {name: np.empty(0) for name in statistics}
    resamples = resamples_for(len(pairs.counts), asked.resamples)
    one_by_one = "kendall" in statistics and cells(pairs) > _CELLS
    found: dict[str, list[Floats]] = defaultdict(list)
    for weights in draws(pairs.counts, resamples):
        for name, statistic in statistics.items():
            if not (name == "kendall" and one_by_one):
                subject = on_steps if name in ("kappa", "exact", "within") else pairs
                found[name].append(statistic(subject, weights))
    drawn = {name: np.concatenate(values) for name, values in found.items()}
    if one_by_one:
        fewer = library_resamples(pairs.samples, resamples)
        drawn["kendall"] = kendalls(pairs, draws(pairs.counts, fewer))
    return drawn


def _why_not(name: str, pairs: Pairs, on_steps: Pairs, asked: Asked) -> str:
    """Why a measure is not defined; empty where it is."""
    if not pairs.samples:
        return "no sample has points of both"
    x, y = pairs.judge, pairs.reference
    match name:
        case "cosine":
            return "" if x.any() and y.any() else "one of the two gives only 0 points"
        case "pearson" | "spearman" | "kendall":
            if pairs.samples < 2:
                return "one sample has no correlation"
            return _NOT_BOTH if _constant(x) or _constant(y) else ""
        case "kappa":
            return _why_no_kappa(on_steps, asked)
        case "sd":
            return "one sample has no spread" if pairs.samples < 2 else ""
    return ""


def _why_no_kappa(on_steps: Pairs, asked: Asked) -> str:
    if not asked.scale.whole:
        return "points on this scale are not whole numbers"
    same = _constant(np.concatenate((on_steps.judge, on_steps.reference)))
    return "both give every sample the same one value" if same else ""


def _constant(points: Floats) -> bool:
    return bool(np.ptp(points) == 0)


# Krippendorff's alpha of any number of raters who may have skipped samples.
#
# Alpha is 1 less the observed over the expected disagreement. For interval data both are sums of
# squares; for ordinal data they are the same sums over middle ranks: the ordinal distance of two
# values, all that lie between them and half of each, is the distance of their middle ranks. That is
# quick enough for resampling; a test compares it with the ``krippendorff`` package.

Level: TypeAlias = Literal["interval", "ordinal"]
LEVELS: tuple[Level, ...] = ("interval", "ordinal")

_BY_LIBRARY = 20_000_000  # samples times squared distinct values that the library holds at once


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Distinct rows of ratings, of samples that two raters or more have rated.

    Attributes:
        points: Shape ``(rows, raters)``; NaN where a rater gave none.
        counts: How many samples have this row; shape ``(rows,)``.
    """

    points: Floats
    counts: Ints

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return int(self.counts.sum())


def rows_of(points: Floats) -> Rows:
    """Distinct rows, in an order of their own.

    Args:
        points: Shape ``(samples, raters)``; NaN where a rater gave none, never negative.
    """
    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    no_points = -1.0  # NaN is not equal to NaN
    distinct, counts = np.unique(
        np.where(np.isfinite(rated), rated, no_points), axis=0, return_counts=True
    )
    return Rows(np.where(distinct == no_points, np.nan, distinct), counts)


def alpha(points: Floats, level: Level, resamples: int) -> Measured:
    """Krippendorff's alpha with a bootstrap interval over samples; 1 is the best, 0 is chance.

    Args:
        points: Shape ``(samples, raters)``; NaN where a rater gave none, never negative.
        level: Whether the distance of points counts, or their order only.
        resamples: For the interval; 0 for none.
    """
    rows = rows_of(points)
    if not rows.samples:
        return Measured(why_not="no sample has points of two raters")
    if np.nanmin(rows.points) == np.nanmax(rows.points):
        return Measured(why_not="all points are the same")
    number = resamples_for(len(rows.counts), resamples) if rows.samples > 1 else 0
    chunks = [resampled(rows, weights, level) for weights in draws(rows.counts, number)]
    return measured(_value_alpha(rows, level), np.concatenate([np.empty(0), *chunks]), rows.samples)


def _value_alpha(rows: Rows, level: Level) -> float:
    """By the library where it has the memory: it holds a table of values for every sample."""
    distinct = np.unique(rows.points[np.isfinite(rows.points)])
    if rows.samples * len(distinct) ** 2 > _BY_LIBRARY:
        return float(resampled(rows, rows.counts[np.newaxis].astype(np.float64), level)[0])
    import krippendorff

    ratings = np.repeat(rows.points, rows.counts, axis=0).T
    return float(krippendorff.alpha(reliability_data=ratings, level_of_measurement=level))


def resampled(rows: Rows, weights: Floats, level: Level) -> Floats:
    """Alpha of every resample; NaN where all points are the same.

    Args:
        rows: The ratings.
        weights: How often each row is drawn; shape ``(resamples, rows)``.
        level: As in `alpha`.
    """
    rated = np.isfinite(rows.points)
    each = rated.sum(axis=1)
    sums, squares = np.zeros_like(weights), np.zeros_like(weights)
    for place in _places(rows, weights, level):
        sums += place
        squares += place**2
    apart = (each * squares - sums**2) / (each - 1)
    observed = np.einsum("rd,rd->r", weights, apart)
    number = weights @ each
    total = np.einsum("rd,rd->r", weights, sums)
    about_zero = np.einsum("rd,rd->r", weights, squares)
    spread = number * about_zero - total**2
    spread[spread <= 1e-12 * number * about_zero] = 0
    return 1 - ratio(observed * (number - 1), spread)


def _places(rows: Rows, weights: Floats, level: Level) -> list[Floats]:
    """Where each rater's points lie: on the scale, or in the order of all; 0 where none are.

    One array a rater, which can be added to ``(resamples, rows)``.
    """
    rated = np.isfinite(rows.points)
    if level == "interval":
        middle = np.nanmean(rows.points)
        return [np.where(r, p - middle, 0) for r, p in zip(rated.T, rows.points.T, strict=True)]
    owner, rater = np.nonzero(rated)
    _, codes = np.unique(rows.points[owner, rater], return_inverse=True)
    ranks = middle_ranks(tallied(codes, weights[:, owner]))
    ranks -= (weights @ rated.sum(axis=1))[:, np.newaxis] / 2
    code_of = np.zeros(rated.shape, dtype=np.intp)
    code_of[owner, rater] = codes
    return [np.where(r, ranks[:, c], 0) for r, c in zip(rated.T, code_of.T, strict=True)]
