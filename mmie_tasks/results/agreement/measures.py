"""Measures of agreement between raters: the paper's four, rank measures, differences, alpha.

Reported values are those of scipy, scikit-learn and krippendorff where these have the measure. The
functions of this module compute the same measures for many resamples at once, for the intervals;
tests compare them with the libraries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from mmie_tasks.core.tables import percent_cell
from mmie_tasks.record.intervals import (
    Floats,
    Indices,
    Interval,
    percentile_interval,
    resample_counts,
)
from mmie_tasks.record.metrics import Scale


@dataclass(frozen=True, slots=True, eq=False)
class RatingRows:
    """Distinct rows of ratings, of samples that two raters or more have rated.

    Attributes:
        points: Shape ``(rows, raters)``, in ascending order; NaN where a rater has none.
        counts: How many samples have this row; shape ``(rows,)``.
    """

    points: Floats
    counts: Indices

    @property
    def samples(self) -> int:
        """How many samples the rows stand for."""
        return int(self.counts.sum())

    @property
    def judge(self) -> Floats:
        """Points of the first rater."""
        return self.points[:, 0]

    @property
    def reference(self) -> Floats:
        """Points of the second rater."""
        return self.points[:, 1]

    @property
    def by_sample(self) -> Floats:
        """One column per sample; shape ``(raters, samples)``."""
        return np.repeat(self.points.T, self.counts, axis=1)

    @property
    def rounded(self) -> RatingRows:
        """With points rounded to whole numbers, halves to the even one."""
        return RatingRows(np.rint(self.points), self.counts)


def rating_rows(*raters: Floats) -> RatingRows:
    """The rows of the samples that two raters or more have rated.

    Args:
        raters: Points of each, one entry per sample; NaN where there are none.
    """
    points = np.column_stack(raters)
    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    filled = np.where(np.isfinite(rated), rated, -np.inf)  # NaN is not equal to NaN
    distinct, counts = np.unique(filled, axis=0, return_counts=True)
    return RatingRows(np.where(np.isfinite(distinct), distinct, np.nan), counts)


RESAMPLES = 1000  # of an interval, unless the user sets another number

PAPER_MEASURES = ("cosine", "mse", "mae", "pearson")
"""The table in which the paper of MMIE compares judges with people."""

RANK_MEASURES = ("spearman", "kendall", "kappa")
DIFFERENCE_MEASURES = ("exact", "within", "bias", "sd")
ALL_MEASURES = (*PAPER_MEASURES, *RANK_MEASURES, *DIFFERENCE_MEASURES)
GROUP_MEASURES = ("pearson", "mae", "bias")

NO_RESAMPLES = "no resamples"

_ON_STEPS = ("kappa", "exact", "within")  # measures of points rounded to whole numbers
_TOLERANCE = 0.1  # of full marks, where points are not whole numbers
_CONSTANT = "one of the two gives every sample the same points"
_ROUNDING = 1e-12  # a variance below this share of the mean square is rounding error
_SLACK = 1e-9  # points this close are equal
_MANY_ROWS = 1000  # distinct rows; above, fewer resamples are drawn
_RESAMPLE_WORK = 5_000_000  # numbers drawn in all for more distinct rows than that
_MIN_RESAMPLES = 200
_UNDEFINED_SHARE = 0.05  # of the resamples; above, there is no interval
_ALPHA_CELLS = 20_000_000  # samples times squared distinct points that the library may hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measure of some ratings.

    Attributes:
        value: None where it is not defined.
        interval: 95 %, percentile bootstrap over samples; None where there is none.
        why_not: Why there is no value, or no interval.
        resamples: That the interval comes from.
    """

    value: float | None = None
    interval: Interval | None = None
    why_not: str = ""
    resamples: int = 0

    def cell(self, decimals: int) -> str:
        """The value and both ends of its interval, for a table."""
        return percent_cell(self.value, self.interval, decimals)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How to measure.

    Attributes:
        scale: Of the points.
        resamples: For intervals; 0 for none.
    """

    scale: Scale
    resamples: int

    @property
    def tolerance(self) -> float:
        """Largest difference that counts as close: one point, or a tenth of full marks."""
        return 1 if self.scale.whole else self.scale.full_marks * _TOLERANCE


def measure_titles(options: MeasureOptions) -> dict[str, str]:
    """The title of each measure, for table heads."""
    return {
        "cosine": "cosine",
        "mse": "MSE",
        "mae": "MAE",
        "pearson": "Pearson",
        "spearman": "Spearman",
        "kendall": "Kendall tau-b",
        "kappa": "quadratic kappa",
        "exact": "equal",
        "within": f"within {options.tolerance:g}",
        "bias": "bias",
        "sd": "SD of differences",
    }


def measure(
    pairs: RatingRows, names: Sequence[str], options: MeasureOptions
) -> dict[str, Measurement]:
    """Measures of two raters, by name.

    Args:
        pairs: Their points.
        names: Of `ALL_MEASURES`.
        options: The scale, and how many resamples.
    """
    subjects = dict.fromkeys(names, pairs)
    if options.scale.whole:
        subjects |= dict.fromkeys(set(names) & set(_ON_STEPS), pairs.rounded)
    reasons = {name: _undefined(name, subject, options) for name, subject in subjects.items()}
    functions = _functions(options)
    defined = {name: subject for name, subject in subjects.items() if not reasons[name]}
    resampled = _resampled_measures(defined, functions, options)
    measurements = {name: Measurement(why_not=why_not) for name, why_not in reasons.items()}
    for name, subject in defined.items():
        value = _library_value(name, subject, options)
        if value is None:
            counts = subject.counts[np.newaxis].astype(np.float64)
            value = float(functions[name](subject, counts)[0])
        has_interval = name in functions
        measurements[name] = (
            with_interval(value, resampled[name], pairs.samples)
            if has_interval
            else Measurement(value=value)
        )
    return measurements


Measure: TypeAlias = Callable[[RatingRows, Floats], Floats]
"""From pairs and weights, shape ``(resamples, distinct pairs)``, to one value per resample.

