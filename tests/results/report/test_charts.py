from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.panels import judged
from support.panels import signature as panel_signature
from support.report_runs import METRICS, SKETCH, run, sample
from support.unloaded_benchmark import varied

from mmie_tasks.record.sample import Needle
from mmie_tasks.results.report.samples import join_tasks
from mmie_tasks.results.report.tables import charts, differences_of, metric_tables


def charts_of(*runs: object) -> dict[str, Any]:
    (task,) = join_tasks(runs)  # type: ignore[arg-type]
    return {
        str(chart["id"]): chart for chart in charts(task, metric_tables(task, differences_of(task)))
    }


def needle(name: str, points: float | None, length: float, depth: float | None = None) -> Any:
    return replace(sample(name, points), needle=Needle(length=length, depth=depth))


def categories(names: str) -> Any:
    """The made-up benchmark with these categories, in this order."""
    metrics = [
        replace(METRICS[1], name=name, title=name.upper(), weights={name: 1.0}) for name in names
    ]
    return varied(SKETCH, metrics=(METRICS[0], *metrics))


def test_five_categories_give_bars_and_a_radar_with_both_readings_of_each_run() -> None:
    samples = [sample(name, points, 4, name) for points, name in enumerate("abcde")]
    benchmark = categories("cabed")
    runs = [run("one", samples, benchmark=benchmark), run("two", samples[:1], benchmark=benchmark)]
    charts_by_id = charts_of(*runs)
    assert {"category-bars", "category-radar", "points"} == set(charts_by_id)
    bars = charts_by_id["category-bars"]
    assert bars["x"] == ["C", "A", "B", "E", "D"]
    names = [(series["run"], series["reading"]) for series in bars["series"]]
    assert names == [(index, kind) for index in (0, 1) for kind in ("official", "robust")]
    assert bars["series"][0]["values"] == [50.0, 0.0, 25.0, 100.0, 75.0]
    assert bars["series"][2]["values"] == [None, 0.0, None, None, None]


def test_four_categories_give_bars_without_a_radar_and_one_gives_no_chart() -> None:
    four = [sample(name, category=name) for name in "abcd"]
    charts_by_id = charts_of(run("one", four, benchmark=categories("abcd")))
    assert set(charts_by_id) == {"category-bars", "points"}
    assert set(charts_of(run("one", four[:1]))) == {"points"}


def test_a_category_without_a_score_says_why_in_its_chart() -> None:
    samples = [sample("1", 4), sample("2", None, category="b"), sample("3", 4, category="b")]
    official = charts_of(run("one", samples))["category-bars"]["series"][0]
    assert official["values"] == [100.0, None]
    assert official["why_not"] == ["", "no score: only 1 of 2 samples have a score"]


def test_the_histogram_counts_every_scored_and_unscored_sample_once() -> None:
    samples = [sample("1", 0), sample("2", 4, 3), sample("3", 4), sample("4", None)]
    points = charts_of(run("one", samples))["points"]
    assert points["x"] == ["0", "1", "2", "3", "4", "no score"]
    values = [series["values"] for series in points["series"]]
    assert values == [[1, 0, 0, 0, 2, 1], [1, 0, 0, 1, 1, 1]]


def test_a_panels_points_need_not_be_whole_and_have_no_histogram() -> None:
    of_panel = sample("1", 4, signature=panel_signature(), judgements=judged(4, 5).judgements)
    assert "points" not in charts_of(run("one", [of_panel]))


def test_a_heat_map_has_the_mean_and_the_count_of_each_depth_and_length() -> None:
    samples = [needle("1", 4, 10, 0.0), needle("2", 0, 10, 0.1)]
    samples += [needle("3", 1, 20, 1.0), needle("4", None, 20, 0.5)]
    charts_by_id = charts_of(run("one", samples), run("two", [needle("2", 4, 10, 0)]))
    heat = charts_by_id["needles-heat-0"]
    assert heat["x"] == charts_by_id["needles-heat-1"]["x"] == ["10", "20"]
    assert heat["z"] == [[50.0, None], [None] * 2, [None] * 2, [None] * 2, [None, 25.0]]
    assert heat["counts"] == [[2, 0], [0, 0], [0, 0], [0, 0], [0, 1]]


def test_needles_without_a_depth_give_a_line_over_lengths() -> None:
    samples = [needle(f"{n}", 2 + n % 2 * 2, 10) for n in range(10)] + [needle("x", 1, 20)]
    line = charts_of(run("one", samples))["needles-lines"]
    official = line["series"][0]
    assert (line["x"], official["values"]) == (["10", "20"], [75.0, 25.0])
    assert official["low"][0] < 75.0 < official["high"][0]
    assert official["low"][1] is None


def test_many_lengths_are_binned_into_twelve_groups() -> None:
    samples = [needle(str(length), 4, length, 0.0) for length in range(100)]
    heat = charts_of(run("one", samples))["needles-heat-0"]
    assert len(heat["x"]) == 12
    assert (heat["x"][0], heat["x"][-1]) == ("0 to 7", "91 to 99")
    assert sum(heat["counts"][0]) == 100
