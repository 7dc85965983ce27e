"""How far subsets stray, and whether they keep the order of runs."""

import random

import numpy as np
import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.results.alignment import AlignedRuns
from mmie_tasks.results.subset import SubsetOptions, study
from mmie_tasks.runs.metric_values import metric_value

NAMES = [f"{letter}{number}" for letter in "aab" for number in range(60)]


def drawn(seed, low=0):
    lots = random.Random(seed)  # noqa: S311 - no secret
    return {name: lots.randint(low, 10) for name in NAMES}


def studied(*runs, sizes=(10, 40), draws=400, stratify="", given=None):
    aligned = AlignedRuns(runs, [f"run {place}" for place in range(len(runs))], "official")
    return study(aligned, SubsetOptions(sizes=sizes, draws=draws, stratify=stratify), given or {})


def test_the_full_scores_are_the_figures_of_the_report(task_run):
    run = task_run(drawn(1) | {"a1": None, "b2": Unscored("left_out")})
    found = studied(run)
    titles = [metric.title for metric in found.metrics]
    assert titles == ["AVG", "A", "B"]
    for metric, (percent,) in zip(found.metrics, found.percent, strict=True):
        expected = metric_value(run.samples, metric, "official", run.benchmark.scale, resamples=0)
        assert percent == expected.percent
    assert (found.samples, found.unscored) == (118, 2)


def test_a_deviation_of_simple_subsets_agrees_with_theory(task_run):
    points = np.array(list(drawn(1).values()), dtype=float)
    found = studied(task_run(drawn(1)), draws=4000, stratify="none").deviations
    total = len(points)
    for size in (10, 40):
        spread = 10 * np.sqrt(points.var(ddof=1) / size * (1 - size / total))
        assert found[size][0][0].mean == pytest.approx(spread * np.sqrt(2 / np.pi), rel=0.06)
        assert found[size][0][0].within == pytest.approx(1.96 * spread, rel=0.08)


def test_larger_subsets_stray_less_and_the_worst_is_the_worst(task_run):
    few, many = studied(task_run(drawn(1))).deviations.values()
    for place in range(3):
        assert many[place][0].within < few[place][0].within
        assert few[place][0].mean < few[place][0].within < few[place][0].worst


def test_shares_of_groups_that_explain_the_points_keep_subsets_close(task_run):
    run = task_run({name: 9 if name[0] == "a" else 1 for name in NAMES})
    kept, loose = (studied(run, stratify=how).deviations[10][0][0] for how in ("letter", "none"))
    assert kept.worst == pytest.approx(0)
    assert loose.within > 10


def test_sizes_of_all_samples_or_more_are_left_out(task_run):
    there = len(drawn(1))
    assert list(studied(task_run(drawn(1)), sizes=(there - 1, there, 5000)).deviations) == [
        there - 1
    ]


def test_a_group_without_a_sample_is_no_number(task_run):
    run = task_run(dict.fromkeys([f"a{n}" for n in range(99)], 3) | {"b1": 4})
    by_title = dict(zip("ÄAB", studied(run, sizes=(5,)).deviations[5], strict=True))
    assert by_title["A"][0].worst == 0
    assert by_title["B"] == (None,)


def test_the_order_of_runs_is_kept_more_often_by_larger_subsets(task_run):
    better = {name: min(10, points + (points % 3 == 0)) for name, points in drawn(1).items()}
    found = studied(task_run(drawn(1)), task_run(better), task_run(drawn(1)))
    orders = {(each.ahead, each.behind): each for each in found.orders}
    assert set(orders) == {(1, 0), (1, 2)}  # the first and the last are level
    assert orders[1, 0].by == pytest.approx(found.percent[0][1] - found.percent[0][0], abs=0.011)
    assert 0.5 < orders[1, 0].kept[10] < orders[1, 0].kept[40] <= 1


def test_runs_are_ranked_from_three_on(task_run):
    runs = [task_run(drawn(seed)) for seed in (1, 2, 3)]
    assert studied(*runs[:2]).ranks == {}
    assert all(-1 <= rank <= 1 for rank in studied(*runs).ranks.values())
    apart = [task_run(dict.fromkeys(NAMES, points)) for points in (1, 5, 9)]
    assert studied(*apart).ranks == {10: 1.0, 40: 1.0}
    assert studied(*[runs[0]] * 3).ranks == {}


def test_runs_share_their_subsets(task_run):
    better = {name: points + 1 for name, points in drawn(1).items()}
    found = studied(task_run(drawn(1)), task_run(better))
    assert set(found.orders[0].kept.values()) == {1.0}
    for deviations in found.deviations.values():
        assert deviations[0][0].worst == pytest.approx(deviations[0][1].worst)


def test_a_fixed_subset_has_its_own_score(task_run):
    run = task_run({"a1": 2, "a2": 4, "a3": None, "b1": 10})
    given = {"mine": {"a1", "a2", "a3", "zz"}}
    (found,) = studied(task_run({**drawn(1), "a1": 2, "a2": 4, "a3": None}), given=given).fixed
    assert (found.samples, found.unscored, found.unknown) == (2, 1, 1)
    assert found.percent == ((30.0,), (30.0,), (None,))
    assert found.counts == (2, 2, 0)
    assert studied(run, given=given).fixed[0].percent == ((None,),)  # of B, no sample


def test_a_metric_without_a_value_has_a_reason(task_run):
    found = studied(task_run(drawn(1) | dict.fromkeys(f"b{n}" for n in range(40))))
    assert "only 20 of 60" in found.why_not["B"]
    assert [metric.title for metric in found.metrics] == ["A"]


@pytest.mark.parametrize(
    "points",
    [pytest.param({"a1": None}, id="unscored"), pytest.param({"a1": 3}, id="one")],
)
def test_too_few_samples_are_no_subsets_and_no_exception(task_run, points):
    assert studied(task_run(points)).deviations == {}


def test_an_unknown_group_is_refused(task_run):
    with pytest.raises(SettingWrong, match="one of letter, none"):
        studied(task_run(drawn(1)), stratify="word")
