from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.panels import judged, signature
from support.report_runs import METRICS, SKETCH, run, sample
from support.unloaded_benchmark import varied

from mmie_tasks.record.sample import Needle
from mmie_tasks.results.report.charts import NO_SCORE, Chart, charts
from mmie_tasks.results.report.render import Cell
from mmie_tasks.results.report.samples import join_tasks
from mmie_tasks.results.report.tables import task_scores

POINTS = "Samples by points, 0 to 4"
HEAT = "Needles retrieved, by depth and length of the haystack (official score)"


def drawn(*runs: Any) -> list[Chart]:
    (task,) = join_tasks(runs)
    return charts(task_scores(task, [one.name for one in runs]))


def charts_of(*runs: Any) -> dict[str, Chart]:
    return {chart.title: chart for chart in drawn(*runs)}


def column(chart: Chart, number: int) -> list[Any]:
    """A column of the table of values, in percent or counts."""
    values = [row[number] for row in chart.table.rows]
    return [value.percent if isinstance(value, Cell) else value for value in values]


def needle(name: str, points: float | None, length: float, depth: float | None = None) -> Any:
    return replace(sample(name, points), needle=Needle(length=length, depth=depth))


def categories(names: str) -> Any:
    """The made-up benchmark with these categories, in this order."""
    metrics = [
        replace(METRICS[1], name=name, title=name.upper(), weights={name: 1.0}) for name in names
    ]
    return varied(SKETCH, metrics=(METRICS[0], *metrics))


def test_five_categories_give_bars_and_a_radar_with_both_scores_of_each_run() -> None:
    samples = [sample(name, points, 4, name) for points, name in enumerate("abcde")]
    benchmark = categories("cabed")
    runs = [run("one", samples, benchmark=benchmark), run("two", samples[:1], benchmark=benchmark)]
    by_title = charts_of(*runs)
    assert list(by_title) == ["By category", "By category, radar", POINTS]
    bars = by_title["By category"]
    assert column(bars, 0) == ["C", "A", "B", "E", "D"]
    names = [(title.group.text, title.title) for title in bars.table.columns[1:] if title.group]
    kinds = ("official score", "robust score")
    assert names == [(name, kind) for name in ("one", "two") for kind in kinds]
    assert column(bars, 1) == [50.0, 0.0, 25.0, 100.0, 75.0]
    assert column(bars, 3) == [None, 0.0, None, None, None]
    assert [trace["type"] for trace in bars.figure["data"]] == ["bar", "scatter"] * 2
    assert bars.figure["data"][0]["y"] == [50.0, 0.0, 25.0, 100.0, 75.0]
    radar = by_title["By category, radar"].figure["data"][0]
    assert radar["r"] == [50.0, 0.0, 25.0, 100.0, 75.0, 50.0]


def test_four_categories_give_bars_without_a_radar_and_one_gives_no_chart() -> None:
    four = [sample(name, category=name) for name in "abcd"]
    by_title = charts_of(run("one", four, benchmark=categories("abcd")))
    assert set(by_title) == {"By category", POINTS}
    assert set(charts_of(run("one", four[:1]))) == {POINTS}


def test_a_category_without_a_score_says_why_in_its_chart() -> None:
    samples = [sample("1", 4), sample("2", None, category="b"), sample("3", 4, category="b")]
    bars = charts_of(run("one", samples))["By category"]
    assert column(bars, 1) == [100.0, None]
    trace = bars.figure["data"][0]
    assert trace["text"] == ["", NO_SCORE]
    assert "only 1 of 2 samples have a score" in trace["hovertext"][1]
    assert (trace["orientation"], trace["x"]) == ("h", [100.0, 0])


def test_a_label_is_escaped_since_plotly_reads_markup() -> None:
    metrics = (METRICS[0], replace(METRICS[1], title="<b>&</b>\u202e"), METRICS[2])
    samples = [sample("1", 4, category="c"), sample("2", 1, category="a")]
    figure = charts_of(run("<i>", samples, benchmark=varied(SKETCH, metrics=metrics)))
    bars = figure["By category"].figure
    assert bars["layout"]["xaxis"]["ticktext"][0] == "&lt;b&gt;&amp;&lt;/b&gt;"
    assert bars["data"][0]["hovertext"][0].endswith("&lt;i&gt;, official: 100.00")


def test_the_histogram_counts_every_scored_and_unscored_sample_once() -> None:
    samples = [sample("1", 0), sample("2", 4, 3), sample("3", 4), sample("4", None)]
    points = charts_of(run("one", samples))[POINTS]
    assert column(points, 0) == ["0", "1", "2", "3", "4", "no score"]
    assert column(points, 1) == [1, 0, 0, 0, 2, 1]
    assert column(points, 2) == [1, 0, 0, 1, 1, 1]


def test_a_panels_points_need_not_be_whole_and_have_no_histogram() -> None:
    of_panel = sample("1", 4, signature=signature(), judgements=judged(4, 5).judgements)
    assert POINTS not in charts_of(run("one", [of_panel]))


def test_a_heat_map_has_the_mean_and_the_count_of_each_depth_and_length() -> None:
    samples = [needle("1", 4, 10, 0.0), needle("2", 0, 10, 0.1)]
    samples += [needle("3", 1, 20, 1.0), needle("4", None, 20, 0.5)]
    all_charts = drawn(run("one", samples), run("two", [needle("2", 4, 10, 0)]))
    one, two = (chart for chart in all_charts if chart.title == HEAT)
    assert one.table.header == two.table.header == ["depth", "10", "20"]
    means = one.figure["data"][0]["z"]
    assert means == [[50.0, None], [None] * 2, [None] * 2, [None] * 2, [None, 25.0]]
    cells = [[(cell.text, *cell.lines) for cell in row[1:]] for row in one.table.rows]  # type: ignore[union-attr]
    assert cells[0] == [("50.00", "of 2"), ("n/a", "of 0")]
    assert cells[4] == [("n/a", "of 0"), ("25.00", "of 1")]


def test_needles_without_a_depth_give_a_line_over_lengths() -> None:
    samples = [needle(f"{n}", 2 + n % 2 * 2, 10) for n in range(10)] + [needle("x", 1, 20)]
    line = charts_of(run("one", samples))["Needles retrieved, by length of the haystack"]
    assert (column(line, 0), column(line, 1)) == (["10", "20"], [75.0, 25.0])
    first, second = (row[1] for row in line.table.rows)
    assert isinstance(first, Cell)
    assert first.interval is not None
    assert first.interval.low < 75.0 < first.interval.high
    assert isinstance(second, Cell)
    assert second.interval is None


def test_many_lengths_are_binned_into_twelve_groups() -> None:
    samples = [needle(str(length), 4, length, 0.0) for length in range(100)]
    heat = charts_of(run("one", samples))[HEAT]
    lengths = heat.table.header[1:]
    assert (len(lengths), lengths[0], lengths[-1]) == (12, "0 to 7", "91 to 99")
    counts = [cell.lines[0] for cell in heat.table.rows[0][1:]]  # type: ignore[union-attr]
    assert sum(int(count.removeprefix("of ")) for count in counts) == 100
