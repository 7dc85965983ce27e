"""The bridge between two judges, on points with a known truth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.results.agreement.bridge import bridge
from mmie_tasks.results.agreement.measures import Measurement
from mmie_tasks.results.agreement.verdicts import aligned_panel, rater_of
from mmie_tasks.results.correct import Stratum, corrected_mean

RANK = Measurement(value=0.5)
TRUTH = 3.6  # mean points of the new model on the reference's scale, 0 to 6


def rater(name, points, headline, first=0):
    ids = range(first, first + len(points))
    groups = [{"half": ("even" if i % 2 == 0 else "odd",)} for i in ids]
    samples = [
        LoggedSample(id=f"{i:04}", official=Scored(p), robust=Scored(p), groups=of)
        for i, p, of in zip(ids, points, groups, strict=True)
    ]
    rows = [(s.id, s.official.points, None, None, headline.stratum(s), s.groups) for s in samples]
    return rater_of(name, "judge", Path(name), rows)


def bridged(a, b, *others, headline=BENCHMARK.metrics[0], first=0):
    judges = (rater("old", a, headline), rater("new", b, headline))
    runs = [rater(f"run {i}", points, headline, first) for i, points in enumerate(others)]
    panel = aligned_panel("mmie", BENCHMARK, headline, judges, {"new": runs})
    return bridge(judges[1], "old", RANK, panel)


def test_the_difference_and_the_line_are_those_of_the_means_and_of_least_squares():
    a, b, c = np.random.default_rng(1).integers(0, 7, size=(3, 40)).astype(float)
    a = (a + 2 * b) / 3
    result = bridged(a, b, c)
    percent = 100 / 6
    slope, height = np.polyfit(b, a, 1)
    assert result.samples == 40
    assert result.difference.value == pytest.approx((b - a).mean() * percent)
    assert result.slope.value == pytest.approx(slope)
    own, other = result.translations
    assert own.by_difference.value == pytest.approx(a.mean() * percent)
    assert own.by_line.value == pytest.approx(a.mean() * percent)
    assert other.score == pytest.approx(c.mean() * percent)
    assert other.by_difference.value == pytest.approx((c - b + a).mean() * percent)
    assert other.by_line.value == pytest.approx((height + slope * c.mean()) * percent)
    reverse, height = np.polyfit(a, b, 1)
    assert other.by_reverse_line.value == pytest.approx((c.mean() - height) / reverse * percent)


def test_for_more_answers_of_the_same_model_the_line_is_the_corrected_mean():
    rng = np.random.default_rng(2)
    b = rng.integers(0, 7, size=200).astype(float)
    a = 0.7 * b[:60] + rng.normal(0, 0.5, 60)
    percent = 100 / 6
    scored = Stratum(
        weight=1, reference=a * percent, judge=b[:60] * percent, others=b[60:] * percent
    )
    expected = corrected_mean([scored], full_marks=100).corrected
    [own] = bridged(a, b).translations
    assert own.samples == 200
    assert own.by_line.value == pytest.approx(expected.value, abs=0.1)
    assert own.by_line.interval == pytest.approx(expected.interval, abs=0.2)


def test_a_headline_of_group_means_has_its_weights():
    headline = Metric(
        name="", title="", kind="headline", by="half", weights={"even": 0.9, "odd": 0.1}
    )
    a, b = np.tile([1.0, 2.0], 20), np.tile([2.0, 5.0], 20) + np.repeat([0.0, 1.0], 20)
    result = bridged(a, b, headline=headline)
    assert result.difference.value == pytest.approx((0.9 * 1.5 + 0.1 * 3.5) * 100 / 6)
    odd = replace(headline, weights={"even": 0.9, "absent": 0.1})
    assert bridged(a, b, headline=odd).difference.value is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param([1, 2, 3, 4] * 10, [3] * 40, id="the judge gives all the same points"),
        pytest.param([1, 2, 2, 1] * 10, [1, 1, 5, 5] * 10, id="unrelated points"),
        pytest.param([4, 3, 2, 1] * 10, [1, 2, 3, 4] * 10, id="opposite points"),
        pytest.param([1, 2, 3], [1, 2, 3], id="three answers"),
    ],
)
def test_points_that_do_not_support_a_line_give_the_difference_only(a, b):
    result = bridged(a, b, [3] * len(a))
    for run in result.translations:
        assert run.by_line.value is run.by_reverse_line.value is run.between_lines is None
        assert run.by_line.why_not
        assert run.by_difference.value is not None
    assert (result.difference.interval is None) == (len(a) < 10)


def test_a_question_in_both_runs_counts_once():
    """The judge is lenient on hard questions: with the same ones, the two errors add up."""
    b = np.random.default_rng(3).uniform(1, 5, 100)
    widths = [
        np.ptp(bridged(2 * b - 4, b, b, first=first).translations[1].by_difference.interval)
        for first in (0, 100)
    ]
    assert widths[0] > 1.2 * widths[1]


def share_held(slope, noise, held_by, samples=40, draws=40):
    """How often an interval of a better model holds its score by the reference, never asked."""
    intervals = [held_by(run) for run in translations(slope, noise, samples, draws)]
    return sum(low <= TRUTH * 100 / 6 <= high for low, high in intervals) / draws


@cache
def translations(slope, noise, samples, draws):
    """A better model's scores on the scale of the reference, in each draw.

    The judge's points are `slope` times what the reference sees; each errs by its own `noise`. Half
    of the draws are of the same questions.
    """
    rng, translated = np.random.default_rng(4), []
    for draw in range(draws):
        hardness = rng.normal(0, 0.8, 2 * samples)
        quality = 2.8 + hardness[:samples] + rng.normal(0, 0.8, samples)
        of_theirs = hardness[:samples] if draw % 2 else hardness[samples:]
        theirs = TRUTH + of_theirs + rng.normal(0, 0.8, samples)
        a = quality + rng.normal(0, noise[0], samples)
        b, c = (1 + slope * q + rng.normal(0, noise[1], samples) for q in (quality, theirs))
        result = bridged(a, b, c, first=0 if draw % 2 else samples)
        translated.append(result.translations[1])
    return translated


def by_difference(run):
    return run.by_difference.interval


def by_line(run):
    return run.by_line.interval


def by_both_lines(run):
    return run.between_lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slope", "noise", "held_by"),
    [
        pytest.param(1, (0.7, 0.7), by_difference, id="the same scale"),
        pytest.param(0.5, (0.5, 0), by_line, id="chance in the reference alone"),
        pytest.param(0.5, (0.7, 0.7), by_both_lines, id="half of the scale"),
        pytest.param(2, (0.7, 0.7), by_both_lines, id="twice the scale"),
    ],
)
def test_the_intervals_hold_the_score_by_the_reference(slope, noise, held_by):
    assert share_held(slope, noise, held_by) >= 0.9  # 40 draws; 0.97 of 300 for the first


@pytest.mark.slow
@pytest.mark.parametrize(
    "held_by", [pytest.param(by_difference, id="difference"), pytest.param(by_line, id="line")]
)
def test_the_difference_and_one_line_miss_it_where_a_judge_errs_on_half_of_the_scale(held_by):
    assert share_held(0.5, (0.2, 0.7), held_by, samples=150, draws=20) < 0.8
