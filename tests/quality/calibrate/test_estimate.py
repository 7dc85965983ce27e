"""The corrected mean: equal to ppi-python where that has the form, to the formulas by hand
elsewhere.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mmie_tasks.quality.calibrate.estimate import (
    MIN_LABELS,
    CorrectedMean,
    StratumScores,
    corrected_mean,
)

POPULATIONS = ("run", "larger")


def stratum(judge, labelled, people, *, weight=1.0, name="all") -> StratumScores:
    return StratumScores(
        name=name,
        weight=weight,
        judge=np.array(judge, dtype=np.float64),
        labelled=np.array(labelled, dtype=np.int64),
        people=np.array(people, dtype=np.float64),
    )


def random_stratum(
    samples, labels, *, seed=0, slope=0.8, noise=1.0, weight=1.0, name="all"
) -> StratumScores:
    """Points from 0 to 6 by the judge, people's a line of these with noise."""
    random = np.random.default_rng(seed)
    judge = random.integers(0, 7, samples)
    labelled = random.permutation(samples)[:labels]
    people = 1 + slope * judge[labelled] + noise * random.normal(size=labels)
    return stratum(judge, labelled, people, weight=weight, name=name)


def width(estimate) -> float:
    return estimate.interval.high - estimate.interval.low


@pytest.fixture(scope="module")
def ppi() -> ModuleType:
    with warnings.catch_warnings():  # its import switches all warnings off, and takes two seconds
        import ppi_py.ppi
    return ppi_py


class TestOracle:
    @pytest.mark.parametrize("slope", [0.3, 0.9, -0.4, 3.0, 0.0])
    @pytest.mark.parametrize(
        ("samples", "labels"), [(20_103, 100), (20_000, 30), (300, 12), (200, 150), (61, 60)]
    )
    def test_for_a_larger_population_value_and_weight_are_those_of_ppi_python(
        self, ppi, samples, labels, slope
    ):
        scores = random_stratum(samples, labels, seed=samples + labels, slope=slope)
        people, judge, rest = scores.people, scores.judge_on_labels, unlabelled(scores)
        value = ppi.ppi_mean_pointestimate(people, judge, rest).item()
        lam = ppi.ppi._calc_lam_glm(people, judge, rest, np.eye(1), clip=True)
        mean = corrected_mean([scores], "larger")
        assert (mean.corrected.value, *mean.weights_of_judge) == pytest.approx((value, lam))

    @pytest.mark.parametrize("slope", [0.9, 0.0])
    def test_with_many_labels_and_no_unseen_error_so_is_the_interval(self, ppi, slope):
        scores = random_stratum(20_000, 2000, slope=slope)
        people, judge, rest = scores.people, scores.judge_on_labels, unlabelled(scores)
        expected = np.ravel(ppi.ppi_mean_ci(people, judge, rest, alpha=0.05))
        mean = corrected_mean([scores], "larger", full_marks=1e-3)
        assert mean.corrected.interval == pytest.approx(expected, abs=0.001 * np.ptp(expected))
        expected = np.ravel(ppi.classical_mean_ci(people, alpha=0.05))
        assert mean.people.interval == pytest.approx(expected, abs=0.001 * np.ptp(expected))

    def test_the_bias_of_a_larger_population_holds_the_error_of_both_means(self):
        scores = random_stratum(300, 100)
        mean = corrected_mean([scores], "larger", full_marks=1e-3)
        (lam,), rest = mean.weights_of_judge, unlabelled(scores)
        # judge - corrected, written as a mean over the labelled samples and one over the others
        judge = scores.judge_on_labels
        labelled_part, rest_part = judge / 3 - (scores.people - lam * judge), (2 / 3 - lam) * rest
        variance = labelled_part.var() / 100 + rest_part.var() / 200
        assert mean.bias.value == pytest.approx(labelled_part.mean() + rest_part.mean(), abs=1e-9)
        half_width = stats.t.ppf(0.975, 98) * math.sqrt(variance * 99 / 98)
        assert width(mean.bias) == pytest.approx(2 * half_width, rel=1e-3)


def unlabelled(scores) -> np.ndarray:
    return np.delete(scores.judge, scores.labelled)


