"""Deviations of subsets from the full score, and the order of runs in them."""

import random

import numpy as np
import pytest

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.results.alignment import AlignedRuns
from mmie_tasks.results.subset import study
from mmie_tasks.runs.summary import metric_value

NAMES = [f"{letter}{number}" for letter in "aab" for number in range(60)]


def random_points(seed, low=0):
    lots = random.Random(seed)  # noqa: S311 - no secret
    return {name: lots.randint(low, 10) for name in NAMES}


def study_runs(*runs, sizes=(10, 40), draws=400, id_sets=None):
    aligned = AlignedRuns(runs, [f"run {index}" for index in range(len(runs))], "official")
    return study(aligned, id_sets or {}, sizes=sizes, draws=draws)


def test_the_full_scores_equal_the_metric_values(task_run):
    run = task_run(random_points(1) | {"a1": None, "b2": Unscored("left_out")})
    result = study_runs(run)
    titles = [metric.title for metric in result.metrics]
    assert titles == ["AVG", "A", "B"]
    for metric, (percent,) in zip(result.metrics, result.percent, strict=True):
        expected = metric_value(run.samples, metric, "official", run.benchmark.scale, resamples=0)
        assert percent == expected.percent
    assert (result.samples, result.unscored) == (118, 2)


def test_a_deviation_of_simple_subsets_agrees_with_theory(task_run):
    of_one_group = {name: points for name, points in random_points(1).items() if name[0] == "a"}
    points = np.array(list(of_one_group.values()), dtype=float)
    deviations = study_runs(task_run(of_one_group), draws=4000).deviations
    total = len(points)
    for size in (10, 40):
        spread = 10 * np.sqrt(points.var(ddof=1) / size * (1 - size / total))
        assert deviations[size][0][0].mean == pytest.approx(spread * np.sqrt(2 / np.pi), rel=0.06)
        assert deviations[size][0][0].within == pytest.approx(1.96 * spread, rel=0.08)


def test_larger_subsets_deviate_less(task_run):
    few, many = study_runs(task_run(random_points(1))).deviations.values()
    for metric in range(3):
        assert many[metric][0].within < few[metric][0].within
        assert few[metric][0].mean < few[metric][0].within < few[metric][0].worst


def test_strata_that_explain_the_points_reduce_deviations(task_run):
    explained = task_run({name: 9 if name[0] == "a" else 1 for name in NAMES})
    unexplained = task_run({name: 9 if int(name[1:]) % 2 else 1 for name in NAMES})
    assert study_runs(explained).deviations[10][0][0].worst == pytest.approx(0)
    assert study_runs(unexplained).deviations[10][0][0].within > 10


def test_sizes_of_all_samples_or_more_are_left_out(task_run):
    total = len(random_points(1))
    assert list(study_runs(task_run(random_points(1)), sizes=(total - 1, total, 5000)).deviations) == [total - 1]


def test_a_group_without_samples_has_no_deviation(task_run):
    run = task_run(dict.fromkeys([f"a{n}" for n in range(99)], 3) | {"b1": 4})
    by_title = dict(zip("ÄAB", study_runs(run, sizes=(5,)).deviations[5], strict=True))
    assert by_title["A"][0].worst == 0
    assert by_title["B"] == (None,)


def test_the_order_of_runs_is_kept_more_often_by_larger_subsets(task_run):
    better = {name: min(10, points + (points % 3 == 0)) for name, points in random_points(1).items()}
    result = study_runs(task_run(random_points(1)), task_run(better), task_run(random_points(1)))
    orders = {(order.ahead, order.behind): order for order in result.orders}
    assert set(orders) == {(1, 0), (1, 2)}  # the first and the last run are equal
    assert orders[1, 0].by == pytest.approx(result.percent[0][1] - result.percent[0][0], abs=0.011)
    assert 0.5 < orders[1, 0].kept[10] < orders[1, 0].kept[40] <= 1


def test_runs_share_their_subsets(task_run):
    better = {name: points + 1 for name, points in random_points(1).items()}
    result = study_runs(task_run(random_points(1)), task_run(better))
    assert set(result.orders[0].kept.values()) == {1.0}
    for deviations in result.deviations.values():
        assert deviations[0][0].worst == pytest.approx(deviations[0][1].worst)


def test_a_fixed_subset_has_its_own_score(task_run):
    run = task_run({"a1": 2, "a2": 4, "a3": None, "b1": 10})
    id_sets = {"mine": {"a1", "a2", "a3", "zz"}}
    (fixed,) = study_runs(task_run({**random_points(1), "a1": 2, "a2": 4, "a3": None}), id_sets=id_sets).fixed
    assert (fixed.samples, fixed.unscored, fixed.unknown) == (2, 1, 1)
    assert fixed.percent == ((30.0,), (30.0,), (None,))
    assert fixed.counts == (2, 2, 0)
    assert study_runs(run, id_sets=id_sets).fixed[0].percent == ((None,),)  # no sample of group B


def test_a_metric_without_a_value_has_a_reason(task_run):
    result = study_runs(task_run(random_points(1) | dict.fromkeys(f"b{n}" for n in range(40))))
    assert "only 20 of 60" in result.why_not["B"]
    assert [metric.title for metric in result.metrics] == ["A"]


@pytest.mark.parametrize("points", [pytest.param({"a1": None}, id="unscored"), pytest.param({"a1": 3}, id="one")])
def test_too_few_samples_give_no_subsets(task_run, points):
    assert study_runs(task_run(points)).deviations == {}
