"""The charts of the report: figures for Plotly, each with a table of its values.

Plotly reads markup in texts, so untrusted texts are escaped. Colours are names from the style
sheet, which the page replaces when it draws.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from mmie_tasks.core.tables import percent_cell
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.record.intervals import Interval, stratified_mean
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.sample import SCORE_KINDS, LoggedSample, Needle, ScoreKind
from mmie_tasks.results.page_data import Json, page_data
from mmie_tasks.results.report.render import Cell, Column, PageTable, PageValue, RichText, columns
from mmie_tasks.results.report.tables import ComparedMetric, TaskScores

NO_SCORE = "no score"
"""The last bar of a histogram."""

_RADAR_KINDS = ("category", "component")
_ORDERED_KINDS = ("level",)  # drawn as lines instead of bars
_MIN_RADAR_AXES = 5  # with fewer, bars show the same in less space
_DEPTH_ROWS = 5  # rows of the heat map
_MAX_LENGTH_COLUMNS = 12

_PATTERNS = ("", "/", "x", ".", "\\", "+")
_MARKERS = ("circle", "square", "triangle-up", "cross", "star", "hexagon")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_LABEL = 24  # characters of a line of a label
_SHORT_LABEL = 14  # characters of a line below an axis, or around a radar
_NO_INTERVAL = "none"  # Plotly draws no interval for a text, and one of width 0 for null
_MAX_HOVER = 80  # characters of a name
_MAX_UPRIGHT = 60  # characters of all labels below bars, with two between them


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart for Plotly; `legend` explains the colours, `key` the shapes."""

    title: str
    unit: str
    legend: Sequence[RichText]
    key: str
    table: PageTable
    figure: Json
    height_px: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One run's official or robust values: scores, numbers of samples, or None."""

    run: int
    kind: ScoreKind
    values: Sequence[Cell | int | None]

    @property
    def numbers(self) -> list[float | None]:
        """The values without their intervals."""
        return [v.percent if isinstance(v, Cell) else v for v in self.values]

    @property
    def intervals(self) -> list[Interval | None]:
        """The intervals of the values."""
        return [v.interval if isinstance(v, Cell) else None for v in self.values]

    @property
    def reasons(self) -> list[str]:
        """The reason why there is no score, for each value; empty with a score."""
        return [
            f"no score: {v.footnote}" if isinstance(v, Cell) and v.percent is None else ""
            for v in self.values
        ]


def charts(scores: TaskScores) -> list[Chart]:
    """Every chart of a task."""
    task = scores.task
    drawn = [chart for kind, rows in scores.rows.items() for chart in _metrics(scores, kind, rows)]
    has_panel = any(sample.members for _, run in task.present for sample in run.records)
    if task.benchmark.scale.whole and not has_panel:
        drawn.append(_histogram(scores))
    return [*drawn, *_needle_charts(scores)]


def _metrics(scores: TaskScores, kind: str, rows: Sequence[ComparedMetric]) -> Iterator[Chart]:
    if len(rows) < 2:
        return
    labels = [row.metric.title for row in rows]
    series = []
    for number, (index, _) in enumerate(scores.task.present):
        of_run = [row.scores[number] for row in rows]
        for score_kind in SCORE_KINDS if any(of_run) else ():
            cells = [of_metric.cell(score_kind) if of_metric else None for of_metric in of_run]
            series.append(Series(run=index, kind=score_kind, values=cells))
    titles = {"headline": "Headlines", "mean": "Means of groups"}
    title = titles.get(kind, f"By {kind}")
    shape = _lines if kind in _ORDERED_KINDS else _bars
    yield _chart(scores, title, labels, series, shape)
    if kind in _RADAR_KINDS and len(rows) >= _MIN_RADAR_AXES:
        yield _chart(scores, f"{title}, radar", labels, series, _radar)


