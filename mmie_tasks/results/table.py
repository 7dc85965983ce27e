"""The command ``mmie-tasks table``: models by benchmarks, in Markdown, CSV or LaTeX."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import get_args

from mmie_tasks.benchmarks.benchmark import Benchmark, PublishedRow
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import short_name
from mmie_tasks.core.verdict import ScoreKind
from mmie_tasks.core.wording import counted
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.signature import AnswerForm
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.render import Cell, Format, Table, json_text, rendered
from mmie_tasks.results.run import Run, TaskRun, open_runs
from mmie_tasks.results.scores import INTERVAL_NOTE, metrics_of

_SUFFIXES: Mapping[str, Format] = {".csv": "csv", ".tex": "latex"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """Models by benchmarks: runs, then published scores.

    The columns are in the order of the tasks, each with its headline first. `remarks` say what was
    ignored or is not available.
    """

    columns: tuple[ScoreColumn, ...]
    rows: tuple[TableRow, ...]
    remarks: tuple[str, ...] = ()

    def table(self) -> Table:
        """The table for readers, with judges and remarks below it."""
        is_judged = any(column.benchmark.judge is not None for column in self.columns)
        return Table(
            text=f"{_CAPTION} {INTERVAL_NOTE}" if is_judged else _CAPTION,
            header=["model", *(column.title for column in self.columns)],
            rows=[
                (f"{row.model} (published)" if row.is_published else row.model, *row.cells)
                for row in self.rows
            ],
            notes=(*_judge_lines(self.rows), *self.remarks),
        )

    def csv_table(self) -> Table:
        """The table with columns for the judges and for whether a row is published."""
        titles = (column.title for column in self.columns)
        rows = [
            (row.model, "yes" if row.is_published else "no", *row.cells, *_judges_cell(row))
            for row in self.rows
        ]
        return Table(header=["model", "published", *titles, "judges"], rows=rows)

    def as_json(self) -> dict[str, object]:
        """The table for programs; a missing value is None."""
        rows = [
            {
                "model": row.model,
                "published": row.is_published,
                "scores": [
                    {
                        "task": column.task,
                        "metric": "_".join(filter(None, [column.kind, column.metric.name])),
                        "drawn_by_reconstruction": column.form == "drawn",
                        **asdict(cell),
                    }
                    for column, cell in zip(self.columns, row.cells, strict=True)
                    if cell is not None
                ],
                "judges": row.judges,
            }
            for row in self.rows
        ]
        return {"rows": rows, "remarks": self.remarks}


def _judge_lines(rows: Iterable[TableRow]) -> Iterator[str]:
    """A line for each judge with its tasks."""
    tasks: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        for task, judge in row.judges.items():
            tasks[judge][task] = None
    for judge, names in tasks.items():
        yield f"Judge of {', '.join(names)}: {short_name(judge)}."


def _judges_cell(row: TableRow) -> tuple[str]:
    return (" ".join(_judge_lines([row])),)


def run(options: argparse.Namespace) -> str:
    """Print or write the table of a command line."""
    runs = open_runs(options.runs, options.tasks)
    scores = score_table(runs, options.columns, robust=options.robust, published=options.published)
    if options.json:
        return json_text(scores.as_json())
    suffix = options.output.suffix if options.output else ""
    file_format: Format = options.format or _SUFFIXES.get(suffix, "md")
    table = scores.csv_table() if file_format == "csv" else scores.table()
    text = rendered(table, file_format=file_format)
    if options.output is None:
        return text
    try:
        options.output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"`{options.output}` cannot be written: {error.strerror}.", hint="name another file"
        ) from error
    counts = f"{counted(len(scores.rows), 'model')}, {counted(len(scores.columns), 'column')}"
    return f"{options.output}: {counts}"


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
        groups: The kinds of metrics to show, `Metric.kind`; ``paper`` for the columns of the
            benchmark's published rows, or else for those of the runner's table; ``all`` for every
            metric.
        robust: Whether a column with the robust score follows each official one.
        published: Whether the benchmarks' published scores follow the runs.

    Raises:
        SettingWrong: No benchmark of the runs has a metric of one of these kinds.
    """
    kinds: list[ScoreKind] = ["official", "robust"] if robust else ["official"]
    columns = tuple(_columns(runs, groups, kinds, published=published))
    rows = [_run_row(run_, columns) for run_ in runs]
    remarks = [note for run_ in runs for note in run_.all_notes]
    if published:
        rows += _published_rows(columns)
        titles = {c.benchmark.title: None for c in columns if not c.benchmark.published_rows}
        remarks += [f"{title}: this package holds no published scores." for title in titles]
    return ScoreTable(columns=columns, rows=tuple(rows), remarks=tuple(remarks))


