"""The tables of the report: scores, metrics and differences of runs, replies, signatures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mmie_tasks.core.tables import NO_VALUE, signed_cell
from mmie_tasks.core.verdict import differ
from mmie_tasks.core.wording import counted
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.sample import SCORE_KINDS, ScoreKind
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.comparability import NotComparable
from mmie_tasks.results.compare import Difference, compare
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.page_data import cut
from mmie_tasks.results.report.render import Cell, Column, PageTable, PageValue, RichText, columns
from mmie_tasks.results.report.samples import JoinedTask
from mmie_tasks.results.run import Run, TaskRun
from mmie_tasks.results.scores import Score, metrics_of

MAX_MARK = 150  # characters of a mark: it may hold a model's name

_MAX_MODEL = 100  # characters of a model's name
_MAX_SIGNATURE = 2_000  # characters of a value in a signature
_TABLE_TITLES = {"headline": "Headline", "mean": "Means of groups"}  # else: By ...
_HALF_DIGIT = 0.005  # half of the last digit of a displayed percentage
_SCORE_HELP: Mapping[ScoreKind, str] = {
    "official": "Official score, with its 95 % interval",
    "robust": "Robust score, with its 95 % interval",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScores:
    """One metric of one run: its values, the runner's stored values where they differ, and how many
    samples have different official and robust scores.
    """

    values: Mapping[ScoreKind, Score]
    stored: Mapping[ScoreKind, float]
    differ: int

    def cell(self, kind: ScoreKind) -> Cell | None:
        """The score with its interval, or the reason why there is none."""
        value = self.values.get(kind)
        if value is None:
            return None
        stored = self.stored.get(kind)
        notes = (value.why_not, "" if stored is None else f"results file: {stored:.2f}")
        return Cell(
            percent=value.percent,
            interval=value.interval,
            scored=value.scored,
            total=value.total,
            notes=tuple(filter(None, notes)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMetric:
    """One metric of the runs that have the task, None for a run without samples of it; and the
    difference of two runs that were scored alike.
    """

    metric: Metric
    scores: tuple[RunScores | None, ...]
    difference: Difference | None


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """The scores of a task of several runs.

    `names` has all runs of the report; `rows` has every metric that a run has samples for, by
    kind, the headline first.
    """

    task: JoinedTask
    names: Sequence[str]
    rows: Mapping[str, Sequence[ComparedMetric]]
    why_no_difference: str = field(default="")

    @cached_property
    def runs(self) -> list[RichText]:
        """The names of the runs that have the task, with their colours."""
        return [RichText(text=self.names[index], run=index) for index, _ in self.task.present]

    @property
    def difference_title(self) -> RichText:
        """Which run is subtracted from which."""
        first, second = self.runs
        return RichText(text="Difference", lines=(f"{second.text} − {first.text}",))


def task_scores(task: JoinedTask, names: Sequence[str]) -> TaskScores:
    """Compute all metrics of a task, and the differences of two runs."""
    runs = [run for _, run in task.present]
    differences: dict[tuple[str, str], Difference] = {}
    why_not = ""
    if len(runs) == 2:
        try:
            compared = compare(runs[0], runs[1]).metrics
            differences = {(c.metric.kind, c.metric.name): c for c in compared}
        except NotComparable as error:
            why_not = "the difference of the runs is not shown: they were not scored alike"
            why_not = f"{why_not}, they differ in {', '.join(error.keys)}"
    rows: dict[str, list[ComparedMetric]] = {}
    for metric in metrics_of(
        runs[0].benchmark, task.task, [r for run in runs for r in run.records]
    ):
        scores = tuple(_run_scores(run, metric) for run in runs)
        if any(scores):
            difference = differences.get((metric.kind, metric.name))
            row = ComparedMetric(metric=metric, scores=scores, difference=difference)
            rows.setdefault(metric.kind, []).append(row)
    return TaskScores(task=task, names=names, rows=rows, why_no_difference=why_not)


def _run_scores(run: TaskRun, metric: Metric) -> RunScores | None:
    values = {kind: v for kind in SCORE_KINDS if (v := run.score(metric, kind)) is not None}
    if not values:
        return None
    stored = {}
    for kind, value in values.items():
        number = run.stored.get(f"{kind}_{metric.name}".removesuffix("_"))  # the runner's
        percent = math.inf if value.percent is None else value.percent
        if number is not None and abs(number - percent) > _HALF_DIGIT:
            stored[kind] = number
    samples = (sample for sample in run.records if metric.group_of(sample) is not None)
    scale = run.benchmark.scale
    verdicts = ([metric.verdict(s, kind, scale) for kind in SCORE_KINDS] for s in samples)
    return RunScores(values=values, stored=stored, differ=sum(differ(*pair) for pair in verdicts))


def metric_tables(scores: TaskScores) -> Iterator[PageTable]:
    """A table for each kind of metrics."""
    for kind, rows in scores.rows.items():
        compared = any(row.difference for row in rows)
        header = columns("" if kind == "headline" else kind.capitalize())
        for run in scores.runs:
            header += [
                Column(title=k.capitalize(), kind="score", group=run, help=_SCORE_HELP[k])
                for k in SCORE_KINDS
            ]
            help_text = "Samples whose official and robust scores differ"
            header.append(Column(title="Differ", group=run, help=help_text))
            header.append(Column(title="Scored", group=run))
        if compared:
            group = scores.difference_title
            help_text = "Difference of the official scores over the pairs, in percentage points"
            header.append(Column(title="Official", group=group, help=help_text))
            help_text = "Samples that both runs have official points for"
            header.append(Column(title="Pairs", group=group, help=help_text))
        content: list[list[PageValue]] = []
        for row in rows:
            values: list[PageValue] = [row.metric.title]
            for of_run in row.scores:
                values += [of_run.cell(k) if of_run else None for k in SCORE_KINDS]
                values += [of_run.differ, _scored(of_run)] if of_run else [None, None]
            if compared:
                pairs = row.difference.pairs if row.difference else None
                values += [_difference(row), pairs]
            content.append(values)
        title = _TABLE_TITLES.get(kind, f"By {kind}")
        yield PageTable(title=title, columns=header, rows=content)


def _scored(scores: RunScores) -> RichText | None:
    value = scores.values.get("official")
    if value is None:
        return None
    lines = (value.left_out_text,) if value.left_out else ()
    return RichText(text=f"{value.scored:,} of {value.total:,}", lines=lines)


def _difference(row: ComparedMetric, *, with_pairs: bool = False) -> RichText | None:
    difference = row.difference
    if difference is None:
        return None
    lines = [difference.why_not] if difference.difference is None else []
    if difference.interval:
        lines.append(" to ".join(map(signed_cell, difference.interval)))
    elif difference.why_no_interval and not difference.why_not:
        lines.append(f"no interval: {difference.why_no_interval}")
    lines += [counted(difference.pairs, "pair")] if with_pairs else []
    return RichText(
        text=signed_cell(difference.difference),
        lines=tuple(lines),
        badges=("may well be chance",) if difference.may_be_chance else (),
        style="b",
    )


def score_table(tasks: Sequence[TaskScores]) -> PageTable:
    """The first screen: every task and run, with what is unlike the paper, and the judge."""
    scored_help = "Samples with official points, of those that count for the score"
    header = [
        *columns("Task", "Run", text=2),
        *(Column(title=f"{kind.capitalize()} score", kind="score") for kind in SCORE_KINDS),
        Column(title="Unlike the paper", kind="text"),
        Column(title="Scored", help=scored_help),
        Column(title="Judge", kind="text"),
    ]
    rows: list[list[PageValue]] = []
    for scores in tasks:
        headline, *others = next(iter(scores.rows.values()), [None])
        shown = [headline, *(row for row in others if row and row.metric.in_table)]
        for row in filter(None, shown):
            for number, values in enumerate(_score_rows(scores, row)):
                link = RichText(
                    text=scores.task.title, link=f"#{scores.task.task}", lines=(row.metric.title,)
                )
                rows.append([RichText(text="") if number else link, *values])
            if row.difference:
                difference = _difference(row, with_pairs=True)
                rows.append([RichText(text=""), scores.difference_title, difference])
    return PageTable(title="Scores of every task and run", columns=header, rows=rows)


def _score_rows(scores: TaskScores, row: ComparedMetric) -> Iterator[list[PageValue]]:
    """The row of each run."""
    for (_, task_run), name, of_run in zip(
        scores.task.present, scores.runs, row.scores, strict=True
    ):
        marks = tuple(cut(mark, MAX_MARK) for mark in paper_marks(task_run))
        yield [
            name,
            *(of_run.cell(kind) if of_run else None for kind in SCORE_KINDS),
            RichText(text="", badges=marks) if marks else None,
            _scored(of_run) if of_run else None,
            cut(task_run.judge_name, _MAX_MODEL) or "by rule",
        ]


def run_table(runs: Sequence[Run]) -> PageTable:
    """When and where the runs were made, and notes on their logs."""
    rows: list[list[PageValue]] = [
        [
            *(RichText(text=run.name, run=index), run.started),
            RichText(text=str(run.folder), style="code", lines=tuple(run.notes)),
        ]
        for index, run in enumerate(runs)
    ]
    return PageTable(title="Runs", columns=columns("Run", "Started", "Folder", text=3), rows=rows)


def reply_table(scores: TaskScores) -> PageTable:
    """Tokens and cost of the judge's replies; cached replies count like new ones."""
    rows: list[list[PageValue]] = []
    for name, (_, run) in zip(scores.runs, scores.task.present, strict=True):
        replies = [reply for sample in run.records for reply in sample.replies]
        if replies:
            models = Counter(cut(reply.model, _MAX_MODEL) for reply in replies)
            of_models = ", ".join(f"{model} ({n:,})" for model, n in models.most_common())
            numbers = (len(replies), sum(reply.cached for reply in replies))
            tokens = (
                sum(reply.usage.input_tokens for reply in replies),
                sum(reply.usage.output_tokens for reply in replies),
            )
            rows.append([name, *numbers, *tokens, dollars(_cost(replies)), of_models])
    cached = Column(title="From cache", help="Replies from the cache, without a new judge call")
    run_title, replies_title, *titles = columns("Run", "Replies", "Tokens in", "Tokens out", "Cost")
    models_title = Column(title="Models that replied", kind="text")
    return PageTable(
        title="Tokens and cost of the judge's replies",
        columns=[run_title, replies_title, cached, *titles, models_title],
        rows=rows,
    )