_LAYOUT: Json = {
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "--ink"},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"t": 10, "r": 12, "b": 36, "l": 44},
    "hoverlabel": {
        "bgcolor": "--paper",
        "bordercolor": "--ink",
        "namelength": 0,
        "font": {"color": "--ink"},
    },
    "showlegend": False,
    "dragmode": False,
}

_Shape: TypeAlias = Callable[[Sequence[str], Sequence[Series], Sequence[str]], tuple[Json, float]]
"""Draws series over labels, for runs with these names: the figure and its height in pixels."""


def _chart(
    scores: TaskScores,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    shape: _Shape,
    unit: str = "percent of full marks",
) -> Chart:
    figure, height_px = shape(labels, series, scores.names)
    header = columns("")
    header += [
        Column(
            title=f"{of_run.kind} score",
            kind="score",
            group=RichText(text=scores.names[of_run.run], run=of_run.run),
        )
        for of_run in series
    ]
    rows: list[list[PageValue]] = [
        [label, *(of_run.values[index] for of_run in series)] for index, label in enumerate(labels)
    ]
    filled = "filled: official score; hollow and dotted: robust score"
    return Chart(
        title=title,
        unit=unit,
        legend=[
            RichText(text=scores.names[run], run=run)
            for run in dict.fromkeys(of_run.run for of_run in series)
        ],
        key="bars: official score, ◇ robust score" if shape is _bars else filled,
        table=PageTable(title=title, columns=header, rows=rows),
        figure=_figure(figure),
        height_px=height_px,
    )


def _figure(figure: Json) -> Json:
    return page_data({**figure, "layout": {**_LAYOUT, **figure["layout"]}})


def label(text: str, max_characters: int = _MAX_HOVER) -> str:
    """A text that Plotly displays literally, shortened.

    >>> label("<b>bold & more</b>", 8)
    '&lt;b&gt;bold…'
    """
    shown = _HIDDEN.sub("", text)
    cut = shown if len(shown) <= max_characters else f"{shown[: max_characters - 1]}…"
    return html.escape(cut, quote=False)


def _label_lines(text: str, width: int) -> str:
    """The label in at most three lines of `width` characters, unless its words are longer."""
    lines = textwrap.wrap(text[: 4 * width], width, break_long_words=False) or [""]
    shown = [*lines[:2], f"{lines[2]}…"] if len(lines) > 3 else lines
    return "<br>".join(label(line, max(width, 40)) for line in shown)


def _axis(**settings: object) -> Json:
    return {
        "linecolor": "--line",
        "gridcolor": "--line",
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        **settings,
    }


def _name_axis(labels: Sequence[str], width: int, **settings: object) -> Json:
    ticks = [_label_lines(text, width) for text in labels]
    return _axis(tickvals=list(range(len(labels))), ticktext=ticks, showgrid=False, **settings)


def _value_axis(series: Sequence[Series]) -> Json:
    is_count = any(isinstance(value, int) for one in series for value in one.values)
    return _axis(rangemode="tozero") if is_count else _axis(range=[0, 101], dtick=20)


def _hover(labels: Sequence[str], series: Series, names: Sequence[str]) -> Json:
    of_run = f"{label(names[series.run])}, {series.kind}"
    texts = []
    for text, value, reason in zip(labels, series.values, series.reasons, strict=True):
        match value:
            case Cell():
                shown = label(reason) or percent_cell(value.percent, value.interval)
            case _:
                shown = "n/a" if value is None else f"{value:,}"
        texts.append(f"{label(text)}<br>{of_run}: {shown}")
    return {"hoverinfo": "text", "hovertext": texts}


def _error(series: Series) -> Json:
    if not any(series.intervals):
        return {"visible": False}
    reach = [
        (_NO_INTERVAL, _NO_INTERVAL)
        if value is None or ends is None
        else (ends.high - value, value - ends.low)
        for value, ends in zip(series.numbers, series.intervals, strict=True)
    ]
    above, below = (list(ends) for ends in zip(*reach, strict=True))
    style = {"color": "--ink", "thickness": 1, "width": 3}
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, **style}