A weight is how often a pair is drawn; the value is NaN where the measure is not defined."""


def _functions(options: MeasureOptions) -> dict[str, Measure]:
    """The measures that have intervals: all but Kendall's, which is slow to resample."""
    return {
        "cosine": cosine,
        "mse": mse,
        "mae": mae,
        "pearson": pearson,
        "spearman": spearman,
        "kappa": kappa,
        "exact": partial(within, points=0),
        "within": partial(within, points=options.tolerance),
        "bias": bias,
        "sd": sd,
    }


def _library_value(name: str, pairs: RatingRows, options: MeasureOptions) -> float | None:
    """The measure of the samples themselves by scipy or scikit-learn; None where they lack it."""
    from scipy import stats

    x, y = pairs.by_sample
    match name:
        case "pearson":
            return float(stats.pearsonr(x, y).statistic)
        case "spearman":
            return float(stats.spearmanr(x, y).statistic)
        case "kendall":
            return float(stats.kendalltau(x, y).statistic)
        case "kappa":
            from sklearn.metrics import cohen_kappa_score

            labels = list(range(round(options.scale.full_marks) + 1))
            steps = x.astype(int), y.astype(int)
            return float(cohen_kappa_score(*steps, labels=labels, weights="quadratic"))
    return None


def _resampled_measures(
    subjects: Mapping[str, RatingRows], functions: Mapping[str, Measure], options: MeasureOptions
) -> dict[str, Floats]:
    """Each measure of each resample; all measures are of the same resamples."""
    pairs = next(iter(subjects.values()), None)
    if pairs is None or pairs.samples < 2 or not options.resamples:
        return {name: np.empty(0) for name in subjects}
    resamples = resample_number(len(pairs.counts), options.resamples)
    chunks: defaultdict[str, list[Floats]] = defaultdict(list)
    for weights in resample_counts(pairs.counts, resamples):
        for name in subjects.keys() & functions.keys():
            chunks[name].append(functions[name](subjects[name], weights))
    return {name: np.concatenate(parts) for name, parts in chunks.items()}


