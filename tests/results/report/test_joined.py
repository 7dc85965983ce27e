from __future__ import annotations

import pytest
from support.report_runs import run, sample

from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.report.samples import dispute, image_files, join_tasks, sample_columns


def test_samples_keep_the_order_of_the_first_run_and_those_of_later_runs_follow() -> None:
    one = run("one", [sample("b"), sample("a")])
    two = run("two", [sample("c"), sample("a"), sample("0")])
    (task,) = join_tasks([one, two])
    assert sample_columns(task)["ids"] == ["b", "a", "c", "0"]
    assert sample_columns(task)["missing"] == [
        [False, False, True, True],
        [True, False, False, False],
    ]


def test_runs_without_a_task_keep_their_index() -> None:
    one, two = run("one", [sample("a")], task="sketch_x"), run("two", [sample("a")])
    first, second = join_tasks([one, two])
    assert [index for index, _ in first.present] == [0]
    assert [index for index, _ in second.present] == [1]
    assert sample_columns(second)["points"]["official"] == [[None], [2]]
    assert (first.title, second.title) == ("Sketch (sketch_x)", "Sketch")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param([(2, 2), (3, 3)], 0.25, id="runs"),
        pytest.param([(0, 3)], 0.75, id="scores"),
        pytest.param([(1, 2), (4, 2)], 0.75, id="the-greatest"),
        pytest.param([(None, 0)], 1, id="unscored-beside-scored"),
        pytest.param([(2, 2), None], 0, id="a-run-that-lacks-it"),
    ],
)
def test_the_dispute_is_the_largest_difference_of_runs_or_readings(
    row: list[tuple[float | None, float | None] | None], expected: float
) -> None:
    samples = tuple(None if pair is None else sample("a", pair[0], pair[1]) for pair in row)
    assert dispute(samples, 4) == expected


def test_images_of_the_most_disputed_then_of_the_worst_samples_come_first_and_each_once() -> None:
    def pictured(name: str, *points: float) -> LoggedSample:
        return sample(name, *points, question=(Segment(image=name), Segment(image="all")))

    samples = [pictured("a", 4), pictured("b", 0), pictured("c", 4, 0), pictured("d", 2)]
    (task,) = join_tasks([run("one", samples)])
    assert image_files(task) == ["c", "all", "b", "d", "a"]


def test_only_samples_without_points_have_a_reason() -> None:
    (task,) = join_tasks([run("one", [sample("a", None, 3), sample("b", 1)]), run("two", [])])
    columns = sample_columns(task)
    assert columns["reasons"]["official"] == [["unparsed", ""], ["", ""]]
    assert columns["reasons"]["robust"] == [["", ""], ["", ""]]
    assert columns["points"]["official"] == [[None, 1], [None, None]]
    assert columns["points"]["robust"] == [[3, 1], [None, None]]


def test_groups_come_in_the_order_of_the_benchmark_and_unknown_ones_last() -> None:
    samples = [sample(name, category=name) for name in "zaybxcw"]
    (task,) = join_tasks([run("one", samples)])
    category = sample_columns(task)["groups"]["category"]
    assert category == {"names": [*"cabwxyz"], "of": [[6], [1], [5], [2], [4], [0], [3]]}