def _bars(
    labels: Sequence[str], series: Sequence[Series], names: Sequence[str]
) -> tuple[Json, float]:
    """Official scores as bars, robust ones as diamonds; horizontal for long labels or reasons."""
    lengths = [len(text) for text in labels]
    is_long = max(lengths) > _SHORT_LABEL or sum(lengths) + 2 * len(labels) > _MAX_UPRIGHT
    is_flat = is_long or any(any(one.reasons) for one in series)
    data = [_bar_trace(labels, one, names, is_flat=is_flat) for one in series]
    if is_flat:
        axes = {"xaxis": _value_axis(series), "yaxis": _name_axis(labels, _LABEL)}
        axes["yaxis"]["autorange"] = "reversed"
        lines = max(_label_lines(text, _LABEL).count("<br>") for text in labels) + 1
        bars = len({one.run for one in series})
        height_px = 50 + len(labels) * max(22, 14 * bars + 8, 15 * lines + 4)
    else:
        axes = {"xaxis": _name_axis(labels, _SHORT_LABEL), "yaxis": _value_axis(series)}
        height_px = 270
    groups = {"barmode": "group", "scattermode": "group", "bargap": 0.25, "scattergap": 0.25}
    return {"data": data, "layout": {**axes, **groups}}, height_px


def _bar_trace(
    labels: Sequence[str], series: Series, names: Sequence[str], *, is_flat: bool
) -> Json:
    reasons, positions, colour = series.reasons, list(range(len(labels))), f"--run-{series.run % 6}"
    is_official = series.kind == "official"
    numbers = [
        0 if why and is_official else number
        for number, why in zip(series.numbers, reasons, strict=True)
    ]
    trace = {
        **_hover(labels, series, names),
        **({"x": numbers, "y": positions} if is_flat else {"x": positions, "y": numbers}),
        "offsetgroup": str(series.run),
        "orientation": "h" if is_flat else "v",
        "cliponaxis": False,
    }
    if not is_official:
        marker = {"symbol": "diamond-open", "size": 8, "color": "--ink", "line": {"width": 1.5}}
        return {**trace, "type": "scatter", "mode": "markers", "marker": marker}
    pattern = {"shape": _PATTERNS[series.run % 6], "bgcolor": colour, "fgcolor": "--paper"}
    return {
        **trace,
        "type": "bar",
        "text": [NO_SCORE if why else "" for why in reasons],
        "textposition": "outside",
        "constraintext": "none",
        "textfont": {"size": 11, "color": "--faint"},
        "marker": {
            "color": colour,
            "pattern": {**pattern, "size": 7, "solidity": 0.2},
            "line": {"color": "--ink", "width": 0.5},
        },
        "error_x" if is_flat else "error_y": _error(series),
    }


def _strokes(series: Series) -> Json:
    run, colour, official = series.run % 6, f"--run-{series.run % 6}", series.kind == "official"
    dash = _DASHES[run] if official else "dot"
    return {
        "mode": "lines+markers",
        "line": {"color": colour, "width": 2 if official else 1.2, "dash": dash},
        "marker": {
            "symbol": _MARKERS[run] + ("" if official else "-open"),
            "size": 7,
            "color": colour,
            "line": {"color": "--ink", "width": 0.5},
        },
    }


def _lines(
    labels: Sequence[str], series: Sequence[Series], names: Sequence[str]
) -> tuple[Json, float]:
    positions = list(range(len(labels)))
    data = [
        {
            "type": "scatter",
            "x": positions,
            "y": one.numbers,
            **_hover(labels, one, names),
            **_strokes(one),
            "error_y": _error(one) if one.kind == "official" else {"visible": False},
        }
        for one in series
    ]
    names_below = _name_axis(labels, _SHORT_LABEL, range=[-0.4, len(labels) - 0.6])
    return {"data": data, "layout": {"xaxis": names_below, "yaxis": _value_axis(series)}}, 270