class TestByHand:
    """Judge 0, 2, 2, 4 and people 0, 1, 3, 4 over and over: 20 labels of 200 samples."""

    scores = stratum([0, 2, 2, 4] * 5 + [1, 3, 3, 5] * 45, range(20), [0, 1, 3, 4] * 5)
    mean = corrected_mean([scores], full_marks=4)

    def test_means(self):
        assert (self.mean.samples, self.mean.labels) == (200, 20)
        assert self.mean.weights_of_judge == (1,)  # covariance 8 of 4 samples, variance 8
        assert (self.mean.judge, self.mean.people.value) == (2.9, 2)
        assert self.mean.corrected.value == pytest.approx(
            2.9
        )  # on the labels they differ by 0 on average
        assert self.mean.bias.value == pytest.approx(0)

    def test_intervals(self):
        factor = 1 / 20 - 1 / 200
        # sum of squares 50, and one unseen error of half of 4 points
        assert width(self.mean.people) / 2 == pytest.approx(
            stats.t.ppf(0.975, 19) * math.sqrt((50 + 4) / 20 * factor)
        )
        # people - judge is 0, -1, 1, 0: sum of squares 10, and 18 degrees of freedom beside mean
        # and slope
        half_width = stats.t.ppf(0.975, 18) * math.sqrt((10 + 4) / 20 * 19 / 18 * factor)
        assert self.mean.corrected.interval == pytest.approx((2.9 - half_width, 2.9 + half_width))
        assert self.mean.bias.interval == pytest.approx((-half_width, half_width))

    def test_skewness_moves_both_ends(self):
        """19 labels of 20 are alike: s² is 0.05, and the third moment -0.04275."""
        scores = stratum([1] * 200, range(20), [1] * 19 + [0])
        low, high = corrected_mean([scores], "larger", full_marks=1).corrected.interval
        variance, z = (19 * 0.05 + 0.25) / 400, 1.96
        moved = -0.04275 / 400 / (6 * variance) * (1 + 2 * z**2)
        assert (low + high) / 2 == pytest.approx(0.95 + moved, abs=1e-4)
        assert low < 0.95 < high

    def test_what_the_judge_is_worth(self):
        ratio = 14 / 54 * 19 / 18
        assert self.mean.labels_worth == pytest.approx(1 / ((1 / 20 - 1 / 200) * ratio + 1 / 200))
        assert self.mean.saves_labels
        assert self.mean.labels_to_halve == 42  # 1/62 - 1/200 is a quarter of 1/20 - 1/200

    def test_strata_are_added_with_their_weights_and_share_one_slope(self):
        first, second = (
            random_stratum(400, 30, seed=1, slope=0.2),
            random_stratum(100, 10, seed=2, slope=0.9),
        )
        strata = [replace(first, weight=0.7), replace(second, weight=0.3)]
        mean = corrected_mean(strata, full_marks=6)
        factors = (0.49 * (1 / 30 - 1 / 400), 0.09 * (1 / 10 - 1 / 100))
        judged = [s.judge[s.labelled] for s in (first, second)]
        covariances = [np.cov(s.people, f) for s, f in zip((first, second), judged, strict=True)]
        lam = np.dot(factors, [c[0, 1] for c in covariances]) / np.dot(
            factors, [c[1, 1] for c in covariances]
        )
        assert mean.weights_of_judge == pytest.approx((lam, lam))

        residuals = [s.people - lam * f for s, f in zip((first, second), judged, strict=True)]
        parts = [
            lam * s.judge.mean() + e.mean() for s, e in zip((first, second), residuals, strict=True)
        ]
        assert mean.corrected.value == pytest.approx(0.7 * parts[0] + 0.3 * parts[1])
        first_part, second_part = (
            f * (39 * e.var(ddof=1) + 9) / 40 for f, e in zip(factors, residuals, strict=True)
        )
        degrees = (
            (first_part + second_part) ** 2 / (first_part**2 / 29 + second_part**2 / 9) * 37 / 38
        )
        variance = (first_part + second_part) * 38 / 37
        assert width(mean.corrected) == pytest.approx(
            2 * stats.t.ppf(0.975, degrees) * math.sqrt(variance)
        )