def resample_number(rows: int, requested: int) -> int:
    """How many resamples are drawn of this many distinct rows: fewer of very many.

    >>> resample_number(49, 1000), resample_number(20_000, 1000)
    (1000, 250)
    """
    if rows <= _MANY_ROWS:
        return requested
    return min(requested, max(_MIN_RESAMPLES, _RESAMPLE_WORK // rows))


def with_interval(value: float, resampled: Floats, samples: int) -> Measurement:
    """A measurement from its value and its resampled values, which are NaN where it is not defined.

    Args:
        value: Of the samples themselves.
        resampled: One value per resample; none for no interval.
        samples: How many there are.
    """
    if samples < 2:
        return Measurement(value=value, why_not="one sample says nothing about an interval")
    if not len(resampled):
        return Measurement(value=value, why_not=NO_RESAMPLES)
    defined = resampled[np.isfinite(resampled)]
    if len(defined) < (1 - _UNDEFINED_SHARE) * len(resampled):
        undefined = 100 * (1 - len(defined) / len(resampled))
        return Measurement(
            value=value, why_not=f"it is not defined in {undefined:.0f} % of the resamples"
        )
    return Measurement(value=value, interval=percentile_interval(defined), resamples=len(resampled))


def _undefined(name: str, pairs: RatingRows, options: MeasureOptions) -> str:
    """Why a measure is not defined; empty where it is."""
    if not pairs.samples:
        return "no sample has points of both"
    judge, reference = pairs.judge, pairs.reference
    match name:
        case "cosine" if not (judge.any() and reference.any()):
            return "one of the two gives only 0 points"
        case "pearson" | "spearman" | "kendall" if pairs.samples < 2:
            return "one sample has no correlation"
        case "pearson" | "spearman" | "kendall" if not (np.ptp(judge) and np.ptp(reference)):
            return _CONSTANT
        case "kappa" if not options.scale.whole:
            return "points on this scale are not whole numbers"
        case "kappa" if np.ptp(np.concatenate((judge, reference))) == 0:
            return "both give every sample the same one value"
        case "sd" if pairs.samples < 2:
            return "one sample has no spread"
    return ""


def _ratio(numerators: Floats, denominators: Floats) -> Floats:
    """A quotient; NaN where the denominator is 0."""
    quotient: Floats = np.full(numerators.shape, np.nan)
    np.divide(numerators, denominators, out=quotient, where=denominators > 0)
    return quotient


def _weighted_mean(values: Floats, weights: Floats) -> Floats:
    mean: Floats = weights @ values / weights.sum(axis=1)
    return mean


def cosine(pairs: RatingRows, weights: Floats) -> Floats:
    """Cosine of the two vectors of points: sum of xy / (|x| |y|), -1 to 1; 1 is the best.

    The paper of MMIE reports a cosine similarity and does not define it; this is the usual one.
    It is high for any points above 0, however unrelated.
    """
    x, y = pairs.judge, pairs.reference
    return _ratio(weights @ (x * y), np.sqrt(weights @ x**2) * np.sqrt(weights @ y**2))


def mse(pairs: RatingRows, weights: Floats) -> Floats:
    """Mean squared difference, in squared points; 0 is the best."""
    return _weighted_mean((pairs.judge - pairs.reference) ** 2, weights)


def mae(pairs: RatingRows, weights: Floats) -> Floats:
    """Mean absolute difference, in points; 0 is the best."""
    return _weighted_mean(np.abs(pairs.judge - pairs.reference), weights)


def bias(pairs: RatingRows, weights: Floats) -> Floats:
    """Mean difference, judge minus reference, in points: above 0 is a lenient judge."""
    return _weighted_mean(pairs.judge - pairs.reference, weights)


def sd(pairs: RatingRows, weights: Floats) -> Floats:
    """Standard deviation of the differences, in points, with n - 1."""
    total = weights.sum(axis=1)
    differences = pairs.judge - pairs.reference
    centred = differences - differences.mean()
    squares = weights @ centred**2
    spread = squares - (weights @ centred) ** 2 / total
    spread[spread <= _ROUNDING * squares] = 0
    return np.sqrt(_ratio(spread, total - 1))


def within(pairs: RatingRows, weights: Floats, points: float) -> Floats:
    """Share of samples whose points differ by `points` at most, 0 to 1."""
    close = np.abs(pairs.judge - pairs.reference) <= points + _SLACK
    return _weighted_mean(close.astype(np.float64), weights)


def kappa(pairs: RatingRows, weights: Floats) -> Floats:
    """Cohen's kappa with quadratic weights; 1 is the best, 0 is chance.

    In moments: 1 - mean of (x - y)² / mean of (x - y)² over all pairs of any x with any y.
    """
    total = weights.sum(axis=1)
    x, y = pairs.judge, pairs.reference
    chance = weights @ (x**2 + y**2) - 2 * (weights @ x) * (weights @ y) / total
    chance[chance < _ROUNDING * total] = 0
    return 1 - _ratio(weights @ (x - y) ** 2, chance)


def pearson(pairs: RatingRows, weights: Floats) -> Floats:
    """Pearson's correlation, -1 to 1."""
    x, y = (
        np.broadcast_to(points - pairs.counts @ points / pairs.samples, weights.shape)
        for points in (pairs.judge, pairs.reference)
    )
    return _correlation(x, y, weights)


def spearman(pairs: RatingRows, weights: Floats) -> Floats:
    """Spearman's rank correlation, -1 to 1; equal points share the middle of their ranks."""
    middle = weights.sum(axis=1, keepdims=True) / 2
    codes = (_codes(points)[1] for points in (pairs.judge, pairs.reference))
    x, y = (_middle_ranks(_code_weights(c, weights))[:, c] - middle for c in codes)
    return _correlation(x, y, weights)


def _codes(points: Floats) -> tuple[int, Indices]:
    """The number of distinct points, and the index of each entry among them."""
    values, codes = np.unique(points, return_inverse=True)
    return len(values), codes


def _code_weights(codes: Indices, weights: Floats) -> Floats:
    """How often each code is drawn; shape ``(resamples, codes)``."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return np.add.reduceat(weights[:, order], starts, axis=1)


def _middle_ranks(code_weights: Floats) -> Floats:
    """The rank of each value, from 0: the number of lower ones, and half of its own."""
    return code_weights.cumsum(axis=1) - code_weights / 2


def _correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Pearson's correlation of points that are centred but for the resampling."""
    total = weights.sum(axis=1)
    sums, roots = [], []
    for points in (x, y):
        sums.append(np.einsum("rd,rd->r", weights, points))
        about_zero = np.einsum("rd,rd,rd->r", weights, points, points)
        spread = about_zero - sums[-1] ** 2 / total
        spread[spread <= _ROUNDING * about_zero] = 0  # the points differ only by rounding
        roots.append(np.sqrt(spread))
    products = np.einsum("rd,rd,rd->r", weights, x, y) - sums[0] * sums[1] / total
    return np.clip(_ratio(products, roots[0] * roots[1]), -1, 1)


Level: TypeAlias = Literal["interval", "ordinal"]
LEVELS: tuple[Level, ...] = ("interval", "ordinal")


def alpha(points: Floats, level: Level, resamples: int) -> Measurement:
    """Krippendorff's alpha with a bootstrap interval over samples; 1 is the best, 0 is chance.

    Args:
        points: Shape ``(samples, raters)``; NaN where a rater has none.
        level: Whether the distance of points counts, or only their order.
        resamples: For the interval; 0 for none.
    """
    rows = rating_rows(*points.T)
    if not rows.samples:
        return Measurement(why_not="no sample has points of two raters")
    if np.nanmin(rows.points) == np.nanmax(rows.points):
        return Measurement(why_not="all points are the same")
    number = resample_number(len(rows.counts), resamples) if rows.samples > 1 else 0
    chunks = [alphas(rows, weights, level) for weights in resample_counts(rows.counts, number)]
    resampled = np.concatenate([np.empty(0), *chunks])
    return with_interval(_alpha_value(rows, level), resampled, rows.samples)


def _alpha_value(rows: RatingRows, level: Level) -> float:
    """By the library where memory allows: it holds a table of values for every sample."""
    distinct = np.unique(rows.points[np.isfinite(rows.points)])
    if rows.samples * len(distinct) ** 2 > _ALPHA_CELLS:
        return float(alphas(rows, rows.counts[np.newaxis].astype(np.float64), level)[0])
    import krippendorff

    return float(krippendorff.alpha(reliability_data=rows.by_sample, level_of_measurement=level))


def alphas(rows: RatingRows, weights: Floats, level: Level) -> Floats:
    """Krippendorff's alpha of every resample; NaN where all points are the same.

    Alpha is 1 less the observed over the expected disagreement. For interval data both are sums of
    squares; for ordinal data they are the same sums over middle ranks: the ordinal distance of two
    values, all that lie between them and half of each, is the distance of their middle ranks.

    Args:
        rows: The ratings.
        weights: How often each row is drawn; shape ``(resamples, rows)``.
        level: As in `alpha`.
    """
    ratings = np.isfinite(rows.points).sum(axis=1)
    sums, squares = np.zeros_like(weights), np.zeros_like(weights)
    for positions in _rater_positions(rows, weights, level):
        sums += positions
        squares += positions**2
    disagreement = (ratings * squares - sums**2) / (ratings - 1)
    observed = np.einsum("rd,rd->r", weights, disagreement)
    number = weights @ ratings
    total = np.einsum("rd,rd->r", weights, sums)
    about_zero = np.einsum("rd,rd->r", weights, squares)
    spread = number * about_zero - total**2
    spread[spread <= _ROUNDING * number * about_zero] = 0
    return 1 - _ratio(observed * (number - 1), spread)


def _rater_positions(rows: RatingRows, weights: Floats, level: Level) -> list[Floats]:
    """Each rater's points, centred: on the scale, or as ranks; 0 where a rater has none.

    One array per rater, which can be added to shape ``(resamples, rows)``.
    """
    rated = np.isfinite(rows.points)
    if level == "interval":
        middle = np.nanmean(rows.points)
        return [np.where(r, p - middle, 0) for r, p in zip(rated.T, rows.points.T, strict=True)]
    row, rater = np.nonzero(rated)
    _, codes = np.unique(rows.points[row, rater], return_inverse=True)
    ranks = _middle_ranks(_code_weights(codes, weights[:, row]))
    ranks -= (weights @ rated.sum(axis=1))[:, np.newaxis] / 2
    code_of_rating = np.zeros(rated.shape, dtype=np.intp)
    code_of_rating[row, rater] = codes
    return [np.where(r, ranks[:, c], 0) for r, c in zip(rated.T, code_of_rating.T, strict=True)]