def _radar(
    labels: Sequence[str], series: Sequence[Series], names: Sequence[str]
) -> tuple[Json, float]:
    angles = [360 * index / len(labels) for index in range(len(labels))]
    data = []
    for one in series:
        closed = {"r": [*one.numbers, *one.numbers[:1]], "theta": [*angles, angles[0]]}
        hover = _hover(labels, one, names)
        hover["hovertext"].append(hover["hovertext"][0])
        data.append({"type": "scatterpolar", **closed, **hover, **_strokes(one)})
    line = {"linecolor": "--line", "gridcolor": "--line"}
    ticks = [_label_lines(text, _SHORT_LABEL) for text in labels]
    turned = {"rotation": 90, "direction": "clockwise"}
    radial = {"range": [0, 100], "angle": 90, "tickangle": 90}
    polar = {
        "bgcolor": "rgba(0,0,0,0)",
        "angularaxis": {**line, "tickvals": angles, "ticktext": ticks, **turned},
        "radialaxis": {**line, **radial, "tickfont": {"color": "--faint", "size": 10}},
    }
    return {
        "data": data,
        "layout": {"polar": polar, "margin": {"t": 40, "b": 40, "l": 90, "r": 90}},
    }, 380


def _histogram(scores: TaskScores) -> Chart:
    full_marks = int(scores.task.benchmark.scale.full_marks)
    labels = [*map(str, range(full_marks + 1)), NO_SCORE]
    series = []
    for (index, run), kind in product(scores.task.present, SCORE_KINDS):
        verdicts = [sample.verdict(kind) for sample in run.records]
        counts = Counter(str(round(points)) for points in _points(verdicts))
        counts[NO_SCORE] = len(verdicts) - counts.total()
        values = [counts[text] for text in labels]
        series.append(Series(run=index, kind=kind, values=values))
    return _chart(scores, f"Samples by points, 0 to {full_marks}", labels, series, _bars, "samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retrieval:
    """A sample of a run, and the needle that it asks for."""

    run: int
    needle: Needle
    sample: LoggedSample


def _needle_charts(scores: TaskScores) -> list[Chart]:
    """How often needles are retrieved: a heat map per run where depths are known, else lines."""
    retrievals = [
        _Retrieval(run=index, needle=sample.needle, sample=sample)
        for index, run in scores.task.present
        for sample in run.records
        if sample.needle is not None
    ]
    with_depth = [one for one in retrievals if one.needle.depth is not None]
    without_depth = [one for one in retrievals if one.needle.depth is None]
    maps = [_heat_map(scores, run, with_depth) for run in sorted({one.run for one in with_depth})]
    return [*maps, _length_chart(scores, without_depth)] if without_depth else maps


def _length_bins(retrievals: Iterable[_Retrieval]) -> dict[float, str]:
    """The greatest length of each bin, ascending, to its label; about as many needles in each."""
    lengths = sorted(one.needle.length for one in retrievals)
    tops = sorted(set(lengths))
    if len(tops) > _MAX_LENGTH_COLUMNS:
        parts = range(1, _MAX_LENGTH_COLUMNS + 1)
        tops = sorted({lengths[len(lengths) * n // _MAX_LENGTH_COLUMNS - 1] for n in parts})
    bottoms = [min(n for n in lengths if n > below) for below in (-math.inf, *tops[:-1])]
    return {
        top: f"{bottom:g}" if bottom == top else f"{bottom:g} to {top:g}"
        for bottom, top in zip(bottoms, tops, strict=True)
    }


def _heat_map(scores: TaskScores, run: int, retrievals: Sequence[_Retrieval]) -> Chart:
    bins = _length_bins(retrievals)  # for all runs: the same columns in each map
    cells: list[list[list[Verdict]]] = [[[] for _ in bins] for _ in range(_DEPTH_ROWS)]
    for one in retrievals:
        if one.run == run and one.needle.depth is not None:
            depth = min(_DEPTH_ROWS - 1, max(0, int(one.needle.depth * _DEPTH_ROWS)))
            cells[depth][bisect_left(list(bins), one.needle.length)].append(one.sample.official)
    step, lengths = 100 // _DEPTH_ROWS, list(bins.values())
    depths = [f"{depth * step} to {(depth + 1) * step} %" for depth in range(_DEPTH_ROWS)]
    scale = scores.task.benchmark.scale
    means = [[_mean_percent(cell, scale) for cell in row] for row in cells]
    counts = [[len(_points(cell)) for cell in row] for row in cells]
    texts = [
        [(percent_cell(mean), f"of {n:,}") for mean, n in zip(*of_depth, strict=True)]
        for of_depth in zip(means, counts, strict=True)
    ]
    rows: list[list[PageValue]] = [
        [depth, *(RichText(text=mean, lines=(of,)) for mean, of in of_depth)]
        for depth, of_depth in zip(depths, texts, strict=True)
    ]
    hover = [
        [
            f"length {length}, depth {depth}<br>{' '.join(cell)}"
            for length, cell in zip(lengths, of_depth, strict=True)
        ]
        for depth, of_depth in zip(depths, texts, strict=True)
    ]
    trace = {
        "type": "heatmap",
        "x": list(range(len(bins))),
        "y": list(range(_DEPTH_ROWS)),
        "z": means,
        "zmin": 0,
        "zmax": 100,
        "colorscale": "Cividis",
        "xgap": 2,
        "ygap": 2,
        "text": [["" if mean is None else f"{mean:.0f}" for mean in row] for row in means],
        "texttemplate": "%{text}",
        "hoverinfo": "text",
        "hovertext": hover,
        "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": "%"}},
    }
    below = _name_axis(lengths, _SHORT_LABEL, title={"text": "length", "standoff": 10})
    beside = _name_axis(depths, _SHORT_LABEL, title={"text": "depth", "standoff": 10})
    layout = {"xaxis": below, "yaxis": {**beside, "autorange": "reversed"}}
    title = "Needles retrieved, by depth and length of the haystack (official score)"
    return Chart(
        title=title,
        unit="percent of full marks",
        legend=[RichText(text=scores.names[run], run=run)],
        key="",
        table=PageTable(title=title, columns=columns("depth", *lengths), rows=rows),
        figure=_figure({"data": [trace], "layout": layout}),
        height_px=120 + 34 * _DEPTH_ROWS,
    )


def _length_chart(scores: TaskScores, retrievals: Sequence[_Retrieval]) -> Chart:
    bins, series, scale = _length_bins(retrievals), [], scores.task.benchmark.scale
    for run, kind in product(sorted({one.run for one in retrievals}), SCORE_KINDS):
        verdicts: list[list[Verdict]] = [[] for _ in bins]
        for one in retrievals:
            if one.run == run:
                verdicts[bisect_left(list(bins), one.needle.length)].append(
                    one.sample.verdict(kind)
                )
        cells = [_mean_cell(of_bin, scale) for of_bin in verdicts]
        series.append(Series(run=run, kind=kind, values=cells))
    title = "Needles retrieved, by length of the haystack"
    return _chart(scores, title, list(bins.values()), series, _lines)


def _mean_cell(verdicts: Sequence[Verdict], scale: Scale) -> Cell:
    estimate = stratified_mean([_points(verdicts)], [1], scale.full_marks)
    ends = estimate.interval(0, scale.full_marks) if estimate else None
    percent = ends and Interval(*(end * 100 / scale.full_marks for end in ends))
    return Cell(percent=_mean_percent(verdicts, scale), interval=percent)


def _points(verdicts: Iterable[Verdict]) -> list[float]:
    return [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]


def _mean_percent(verdicts: Iterable[Verdict], scale: Scale) -> float | None:
    points = _points(verdicts)
    return scale.percent(math.fsum(points) / len(points)) if points else None
