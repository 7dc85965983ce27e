"""The charts of the report, drawn by Plotly Express.

The style sheet colours texts and robust scores, so that they fit the theme of the page.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import plotly.express as px
from plotly.graph_objects import Figure

from mmie_tasks.core.verdict import SCORE_KINDS, Scored
from mmie_tasks.record.intervals import stratified_mean
from mmie_tasks.results.report_samples import plain
from mmie_tasks.results.run import TaskRun

COLOURS = ("#3a8fc7", "#e69f00", "#1ca27d", "#cc79a7", "#d55e00", "#7fbfe8")
"""The colours of runs, in turn: those of Okabe and Ito, the dark ones lighter, for both themes."""

_PATTERNS = ("", "/", "x", ".", "\\", "+")  # of bars, in turn

_ORDERED_KINDS = ("level",)  # drawn as lines
_RADAR_KINDS = ("category", "component")
_MIN_RADAR_AXES = 5  # with fewer, bars show the same in less space
_MIN_FLAT = 10  # bars are horizontal from this number of names on
_MAX_UPRIGHT = 60  # characters of all names below bars
_MAX_LABEL, _LABEL_WIDTH = 60, 24  # characters of a name, and of each of its lines
_DEPTHS = 5  # rows of the heat map
_MAX_LENGTHS = 12  # columns of the heat map
_PERCENT = "percent of full marks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart.

    Attributes:
        shape: For the style sheet: ``bars``, ``lines``, ``radar`` or ``map``.
        figure: Plotly's JSON; no tag can begin in it.
        run: The only run that is drawn; empty for all runs of the task.
    """

    title: str
    unit: str = _PERCENT
    shape: str
    figure: str
    height_px: int
    run: str = ""


def charts(runs: Mapping[str, TaskRun], numbers: Mapping[str, int]) -> Iterator[Chart]:
    """Every chart of a task, for its runs by name; `numbers` are those of the runs' colours."""
    by_run = {_shown(name): number for name, number in numbers.items()}
    for kind in dict.fromkeys(score.group for run in runs.values() for score in run.scores):
        table, names = _metrics(runs, kind)
        if kind == "headline" or len(names) < 2:
            continue
        title = "Means of groups" if kind == "mean" else f"By {kind}"
        draw = _lines if kind in _ORDERED_KINDS else _bars
        yield draw(title, table, names, by_run)
        if kind in _RADAR_KINDS and len(names) >= _MIN_RADAR_AXES:
            yield _radar(f"{title}, radar", table, names, by_run)
    scale = next(iter(runs.values())).benchmark.scale
    has_panel = any(record.members for run in runs.values() for record in run.records)
    if scale.whole and not has_panel:
        table, names = _points(runs, int(scale.full_marks))
        yield _bars("Samples by points", table, names, by_run, "samples")
    yield from _needle_charts(runs, scale.full_marks, by_run)


def _shown(text: str) -> str:
    """A text of a log for Plotly, which would read markup in it."""
    return html.escape(plain(text), quote=False)


def _metrics(runs: Mapping[str, TaskRun], kind: str) -> tuple[pd.DataFrame, list[str]]:
    """A row for each score of a kind of metrics, and the titles of the metrics."""
    scores = [(name, s) for name, run in runs.items() for s in run.scores if s.group == kind]
    titles = {score.metric.removeprefix(score.kind): score.title for _, score in scores}
    positions = {name: position for position, name in enumerate(titles)}
    rows = [
        {
            "run": _shown(name),
            "kind": score.kind,
            "position": positions[score.metric.removeprefix(score.kind)],
            "value": score.percent,
            **_reach(score.percent, score.interval),
        }
        for name, score in scores
    ]
    return _table(rows), list(titles.values())


def _reach(value: float | None, interval: tuple[float, float] | None) -> dict[str, float]:
    """How far an interval goes above and below a value."""
    if value is None or interval is None:
        return {}
    return {"above": interval[1] - value, "below": value - interval[0]}


