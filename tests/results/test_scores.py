"""The metrics of a run, computed from its samples."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.scores import in_proportion

SCALE = Scale(full_marks=10, unit="points, 0 to 10", percent=lambda mean: round(10 * mean, 2))
WHOLE = Metric(name="", title="All", kind="headline")
BOTH = Metric(name="ab", title="A, B", kind="mean", by="letter", weights={"a": 0.75, "b": 0.25})
COMPONENT = Metric(name="p", title="P", kind="component", component="p")


def sample(number, verdict, letter="a", share=None):
    shares = {} if share is None else {"official": {"p": share}}
    return LoggedSample(
        id=str(number),
        official=verdict,
        robust=Scored(1),
        groups={"letter": (letter,)},
        shares=shares,
    )


def samples(*verdicts, letter="a"):
    parsed = [Scored(v) if isinstance(v, (int, float)) else Unscored(v) for v in verdicts]
    return [sample(f"{letter}{n}", verdict, letter) for n, verdict in enumerate(parsed)]


def task_run(logged, task="letters", **options):
    benchmark = SimpleNamespace(
        **{
            "name": "letters",
            "scale": SCALE,
            "strata": "",
            "stratum_sizes": {},
            "two_of_each": {},
            **options,
        }
    )
    return TaskRun(task=task, benchmark=benchmark, records=tuple(logged))


def value_of(logged, metric=WHOLE, **options):
    return task_run(logged, **options).score(metric, "official")


def test_a_mean_is_over_the_scored_samples_and_counts_them():
    value = value_of(samples(*[4, 8] * 9, "unparsed"))
    assert (value.percent, value.scored, value.total) == (60.0, 18, 19)
    assert value.interval.low < 60 < value.interval.high
    value = value_of(samples(10, 10) + samples(2, letter="b"), BOTH)  # of two groups
    assert (value.percent, value.scored, value.total) == (80.0, 3, 3)
    value = value_of(samples(5, *["left_out"] * 9))  # they do not lower the coverage
    assert (value.percent, value.counts) == (50.0, "1 of 1, 9 left out")
    shares = [sample(1, Scored(3), share=0.5), sample(2, Scored(3), share=1.0)]
    assert value_of(shares, COMPONENT).percent == 75.0
    assert value_of([], WHOLE) is None
    assert value_of(samples(1, letter="c"), BOTH) is None


@pytest.mark.parametrize(
    ("logged", "number", "why"),
    [
        pytest.param(samples("refused"), WHOLE, "no sample has a score", id="nothing-scored"),
        pytest.param(samples(1, "refused"), WHOLE, "only 1 of 2", id="too-few"),
        pytest.param(samples(1), BOTH, "1 of 2 letters not in this run: b", id="a-group-absent"),
        pytest.param(
            samples(1) + samples("refused", letter="b"), BOTH, "b: no sample", id="a-group-unscored"
        ),
        pytest.param(samples(1), COMPONENT, "no sample has a score", id="no-such-component"),
    ],
)
def test_a_missing_value_has_a_reason(logged, number, why):
    value = value_of(logged, number)
    assert value.percent is None
    assert value.interval is None
    assert why in value.why_not


@pytest.mark.parametrize(
    ("floor", "scored", "has_value"),
    [
        pytest.param("", 8, False, id="less than nine of ten"),
        pytest.param("", 9, True, id="nine of ten"),
        pytest.param("min_coverage:0.5", 5, True, id="of the run"),
        pytest.param("min_coverage:0.5", 4, False, id="less than that of the run"),
        pytest.param("min_coverage:many", 8, False, id="unreadable"),
    ],
)
def test_the_floor_of_coverage_is_the_runs_own(floor, scored, has_value):
    signature = Signature.parse(f"task:x@1-A|{floor}|pkg:1" if floor else "task:x@1-A|pkg:1")
    logged = samples(*[5] * scored, *["refused"] * (10 - scored))
    value = value_of([replace(sample, signature=signature) for sample in logged])
    assert (value.percent is not None) == has_value


def test_fewer_than_ten_samples_or_one_in_a_group_give_no_interval():
    assert value_of(samples(*[5, 6] * 4)).interval is None
    assert value_of(samples(*[5, 6] * 5)).interval is not None
    assert value_of(samples(*[5, 6] * 5) + samples(4, letter="b"), BOTH).interval is None


def in_strata(n_a, n_b, sizes, metric=WHOLE):
    logged = samples(*[4, 8] * (n_a // 2)) + samples(*[1, 3] * (n_b // 2), letter="b")
    return value_of(logged, metric, strata="letter", stratum_sizes=sizes)


def test_a_plain_mean_has_an_interval_if_its_strata_are_in_the_benchmarks_proportions():
    sizes = {"a": 3000, "b": 1000}
    assert in_strata(30, 10, sizes).interval is not None
    assert in_strata(20, 20, sizes).interval is None
    assert in_strata(40, 0, sizes).interval is not None  # the task of one stratum
    only_a = replace(WHOLE, by="letter", weights={"a": 1})
    assert in_strata(20, 20, sizes, only_a).interval is not None
    by_type = replace(WHOLE, name="x", component="x")
    assert in_strata(20, 20, sizes, by_type).interval is None


def test_the_interval_of_a_plain_mean_is_about_the_mean_with_the_errors_within_strata():
    value = in_strata(30, 10, {"a": 3000, "b": 1000})
    pooled = in_strata(30, 10, {})
    assert value.percent == 50
    assert sum(value.interval) == pytest.approx(100)
    unstratified = value_of(samples(*[4, 8] * 15) + samples(*[1, 3] * 5, letter="b"))
    assert value.interval == pooled.interval
    assert value.interval.low > unstratified.interval.low


@pytest.mark.parametrize(
    ("counts", "is_like"),
    [
        pytest.param((25, 57, 18), True, id="rounded"),
        pytest.param((33, 34, 33), False, id="thirds"),
        pytest.param((0, 0, 9), True, id="one stratum"),
    ],
)
def test_a_run_is_in_proportion_where_its_strata_are_rounded(counts, is_like):
    sizes = {"a": 5005, "b": 11_482, "c": 3616}
    logged = [
        sample(1, Scored(1), name) for name, n in zip("abc", counts, strict=True) for _ in range(n)
    ]
    benchmark = task_run(logged, strata="letter", stratum_sizes=sizes).benchmark
    assert in_proportion(logged, benchmark) == is_like


@given(st.lists(st.integers(0, 10), min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_samples_never_matters(points, lots):
    logged = samples(*points) + samples(3, 4, letter="b")
    shuffled = lots.sample(logged, len(logged))
    for number in (WHOLE, BOTH):
        one, other = (value_of(ordered, number) for ordered in (logged, shuffled))
        assert one.percent == other.percent
        assert one.interval == pytest.approx(other.interval)


@given(st.lists(st.integers(0, 10), min_size=1), st.integers(1, 9))
def test_an_unscored_sample_moves_no_mean(points, factor):
    few = max(0, len(points) * factor // 90)
    sound = value_of(samples(*points))
    value = value_of(samples(*points, *["unparsed"] * few))
    assert value.percent == sound.percent
    assert value.interval == sound.interval
    assert value.total == sound.total + few


ONLY_A = Metric(name="a", title="A", kind="letter", by="letter", weights={"a": 1.0})
ONLY_B = Metric(name="b", title="B", kind="letter", by="letter", weights={"b": 1.0})
HEADED = Metric(name="ab", title="A, B", kind="headline", by="letter", weights=BOTH.weights)


@pytest.mark.parametrize(
    ("task", "logged", "expected"),
    [
        pytest.param("letters", samples(1), ["ab", "a", "b"], id="the-whole-benchmark"),
        pytest.param("letters_a", samples(1), ["a"], id="a-part"),
        pytest.param(
            "letters_ab", samples(1) + samples(2, letter="b"), ["ab", "a", "b"], id="all-groups"
        ),
        pytest.param("letters_c", samples(1, letter="c"), ["ab", "a", "b"], id="no-group-known"),
    ],
)
def test_a_part_of_a_benchmark_has_the_metrics_of_its_groups(task, logged, expected):
    metrics = task_run(logged, task, metrics=(HEADED, ONLY_A, ONLY_B)).metrics
    assert [number.name for number in metrics] == expected
    assert metrics[0].kind == "headline"


def test_the_headline_of_a_part_is_the_first_metric_that_counts_all_samples():
    logged = samples(1) + samples(2, letter="b")
    numbers = (Metric(name="c", title="C", kind="headline", by="letter", weights={"c": 1.0}),)
    metrics = task_run(logged, "letters_ab", metrics=(*numbers, ONLY_A, BOTH)).metrics
    assert [(number.name, number.kind) for number in metrics] == [
        ("ab", "headline"),
        ("a", "letter"),
    ]
