"""Two runs of one task, compared metric by metric."""

import random
from dataclasses import replace

import pytest
from scipy import stats
from support.letters import make_run as task_run
from support.unloaded_benchmark import varied

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.intervals import holm
from mmie_tasks.results.compare import compare


def compared(a, b, score_kind="official"):
    return compare(a, b, score_kind)


def numbers(a, b, **more):
    return {result.title: result for result in compared(a, b, **more).metrics}


def drawn(seed, names, low=0):
    lots = random.Random(seed)  # noqa: S311 - no secret
    return {name: lots.randint(low, 10) for name in names}


NAMES = [f"{letter}{number}" for letter in "ab" for number in range(40)]


def test_a_number_is_the_mean_over_the_pairs_and_its_difference_in_percent_points():
    average = numbers(task_run({"a1": 2, "a2": 4}), task_run({"a1": 5, "a2": 4}))["AVG"]
    assert (average.a, average.b, average.difference) == (30.0, 45.0, 15.0)
    assert (average.wins, average.ties, average.losses, average.pairs) == (1, 1, 0, 2)


def test_a_mean_of_group_means_weighs_the_groups():
    a = task_run({"a1": 0, "a2": 0, "a3": 0, "b1": 0})
    b = task_run({"a1": 1, "a2": 1, "a3": 1, "b1": 5})
    by_title = numbers(a, b)
    assert by_title["AVG"].difference == pytest.approx(20)
    assert by_title["Even"].difference == pytest.approx(30)
    assert (by_title["Even"].interval, by_title["Even"].p) == (None, None)  # one pair in a group


def test_groups_without_samples_are_left_out_and_their_mean_is_undefined():
    by_title = numbers(task_run({"a1": 1}), task_run({"a1": 2}))
    assert "C" not in by_title
    assert by_title["Even"].a is None
    assert "1 of 2 letters not in this run: b" in by_title["Even"].why_not


def test_unpaired_samples_are_counted_and_do_not_change_the_difference():
    full = {f"a{n}": n % 7 for n in range(40)}
    a = full | {"a0": None, "a1": None, "a2": Unscored("left_out"), "a90": 9}
    b = full | {"a0": None, "a3": None, "a91": 0}
    comparison = compared(task_run(a), task_run(b))
    assert comparison.left_over == {
        "only in A": 1,
        "only in B": 1,
        "left out": 1,
        "unscored in A only": 1,
        "unscored in B only": 1,
        "unscored in both": 1,
    }
    assert comparison.pairs == 36 == comparison.metrics[0].pairs
    assert comparison.metrics[0].difference == 0


@pytest.mark.parametrize(
    ("missing", "is_there"),
    [pytest.param(1, True, id="nine-of-ten"), pytest.param(2, False, id="eight-of-ten")],
)
@pytest.mark.parametrize("how", ["unscored", "absent", "absent-in-a"])
def test_below_the_coverage_floor_there_is_no_difference(missing, is_there, how):
    full = {f"a{n}": 5 for n in range(10)}
    unscored = [f"a{n}" for n in range(missing)]
    less = {n: p for n, p in full.items() if n not in unscored}
    less |= dict.fromkeys(unscored) if how == "unscored" else {}
    pair = (full, less) if how != "absent-in-a" else (less, full)
    average = numbers(*map(task_run, pair))["AVG"]
    assert (average.difference is not None) == is_there
    assert ("have a score" in average.why_not) != is_there


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param({"a1": None}, {"a1": None}, id="nothing-scored"),
        pytest.param({"a1": 1}, {"a2": 1}, id="nothing-in-common"),
        pytest.param(
            {"a1": 1, "a2": Unscored("left_out")},
            {"a1": Unscored("left_out"), "a2": 1},
            id="left-out-crosswise",
        ),
    ],
)
def test_without_pairs_every_metric_has_a_reason_and_no_value(a, b):
    comparison = compared(task_run(a), task_run(b))
    assert all(
        metric.a is None and metric.p is None and metric.why_not for metric in comparison.metrics
    )
    assert comparison.differing == ()


@pytest.mark.parametrize(
    ("pairs", "why_not"),
    [
        pytest.param(9, "fewer than 10 pairs, or a group of one", id="nine"),
        pytest.param(10, "", id="ten"),
    ],
)
def test_below_ten_pairs_there_is_neither_a_p_value_nor_an_interval(pairs, why_not):
    a = {f"a{n}": n for n in range(pairs)}
    b = {name: 10 - points for name, points in a.items()}
    average = numbers(task_run(a), task_run(b))["AVG"]
    assert (average.interval is None, average.why_no_interval) == (bool(why_not), why_not)
    assert (average.p is None) == bool(why_not)


