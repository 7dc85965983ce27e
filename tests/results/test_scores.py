"""The metrics of a run, computed from its samples."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.letters import LETTERS, make_run
from support.unloaded_benchmark import varied

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import Metric, weighted_mean
from mmie_tasks.results.scores import in_proportion

WHOLE, EVEN, *_, STYLE = LETTERS.metrics
BOTH = replace(EVEN, name="ab", title="A, B", weights={"a": 0.75, "b": 0.25})


def samples(*points, letter="a"):
    """Id to points, or to the reason for none."""
    return {
        f"{letter}{n}": Unscored(value) if isinstance(value, str) else value
        for n, value in enumerate(points)
    }


def task_run(points, task="letters", styles=None, signature="", **options):
    run = make_run(points, signature, styles=styles)
    return replace(run, task=task, benchmark=varied(LETTERS, **options))


def value_of(points, metric=WHOLE, **options):
    return task_run(points, **options).score(metric, "official")


def test_a_mean_is_over_the_scored_samples_and_counts_them():
    value = value_of(samples(*[4, 8] * 9, "unparsed"))
    assert (value.percent, value.scored, value.total) == (60.0, 18, 19)
    assert value.interval.low < 60 < value.interval.high
    value = value_of(samples(10, 10) | samples(2, letter="b"), BOTH)  # of two groups
    assert (value.percent, value.scored, value.total) == (80.0, 3, 3)
    value = value_of(samples(5, *["left_out"] * 9))  # they do not lower the coverage
    assert (value.percent, value.counts) == (50.0, "1 of 1, 9 left out")
    assert value_of(samples(3, 3), STYLE, styles={"a0": 0.5, "a1": 1.0}).percent == 75.0
    assert value_of({}, WHOLE) is None
    assert value_of(samples(1, letter="c"), BOTH) is None


@pytest.mark.parametrize(
    ("points", "metric", "why"),
    [
        pytest.param(samples("refused"), WHOLE, "no sample has a score", id="nothing-scored"),
        pytest.param(samples(1, "refused"), WHOLE, "only 1 of 2", id="too-few"),
        pytest.param(samples(1), BOTH, "1 of 2 letters not in this run: b", id="a-group-absent"),
        pytest.param({"a0": 1, "b0": None}, BOTH, "b: no sample", id="group-unscored"),
        pytest.param(samples(1), STYLE, "no sample has a score", id="no-such-component"),
    ],
)
def test_a_missing_value_has_a_reason(points, metric, why):
    value = value_of(points, metric)
    assert (value.percent, value.interval) == (None, None)
    assert why in value.why_not


@pytest.mark.parametrize(
    ("floor", "scored", "has_value"),
    [
        pytest.param("", 8, False, id="less than nine of ten"),
        pytest.param("", 9, True, id="nine of ten"),
        pytest.param("|min_coverage:0.5", 5, True, id="of the run"),
        pytest.param("|min_coverage:0.5", 4, False, id="less than that of the run"),
        pytest.param("|min_coverage:many", 8, False, id="unreadable"),
    ],
)
def test_the_floor_of_coverage_is_the_runs_own(floor, scored, has_value):
    points = samples(*[5] * scored, *["refused"] * (10 - scored))
    value = value_of(points, signature=f"task:x@1-A{floor}|pkg:1")
    assert (value.percent is not None) == has_value


def test_fewer_than_ten_samples_or_one_in_a_group_give_no_interval():
    assert value_of(samples(*[5, 6] * 4)).interval is None
    assert value_of(samples(*[5, 6] * 5)).interval is not None
    assert value_of(samples(*[5, 6] * 5) | samples(4, letter="b"), BOTH).interval is None


def in_strata(n_a, n_b, sizes, metric=WHOLE):
    points = samples(*[4, 8] * (n_a // 2)) | samples(*[1, 3] * (n_b // 2), letter="b")
    return value_of(points, metric, strata="letter" if sizes else "", stratum_sizes=sizes)


def test_a_plain_mean_has_an_interval_if_its_strata_are_in_the_benchmarks_proportions():
    sizes = {"a": 3000, "b": 1000}
    assert in_strata(30, 10, sizes).interval is not None
    assert in_strata(20, 20, sizes).interval is None
    assert in_strata(40, 0, sizes).interval is not None  # the task of one stratum
    assert in_strata(20, 20, sizes, LETTERS.metrics[2]).interval is not None  # of `a` alone


def test_the_interval_of_a_plain_mean_is_about_the_mean_with_the_errors_within_strata():
    value, unstratified = (in_strata(30, 10, sizes) for sizes in ({"a": 3000, "b": 1000}, {}))
    assert value.percent == unstratified.percent == 50
    assert sum(value.interval) == pytest.approx(100)
    assert value.interval.low > unstratified.interval.low


@pytest.mark.parametrize(
    ("counts", "is_like"),
    [
        pytest.param((25, 57, 18), True, id="rounded"),
        pytest.param((26, 57, 17), False, id="one too few"),
        pytest.param((33, 34, 33), False, id="thirds"),
        pytest.param((0, 0, 9), True, id="one stratum"),
    ],
)
def test_a_run_is_in_proportion_where_its_strata_are_rounded(counts, is_like):
    points = {f"{name}{n}": 1 for name, count in zip("abc", counts) for n in range(count)}  # noqa: B905 - three
    sizes = {"a": 5005, "b": 11_482, "c": 3616}
    run = task_run(points, strata="letter", stratum_sizes=sizes)
    assert in_proportion(run.records, run.benchmark) == is_like


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=30),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_neither_the_order_nor_samples_without_points_move_a_mean_at_all(points, without, lots):
    scored = [*map(Scored, points)]
    few = [Unscored("unparsed")] * min(without, len(points) // 9)
    mixed = [*scored, *few, *[Unscored("left_out")] * without]
    means = [
        weighted_mean({"all": verdicts}, {"all": 1}, 0.9)
        for verdicts in (scored, lots.sample(mixed, len(mixed)))
    ]
    assert means[0] == means[1]


ONLY_A, ONLY_B = LETTERS.metrics[2:4]
HEADED = replace(BOTH, kind="headline")


@pytest.mark.parametrize(
    ("task", "points", "expected"),
    [
        pytest.param("letters", samples(1), ["ab", "a", "b"], id="the-whole-benchmark"),
        pytest.param("letters_a", samples(1), ["a"], id="a-part"),
        pytest.param("letters_ab", {"a0": 1, "b0": 2}, ["ab", "a", "b"], id="all-groups"),
        pytest.param("letters_c", samples(1, letter="c"), ["ab", "a", "b"], id="no-group-known"),
    ],
)
def test_a_part_of_a_benchmark_has_the_metrics_of_its_groups(task, points, expected):
    metrics = task_run(points, task, metrics=(HEADED, ONLY_A, ONLY_B)).metrics
    assert [metric.name for metric in metrics] == expected
    assert metrics[0].kind == "headline"


def test_the_headline_of_a_part_is_the_first_metric_that_counts_all_samples():
    absent = Metric(name="c", title="C", kind="headline", by="letter", weights={"c": 1.0})
    metrics = task_run({"a0": 1, "b0": 2}, "letters_ab", metrics=(absent, ONLY_A, BOTH)).metrics
    kinds = [(metric.name, metric.kind) for metric in metrics]
    assert kinds == [("ab", "headline"), ("a", "letter")]
