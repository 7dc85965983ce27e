"""Measures of two raters, compared with those of scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from mmie_tasks.record import intervals
from mmie_tasks.record.metrics import Scale
from mmie_tasks.results.agreement import measures
from mmie_tasks.results.agreement.measures import ALL_MEASURES, MeasureOptions, measure, rating_rows

SIX = Scale(full_marks=6, unit="points, 0 to 6", whole=True, percent=lambda mean: mean / 0.06)
HUNDRED = Scale(full_marks=100, unit="percent", percent=lambda mean: mean)
QUICK = settings(max_examples=60, deadline=None)

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40)
VARIED = POINTS.filter(lambda rows: all(len(set(column)) > 1 for column in zip(*rows, strict=True)))


def pairs(rows):
    judge, reference = np.array(rows, dtype=float).T
    return rating_rows(judge, reference)


def values(rows, scale=SIX):
    measured = measure(pairs(rows), ALL_MEASURES, MeasureOptions(scale=scale, resamples=0))
    return {name: measure_value.value for name, measure_value in measured.items()}


@QUICK
@given(VARIED)
def test_every_measure_equals_that_of_the_libraries(rows):
    x, y = np.array(rows).T
    expected = {
        "cosine": metrics.pairwise.cosine_similarity([x], [y])[0, 0],
        "mse": metrics.mean_squared_error(y, x),
        "mae": metrics.mean_absolute_error(y, x),
        "pearson": stats.pearsonr(x, y).statistic,
        "spearman": stats.spearmanr(x, y).statistic,
        "kendall": stats.kendalltau(x, y).statistic,
        "kappa": metrics.cohen_kappa_score(x, y, labels=list(range(7)), weights="quadratic"),
        "exact": metrics.accuracy_score(y, x),
        "within": np.mean(abs(x - y) <= 1),
        "bias": np.mean(x - y),
        "sd": np.std(x - y, ddof=1),
    }
    assert values(rows) == pytest.approx(expected, abs=1e-12)


@QUICK
@given(VARIED)
def test_the_weighted_statistics_equal_those_of_the_libraries(rows):
    grouped, as_they_are = pairs(rows), pairs(rows).counts[np.newaxis].astype(float)
    expected = values(rows)
    for name in ("pearson", "spearman", "kappa"):
        value = getattr(measures, name)(grouped, as_they_are)[0]
        assert value == pytest.approx(expected[name], abs=1e-9), name


@QUICK
@given(VARIED, st.integers(0, 99))
@example([(0, 0), (0, 1), (1, 2)], 29)  # without rounding there is no variance
def test_a_weighted_statistic_equals_that_of_the_drawn_samples(rows, seed):
    grouped = pairs(rows)
    [drawn] = intervals.resample_counts(grouped.counts, 1, seed)
    again = np.repeat(
        np.column_stack((grouped.judge, grouped.reference)), drawn[0].astype(int), axis=0
    )
    expected = measure(pairs(again), ALL_MEASURES, MeasureOptions(scale=SIX, resamples=0))
    for name in ("cosine", "mse", "pearson", "spearman", "kappa", "sd", "bias"):
        value = getattr(measures, name)(grouped, drawn)[0]
        expected_value = expected[name].value
        assert value == pytest.approx(
            np.nan if expected_value is None else expected_value, abs=1e-9, nan_ok=True
        )


@QUICK
@given(VARIED)
def test_only_the_bias_depends_on_which_rater_is_the_judge(rows):
    in_order, swapped = values(rows), values([(y, x) for x, y in rows])
    assert in_order.pop("bias") == pytest.approx(-swapped.pop("bias"))
    assert in_order == pytest.approx(swapped, abs=1e-12)


@QUICK
@given(VARIED)
def test_a_judge_agrees_with_itself(rows):
    equal_to_1 = {"cosine", "pearson", "spearman", "kendall", "kappa", "exact", "within"}
    measured = values([(x, x) for x, _ in rows])
    assert measured == pytest.approx({name: float(name in equal_to_1) for name in ALL_MEASURES})


@settings(max_examples=20, deadline=None)
@given(VARIED, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(rows, order):
    options = MeasureOptions(scale=SIX, resamples=100)
    shuffled = order.sample(rows, len(rows))
    assert measure(pairs(shuffled), ALL_MEASURES, options) == measure(
        pairs(rows), ALL_MEASURES, options
    )


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        pytest.param([], dict.fromkeys(ALL_MEASURES, "no sample"), id="none"),
        pytest.param(
            [(3, 4)],
            {"sd": "one sample", **dict.fromkeys(["pearson", "spearman", "kendall"], "one sample")},
            id="one",
        ),
        pytest.param(
            [(3, 1), (3, 4)],
            dict.fromkeys(["pearson", "spearman", "kendall"], "the same points"),
            id="constant",
        ),
        pytest.param(
            [(0, 0), (0, 0)],
            {
                "cosine": "only 0",
                "kappa": "the same one value",
                **dict.fromkeys(["pearson", "spearman", "kendall"], "the same points"),
            },
            id="only-zeros",
        ),
    ],
)
def test_an_undefined_measure_has_no_value_and_a_reason(rows, missing):
    measured = measure(
        pairs(np.reshape(rows, (-1, 2))), ALL_MEASURES, MeasureOptions(scale=SIX, resamples=100)
    )
    assert {name for name in ALL_MEASURES if measured[name].value is None} == set(missing)
    assert all(reason in measured[name].why_not for name, reason in missing.items())


def test_samples_with_missing_points_are_left_out():
    x, y = np.array([1, np.nan, 3, 5.0]), np.array([2, 2, np.nan, 4.0])
    grouped = rating_rows(x, y)
    assert (grouped.judge.tolist(), grouped.reference.tolist()) == ([1, 5], [2, 4])


def test_only_step_measures_round_to_whole_points():
    measured = values([(3, 3.5), (2, 2.5), (5, 1), (0, 2)])
    assert measured["mae"] == (0.5 + 0.5 + 4 + 2) / 4
    assert (measured["exact"], measured["within"]) == (
        0.25,
        0.5,
    )  # 3.5 is rounded to 4, and 2.5 to 2


def test_without_whole_points_kappa_is_undefined_and_the_tolerance_is_a_tenth():
    measured = values([(50, 60), (20, 30.5), (70, 70)], HUNDRED)
    assert measured["kappa"] is None
    assert (measured["exact"], measured["within"]) == pytest.approx((1 / 3, 2 / 3))
    assert (
        measures.measure_titles(MeasureOptions(scale=HUNDRED, resamples=0))["within"] == "within 10"
    )


def by_hand(x, y, statistic, resamples=2000):
    random = np.random.default_rng(5)
    drawn = [random.integers(len(x), size=len(x)) for _ in range(resamples)]
    return np.quantile([statistic(x[indices], y[indices]) for indices in drawn], (0.025, 0.975))


@pytest.mark.parametrize("many", [intervals._MANY_ROWS, 0], ids=["by-count", "by-index"])
@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        pytest.param("pearson", lambda x, y: np.corrcoef(x, y)[0, 1], id="pearson"),
        pytest.param("mae", lambda x, y: np.abs(x - y).mean(), id="mae"),
        pytest.param("bias", lambda x, y: (x - y).mean(), id="bias"),
    ],
)
def test_intervals_equal_those_of_a_textbook_bootstrap(monkeypatch, many, name, statistic):
    monkeypatch.setattr(intervals, "_MANY_ROWS", many)
    random = np.random.default_rng(3)
    x = random.integers(0, 7, 150).astype(float)
    y = np.clip(x + random.integers(-2, 4, 150), 0, 6)
    measured = measure(rating_rows(x, y), [name], MeasureOptions(scale=SIX, resamples=2000))[name]
    assert measured.interval == pytest.approx(by_hand(x, y, statistic), abs=0.03)


def test_tau_has_no_interval():
    options = MeasureOptions(scale=SIX, resamples=100)
    tau = measure(pairs([(n % 7, n % 5) for n in range(80)]), ["kendall"], options)["kendall"]
    assert (tau.interval, tau.why_not) == (None, "")


def test_many_undefined_resamples_leave_no_interval():
    rows = [(3, 1)] * 40 + [(4, 2)]  # a third of the resamples lack the only different pair
    pearson = measure(pairs(rows), ["pearson"], MeasureOptions(scale=SIX, resamples=500))["pearson"]
    assert (pearson.value, pearson.interval) == (pytest.approx(1), None)
    assert "not defined in 3" in pearson.why_not


def test_chunks_do_not_change_the_interval(monkeypatch):
    options = MeasureOptions(scale=SIX, resamples=101)
    rows = [(n % 7, n % 5) for n in range(80)]
    whole = measure(pairs(rows), ALL_MEASURES, options)
    monkeypatch.setattr(intervals, "_CHUNK", 200)
    assert len(list(intervals.resample_counts(pairs(rows).counts, 101))) > 10
    assert measure(pairs(rows), ALL_MEASURES, options) == whole