def test_a_difference_may_be_chance_unless_its_corrected_p_is_small():
    a = drawn(1, NAMES)
    clear = {name: min(10, points + 1) for name, points in a.items()}
    assert not numbers(task_run(a), task_run(clear))["AVG"].may_be_chance
    assert numbers(task_run(a), task_run(drawn(2, NAMES)))["AVG"].may_be_chance
    assert not numbers(task_run({"a1": None}), task_run({"a1": 1}))["AVG"].may_be_chance


def test_the_same_points_in_every_pair_are_identical_and_have_no_interval():
    average = numbers(task_run(drawn(1, NAMES)), task_run(drawn(1, NAMES)))["AVG"]
    assert (average.difference, average.interval, average.p) == (0, None, None)
    assert average.why_no_interval == "identical"
    assert not average.may_be_chance


def test_the_interval_and_p_value_of_a_plain_mean_are_those_of_a_paired_t_test():
    names = [f"a{n}" for n in range(400)]
    a, b = drawn(1, names), drawn(2, names, low=2)
    average = numbers(task_run(a), task_run(b))["AVG"]
    test = stats.ttest_rel([b[n] for n in names], [a[n] for n in names])
    assert average.p == pytest.approx(test.pvalue, rel=0.05)
    ends = [10 * end for end in test.confidence_interval(0.95)]
    assert average.interval == pytest.approx(ends, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_adjusted_intervals_exclude_0_exactly_where_the_adjusted_p_is_below_5_percent(seed):
    lots = random.Random(seed)  # noqa: S311 - no secret
    a = {f"{letter}{n}": lots.randint(0, 9) for letter in "abc" for n in range(40)}
    b = {name: points + (lots.random() < 0.15) for name, points in a.items()}
    for result in compared(task_run(a), task_run(b)).metrics:
        if result.interval:
            excludes_0 = result.interval.low > 0 or result.interval.high < 0
            assert excludes_0 == (result.p_corrected < 0.05)


def test_a_difference_of_runs_with_other_proportions_has_a_p_value_and_no_interval():
    runs = [
        replace(run, benchmark=varied(run.benchmark, strata="letter", stratum_sizes=sizes))
        for run in (task_run(drawn(1, NAMES)), task_run(drawn(2, NAMES, low=3)))
        for sizes in ({"a": 900, "b": 100},)
    ]
    by_title = numbers(*runs)
    assert "not in Letters's proportions" in by_title["AVG"].why_no_interval
    assert by_title["AVG"].interval is None
    assert by_title["AVG"].p is not None
    assert by_title["A"].interval is not None


def test_a_real_difference_is_found_and_chance_is_not():
    found, chance = 0, 0
    for seed in range(40):
        a, b = drawn(seed, NAMES), drawn(1000 + seed, NAMES)
        chance += numbers(task_run(a), task_run(b))["AVG"].p < 0.05
        found += numbers(task_run(a), task_run(drawn(seed, NAMES, low=4)))["AVG"].p < 0.05
    assert chance <= 5
    assert found >= 38


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        pytest.param([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02], id="textbook"),
        pytest.param([0.5, 0.9], [1, 1], id="at most 1"),
        pytest.param([], [], id="none"),
    ],
)
def test_the_correction_is_holms(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)


def test_p_values_are_corrected_among_metrics_of_one_kind():
    a = task_run(drawn(1, NAMES))
    b = task_run({name: min(10, points + 1) for name, points in drawn(1, NAMES).items()})
    by_title = numbers(a, b)
    assert by_title["AVG"].p_corrected == by_title["AVG"].p
    assert by_title["A"].p_corrected == pytest.approx(2 * by_title["A"].p)


def test_samples_are_sorted_by_difference_and_then_by_id():
    a = task_run({"a1": 5, "a2": 0, "a3": 9, "a4": 1, "a5": None})
    b = task_run({"a1": 5, "a2": 4, "a3": 1, "a4": 5, "a5": 9})
    assert [sample.id for sample in compared(a, b).differing] == ["a3", "a2", "a4"]


def test_the_requested_score_is_compared():
    a = task_run({"a1": 1, "a2": 1}, robust={"a1": 2})
    b = task_run({"a1": 1, "a2": 1}, robust={"a1": 8})
    assert numbers(a, b)["AVG"].difference == 0
    assert numbers(a, b, score_kind="robust")["AVG"].difference == 30


def test_samples_left_out_by_the_official_script_do_not_lower_the_coverage():
    points = {f"a{n}": 5 for n in range(6)} | {f"a{n}": Unscored("left_out") for n in range(6, 12)}
    average = numbers(task_run(points), task_run(points))["AVG"]
    assert (average.a, average.pairs) == (50.0, 6)


def test_fractions_that_differ_by_rounding_are_a_tie():
    average = numbers(task_run({"a1": 0.1 + 0.2, "a2": 1}), task_run({"a1": 0.3, "a2": 1}))["AVG"]
    assert (average.ties, average.difference) == (2, 0)