class TestWorth:
    """One pattern of 30 samples over and over, so that more labels change nothing but their
    number.
    """

    def tiled(self, labels: int, population: str, samples: int = 60_000) -> CorrectedMean:
        pattern = random_stratum(30, 30, seed=5)
        judge = np.tile(pattern.judge[pattern.labelled], samples // 30)
        people = np.tile(pattern.people, samples // 30)[:labels]
        return corrected_mean([stratum(judge, range(labels), people)], population, full_marks=6)

    @pytest.mark.parametrize(
        ("population", "samples"), [("run", 60_000), ("larger", 60_000), ("run", 1500)]
    )
    def test_so_many_labels_without_the_judge_give_an_interval_as_narrow(self, population, samples):
        with_judge = self.tiled(600, population, samples)
        assert with_judge.labels_worth > 900
        alone = self.tiled(round(with_judge.labels_worth), population, samples)
        assert width(alone.people) == pytest.approx(width(with_judge.corrected), rel=0.03)

    def test_a_small_run_of_a_larger_population_cannot_halve_its_interval(self):
        scores = random_stratum(150, 60)
        assert corrected_mean([scores], "larger", 6).labels_to_halve is None
        assert corrected_mean([scores], "run", 6).labels_to_halve <= 90

    def test_a_judge_without_correlation_saves_no_labels(self):
        useless = corrected_mean([random_stratum(20_000, 2000, slope=0)])
        useful = corrected_mean([random_stratum(20_000, 2000, slope=0.8)], full_marks=6)
        assert useless.labels_worth == pytest.approx(2000, rel=0.01)
        assert not useless.saves_labels
        assert useful.labels_worth > 5000
        assert useful.saves_labels

    @pytest.mark.parametrize(("labels", "share"), [(20, 0.11), (100, 0.02)])
    def test_a_judge_without_an_error_on_the_labels_may_have_one_of_the_whole_scale(
        self, labels, share
    ):
        """A judge that errs on 1 % of the samples would have an interval of no width in 82 and 37 %
        of the draws.
        """
        mean = corrected_mean([random_stratum(20_000, labels, slope=1, noise=0)], full_marks=6)
        assert mean.corrected.value == pytest.approx(mean.judge + 1)
        assert width(mean.corrected) / 2 == pytest.approx(6 * share, rel=0.1)
        assert mean.labels_worth > labels


class TestDegenerate:
    @pytest.mark.parametrize("population", POPULATIONS)
    def test_a_constant_judge_has_no_weight_and_no_correlation(self, population):
        mean = corrected_mean([stratum([4] * 500, range(40), np.arange(40) % 7)], population)
        assert mean.weights_of_judge == (0,)
        assert mean.corrected == mean.people
        assert not mean.saves_labels

    @pytest.mark.parametrize("population", POPULATIONS)
    def test_people_who_always_give_the_same_points_may_give_others(self, population):
        scores = stratum(np.arange(500) % 7, range(40), [2 / 3] * 40)
        mean = corrected_mean([scores], population, full_marks=6)
        assert mean.corrected.value == pytest.approx(2 / 3)
        half = 6 * stats.binomtest(0, 40).proportion_ci().high
        assert width(mean.corrected) == width(mean.people)
        if population == "larger":
            assert width(mean.people) / 2 == pytest.approx(half)
        assert not mean.saves_labels

    def test_a_run_with_a_label_on_every_sample_has_no_error_left(self):
        mean = corrected_mean([stratum([1, 5, 3], [2, 0, 1], [0, 2, 1])])
        assert mean.corrected.value == mean.people.value == 1
        assert mean.corrected.interval == (1, 1)
        assert mean.bias.interval == (2, 2)
        assert (mean.labels_worth, mean.saves_labels, mean.labels_to_halve) == (3, False, None)

    def test_one_sample_with_its_label_is_the_whole_run_but_tells_nothing_of_a_larger_population(
        self,
    ):
        one = stratum([4], [0], [3])
        assert corrected_mean([one]).corrected.interval == (3, 3)
        assert corrected_mean([one], "larger").corrected.interval is None

    @pytest.mark.parametrize(
        ("labels", "reason"),
        [
            pytest.param(
                (MIN_LABELS - 3, 2),
                f"an interval needs {MIN_LABELS} labels, and there are 9",
                id="few",
            ),
            pytest.param(
                (40, 1), "an interval needs 2 labels of MSR, and there are 1", id="one in a stratum"
            ),
            pytest.param(
                (40, 0),
                "an interval needs 2 labels of MSR, and there are 0",
                id="none in a stratum",
            ),
            pytest.param(
                (0, 0), f"an interval needs {MIN_LABELS} labels, and there are 0", id="none"
            ),
            pytest.param((MIN_LABELS - 2, 2), "", id="enough"),
        ],
    )
    @pytest.mark.parametrize("population", POPULATIONS)
    def test_too_few_labels_give_no_interval_but_the_reason(self, labels, reason, population):
        strata = [
            random_stratum(500, number, seed=seed, weight=0.5, name=name)
            for seed, (name, number) in enumerate(zip(("SA", "MSR"), labels, strict=True))
        ]
        mean = corrected_mean(strata, population)
        assert mean.corrected.why_not == mean.people.why_not == mean.bias.why_not == reason
        assert (mean.corrected.interval is None) == (mean.labels_worth is None) == bool(reason)
        assert math.isnan(mean.corrected.value) == (0 in labels)
        assert math.isfinite(mean.judge)

    def test_a_stratum_with_a_label_on_every_sample_adds_no_error(self):
        complete = replace(random_stratum(1, 1, seed=1), weight=0.2)
        rest = random_stratum(400, 40, seed=2)
        both, alone = corrected_mean([complete, replace(rest, weight=0.8)]), corrected_mean([rest])
        assert width(both.corrected) == pytest.approx(0.8 * width(alone.corrected))

    def test_two_labels_that_a_line_fits_exactly_do_not_give_the_judge_weight(self):
        complete = replace(random_stratum(30, 30, seed=1), weight=0.5)
        two = stratum(np.arange(50) % 7, [3, 6], [1, 4], weight=0.5)
        mean = corrected_mean([complete, two])
        assert mean.weights_of_judge == (0, 0)
        assert width(mean.corrected) > 0


@st.composite
def stratified_scores(draw, *, min_labels=0) -> list[StratumScores]:
    """One to four strata with points in steps of a half; with one level, all points are the
    same.
    """
    sizes = draw(st.lists(st.integers(max(1, min_labels), 60), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    strata = []
    for index, samples in enumerate(sizes):
        labels = draw(st.integers(min_labels, samples))
        judge = random.integers(0, draw(st.integers(1, 13)), samples) / 2
        labelled = random.permutation(samples)[:labels]
        followed = draw(st.sampled_from([-1, 0, 0.5, 1, 2]))
        people = (
            followed * judge[labelled] + random.integers(0, draw(st.integers(1, 13)), labels) / 2
        )
        strata.append(
            stratum(judge, labelled, people, weight=samples / sum(sizes), name=f"stratum {index}")
        )
    return strata


populations = st.sampled_from(POPULATIONS)


def numbers_of(mean: CorrectedMean) -> list[float]:
    """All numbers of a result; NaN for those that it does not have."""
    intervals = [
        e.interval or (math.nan, math.nan) for e in (mean.people, mean.corrected, mean.bias)
    ]
    values = [
        mean.judge,
        mean.people.value,
        mean.corrected.value,
        mean.bias.value,
        mean.labels_worth,
    ]
    return [math.nan if value is None else value for value in (*values, *np.ravel(intervals))]


@given(stratified_scores(), populations)
def test_any_scores_have_a_result_and_the_judge_a_weight_from_0_to_1(strata, population):
    mean = corrected_mean(strata, population)
    assert all(0 <= lam <= 1 for lam in mean.weights_of_judge)
    for estimate in (mean.people, mean.corrected, mean.bias):
        assert (estimate.interval is None) == bool(estimate.why_not)
        if estimate.interval:
            assert estimate.interval.low <= estimate.value <= estimate.interval.high
    assert mean.labels_to_halve is None or 0 < mean.labels_to_halve <= mean.samples - mean.labels


@given(stratified_scores(), populations, st.randoms(use_true_random=False))
def test_the_order_of_samples_and_of_strata_does_not_matter(strata, population, random):
    shuffled = []
    for scores in random.sample(strata, len(strata)):
        order = np.array(
            random.sample(range(scores.judge.size), scores.judge.size)
        )  # new place to old place
        labels = random.sample(range(scores.people.size), scores.people.size)
        labelled = np.argsort(order)[scores.labelled[labels]]
        shuffled.append(
            replace(
                scores, judge=scores.judge[order], labelled=labelled, people=scores.people[labels]
            )
        )
    first, second = corrected_mean(strata, population), corrected_mean(shuffled, population)
    assert numbers_of(second) == pytest.approx(numbers_of(first), abs=1e-7, nan_ok=True)


@given(stratified_scores(), populations, st.integers(-5, 5))
def test_points_added_by_the_judge_to_every_sample_change_only_its_bias(strata, population, shift):
    before = corrected_mean(strata, population)
    after = corrected_mean(
        [replace(scores, judge=scores.judge + shift) for scores in strata], population
    )
    assert after.weights_of_judge == pytest.approx(before.weights_of_judge, abs=1e-9)
    assert after.corrected.value == pytest.approx(before.corrected.value, abs=1e-9, nan_ok=True)
    assert after.bias.value == pytest.approx(before.bias.value + shift, abs=1e-9, nan_ok=True)
