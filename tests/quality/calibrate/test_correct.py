"""A run's score, corrected with people's scores."""

from __future__ import annotations

import csv
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logged_runs import mia_lines, mmie_lines, write_run
from support.people import human_points, labels_of, with_samples

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.quality.annotator import labels_by_benchmark
from mmie_tasks.quality.calibrate.correct import correct, default_population
from mmie_tasks.quality.calibrate.judged_samples import judged_samples
from mmie_tasks.quality.calibrate.plan import planned_answers
from mmie_tasks.record.metrics import metric_value
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.labels import csv_text, read_labels


def percent(points):
    return points / 6 * 100


def means_of_people(task_run):
    return [
        human_points(sample, "ann")
        for sample in task_run.samples
        if isinstance(sample.official, Scored)
    ]


def names(correction):
    return [problem.name for problem in correction.problems]


def test_the_corrected_score_of_a_random_sample_holds_peoples_mean_and_the_judges_does_not(
    task_run,
):
    correction = correct(task_run, labels_of(task_run))
    truth = percent(mean(means_of_people(task_run)))
    estimates = correction.headline.mean
    low, high = estimates.corrected.interval
    assert low < truth < high < correction.headline.judge
    assert estimates.people.interval.low < truth < estimates.people.interval.high
    assert high - low < estimates.people.interval.high - estimates.people.interval.low
    assert estimates.bias.value == pytest.approx(percent(2), abs=5)
    assert (correction.headline.labels, correction.seed, correction.problems) == (60, 0, ())


def test_the_judges_mean_is_the_official_score_and_strata_are_those_of_the_benchmark(task_run):
    correction = correct(task_run, labels_of(task_run))
    metric, scale = task_run.benchmark.metrics[0], task_run.benchmark.scale
    assert (
        correction.headline.judge
        == metric_value(task_run.samples, metric, "official", scale).percent
    )
    assert {score.name for score in correction.strata} == {"SA", "PBL", "MSR"}
    assert sum(score.labels for score in correction.strata) == correction.headline.labels == 60
    for score in correction.strata:
        part = next(metric for metric in task_run.benchmark.metrics if metric.name == score.name)
        assert score.judge == metric_value(task_run.samples, part, "official", scale).percent


def test_samples_without_points_are_in_no_mean_and_counted(task_run):
    unscored = [sample.id for sample in task_run.samples if isinstance(sample.official, Unscored)]
    correction = correct(task_run, labels_of(task_run))
    assert correction.without == {"unparsed": len(unscored)}
    assert correction.headline.samples == 300 - len(unscored)


def hand_picked(run, labels):
    return run, [replace(labels[0], seed=None), *labels[1:]]


def without_digest(run, labels):
    return run, [replace(labels[0], answer=""), *labels[1:]]


def several_seeds(run, labels):
    return run, [
        *labels,
        *(label for label in labels_of(run, samples=6, seed=1) if label not in labels),
    ]


def gap(run, labels):
    return run, labels[1:]


def too_few(run, labels):
    return run, labels[:6]


def unknown_id(run, labels):
    return run, [*labels, replace(labels[0], id="SA-99999")]


def changed_answer(run, labels):
    sample = run.by_id[labels[0].id]
    return with_samples(run, {sample.id: replace(sample, answer=(Segment(text="new"),))}), labels


def unscored_after(reason):
    def change(run, labels):
        sample = run.by_id[labels[0].id]
        return with_samples(run, {sample.id: replace(sample, official=Unscored(reason))}), labels

    return change


def too_many_unscored(run, _labels):
    ids = [sample.id for sample in run.samples][:100]
    changed = {id_: replace(run.by_id[id_], official=Unscored("unavailable")) for id_ in ids}
    run = with_samples(run, changed)
    return run, labels_of(run)


