"""Statistics of pairs of ratings as scipy and scikit-learn compute them.

Their values are the ones that are shown; `mmie_tasks.agreement.weighted` is for the intervals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mmie_tasks.agreement.pairs import Pairs
from mmie_tasks.agreement.resampling import Floats

_KENDALL_WORK = 400_000  # samples times resamples
_LEAST = 100  # resamples


def pearson(pairs: Pairs) -> float:
    """Pearson's correlation, -1 to 1; neither rater is constant."""
    from scipy import stats

    return float(stats.pearsonr(*pairs.one_by_one).statistic)


def spearman(pairs: Pairs) -> float:
    """Spearman's rank correlation, -1 to 1; neither rater is constant."""
    from scipy import stats

    return float(stats.spearmanr(*pairs.one_by_one).statistic)


def kendall(pairs: Pairs) -> float:
    """Kendall's tau-b, -1 to 1; neither rater is constant."""
    from scipy import stats

    return float(stats.kendalltau(*pairs.one_by_one).statistic)


def kappa(pairs: Pairs, full_marks: int) -> float:
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
