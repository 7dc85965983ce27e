"""The corrected mean: equal to ppi-python where that has the form, to the formulas by hand
elsewhere; and how often its intervals hold the reference's mean, for made-up judges.
"""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mmie_tasks.record.intervals import MIN_SAMPLES, allocation
from mmie_tasks.results.correct import Stratum, corrected_mean

FULL_MARKS = 6


def stratum(reference, judge, scored, weight=1.0):
    """The first ones of the judge's answers are scored by the reference."""
    reference, judge = np.array(reference, dtype=float), np.array(judge, dtype=float)
    first, others = judge[:scored], judge[scored:]
    return Stratum(weight=weight, reference=reference[:scored], judge=first, others=others)


def random_stratum(size, scored, *, seed=0, slope=0.8, noise=1.0, weight=1.0):
    """Points from 0 to 6 by the judge; the reference's are a line of these with noise."""
    random = np.random.default_rng(seed)
    judge = random.integers(0, 7, size)
    reference = 1 + slope * judge[:scored] + noise * random.normal(size=scored)
    return stratum(reference, judge, scored, weight)


def width(measurement):
    return measurement.interval.high - measurement.interval.low


@pytest.fixture(scope="module")
def ppi():
    with warnings.catch_warnings():  # its import switches all warnings off, and takes two seconds
        import ppi_py.ppi
    return ppi_py


@pytest.mark.parametrize("slope", [0.9, -0.4, 3.0, 0.0])
@pytest.mark.parametrize(("size", "scored"), [(20_103, 100), (300, 12), (61, 60)])
def test_the_value_is_that_of_ppi_python(ppi, size, scored, slope):
    one = random_stratum(size, scored, seed=size + scored, slope=slope)
    value = ppi.ppi_mean_pointestimate(one.reference, one.judge, one.others).item()
    assert corrected_mean([one], FULL_MARKS).corrected.value == pytest.approx(value)


@pytest.mark.parametrize("slope", [0.9, 0.0])
def test_with_many_answers_and_no_unseen_error_so_is_the_interval(ppi, slope):
    one = random_stratum(20_000, 2000, slope=slope)
    mean = corrected_mean([one], full_marks=1e-3)
    expected = np.ravel(ppi.ppi_mean_ci(one.reference, one.judge, one.others, alpha=0.05))
    assert mean.corrected.interval == pytest.approx(expected, abs=0.001 * np.ptp(expected))
    expected = np.ravel(ppi.classical_mean_ci(one.reference, alpha=0.05))
    assert mean.alone.interval == pytest.approx(expected, abs=0.001 * np.ptp(expected))


def test_strata_are_added_with_their_weights_and_share_one_slope():
    first = random_stratum(400, 30, seed=1, slope=0.2, weight=0.7)
    strata = [first, random_stratum(100, 10, seed=2, slope=0.9, weight=0.3)]
    mean = corrected_mean(strata, FULL_MARKS)
    factors = 0.49 * (1 / 30 - 1 / 400), 0.09 * (1 / 10 - 1 / 100)
    covariances = [np.cov(s.reference, s.judge, ddof=0)[0, 1] for s in strata]
    variances = [np.r_[s.judge, s.others].var(ddof=1) for s in strata]
    slope = np.dot(factors, covariances) / np.dot(factors, variances)
    lam = slope * 370 / 400, slope * 90 / 100
    residuals = [s.reference - f * s.judge for s, f in zip(strata, lam, strict=True)]
    means = [f * s.others.mean() + e.mean() for s, f, e in zip(strata, lam, residuals, strict=True)]
    assert mean.corrected.value == pytest.approx(0.7 * means[0] + 0.3 * means[1])
    parts = [
        s.weight**2
        * ((39 * e.var(ddof=1) + 9) / 40 / len(e) + f**2 * s.others.var(ddof=1) / len(s.others))
        for s, f, e in zip(strata, lam, residuals, strict=True)
    ]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 9) * 37 / 38
    half = stats.t.ppf(0.975, degrees) * math.sqrt(sum(parts) * 38 / 37)
    assert width(mean.corrected) == pytest.approx(2 * half)


@pytest.mark.parametrize(("scored", "share"), [(20, 0.055), (100, 0.011)])
def test_a_judge_without_an_error_on_the_answers_may_have_one_of_half_the_scale(scored, share):
    """A judge that errs on 1 % of the answers would have an interval of no width in 82 and 37 %
    of the draws.
    """
    one = random_stratum(20_000, scored, slope=1, noise=0)
    mean = corrected_mean([one], FULL_MARKS)
    everyone = np.r_[one.judge, one.others]
    assert mean.corrected.value == pytest.approx(everyone.mean() + 1, abs=0.01)
    assert width(mean.corrected) / 2 == pytest.approx(FULL_MARKS * share, rel=0.1)


