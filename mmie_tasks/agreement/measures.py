"""What is measured of two raters: the paper's four numbers, and what they leave open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mmie_tasks.agreement import library, weighted
from mmie_tasks.agreement.pairs import Pairs
from mmie_tasks.agreement.resampling import Floats, Measured, draws, measured, resamples_for
from mmie_tasks.agreement.weighted import Statistic
from mmie_tasks.review import Scale

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
        "cosine": weighted.cosine,
        "mse": weighted.mse,
        "mae": weighted.mae,
        "pearson": weighted.pearson,
        "spearman": weighted.spearman,
        "kendall": weighted.kendall,
        "kappa": weighted.kappa,
        "exact": partial(weighted.within, points=0),
        "within": partial(weighted.within, points=asked.near),
        "bias": weighted.bias,
        "sd": weighted.sd,
    }


def _value(name: str, pairs: Pairs, statistic: Statistic, asked: Asked) -> float:
    """Of the samples as they are: by a library where it has the statistic."""
    match name:
        case "pearson":
            return library.pearson(pairs)
        case "spearman":
            return library.spearman(pairs)
        case "kendall":
            return library.kendall(pairs)
        case "kappa":
            return library.kappa(pairs, round(asked.scale.full_marks))
    return float(statistic(pairs, pairs.counts[np.newaxis].astype(np.float64))[0])


def _drawn(
    pairs: Pairs, on_steps: Pairs, statistics: Mapping[str, Statistic], asked: Asked
) -> dict[str, Floats]:
    """The statistics of every resample; all of them are of the same draws."""
    if pairs.samples < 2 or not asked.resamples:
        return {name: np.empty(0) for name in statistics}
    resamples = resamples_for(len(pairs.counts), asked.resamples)
    one_by_one = "kendall" in statistics and weighted.cells(pairs) > _CELLS
    found: dict[str, list[Floats]] = defaultdict(list)
    for weights in draws(pairs.counts, resamples):
        for name, statistic in statistics.items():
            if not (name == "kendall" and one_by_one):
                subject = on_steps if name in ("kappa", "exact", "within") else pairs
                found[name].append(statistic(subject, weights))
    drawn = {name: np.concatenate(values) for name, values in found.items()}
    if one_by_one:
        fewer = library.library_resamples(pairs.samples, resamples)
        drawn["kendall"] = library.kendalls(pairs, draws(pairs.counts, fewer))
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
