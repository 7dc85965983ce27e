"""The random sample of answers that people should score."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logged_runs import milebench_lines, mmie_lines, write_run

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.quality.calibrate.judged_samples import (
    JudgedSample,
    JudgedSamples,
    judged_samples,
    stratum_weights,
)
from mmie_tasks.quality.calibrate.plan import planned_answers, strata_in_order
from mmie_tasks.record.metrics import Metric
from mmie_tasks.results.commands import open_run


def logged(folder, task="mmie", lines=None):
    write_run(folder, task, mmie_lines(90, unscored=0.1) if lines is None else lines)
    return open_run(str(folder)).tasks[task]


def plan_of(*task_runs, samples=30, seed=0):
    return planned_answers(
        [judged_samples(task_run, "official") for task_run in task_runs], samples, seed
    )


def ids_of(plan):
    return [answer.id for answer in plan]


def test_a_plan_is_the_same_whatever_the_order_of_the_log_and_another_with_another_seed(tmp_path):
    task_run = logged(tmp_path)
    samples = list(task_run.samples)
    random.Random(1).shuffle(samples)  # noqa: S311 - no secret
    assert plan_of(replace(task_run, samples=tuple(samples))) == plan_of(task_run)
    assert ids_of(plan_of(task_run, seed=1)) != ids_of(plan_of(task_run))


def test_a_larger_plan_extends_a_smaller_one(tmp_path):
    task_run = logged(tmp_path)
    smaller, larger = ({*ids_of(plan_of(task_run, samples=samples))} for samples in (30, 60))
    assert smaller < larger
    assert (len(smaller), len(larger)) == (30, 60)


def test_samples_without_points_are_in_no_plan_and_counted_by_reason(tmp_path):
    task_run = logged(tmp_path)
    left_out = task_run.samples[0]
    samples = (replace(left_out, official=Unscored("left_out")), *task_run.samples[1:])
    run = judged_samples(replace(task_run, samples=samples), "official")
    unparsed = [sample.id for sample in samples[1:] if isinstance(sample.official, Unscored)]
    assert unparsed
    assert run.without == {"left_out": (left_out.id,), "unparsed": tuple(unparsed)}
    everything = planned_answers([run], 1000, 0)
    assert sorted(ids_of(everything)) == sorted(run.by_id)
    assert not {*ids_of(everything)} & {left_out.id, *unparsed}


def test_strata_of_a_mean_of_group_means_are_its_groups_with_its_weights(tmp_path):
    task_run = logged(tmp_path, "milebench", milebench_lines(2))
    metric = task_run.benchmark.metrics[0]
    run = judged_samples(task_run, "official")
    strata = {sample.stratum for sample in run.by_id.values()}
    assert strata == set(metric.weights)
    assert stratum_weights(metric, strata, {"other": 1}) == metric.weights
    rest = tuple(
        sample
        for sample in task_run.samples
        if metric.stratum(sample) != next(iter(metric.weights))
    )
    without_one = judged_samples(replace(task_run, samples=rest), "official")
    assert (
        without_one.why_not
        == f"1 of {len(metric.weights)} datasets not in this run: {next(iter(metric.weights))}"
    )


@pytest.mark.parametrize(
    ("sizes", "weights"),
    [
        pytest.param(None, {"MSR": 1 / 3, "SA": 2 / 3}, id="of the run"),
        pytest.param({"SA": 10, "PBL": 70, "MSR": 30}, {"MSR": 3 / 4, "SA": 1 / 4}, id="benchmark"),
        pytest.param({"SA": 10}, {"MSR": 1 / 3, "SA": 2 / 3}, id="one is unknown"),
    ],
)
def test_strata_weigh_as_in_the_run_or_as_in_the_benchmark(sizes, weights):
    metric = Metric(name="", title="", kind="headline")
    assert stratum_weights(metric, ["SA", "MSR", "SA"], sizes) == pytest.approx(weights)


def made_up(sizes, template):
    by_id = {
        f"{name}-{index}": JudgedSample(
            sample=replace(template, id=f"{name}-{index}"), stratum=name, points=1.0
        )
        for name, size in sizes.items()
        for index in range(size)
    }
    return JudgedSamples(by_id=by_id, without={})


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return logged(tmp_path_factory.mktemp("run")).samples[0]


@given(
    sizes=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 60), min_size=1),
    samples=st.integers(10, 200),
    seed=st.integers(0, 10**9),
)
def test_every_stratum_of_a_plan_is_a_prefix_and_wherever_one_stops(template, sizes, samples, seed):
    run = made_up(sizes, template)
    plan = planned_answers([run], samples, seed)
    assert len(plan) == min(samples, sum(sizes.values()))
    ordered = strata_in_order({id_: judged.stratum for id_, judged in run.by_id.items()}, seed)
    for stop in (len(plan) // 3, len(plan)):
        scored = plan[:stop]
        for name, ids in ordered.items():
            in_stratum = [answer.id for answer in scored if answer.stratum == name]
            assert in_stratum == ids[: len(in_stratum)]
            share = stop / len(plan) * sum(answer.stratum == name for answer in plan)
            assert abs(len(in_stratum) - share) <= len(sizes)
    assert all(
        sum(answer.stratum == name for answer in plan) >= min(2, size)
        for name, size in sizes.items()
    )


def test_two_runs_share_a_plan_and_identical_answers_are_one(tmp_path):
    a = logged(tmp_path / "a", lines=mmie_lines(60, unscored=0.1, answers="a"))
    b = logged(tmp_path / "b", lines=mmie_lines(60, unscored=0.1, answers="b"))
    same = replace(
        b,
        samples=tuple(replace(s, answer=a.by_id[s.id].answer) for s in b.samples[:20])
        + b.samples[20:],
    )
    plan = plan_of(a, same, samples=60)
    runs = [judged_samples(task_run, "official").by_id for task_run in (a, same)]
    identical = {sample.id for sample in same.samples[:20]}
    for id_ in {*ids_of(plan)}:
        judged = sum(id_ in run for run in runs)
        assert ids_of(plan).count(id_) == (1 if id_ in identical else judged)
    assert {*ids_of(plan)} == runs[0].keys() | runs[1].keys()
    swapped = plan_of(same, a, samples=60)
    assert [(answer.id, answer.answer) for answer in plan] == [
        (answer.id, answer.answer) for answer in swapped
    ]
