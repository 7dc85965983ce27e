"""The samples of the report: aligned by run, as columns for filters, and in detail.

The page filters and sorts all samples by the columns. The browser unpacks the details (texts and
replies) of a sample when it is opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from markupsafe import Markup

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.tables import NO_VALUE
from mmie_tasks.core.verdict import Scored, Unscored, Verdict, differ
from mmie_tasks.record.answering_model import other_models
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.sample import SCORE_KINDS, LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.page import macro
from mmie_tasks.results.page_data import (
    MAX_LABEL,
    MAX_SEGMENTS,
    FindImage,
    Json,
    cut,
    has_image,
    plain,
    segments_json,
)
from mmie_tasks.results.panels import judge_points
from mmie_tasks.results.report.render import PageTable, PageValue, RichText, columns, html
from mmie_tasks.results.run import Run, TaskRun

ASSETS = Path(__file__).resolve().parent / "assets"
MAX_PREVIEW = 100  # characters of a question in the list of samples
MAX_IMAGES = 6  # images of a question, a gold answer or an answer that are shown
MAX_REPLY = 100_000  # characters of a judge's reply
MAX_SIGNATURE = 2_000  # characters of a signature

_T = TypeVar("_T")
_MAX_REPLIES = 10
_MAX_PROPERTIES = 50

SampleRow: TypeAlias = tuple[LoggedSample | None, ...]
"""One sample in each run; None where a run does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTask:
    """One task of several runs: `runs` has every run of the report, None for runs without the task;
    `rows` has the samples of the first run, then samples that only later runs have.
    """

    task: str
    benchmark: Benchmark
    runs: tuple[TaskRun | None, ...]
    rows: tuple[SampleRow, ...]

    @property
    def title(self) -> str:
        """The benchmark's title, with the task's name where the task is a part of the benchmark."""
        title = self.benchmark.title
        return title if self.benchmark.name == self.task else f"{title} ({self.task})"

    @property
    def present(self) -> Iterator[tuple[int, TaskRun]]:
        """The runs that have the task, with their index in the report."""
        return ((index, run) for index, run in enumerate(self.runs) if run is not None)

    @property
    def signatures(self) -> list[Signature]:
        """The distinct signatures of all runs."""
        return list(dict.fromkeys(s for _, run in self.present for s in run.signatures))


def join_tasks(runs: Sequence[Run]) -> list[JoinedTask]:
    """The tasks of the runs, in the order of the runs."""
    joined = []
    for name in dict.fromkeys(name for run in runs for name in run.tasks):
        task_runs = tuple(run.tasks.get(name) for run in runs)
        by_id = [{} if run is None else run.by_id for run in task_runs]
        ids = dict.fromkeys(id_ for samples in by_id for id_ in samples)
        rows = tuple(tuple(samples.get(id_) for samples in by_id) for id_ in ids)
        benchmark = next(run.benchmark for run in task_runs if run is not None)
        joined.append(JoinedTask(task=name, benchmark=benchmark, runs=task_runs, rows=rows))
    return joined


def dispute(row: SampleRow, full_marks: float) -> float:
    """Largest difference between runs or scores, as a fraction of full marks; 0 to 1.

    It is 1 where one verdict has points and another has none.
    """
    verdicts = _verdicts(row)
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if not points:
        return 0.0
    return (max(points) - min(points)) / full_marks if len(points) == len(verdicts) else 1.0


def _verdicts(row: SampleRow) -> list[Verdict]:
    return [s.verdict(kind) for s in row if s is not None for kind in SCORE_KINDS]