@pytest.mark.parametrize(
    ("change", "problem", "text", "is_corrected"),
    [
        pytest.param(
            hand_picked,
            "hand_picked",
            "1 label is not of a plan, as it has no seed",
            False,
            id="no-seed",
        ),
        pytest.param(
            without_digest, "hand_picked", "1 label is not of a plan", False, id="no-digest"
        ),
        pytest.param(
            several_seeds, "several_seeds", "different seeds: 0, 1", False, id="several-seeds"
        ),
        pytest.param(
            gap, "gaps", "1 sample has no label, unlike later ones of the plan: ", False, id="gap"
        ),
        pytest.param(
            changed_answer, "gaps", "1 sample has no label", False, id="a-changed-answer-is-a-gap"
        ),
        pytest.param(
            changed_answer,
            "other_answers",
            "1 label is of other answers",
            False,
            id="changed-answer",
        ),
        pytest.param(
            too_few, "too_few", "an interval needs 10 labels, and there are 6", False, id="too-few"
        ),
        pytest.param(
            too_many_unscored,
            "no_score",
            "of 300 samples have a score",
            False,
            id="below-the-floor",
        ),
        pytest.param(
            unknown_id,
            "unknown_ids",
            "1 label is of samples that are not in the run: SA-99999",
            True,
            id="id",
        ),
        pytest.param(
            unscored_after("left_out"),
            "left_out",
            "1 label is of samples that the official",
            True,
            id="out",
        ),
    ],
)
def test_each_problem_is_named_and_there_is_no_corrected_interval_where_it_would_be_wrong(
    task_run, change, problem, text, is_corrected
):
    run, labels = change(task_run, labels_of(task_run))
    correction = correct(run, labels)
    [named] = [entry for entry in correction.problems if entry.name == problem]
    assert text in named.text
    assert named.count == len(named.ids) or problem in ("several_seeds", "too_few", "no_score")
    assert bool(correction.headline.why_not) is not is_corrected
    interval = correction.headline.mean and correction.headline.mean.corrected.interval
    assert (interval is not None) is is_corrected
    if problem in ("hand_picked", "several_seeds", "gaps"):
        assert correction.headline.mean is None
        assert correction.headline.why_not.startswith("not a random sample: ")
        assert not correction.is_random_sample


def test_at_most_three_ids_are_in_a_text_and_all_are_in_the_problem(task_run):
    labels = [
        replace(label, id=f"x{number}\x1b[2J")
        for number, label in enumerate(labels_of(task_run, samples=10))
    ]
    [problem] = correct(task_run, labels).problems
    assert len(problem.ids) == 10
    assert problem.text.endswith("x0\\x1b[2J', 'x1\\x1b[2J', 'x2\\x1b[2J', ...")


@settings(max_examples=40)
@given(
    stop=st.integers(0, 120), removed=st.integers(0, 119), order=st.randoms(use_true_random=False)
)
def test_labels_are_a_random_sample_exactly_if_they_are_the_first_of_each_stratum(
    task_run, stop, removed, order
):
    labels = labels_of(task_run, samples=120)[:stop]
    order.shuffle(labels)
    assert "gaps" not in names(correct(task_run, labels))
    if removed < stop:
        gone, *rest = sorted(labels, key=lambda label: label.line)[removed:]
        stratum = gone.id.partition("-")[0]
        has_later = any(label.id.startswith(stratum) for label in rest)
        assert (
            "gaps" in names(correct(task_run, [label for label in labels if label is not gone]))
        ) is has_later


def test_the_mean_of_several_raters_counts_once_per_sample_and_their_agreement_is_known(task_run):
    raters = ("ann", "bob", "cy")
    labels = labels_of(task_run, raters=raters)
    correction = correct(task_run, labels)
    assert (correction.headline.labels, correction.rater_names) == (60, raters)
    assert correct(task_run, labels_of(task_run)).raters is None
    by_rater = [[label.points for label in labels if label.rater == rater] for rater in raters]
    others = [np.mean(np.delete(by_rater, i, axis=0), axis=0) for i in range(3)]
    expected = [np.corrcoef(by_rater[i], others[i])[0, 1] for i in range(3)]
    agreement = correction.raters
    assert agreement.correlation == pytest.approx(mean(expected))
    assert (agreement.samples, agreement.common) == (60, 60)
    means = dict(zip(raters, map(percent, map(mean, by_rater)), strict=True))
    assert agreement.means == pytest.approx(means)