def _table(rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    columns = ("run", "kind", "position", "value", "above", "below")
    table = pd.DataFrame(rows, columns=list(columns))
    return table.astype(dict.fromkeys(("value", "above", "below"), float))


def _points(runs: Mapping[str, TaskRun], full_marks: int) -> tuple[pd.DataFrame, list[str]]:
    """The number of samples with each number of points, and without points."""
    names = [*map(str, range(full_marks + 1)), "no score"]
    rows = []
    for (name, run), kind in product(runs.items(), SCORE_KINDS):
        verdicts = (record.verdict(kind) for record in run.records)
        counts = Counter(
            round(verdict.points) if isinstance(verdict, Scored) else full_marks + 1
            for verdict in verdicts
        )
        rows += [
            {"run": _shown(name), "kind": kind, "position": position, "value": counts[position]}
            for position in range(len(names))
        ]
    return _table(rows), names


def _bars(
    title: str,
    table: pd.DataFrame,
    names: Sequence[str],
    numbers: Mapping[str, int],
    unit: str = _PERCENT,
) -> Chart:
    """Official scores as bars, robust ones as diamonds."""
    official, robust = (table[table["kind"] == kind] for kind in SCORE_KINDS)
    is_missing = official["value"].isna()
    is_long = len(names) >= _MIN_FLAT or sum(map(len, names)) > _MAX_UPRIGHT
    is_flat = is_long or is_missing.any()
    value, position = ("x", "y") if is_flat else ("y", "x")
    look = {
        **_look(numbers, unit),
        value: "value",
        position: "position",
        "orientation": "h" if is_flat else "v",
    }
    figure = px.bar(
        official.fillna({"value": 0}),
        text=["no score" if missing else "" for missing in is_missing],
        barmode="group",
        pattern_shape="run",
        pattern_shape_map=_in_turn(_PATTERNS, numbers),
        **{f"error_{value}": "above", f"error_{value}_minus": "below"},
        **look,
    )
    figure.update_traces(
        textposition="outside",
        constraintext="none",
        marker_pattern={"fillmode": "overlay", "size": 7, "solidity": 0.2},
        **{f"error_{value}": {"thickness": 1, "width": 3}},
    )
    diamonds = px.scatter(robust, symbol_sequence=["diamond-open"], **look)
    figure.add_traces(diamonds.update_traces(marker={"size": 8, "line_width": 1.5}).data)
    figure.update_traces(cliponaxis=False)
    for trace in figure.data:
        trace.offsetgroup = trace.name  # puts a diamond on the bar of its run
    axes = {f"{position}axis": _names_axis(names), f"{value}axis": _value_axis(unit)}
    if is_flat:
        axes["yaxis"]["autorange"] = "reversed"
    layout = {**axes, "scattermode": "group", "bargap": 0.25, "scattergap": 0.25}
    height_px = 60 + len(names) * (14 * table["run"].nunique() + 10) if is_flat else 270
    return _chart(figure, layout, title=title, unit=unit, shape="bars", height_px=height_px)


def _lines(
    title: str, table: pd.DataFrame, names: Sequence[str], numbers: Mapping[str, int]
) -> Chart:
    """Official scores as lines, robust ones as dotted lines without intervals."""
    table.loc[table["kind"] == "robust", ["above", "below"]] = math.nan
    errors = {"error_y": "above", "error_y_minus": "below"}
    look = {**_look(numbers), **_STROKES, **errors}
    figure = px.line(table, x="position", y="value", **look)
    names_axis = {**_names_axis(names), "range": [-0.4, len(names) - 0.6]}
    axes = {"xaxis": names_axis, "yaxis": _value_axis(_PERCENT)}
    return _chart(figure, axes, title=title, shape="lines", height_px=270)


def _radar(
    title: str, table: pd.DataFrame, names: Sequence[str], numbers: Mapping[str, int]
) -> Chart:
    step = 360 / len(names)
    table = table.assign(angle=table["position"] * step)
    look = {**_look(numbers), **_STROKES, "line_close": True, "range_r": [0, 100]}
    figure = px.line_polar(table, r="value", theta="angle", **look)
    angles = {"tickvals": [n * step for n in range(len(names))], "ticktext": _ticks(names)}
    polar = {
        "angularaxis": {**angles, **_GRID},
        "radialaxis": {"angle": 90, "tickangle": 90, **_GRID},
        "bgcolor": "rgba(0,0,0,0)",
    }
    layout = {"polar": polar}
    return _chart(figure, layout, title=title, shape="radar", height_px=380)


def _needle_charts(
    runs: Mapping[str, TaskRun], full_marks: float, numbers: Mapping[str, int]
) -> Iterator[Chart]:
    """How often needles are retrieved: heat maps where their depths are known, else lines."""
    rows = [
        {"run": name, "kind": kind, "length": length, "depth": record.facts.get("needle_depth")}
        | {"points": verdict.points if isinstance(verdict, Scored) else math.nan}
        for (name, run), kind in product(runs.items(), SCORE_KINDS)
        for record in run.records
        if (length := record.facts.get("needle_length")) and (verdict := record.verdict(kind))
    ]
    if not rows:
        return
    needles = pd.DataFrame(rows)
    deep = needles[needles["depth"].notna() & (needles["kind"] == "official")]
    flat = needles[needles["depth"].isna()]
    if not deep.empty:
        columns, names = _length_bins(deep["length"])
        deep = deep.assign(position=columns, row=(deep["depth"] * _DEPTHS).clip(0, 4.9).astype(int))
        for name, of_run in deep.groupby("run", sort=False):
            yield _heat_map(str(name), of_run, names, full_marks)
    if not flat.empty:
        columns, names = _length_bins(flat["length"])
        of_bins = flat.assign(position=columns).groupby(["run", "kind", "position"], sort=False)
        table = _table(
            {"run": _shown(run), "kind": kind, "position": position}
            | _mean_value(of_bin["points"].dropna(), full_marks)
            for (run, kind, position), of_bin in of_bins
        )
        title = "Needles retrieved, by length of the haystack"
        yield _lines(title, table.sort_values("position"), names, numbers)


def _length_bins(lengths: pd.Series) -> tuple[pd.Series, list[str]]:
    """The bin of each length, with about as many needles in each, and the names of the bins."""
    bins = lengths.rank(method="dense").astype(int) - 1
    if bins.max() >= _MAX_LENGTHS:
        bins = pd.qcut(lengths, _MAX_LENGTHS, labels=False, duplicates="drop")
    ends = lengths.groupby(bins).agg(["min", "max"])
    names = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in ends.to_numpy()]
    return bins, names