def sample_columns(task: JoinedTask) -> Json:
    """The columns of a task's samples, by which the page filters and sorts; ``#row`` in ``page.js``
    shows them.
    """
    full_marks = task.benchmark.scale.full_marks
    by_run = list(zip(*task.rows, strict=True))
    samples = [next(filter(None, row)) for row in task.rows]  # as the first run logged them
    kinds = dict.fromkeys(kind for sample in samples for kind in sample.groups)

    def columns(cell: Callable[[Verdict | None], object]) -> Json:
        """For each score, one column per run."""
        return {
            kind: [[cell(s.verdict(kind) if s else None) for s in column] for column in by_run]
            for kind in SCORE_KINDS
        }

    return {
        "ids": [sample.id for sample in samples],
        "first": [_preview(row) for row in task.rows],
        "points": columns(lambda v: v.points if isinstance(v, Scored) else None),
        "reasons": columns(lambda v: v.reason if isinstance(v, Unscored) else ""),
        "missing": [[sample is None for sample in column] for column in by_run],
        "groups": {kind: _group_columns(task.benchmark, kind, samples) for kind in kinds},
        "disputed": [dispute(row, full_marks) for row in task.rows],
        "scores_differ": [any(s is not None and s.differs for s in row) for row in task.rows],
        "runs_differ": [_runs_differ(row) for row in task.rows],
    }


def _runs_differ(row: SampleRow) -> bool:
    first, *rest = (sample.official for sample in row if sample is not None)
    return any(differ(first, verdict) for verdict in rest)


def _preview(row: SampleRow) -> str:
    question = next((s.question for s in row if s is not None and s.question), ())
    texts = ((segment.text or "")[: 4 * MAX_PREVIEW] for segment in question[:MAX_SEGMENTS])
    line = " ".join(" ".join(texts).split())
    return line if len(line) <= MAX_PREVIEW else f"{line[: MAX_PREVIEW - 1]}…"


def _group_columns(benchmark: Benchmark, kind: str, samples: Sequence[LoggedSample]) -> Json:
    """Groups of a kind: in the order of the benchmark's metrics, then in alphabetical order."""
    present = {name for sample in samples for name in sample.names(kind)}
    single = [m for m in benchmark.metrics if m.by == kind and len(m.weights) == 1]
    ordered = [name for metric in single for name in metric.weights if name in present]
    names = list(dict.fromkeys([*ordered, *sorted(present)]))
    index_of = {name: index for index, name in enumerate(names)}
    return {
        "names": names,
        "of": [[index_of[name] for name in sample.names(kind)] for sample in samples],
    }


def sample_html(
    row: SampleRow, task: JoinedTask, names: Sequence[str], find_image: FindImage
) -> str:
    """The details of a sample in every run; `names` has all runs of the report."""
    question, gold = question_and_gold(row)
    sample = next(filter(None, row))
    details = macro("sample.html.j2", "sample", ASSETS)(
        question=segments_json(question, "the question", find_image, MAX_IMAGES),
        gold=segments_json(gold, "the gold answer", find_image, MAX_IMAGES),
        groups=[(kind, name) for kind in sample.groups for name in sample.names(kind)],
        link=f"#{task.task}/{quote(sample.id.encode(errors='replace'), safe='')}",
        runs=[
            (
                RichText(text=names[index], run=index),
                of_run and _run_values(of_run, task, find_image),
            )
            for index, of_run in enumerate(row)
            if task.runs[index] is not None
        ],
    )
    return plain(details)


def image_files(task: JoinedTask) -> list[str]:
    """A task's distinct image files: the most disputed samples first, among equals the worst."""
    full_marks = task.benchmark.scale.full_marks

    def priority(row: SampleRow) -> tuple[float, float]:
        points = [v.points if isinstance(v, Scored) else 0.0 for v in _verdicts(row)]
        return -dispute(row, full_marks), min(points)

    return list(
        dict.fromkeys(i for row in sorted(task.rows, key=priority) for i in shown_images(row))
    )


def shown_images(row: SampleRow) -> list[str]:
    """The image files that a sample shows, with repetitions."""
    answers = [sample.answer for sample in row if sample is not None]
    return [
        segment.image
        for segments in (*question_and_gold(row), *answers)
        for segment in islice(filter(has_image, segments[:MAX_SEGMENTS]), MAX_IMAGES)
        if segment.image and not segment.problem
    ]


