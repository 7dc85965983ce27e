"""A bridge between two judges: the score of one on the scale of the other.

Both judged the same answers. Let ``a`` be the reference's points for them, ``b`` the judge's, and
``c`` the judge's points for the answers of a run. On the reference's scale that run has::

    by the difference:  mean(a) + (mean(c) - mean(b))
    by a line:          mean(a) + slope * (mean(c) - mean(b))

There are two lines, within the groups that a headline averages: least squares of ``a`` on ``b``,
and of ``b`` on ``a``. The first is right for another model's answers if all chance is in ``a``, the
second if all is in ``b``. Both judges err by chance, and the truth is between the lines (R. Frisch,
"Statistical Confluence Analysis by Means of Complete Regression Systems", 1934).

If the run has more answers of the same model, the first line is the corrected mean of
`mmie_tasks.results.correct`, up to the variance in its slope.

Intervals are for a larger population of questions. Each question's influence on an estimate is its
contribution to the means and to the slope, summed over the runs that have it; the sum of squared
influences is the variance (the delta method), for Student's t. As in
`mmie_tasks.record.intervals`, the effect of one unseen error of half the scale is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd
from scipy.special import stdtrit

from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval
from mmie_tasks.results.agreement.measures import Measurement
from mmie_tasks.results.agreement.verdicts import Rater, RaterPanel

_UNSEEN = 50.0  # percent: an error of half the scale
_ROUNDING = 1e-9  # squared percent: points that are all the same
_NO_MEAN = "a group of the headline has no sample with points"
_NO_SLOPE = "the points of the two do not rise together beyond chance"


class _FittedLine(NamedTuple):
    """A slope, each question's influence on it, and how many slopes were fitted."""

    slope: Measurement
    influence: pd.Series
    fitted: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A run's score by the judge, and the same on the reference's scale, in percent.

    `score` is None if no sample counts for the headline. `by_line` uses the line of the reference's
    points on the judge's, `by_reverse_line` the line of the judge's points on the reference's.
    """

    run: str
    samples: int
    score: float | None
    by_difference: Measurement
    by_line: Measurement
    by_reverse_line: Measurement

    @property
    def between_lines(self) -> Interval | None:
        """The interval that contains the intervals of both lines, if both have one."""
        first, second = self.by_line.interval, self.by_reverse_line.interval
        return first and second and Interval(min(*first, *second), max(*first, *second))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """From a judge's scores to the reference's.

    Attributes:
        judge, reference: Their names.
        samples: How many answers have points of both and count for the headline.
        difference: Judge minus reference, in percentage points.
        slope: What a percentage point of the judge is worth on the reference's scale, by the line
            of the reference's points on the judge's.
        reverse_slope: The same, by the line of the judge's points on the reference's.
        rank_correlation: Spearman's, of the points.
        translations: The judge's run, then its runs of other answers.
    """

    judge: str
    reference: str
    samples: int
    difference: Measurement
    slope: Measurement
    reverse_slope: Measurement
    rank_correlation: Measurement
    translations: Sequence[Translation]


def bridge(
    judge: Rater, reference: str, rank_correlation: Measurement, panel: RaterPanel
) -> Bridge:
    """Relate a judge to the reference (a rater or a mean of people), on the answers with points of
    both, and translate the judge's runs.
    """
    points = panel.points[[reference, judge.name]].set_axis(["a", "b"], axis=1)
    pairs = _of_headline(points, judge, panel)
    influence = pairs["share"] * (_centred(pairs, "b") - _centred(pairs, "a"))
    lines = _lines(pairs)
    runs = (judge, *panel.other_runs.get(judge.name, ()))
    return Bridge(
        judge=judge.name,
        reference=reference,
        samples=len(pairs),
        difference=_measurement(_mean(pairs, "b") - _mean(pairs, "a"), influence, len(pairs)),
        slope=lines[0].slope,
        reverse_slope=lines[1].slope,
        rank_correlation=rank_correlation,
        translations=[_translation(run, pairs, lines, panel) for run in runs],
    )


def _translation(
    run: Rater, pairs: pd.DataFrame, lines: Sequence[_FittedLine], panel: RaterPanel
) -> Translation:
    frame = _of_headline(run.verdicts[["points"]].set_axis(["c"], axis=1), run, panel)
    score, samples = _mean(frame, "c"), min(len(pairs), len(frame))
    gap = score - _mean(pairs, "b")

    def by(line: _FittedLine) -> Measurement:
        slope = line.slope.value
        if slope is None or line.slope.why_not:
            return Measurement(why_not=line.slope.why_not)
        residual = _centred(pairs, "a") - slope * _centred(pairs, "b")
        on_bridge = pairs["share"] * residual + gap * line.influence
        influence = on_bridge.add(slope * frame["share"] * _centred(frame, "c"), fill_value=0)
        return _measurement(_mean(pairs, "a") + slope * gap, influence, samples, fitted=line.fitted)

    return Translation(
        run=run.name,
        samples=len(frame),
        score=None if math.isnan(score) else score,
        by_difference=by(_FittedLine(Measurement(value=1), 0 * pairs["a"], fitted=0)),
        by_line=by(lines[0]),
        by_reverse_line=by(lines[1]),
    )


def _lines(pairs: pd.DataFrame) -> list[_FittedLine]:
    """Both lines, with a reason against them unless the interval of the first is above 0."""
    a, b = _centred(pairs, "a"), _centred(pairs, "b")
    lines = []
    for x in (b, a):
        if abs(float(x @ b)) <= _ROUNDING:
            lines.append(_FittedLine(Measurement(why_not=_NO_SLOPE), 0 * x))
            continue
        value = float(x @ a) / float(x @ b)
        influence = x * (a - value * b) / float(x @ b)
        lines.append(
            _FittedLine(_measurement(value, influence, len(pairs), fitted=1, unseen=0), influence)
        )
    first = lines[0].slope
    if first.why_not or (first.interval and first.interval.low <= 0):
        why_not = first.why_not or _NO_SLOPE
        lines = [line._replace(slope=replace(line.slope, why_not=why_not)) for line in lines]
    return lines


def _of_headline(points: pd.DataFrame, run: Rater, panel: RaterPanel) -> pd.DataFrame:
    """Percent, group and share in the headline of each sample that counts for the headline."""
    frame = points * (100 / panel.benchmark.scale.full_marks)
    frame = frame.assign(group=run.verdicts["stratum"]).dropna()
    sizes = frame.groupby("group")["group"].transform("size")
    return frame.assign(share=frame["group"].map(dict(panel.headline.weights)) / sizes)


def _mean(frame: pd.DataFrame, column: str) -> float:
    """The headline; NaN where a group has no samples."""
    is_whole = math.isclose(frame["share"].sum(), 1)
    return float((frame["share"] * frame[column]).sum()) if is_whole else math.nan


def _centred(frame: pd.DataFrame, column: str) -> pd.Series:
    """The column minus the mean of each group."""
    return frame[column] - frame.groupby("group")[column].transform("mean")


def _measurement(
    value: float, influence: pd.Series, samples: int, *, fitted: int = 0, unseen: float = _UNSEEN
) -> Measurement:
    """A value with its interval; `unseen` is the error of one unseen answer, in percent."""
    if math.isnan(value):
        return Measurement(why_not=_NO_MEAN)
    if samples < MIN_SAMPLES:
        return Measurement(value=value, why_not=f"there are fewer than {MIN_SAMPLES} samples")
    degrees = samples - 1 - fitted
    variance = float(influence @ influence) * samples / degrees + (unseen / samples) ** 2
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * math.sqrt(variance)
    return Measurement(value=value, interval=Interval(value - half, value + half))