def test_raters_of_different_samples_have_no_known_agreement_and_correct_nothing(task_run):
    labels = [
        replace(label, rater="ab"[number % 2]) for number, label in enumerate(labels_of(task_run))
    ]
    correction = correct(task_run, labels)
    assert (correction.raters.samples, correction.raters.correlation) == (0, None)
    assert (correction.raters.common, correction.raters.means) == (0, {})
    assert correction.headline.mean is None
    assert set(names(correction)) == {"gaps"}


def test_a_rater_of_hand_picked_answers_is_named_and_changes_nothing(task_run):
    labels = labels_of(task_run)
    lowest = sorted(labels, key=lambda label: label.points)[:20]
    again = [replace(label, rater="ben", points=6.0) for label in lowest]
    correction, alone = correct(task_run, [*labels, *again]), correct(task_run, labels)
    assert correction.headline == alone.headline
    assert correction.rater_names == ("ann",)
    assert correction.other_raters == {"ben": 20}
    [problem] = correction.problems
    assert problem.name == "gaps"
    assert "by ben" in problem.text
    assert correction.raters.means == pytest.approx(
        {"ann": percent(mean(label.points for label in lowest)), "ben": 100}
    )


def test_labels_up_to_a_gap_correct_the_score(task_run):
    labels = labels_of(task_run)
    stratum = judged_samples(task_run, "official").by_id[labels[40].id].stratum
    correction = correct(task_run, labels[:40] + labels[41:])
    lost = [label for label in labels[40:] if label.id.startswith(stratum)]
    assert correction.headline.labels == 60 - len(lost) < 60
    assert not correction.headline.why_not
    [problem] = correction.problems
    assert (problem.name, problem.ids) == ("gaps", (labels[40].id,))


def test_an_answer_that_cannot_be_rated_has_its_place_in_the_plan_and_is_counted(task_run):
    labels = labels_of(task_run)
    labels[0] = replace(labels[0], points=None, unratable=True)
    correction = correct(task_run, labels)
    assert (correction.headline.labels, correction.unratable, correction.problems) == (59, 1, ())
    assert not correction.headline.why_not
    both = correct(task_run, [*labels, *labels_of(task_run, raters=("bob",))])
    assert (both.headline.labels, both.rater_names) == (59, ("ann", "bob"))


def test_a_run_of_a_part_is_weighed_as_the_benchmark_and_is_a_sample_of_it(task_run, other_run):
    labels = labels_of(task_run, samples=300)
    part = correct(task_run, labels)
    sizes = {"SA": 5005, "PBL": 11482, "MSR": 3616}
    judge = {score.name: score.judge for score in part.strata}
    weighed = sum(sizes[name] * judge[name] for name in sizes) / 20_103
    assert part.population == "larger"
    assert part.headline.mean.judge == pytest.approx(weighed, abs=0.01)
    run_mean = correct(task_run, labels, population="run").headline.mean
    assert part.headline.judge == pytest.approx(run_mean.judge, abs=0.01)
    low, high = part.headline.mean.corrected.interval
    assert low < high
    value, interval = run_mean.corrected.value, run_mean.corrected.interval
    assert interval == pytest.approx((value, value))  # all are labelled
    both = labels_of(task_run, other_run, samples=300)
    difference = correct(other_run, both, population="run", baseline=task_run)
    assert difference.population == "larger"


def test_a_whole_benchmark_is_its_own_population(tmp_path):
    write_run(tmp_path / "run", "mia_bench", mia_lines(400))
    run = open_run(str(tmp_path / "run")).tasks["mia_bench"]
    assert default_population(run) == "run"
    assert default_population(replace(run, samples=run.samples[:-1])) == "larger"


