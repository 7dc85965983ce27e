"""A bridge between two judges: what the score of one is on the scale of the other.

Both judged the same answers. With ``a`` for the reference's points of these, ``b`` for the judge's,
and ``c`` for the judge's points of the answers of a run, that run has on the reference's scale::

    by the difference:  mean(a) + (mean(c) - mean(b))
    by the line:        mean(a) + slope * (mean(c) - mean(b))

The slope is that of least squares, within the groups that a headline averages. Where the run has
more answers of the same model, the line is the corrected mean of `calibrate` for a larger
population, up to the variance in its slope (A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++",
arXiv 2311.01453). That estimate is for one population, and would mix two models.

Intervals are for a larger population of questions. Each question moves an estimate by what it
contributes to the means and to the slope, added up over the runs that have it; the squares of
these are the variance (the delta method), for Student's t. As in `mmie_tasks.record.intervals`, the
effect of one unseen error of half the scale is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd
from scipy.special import stdtrit

from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval
from mmie_tasks.results.agreement.measures import Measurement
from mmie_tasks.results.agreement.rater_panel import Rater, RaterPanel

if TYPE_CHECKING:
    Floating: TypeAlias = "pd.Series[float]"

_UNSEEN = 50.0  # percent: an error of half the scale
_ROUNDING = 1e-9  # squared percent: points that are all the same
_NO_MEAN = "a group of the headline has no sample with points"
_NO_SLOPE = "the points of the two do not rise together beyond chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A run's score by the judge, and on the reference's scale, in percent.

    Attributes:
        run: Its name.
        samples: How many have points and count for the headline.
        score: By the judge; None without such samples.
        by_difference: On the reference's scale, if the two differ there as on the bridge.
        by_line: The same, if the judge's points are worth there what they are on the bridge.
    """

    run: str
    samples: int
    score: float | None
    by_difference: Measurement
    by_line: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """From a judge's scores to the reference's.

    Attributes:
        judge, reference: Their names.
        samples: How many answers have points of both and count for the headline.
        difference: Judge less reference, in percentage points.
        slope: What a percentage point of the judge is worth on the reference's scale.
        rank_correlation: Spearman's, of the points.
        translations: Of the judge's run, then of its runs of other answers.
    """

    judge: str
    reference: str
    samples: int
    difference: Measurement
    slope: Measurement
    rank_correlation: Measurement
    translations: tuple[Translation, ...]


def bridge(
    judge: Rater, reference: str, rank_correlation: Measurement, panel: RaterPanel
) -> Bridge:
    """Relate a judge to the reference on the answers with points of both, and translate its runs.

    Args:
        judge: A run of the panel.
        reference: A rater of the panel, or a mean of people.
        rank_correlation: Of the two.
        panel: Has the points, and the judge's runs of other answers.
    """
    points = {"a": panel.column(reference), "b": panel.column(judge.name)}
    pairs = _of_headline(pd.DataFrame(points, index=panel.points.index), judge, panel)
    influence = pairs["share"] * (_centred(pairs, "b") - _centred(pairs, "a"))
    slope, of_slope = _line(pairs)
    runs = (judge, *panel.other_runs.get(judge.name, ()))
    return Bridge(
        judge=judge.name,
        reference=reference,
        samples=len(pairs),
        difference=_measurement(_mean(pairs, "b") - _mean(pairs, "a"), influence, len(pairs)),
        slope=slope,
        rank_correlation=rank_correlation,
        translations=tuple(_translation(run, pairs, slope, of_slope, panel) for run in runs),
    )


def _translation(
    run: Rater, pairs: pd.DataFrame, slope: Measurement, of_slope: Floating, panel: RaterPanel
) -> Translation:
    frame = _of_headline(pd.DataFrame({"c": pd.Series(run.points, dtype=float)}), run, panel)
    score, samples = _mean(frame, "c"), min(len(pairs), len(frame))
    gap = score - _mean(pairs, "b")

    def with_slope(worth: float, of_worth: Floating, fitted: int) -> Measurement:
        residual = _centred(pairs, "a") - worth * _centred(pairs, "b")
        on_bridge = pairs["share"] * residual + gap * of_worth
        influence = on_bridge.add(worth * frame["share"] * _centred(frame, "c"), fill_value=0)
        return _measurement(_mean(pairs, "a") + worth * gap, influence, samples, fitted=fitted)

    return Translation(
        run=run.name,
        samples=len(frame),
        score=None if math.isnan(score) else score,
        by_difference=with_slope(1, 0 * of_slope, 0),
        by_line=Measurement(why_not=slope.why_not)
        if slope.value is None or slope.why_not
        else with_slope(slope.value, of_slope, 1),
    )


def _line(pairs: pd.DataFrame) -> tuple[Measurement, Floating]:
    """The slope, with the reason against it if its interval is not above 0; and what each question
    moves it by.
    """
    a, b = _centred(pairs, "a"), _centred(pairs, "b")
    squares = float(b @ b)
    if squares <= _ROUNDING:
        return Measurement(why_not=_NO_SLOPE), b
    value = float(a @ b) / squares
    influence = b * (a - value * b) / squares
    slope = _measurement(value, influence, len(pairs), fitted=1, unseen=0)
    if slope.interval and slope.interval.low <= 0:
        slope = replace(slope, why_not=_NO_SLOPE)
    return slope, influence


def _of_headline(points: pd.DataFrame, run: Rater, panel: RaterPanel) -> pd.DataFrame:
    """Points in percent of the samples that count for the headline, with the group and the share
    of each in the headline.
    """
    group = {
        id_: panel.headline.stratum(s) for id_, s in run.samples.items() if id_ in points.index
    }
    frame = points * (100 / panel.benchmark.scale.full_marks)
    frame = frame.assign(group=pd.Series(group, dtype=object)).dropna()
    sizes = frame.groupby("group")["group"].transform("size")
    return frame.assign(share=frame["group"].map(dict(panel.headline.weights)) / sizes)


def _mean(frame: pd.DataFrame, column: str) -> float:
    """The headline; NaN where a group has no samples."""
    is_whole = math.isclose(frame["share"].sum(), 1)
    return float((frame["share"] * frame[column]).sum()) if is_whole else math.nan


def _centred(frame: pd.DataFrame, column: str) -> Floating:
    """Less the mean of the group."""
    return frame[column] - frame.groupby("group")[column].transform("mean")


def _measurement(
    value: float, influence: Floating, samples: int, *, fitted: int = 0, unseen: float = _UNSEEN
) -> Measurement:
    """A value with its interval.

    Args:
        value: NaN where there is none.
        influence: By how much each question moves it.
        samples: On which it rests; of two sets, the smaller one.
        fitted: How many slopes were fitted to them.
        unseen: How far off an unseen answer may be, in percent.
    """
    if math.isnan(value):
        return Measurement(why_not=_NO_MEAN)
    if samples < MIN_SAMPLES:
        return Measurement(value=value, why_not=f"there are fewer than {MIN_SAMPLES} samples")
    degrees = samples - 1 - fitted
    variance = float(influence @ influence) * samples / degrees + (unseen / samples) ** 2
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * math.sqrt(variance)
    return Measurement(value=value, interval=Interval(value - half, value + half))