@pytest.mark.parametrize(
    ("counts", "has_value", "has_interval"),
    [
        pytest.param((MIN_SAMPLES - 3, 2), True, False, id="few"),
        pytest.param((40, 1), True, False, id="one in a stratum"),
        pytest.param((40, 0), False, False, id="none in a stratum"),
        pytest.param((MIN_SAMPLES - 2, 2), True, True, id="enough"),
    ],
)
def test_too_few_answers_give_no_interval_but_the_reason(counts, has_value, has_interval):
    strata = [random_stratum(500, n, seed=seed, weight=0.5) for seed, n in enumerate(counts)]
    mean = corrected_mean(strata, FULL_MARKS)
    for measurement in (mean.alone, mean.corrected):
        assert (measurement.value is not None) == has_value
        assert (measurement.interval is not None) == has_interval
        assert bool(measurement.why_not) == (not has_interval)
    assert (mean.worth is not None) == has_interval


@st.composite
def strata_of_points(draw):
    """One to four strata, points in steps of a half; with one level, all points are the same."""
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    strata = []
    for size in sizes:
        scored = draw(st.integers(0, size))
        judge = random.integers(0, draw(st.integers(1, 13)), size) / 2
        noise = random.integers(0, draw(st.integers(1, 13)), scored) / 2
        reference = draw(st.sampled_from([-1, 0, 0.5, 1, 2])) * judge[:scored] + noise
        strata.append(stratum(reference, judge, scored, size / sum(sizes)))
    return strata


def numbers_of(mean):
    """All numbers of a result; NaN for those that it does not have."""
    both = (mean.alone, mean.corrected)
    ends = [end for one in both for end in one.interval or (None, None)]
    values = [*(one.value for one in both), *ends, mean.worth]
    return [math.nan if value is None else value for value in values]


@given(strata_of_points())
def test_any_points_have_a_result_whose_intervals_contain_it(strata):
    mean = corrected_mean(strata, FULL_MARKS)
    for one in (mean.alone, mean.corrected):
        assert (one.interval is None) == bool(one.why_not)
        if one.interval:
            assert one.interval.low <= one.value <= one.interval.high


@given(strata_of_points(), st.randoms(use_true_random=False))
def test_the_order_of_answers_and_of_strata_does_not_matter(strata, random):
    shuffled = []
    for one in random.sample(strata, len(strata)):
        scored, others = (random.sample(range(n), n) for n in (len(one.reference), len(one.others)))
        points = {"reference": one.reference[scored], "judge": one.judge[scored]}
        shuffled.append(replace(one, **points, others=one.others[others]))
    first, second = corrected_mean(strata, FULL_MARKS), corrected_mean(shuffled, FULL_MARKS)
    assert numbers_of(second) == pytest.approx(numbers_of(first), abs=1e-7, nan_ok=True)


# How often intervals hold the reference's mean. A judge is points of the reference and its own.


def noisy(random, count):
    quality, noise = random.normal(size=(2, count))
    points = 3 + 1.6 * np.array([quality, 0.6 * quality + 0.8 * noise])
    return np.clip(np.round(points), 0, FULL_MARKS)


def rarely_far_too_high(random, count):
    """Full marks for 5 % of the answers, which deserve at most one point."""
    is_wrong = random.random(count) < 0.05
    reference = random.integers(np.where(is_wrong, 2, 7))
    return reference, np.where(is_wrong, FULL_MARKS, reference)


def all_or_nothing(random, count):
    """92 % of the answers deserve full marks, the others none; right in 90 %."""
    reference = random.random(count) < 0.92
    return FULL_MARKS * np.array([reference, reference ^ (random.random(count) < 0.1)])


def coverage(make, scored, draws):
    """Share of the corrected intervals of runs of 400 answers that hold the reference's mean; the
    strata have MMIE's proportions.
    """
    random, held = np.random.default_rng(scored), 0
    expected = np.mean(make(random, 2_000_000)[0])
    sizes = allocation([5005, 11_482, 3616], 400)
    counts = allocation(sizes, scored)
    for _ in range(draws):
        parts = np.split(np.array(make(random, 400)), np.cumsum(sizes)[:-1], axis=1)
        of_strata = zip(parts, counts, sizes, strict=True)
        strata = [stratum(*part, n, size / 400) for part, n, size in of_strata]
        interval = corrected_mean(strata, FULL_MARKS).corrected.interval
        held += interval.low <= expected <= interval.high
    return held / draws


@pytest.mark.slow
def test_95_percent_of_the_intervals_hold_the_references_mean_with_few_answers_too():
    """150 draws have a standard error of 2 %."""
    judges = (noisy, rarely_far_too_high, all_or_nothing)
    held = [coverage(judge, scored, draws=150) for judge in judges for scored in (30, 50)]
    assert 0.93 <= np.mean(held) <= 0.98
    assert min(held) >= 0.86