def test_another_score_that_follows_people_better_is_named_with_an_interval(task_run):
    labels = labels_of(task_run)
    finer = {
        label.id: replace(task_run.by_id[label.id], robust=Scored(label.points * 0.9))
        for label in labels
    }
    [other] = correct(with_samples(task_run, finer), labels).other_scores
    assert (other.kind, other.labels) == ("robust", 60)
    assert other.correlation == pytest.approx(1)
    assert (
        0
        < other.difference.interval.low
        <= other.difference.value
        == pytest.approx(1 - other.official)
    )
    assert correct(task_run, labels).other_scores == ()


def test_the_difference_of_two_runs_is_over_the_answers_that_both_have_labels_of(
    task_run, other_run
):
    correction = correct(other_run, labels_of(task_run, other_run, samples=100), baseline=task_run)
    shared = [
        (task_run.by_id[id_], sample)
        for id_, sample in other_run.by_id.items()
        if isinstance(sample.official, Scored) and isinstance(task_run.by_id[id_].official, Scored)
    ]
    truth = percent(
        mean(human_points(other, "ann") - human_points(first, "ann") for first, other in shared)
    )
    score = correction.headline
    assert score.samples == len(shared)
    assert 60 < score.labels < 100
    assert score.judge == pytest.approx(
        percent(mean(b.official.points - a.official.points for a, b in shared))
    )
    assert 0 < score.mean.corrected.interval.low < truth < score.mean.corrected.interval.high
    assert sum(part.samples for part in correction.strata) == len(shared)
    swapped = correct(task_run, labels_of(task_run, other_run, samples=100), baseline=other_run)
    assert swapped.headline.mean.corrected.value == pytest.approx(-score.mean.corrected.value)


def test_hostile_ids_survive_the_way_from_the_plan_through_a_csv_to_the_correction(
    task_run, tmp_path
):
    begin = (
        "=HYPERLINK(1)",
        "+",
        "-1",
        "@a",
        "'=x",
        'a,"b',
        " a\t b\n",
        "\ud800",
        "\x1b[2J",
        "é;",
        "<script>",
        "''",
    )
    samples = [
        replace(sample, id=f"{begin[number % len(begin)]}{number}")
        for number, sample in enumerate(task_run.samples)
    ]
    hostile = replace(task_run, samples=tuple(samples))
    plan = planned_answers([judged_samples(hostile, "official")], 60, 0)
    header, *rows = csv.reader(
        csv_text([(answer.id, answer.answer) for answer in plan], 0).splitlines(keepends=True)
    )
    with (tmp_path / "people.csv").open("w", encoding="utf-8") as file:
        scored = [
            [*row[:-1], human_points(answer.sample)] for row, answer in zip(rows, plan, strict=True)
        ]
        csv.writer(file).writerows([header, *scored])
    correction = correct(hostile, read_labels(tmp_path / "people.csv", hostile.benchmark.scale))
    assert correction.problems == ()
    assert correction.headline.labels == 60


def test_files_belong_to_the_benchmark_whose_samples_they_name(tmp_path):
    write_run(tmp_path / "run", "mia_bench", mia_lines(30))
    write_run(tmp_path / "run", "mmie", mmie_lines(30))
    tasks = open_run(str(tmp_path / "run")).tasks
    for name, task in tasks.items():
        ids = list(judged_samples(task, "official").by_id)[:3]
        points = {"mia_bench": "95", "mmie": "5"}[name]
        text = csv_text([(id_, "ab12") for id_ in ids], seed=1).replace(",,", f",,{points}")
        (tmp_path / f"{name}.csv").write_text(text)
    files = [str(tmp_path / f"{name}.csv") for name in tasks]
    labels = labels_by_benchmark(files, tasks.values())
    assert {name: {label.points for label in own} for name, own in labels.items()} == {
        "mia_bench": {95},
        "mmie": {5},
    }
    with pytest.raises(
        AnswersUnusable, match=r"mia_bench.csv` has no label of a sample that a judge scored"
    ):
        labels_by_benchmark(files[:1], [tasks["mmie"]])