def question_and_gold(row: SampleRow) -> tuple[Sequence[Segment], Sequence[Segment]]:
    """Question and gold answer, from the run whose log has most of them."""

    def completeness(segments: Sequence[Segment]) -> tuple[int, bool]:
        return sum(bool(s.image) and not s.problem for s in segments), bool(segments)

    samples = list(filter(None, row))
    question = max((s.question for s in samples), key=completeness)
    return question, max((s.gold for s in samples), key=completeness)


def _run_values(sample: LoggedSample, task: JoinedTask, find_image: FindImage) -> Json:
    properties = {**judge_points(sample), **sample.properties}
    shown = {_label(name): _property(value) for name, value in _first(properties)}
    if signature := str(sample.signature):
        shown["signature"] = cut(signature, MAX_SIGNATURE)
    return {
        "answer": segments_json(sample.answer, "the answer", find_image, MAX_IMAGES),
        "verdicts": [
            (kind, *_verdict(sample.verdict(kind), task.benchmark.scale)) for kind in SCORE_KINDS
        ],
        "full_marks": f"{task.benchmark.scale.full_marks:g}",
        "differs": sample.differs,
        "replies": _replies(sample),
        "properties": list(shown.items()),
        "shares": _share_table(sample),
    }


def _share_table(sample: LoggedSample) -> Markup | None:
    shares = [dict(_first(sample.shares.get(kind, {}))) for kind in SCORE_KINDS]
    names = dict.fromkeys(name for of_kind in shares for name in of_kind)
    rows: list[list[PageValue]] = [
        [_label(name), *(_percent(of_kind.get(name)) for of_kind in shares)] for name in names
    ]
    header = columns("Component", "Official", "Robust")
    return html(PageTable(title="Components", columns=header, rows=rows)) if rows else None


def _percent(share: float | None) -> str:
    return NO_VALUE if share is None or not math.isfinite(share) else f"{100 * share:.2f}"


def _label(text: str) -> str:
    return cut(text, MAX_LABEL)


def _first(values: Mapping[str, _T]) -> list[tuple[str, _T]]:
    return list(values.items())[:_MAX_PROPERTIES]


def _verdict(verdict: Verdict, scale: Scale) -> tuple[str | None, str, str]:
    """Points, or None; the reason for None; the text that was read, or details of the reason."""
    if isinstance(verdict, Scored):
        return points_text(verdict.points, scale), "", _label(verdict.reading)
    return None, verdict.reason, _label(verdict.detail)


def points_text(points: float, scale: Scale) -> str:
    """Points on the benchmark's own scale: whole numbers, or with two or three decimals."""
    if scale.whole and points == round(points):
        return f"{points:.0f}"
    return f"{points:.3f}" if scale.full_marks <= 1 else f"{points:.2f}"


def _replies(sample: LoggedSample) -> list[tuple[str, str, str]]:
    replies = [
        _reply(reply, judged.judge)
        for judged in sample.judgements
        for reply in judged.result.replies
    ]
    return replies[-_MAX_REPLIES:]


def _reply(reply: JudgeReply, judge: Signature) -> tuple[str, str, str]:
    """Text, model, and details of the reply."""
    usage, cost = reply.usage, reply.usage.cost_usd
    model = _label(reply.model) or "unnamed model"
    is_other = bool(other_models(judge, [reply.model]))
    details = ["from the cache" if reply.cached else "new reply"]
    details += [f"finish: {reply.finish}"] if reply.finish else []
    if usage.input_tokens or usage.output_tokens:
        details.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if cost is not None and math.isfinite(cost):
        details.append(f"${cost:.2f}" if cost >= 1 else f"${cost:.5f}")
    shown_model = f"{_label(judge.name)}, reply by {model}" if is_other else model
    return cut(reply.text, MAX_REPLY), shown_model, " · ".join(details)


def _property(value: str | float | bool) -> str:
    match value:
        case str():
            return _label(value)
        case bool():
            return "yes" if value else "no"
    return f"{round(value, 6):.15g}" if math.isfinite(value) else NO_VALUE
