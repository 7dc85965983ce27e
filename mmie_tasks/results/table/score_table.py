"""Models by benchmarks: the columns, rows and cells of the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import get_args

from mmie_tasks.benchmarks.benchmark import Benchmark, PublishedRow
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import short_name
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.record.signature import AnswerForm
from mmie_tasks.results import render
from mmie_tasks.results.arguments import Format
from mmie_tasks.results.commands import INTERVAL_NOTE, notes_of
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.render import Cell, Table
from mmie_tasks.results.run import Run
from mmie_tasks.results.scores import metrics_of

_FORMS: Mapping[AnswerForm, str] = {"plain": "", "drawn": ", drawn by our reconstruction"}
_CAPTION = (
    "Scores in percent with their 95 % intervals; official scores unless a column says otherwise."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreColumn:
    """One kind of score of one metric of a task, for the runs with one form of answers."""

    task: str
    benchmark: Benchmark
    metric: Metric
    kind: ScoreKind
    form: AnswerForm = "plain"

    @property
    def title(self) -> str:
        """``MMIE``, ``MMIE SA``, ``MMIE robust``; for a part its task, such as ``mmie_sa``."""
        is_whole = self.task == self.benchmark.name
        is_task_itself = not is_whole and self.metric.kind == "headline"
        words = [
            self.benchmark.title if is_whole else self.task,
            "" if is_task_itself else self.metric.name,
            "" if self.kind == "official" else self.kind,
        ]
        return " ".join(filter(None, words)) + _FORMS[self.form]

    def published_percent(self, row: PublishedRow) -> float | None:
        """The published score that goes into this column, if any."""
        is_plain = self.kind == "official" and self.form == "plain"
        is_published = is_plain and self.task == self.benchmark.name
        return row.scores.get(self.metric.name) if is_published else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A run or published scores of a model: a cell for each column.

    `judges` has the judge of each task that has one.
    """

    model: str
    is_published: bool = False
    cells: tuple[Cell | None, ...]
    judges: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name, marked if the scores are published ones."""
        return f"{self.model} (published)" if self.is_published else self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """Models by benchmarks: runs, then published scores.

    The columns are in the order of the tasks, each with its headline first. `remarks` say what was
    ignored or is not available.
    """

    columns: tuple[ScoreColumn, ...]
    rows: tuple[TableRow, ...]
    remarks: tuple[str, ...] = ()

    def table(self, file_format: Format) -> Table:
        """The table for readers, with judges and remarks below it; CSV has columns for the judges
        and for whether a row is published.
        """
        scores = [render.Column(title=column.title, kind="score") for column in self.columns]
        if file_format == "csv":
            rows = [
                (
                    *(row.model, "yes" if row.is_published else "no"),
                    *(*row.cells, " ".join(_judge_lines([row]))),
                )
                for row in self.rows
            ]
            model, published, judges = render.columns("model", "published", "judges", text=3)
            return Table(columns=[model, published, *scores, judges], rows=rows)
        is_judged = any(column.benchmark.judge is not None for column in self.columns)
        return Table(
            text=f"{_CAPTION} {INTERVAL_NOTE}" if is_judged else _CAPTION,
            columns=[*render.columns("model"), *scores],
            rows=[(row.title, *row.cells) for row in self.rows],
            notes=(*_judge_lines(self.rows), *self.remarks),
        )


def _judge_lines(rows: Iterable[TableRow]) -> Iterator[str]:
    """A line for each judge with its tasks."""
    tasks: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        for task, judge in row.judges.items():
            tasks[judge][task] = None
    for judge, names in tasks.items():
        yield f"Judge of {', '.join(names)}: {short_name(judge)}."


def score_table(
    runs: Sequence[Run],
    groups: Sequence[str] = ("headline",),
    *,
    robust: bool = False,
    published: bool = False,
) -> ScoreTable:
    """The table of runs.

    Args:
        runs: At least one.
        groups: The kinds of metrics to show, `Metric.kind`; ``paper`` for the headlines and the
            papers' own columns, as in the runner's table; ``all`` for every metric.
        robust: Whether a column with the robust score follows each official one.
        published: Whether the benchmarks' published scores follow the runs.

    Raises:
        SettingWrong: No benchmark of the runs has a metric of one of these kinds.
    """
    kinds: list[ScoreKind] = ["official"]
    kinds += ["robust"] if robust else []
    columns = _columns(runs, groups, kinds)
    with_other_form = {c.task for c in columns if c.form != "plain"}
    columns = tuple(
        column
        for column in columns
        if column.form != "plain"
        or column.task not in with_other_form
        or _has_cells(column, runs, published=published)
    )
    rows = [_run_row(run_, columns) for run_ in runs]
    remarks = notes_of(runs)
    if published:
        rows += _published_rows(columns)
        titles = {c.benchmark.title: None for c in columns if not c.benchmark.published_rows}
        remarks += [f"{title}: this package holds no published scores." for title in titles]
    return ScoreTable(columns=columns, rows=tuple(rows), remarks=tuple(remarks))


def _columns(
    runs: Sequence[Run], groups: Sequence[str], kinds: Sequence[ScoreKind]
) -> tuple[ScoreColumn, ...]:
    tasks = dict.fromkeys(task for run_ in runs for task in run_.tasks)
    task_runs = {task: [run_.tasks[task] for run_ in runs if task in run_.tasks] for task in tasks}
    metrics_by_task = {
        task: metrics_of(of_task[0].benchmark, task, [r for run_ in of_task for r in run_.records])
        for task, of_task in task_runs.items()
    }
    available = dict.fromkeys(
        metric.kind for metrics in metrics_by_task.values() for metric in metrics
    )
    names = [*available, "paper", "all"]
    if unknown := [group for group in groups if group not in names]:
        raise SettingWrong(
            f"`--columns`: these runs have no columns `{unknown[0]}`.",
            hint=f"one of {', '.join(names)}",
        )
    columns: list[ScoreColumn] = []
    for task, metrics in metrics_by_task.items():
        of_task, benchmark = task_runs[task], task_runs[task][0].benchmark
        shown = [m for m in metrics if m.kind in groups or "all" in groups]
        if "paper" in groups:
            shown = [m for m in metrics if m in shown or m is metrics[0] or m.in_table]
        present = {"plain", *(run_.answer_form for run_ in of_task)}
        forms = [form for form in get_args(AnswerForm) if form in present]
        for form, metric, kind in product(forms, shown, kinds):
            columns.append(
                ScoreColumn(task=task, benchmark=benchmark, metric=metric, kind=kind, form=form)
            )
    return tuple(columns)


def _has_cells(column: ScoreColumn, runs: Sequence[Run], *, published: bool) -> bool:
    """Whether a run or a published row may have a score in a column."""
    rows = column.benchmark.published_rows if published else ()
    return any(column.published_percent(row) is not None for row in rows) or any(
        column.form == run_.tasks[column.task].answer_form
        for run_ in runs
        if column.task in run_.tasks
    )


def _run_row(run_: Run, columns: Sequence[ScoreColumn]) -> TableRow:
    tasks = [task for task in dict.fromkeys(c.task for c in columns) if task in run_.tasks]
    marks = {task: paper_marks(task_run) for task, task_run in run_.tasks.items()}

    def cell(column: ScoreColumn) -> Cell | None:
        task_run = run_.tasks.get(column.task)
        if task_run is None or column.form != task_run.answer_form:
            return None
        value = task_run.score(column.metric, column.kind)
        if value is None:
            return None
        return Cell(
            percent=value.percent,
            interval=value.interval,
            scored=value.scored,
            total=value.total,
            notes=tuple(filter(None, (value.why_not, value.left_out_text, *marks[column.task]))),
        )

    judges = {task: run_.tasks[task].judge_name for task in tasks if run_.tasks[task].judge_name}
    return TableRow(model=run_.name, cells=tuple(map(cell, columns)), judges=judges)


def _published_rows(columns: Sequence[ScoreColumn]) -> list[TableRow]:
    """The published scores of whole benchmarks, a row per model with a score in any column."""
    published = {
        c.benchmark.name: {row.model: row for row in c.benchmark.published_rows} for c in columns
    }

    def cell(model: str, column: ScoreColumn) -> Cell | None:
        row = published[column.benchmark.name].get(model)
        percent = column.published_percent(row) if row else None
        if row is None or percent is None:
            return None
        return Cell(percent=percent, notes=(f"published: {row.source}",))

    models = dict.fromkeys(model for rows in published.values() for model in rows)
    rows = [
        TableRow(model=m, is_published=True, cells=tuple(cell(m, column) for column in columns))
        for m in models
    ]
    return [row for row in rows if any(row.cells)]