def _mean_value(points: pd.Series, full_marks: float) -> dict[str, float]:
    if points.empty:
        return {}
    percent = 100 / full_marks
    estimate = stratified_mean([points.to_list()], [1], full_marks)
    interval = estimate.interval(0, full_marks).times(percent) if estimate else None
    mean = points.mean() * percent
    return {"value": mean, **_reach(mean, interval)}


def _heat_map(run: str, needles: pd.DataFrame, names: Sequence[str], full_marks: float) -> Chart:
    """The mean official score of each cell, and the number of its needles."""
    grid = {"index": range(_DEPTHS), "columns": range(len(names))}
    cells = needles.groupby(["row", "position"])["points"]
    means = (cells.mean() * 100 / full_marks).unstack().reindex(**grid)
    counts = cells.count().unstack().reindex(**grid)
    look = {"zmin": 0, "zmax": 100, "color_continuous_scale": "cividis", "aspect": "auto"}
    figure = px.imshow(means, template="none", **look)
    texts = [
        ["" if math.isnan(mean) else f"{mean:.0f} %<br>of {n:.0f}" for mean, n in of_depth]
        for of_depth in np.dstack([means, counts])
    ]
    figure.update_traces(text=texts, texttemplate="%{text}", hoverinfo="text", xgap=2, ygap=2)
    step = 100 // _DEPTHS
    depths = [f"{row * step} to {(row + 1) * step} %" for row in range(_DEPTHS)]
    axes = {
        "xaxis": {**_names_axis(names), "title": "length"},
        "yaxis": {**_names_axis(depths), "title": "depth", "autorange": "reversed"},
        "coloraxis": {"showscale": False},
    }
    title = "Needles retrieved, by depth and length of the haystack"
    height_px = 120 + 44 * _DEPTHS
    return _chart(figure, axes, title=title, shape="map", height_px=height_px, run=run)


_GRID = {"gridcolor": "#8884", "linecolor": "#8888"}
_STROKES = {
    "line_dash": "kind",
    "line_dash_map": {"official": "solid", "robust": "dot"},
    "symbol": "kind",
    "symbol_map": {"official": "circle", "robust": "circle-open"},
}


def _look(numbers: Mapping[str, int], unit: str = _PERCENT) -> dict[str, object]:
    """What charts of several runs have in common."""
    return {
        "color": "run",
        "color_discrete_map": _in_turn(COLOURS, numbers),
        "hover_data": {"position": False, "value": ":.2f" if unit == _PERCENT else ":,"},
        "labels": {"value": unit},
        "template": "none",
    }


def _in_turn(values: Sequence[str], numbers: Mapping[str, int]) -> dict[str, str]:
    return {run: values[number % len(values)] for run, number in numbers.items()}


def _names_axis(names: Sequence[str]) -> dict[str, object]:
    return {"tickvals": list(range(len(names))), "ticktext": _ticks(names), "showgrid": False}


def _ticks(names: Sequence[str]) -> list[str]:
    lines = (
        textwrap.wrap(name[:_MAX_LABEL], _LABEL_WIDTH, break_long_words=False) for name in names
    )
    return ["<br>".join(map(_shown, of_name)) for of_name in lines]


def _value_axis(unit: str) -> dict[str, object]:
    return {"range": [0, 101]} if unit == _PERCENT else {"rangemode": "tozero"}


def _chart(figure: Figure, layout: Mapping[str, object], *, height_px: int, **fields: str) -> Chart:
    axis = {"automargin": True, "fixedrange": True, "zeroline": False, "title": ""}
    figure.update_xaxes(**axis, **_GRID)
    figure.update_yaxes(**axis, **_GRID)
    figure.update_layout(
        **layout,
        template="none",
        font={"family": "system-ui, sans-serif", "size": 12},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"t": 10, "r": 12, "b": 36, "l": 44},
        showlegend=False,
        dragmode=False,
    )
    return Chart(figure=figure.to_json(), height_px=height_px, **fields)
