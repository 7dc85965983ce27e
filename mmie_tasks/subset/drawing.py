"""Subsets drawn at random, many at once.

A subset's numbers depend only on how many of each kind of sample it holds: samples of one group
with the same points are alike. So these counts are drawn (multivariate hypergeometric), which is
the same distribution as drawing the samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

_CHUNK = 4_000_000  # counts held at once

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A weighted mean of group means.

    Attributes:
        groups: Which group each sample counts for, -1 for none; shape ``(samples,)``.
        weights: Of the groups, in their order.
    """

    groups: Whole
    weights: Floats


def places(sizes: Sequence[int], wanted: int) -> list[int]:
    """How many to take of each stratum: its share, rounded by largest remainder.

    >>> places([5005, 11482, 3616], 1000)
    [249, 571, 180]
    """
    total = sum(sizes)
    shares = [divmod(wanted * size, total) for size in sizes]
    taken = [whole for whole, _ in shares]
    by_remainder = sorted(range(len(sizes)), key=lambda place: -shares[place][1])
    for place in by_remainder[: wanted - sum(taken)]:
        taken[place] += 1
    return taken


def full(points: Floats, means: Sequence[Mean]) -> Floats:
    """The means over all samples; shape ``(means, runs)``, NaN where a group has no sample.

    Args:
        points: Shape ``(runs, samples)``.
        means: To be computed.
    """
    everything = np.ones((1, points.shape[1]))
    return _means(everything, points, means)[:, :, 0]


def drawn(
    points: Floats, strata: Whole, means: Sequence[Mean], wanted: int, draws: int, seed: int = 0
) -> Floats:
    """Means over subsets that are drawn without replacement, each stratum by its share.

    Args:
        points: Shape ``(runs, samples)``; the same samples are drawn for every run.
        strata: Of each sample, from 0; all 0 for simple random subsets.
        means: To be computed.
        wanted: Samples in a subset; at most as many as there are.
        draws: How many subsets.
        seed: The same samples, in whatever order, with the same seed give the same subsets.

    Returns:
        Shape ``(means, runs, draws)``; NaN where the subset has no sample of a group.
    """
    cells = _cells(points, strata, means)
    bounds = np.append(np.searchsorted(cells.strata, np.arange(strata.max() + 1)), len(cells.sizes))
    sizes = [cells.sizes[begin:end] for begin, end in pairwise(bounds)]
    taken = places([int(each.sum()) for each in sizes], wanted)
    random = np.random.default_rng([seed, wanted])
    found = []
    for count in _chunks(draws, len(cells.sizes)):
        counts = [
            random.multivariate_hypergeometric(size, take, size=count, method="count")
            for size, take in zip(sizes, taken, strict=True)
        ]
        found.append(_means(np.concatenate(counts, axis=1), cells.points, cells.means))
    return np.concatenate(found, axis=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Samples that are alike, together: sorted by stratum; `sizes` is how many there are."""

    points: Floats
    strata: Whole
    means: list[Mean]
    sizes: Whole


def _cells(points: Floats, strata: Whole, means: Sequence[Mean]) -> _Cells:
    columns = np.column_stack([strata, *(mean.groups for mean in means), *points])
    alike, sizes = np.unique(columns, axis=0, return_counts=True)
    groups = alike[:, 1 : 1 + len(means)].astype(np.int64).T
    return _Cells(
        points=alike[:, 1 + len(means) :].T,
        strata=alike[:, 0].astype(np.int64),
        means=[Mean(groups=g, weights=m.weights) for g, m in zip(groups, means, strict=True)],
        sizes=sizes.astype(np.int64),
    )


def _means(counts: npt.NDArray[np.generic], points: Floats, means: Sequence[Mean]) -> Floats:
    """From how often each sample, or kind of sample, is in a draw: ``(means, runs, draws)``."""
    times = counts.astype(np.float64)
    found = np.empty((len(means), len(points), len(times)))
    for place, mean in enumerate(means):
        inside = (mean.groups[:, None] == np.arange(len(mean.weights))).astype(np.float64)
        held = times @ inside
        held[held == 0] = np.nan
        for run, each in enumerate(points):
            found[place, run] = times @ (inside * each[:, None]) / held @ mean.weights
    return found


def _chunks(draws: int, width: int) -> Iterator[int]:
    most = max(1, _CHUNK // width)
    for begin in range(0, draws, most):
        yield min(most, draws - begin)