def _columns(
    runs: Sequence[Run], groups: Sequence[str], kinds: Sequence[ScoreKind], *, published: bool
) -> Iterator[ScoreColumn]:
    tasks = dict.fromkeys(task for run_ in runs for task in run_.tasks)
    task_runs = {task: [run_.tasks[task] for run_ in runs if task in run_.tasks] for task in tasks}
    metrics = {
        task: metrics_of(of_task[0].benchmark, task, [r for run_ in of_task for r in run_.records])
        for task, of_task in task_runs.items()
    }
    available = dict.fromkeys(metric.kind for of_task in metrics.values() for metric in of_task)
    names = [*available, "paper", "all"]
    if unknown := [group for group in groups if group not in names]:
        raise SettingWrong(
            f"`--columns`: these runs have no columns `{unknown[0]}`.",
            hint=f"one of {', '.join(names)}",
        )
    for task, of_task in task_runs.items():
        benchmark = of_task[0].benchmark
        shown = _shown(benchmark, metrics[task], groups)
        for form, metric, kind in product(_forms(of_task), shown, kinds):
            column = ScoreColumn(
                task=task, benchmark=benchmark, metric=metric, kind=kind, form=form
            )
            rows = benchmark.published_rows if published else ()
            if any(task_run.answer_form == form for task_run in of_task) or any(
                column.published_percent(row) is not None for row in rows
            ):
                yield column


def _forms(task_runs: Iterable[TaskRun]) -> list[AnswerForm]:
    """Plain, and the other forms of answers that these runs have."""
    present = {"plain", *(task_run.answer_form for task_run in task_runs)}
    return [form for form in get_args(AnswerForm) if form in present]


def _shown(
    benchmark: Benchmark, metrics: Sequence[Metric], groups: Sequence[str]
) -> Iterator[Metric]:
    of_paper = {name for row in benchmark.published_rows for name in row.scores}
    for metric in metrics:
        is_of_paper = metric.name in of_paper if of_paper else metric.in_table
        if (
            metric.kind in groups
            or "all" in groups
            or ("paper" in groups and (is_of_paper or metric is metrics[0]))
        ):
            yield metric


def _run_row(run_: Run, columns: Sequence[ScoreColumn]) -> TableRow:
    tasks = [task for task in dict.fromkeys(c.task for c in columns) if task in run_.tasks]
    marks = {task: paper_marks(run_.tasks[task]) for task in tasks}

    def cell(column: ScoreColumn) -> Cell | None:
        task_run = run_.tasks.get(column.task)
        if task_run is None or column.form != task_run.answer_form:
            return None
        score = task_run.score(column.metric, column.kind)
        if score is None:
            return None
        return Cell(
            percent=score.percent,
            interval=score.interval,
            scored=score.scored,
            total=score.total,
            notes=tuple(filter(None, (score.why_not, score.left_out_text, *marks[column.task]))),
        )

    judges = {task: run_.tasks[task].judge_name for task in tasks if run_.tasks[task].judge_name}
    return TableRow(model=run_.name, cells=tuple(map(cell, columns)), judges=judges)


def _published_rows(columns: Sequence[ScoreColumn]) -> Iterator[TableRow]:
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

    for model in dict.fromkeys(model for rows in published.values() for model in rows):
        cells = tuple(cell(model, column) for column in columns)
        if any(cells):
            yield TableRow(model=model, is_published=True, cells=cells)