def _cost(replies: Sequence[JudgeReply]) -> float | None:
    costs = [reply.usage.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None and math.isfinite(cost)]
    return math.fsum(known) if len(known) == len(costs) else None


def dollars(value: float | None) -> str:
    """US dollars; four decimals below one dollar, since a judge's reply costs cents.

    >>> dollars(12.5), dollars(0.0312), dollars(None)
    ('$12.50', '$0.0312', 'n/a')
    """
    if value is None:
        return NO_VALUE
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def signature_table(signatures: Iterable[Signature]) -> PageTable:
    """A row for each key of the signatures, with its values and whether they differ."""
    by_signature = [signature.fields for signature in signatures]
    keys = dict.fromkeys(key for fields in by_signature for key in fields)
    rows: list[list[PageValue]] = []
    for key in keys:
        values = [fields.get(key, "") for fields in by_signature]
        badges = ("differs",) if len(set(values)) > 1 else ()
        codes = (RichText(text=cut(value, _MAX_SIGNATURE), style="code") for value in values)
        rows.append([RichText(text=cut(key, _MAX_SIGNATURE), badges=badges), *codes])
    several = len(by_signature) > 1
    names = [f"Signature {n + 1}" if several else "Value" for n in range(len(by_signature))]
    return PageTable(
        title="Signatures", columns=columns("Key", *names, text=1 + len(names)), rows=rows
    )
