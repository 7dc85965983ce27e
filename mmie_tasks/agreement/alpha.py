"""Krippendorff's alpha of any number of raters who may have skipped samples.

Alpha is 1 less the observed over the expected disagreement. For interval data both are sums of
squares; for ordinal data they are the same sums over middle ranks: the ordinal distance of two
values, all that lie between them and half of each, is the distance of their middle ranks. That is
quick enough for resampling; a test compares it with the ``krippendorff`` package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mmie_tasks.agreement.resampling import (
    Floats,
    Ints,
    Measured,
    draws,
    measured,
    resamples_for,
)
from mmie_tasks.agreement.weighted import middle_ranks, ratio, tallied

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
    return measured(_value(rows, level), np.concatenate([np.empty(0), *chunks]), rows.samples)


def _value(rows: Rows, level: Level) -> float:
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
