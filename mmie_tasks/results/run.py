"""Saved runs: the records of each task, and the tables that every results command works on."""

from __future__ import annotations

import gc
import html
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, get_args
from zoneinfo import ZoneInfo

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names, entry_of_task
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.core.verdict import SCORE_KINDS, Scored, ScoreKind, Unscored, Verdict
from mmie_tasks.core.wording import counted, numbered_names
from mmie_tasks.record.answering_model import other_models, shown_model
from mmie_tasks.record.log_files import HINT, RunLogs, SampleLog, find_runs, read_lines
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.record import BadRecord, Record, is_scored
from mmie_tasks.record.segment import IMAGE_PLACEHOLDER, Segments, digest_of
from mmie_tasks.record.signature import COVERAGE_FLOOR, AnswerForm, Signature
from mmie_tasks.results.saved_results import SavedResults
from mmie_tasks.results.scores import Score, metrics_of, score_of

if TYPE_CHECKING:
    import pandas as pd

SampleValue: TypeAlias = str | float | bool | list[str] | None
_FindBenchmark: TypeAlias = Callable[[str], Benchmark | None]
_MAX_SHOWN = 5  # tasks in the repr of a run


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """One task of a run.

    Attributes:
        task: The task's name in lmms-eval.
        benchmark: The task's benchmark.
        records: The samples in the order of the log; ids are unique.
        logs: The logs, by their first sample: several if jobs evaluated parts of the task. None
            during a run.
        notes: Remarks for readers of the scores: a line that is cut off, samples never scored.
        saved: The results file of the evaluation that wrote the newest log.
        limit: ``--limit`` of the run; None if it had none or it is unknown. Of several logs that
            follow each other, that which selects the samples of all.
        offset: ``--offset`` of the run, likewise.
    """

    task: str
    benchmark: Benchmark
    records: tuple[Record, ...]
    logs: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    saved: SavedResults = field(default_factory=SavedResults)
    limit: float | None = None
    offset: float | None = None

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per sample, by id, in the order of the log; `Run.samples` has the columns."""
        import pandas as pd  # not needed for a table of scores

        rows = [_row(record, self.benchmark.scale) for record in self.records]
        columns = {}
        for name in dict.fromkeys(name for row in rows for name in row):
            cells = [row.get(name) for row in rows]
            is_number = any(isinstance(cell, (bool, int, float)) for cell in cells)
            # Texts stay Python's own: pandas 3 would turn None into NaN among its own.
            columns[name] = pd.Series(cells, dtype=None if is_number else object)
        return pd.DataFrame(columns).set_index("id")

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Every metric that counts a sample, by every kind of score, the headline first."""
        pairs = ((metric, kind) for metric in self.metrics for kind in SCORE_KINDS)
        return tuple(score for pair in pairs if (score := self.score(*pair)))

    def score(self, metric: Metric, kind: ScoreKind) -> Score | None:
        """The value of a metric; None if no sample counts for it."""
        records, floor = self.records, self.min_coverage
        return score_of(
            self.benchmark, self.task, records, metric, kind, floor=floor, limit=self.limit
        )

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the task, the headline first."""
        return metrics_of(self.benchmark, self.task, self.records)

    def headline(self, kind: ScoreKind = "official") -> Score | None:
        """The score that people quote; None if no sample counts for it."""
        return self.score(self.metrics[0], kind)

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """The distinct signatures of the samples; normally one."""
        return tuple(dict.fromkeys(record.signature for record in self.records))

    @property
    def judge_name(self) -> str:
        """The names of the judges, by `Signature.name`; empty for a benchmark scored by rule."""
        return ", ".join(dict.fromkeys(filter(None, (s.name for s in self.signatures))))

    @property
    def answer_form(self) -> AnswerForm:
        """How the answers were made; ``drawn`` if some images were drawn."""
        forms = {signature.answer_form for signature in self.signatures}
        return max(forms, key=get_args(AnswerForm).index, default="plain")

    @property
    def min_coverage(self) -> float:
        """The share of scored samples below which there is no mean, 0 to 1."""
        return self.signatures[0].min_coverage if self.signatures else COVERAGE_FLOOR

    @property
    def stored(self) -> Mapping[str, float]:
        """The runner's scores in the results file, metric to value; none for several logs."""
        return self.saved.scores(self.task) if len(self.logs) < 2 else {}

    @property
    def by_id(self) -> dict[str, Record]:
        """The samples by their ids."""
        return {record.id: record for record in self.records}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The logged tasks of one tested model, by name.

    Attributes:
        name: For display; unique among the runs that are opened together.
        folder: The folder of the logs.
        tasks: The tasks by their names, in the order of the command that evaluated them.
        started: When the newest log began, for display.
        notes: What was ignored, and why.
    """

    name: str
    folder: Path
    tasks: Mapping[str, TaskRun]
    started: str = ""
    notes: tuple[str, ...] = ()

    def samples(self, task: str | None = None) -> pd.DataFrame:
        """One row per sample, in the order of the log.

        The page of results describes every column: ``id``; the points ``official`` and ``robust``
        on the benchmark's own scale, NaN without a score, and as ``..._percent`` of full marks;
        ``unscored``, the reason for a missing score, else None; a column for each kind
        of group, such as ``category``, with several groups of a sample joined with ``|``
        (``group_<kind>`` if another column has the name); texts, replies, tokens, cost and the
        signature. In texts, U+FFFD replaces lone surrogates.

        Args:
            task: The task's name in lmms-eval; optional if the run has only one.

        Raises:
            SettingWrong: The run has no such task, or has several and `task` is None.
        """
        if task is None and len(self.tasks) == 1:
            (task,) = self.tasks
        if task is None or task not in self.tasks:
            problem = "has several tasks" if task is None else f"has no task `{task}`"
            names = ", ".join(f"`{name}`" for name in self.tasks)
            raise SettingWrong(
                f"The run `{self.folder}` {problem}.", hint=f"`samples(TASK)` with {names}"
            )
        return self.tasks[task].samples.reset_index()

    def scores(self) -> pd.DataFrame:
        """One row per task, metric and kind of score, the headline first; in percent.

        The columns are the attributes of `Score`; ``low`` and ``high`` are the ends of the 95 %
        interval. Without a score ``percent`` is NaN, and ``why_not`` says why.
        """
        return _score_table(score for task in self.tasks.values() for score in task.scores)

    @property
    def all_notes(self) -> list[str]:
        """The notes on the run and on its tasks."""
        of_tasks = [f"{t.task}: {note}" for t in self.tasks.values() for note in t.notes]
        return [f"{self.name}: {note}" for note in (*self.notes, *of_tasks)]

    def __repr__(self) -> str:
        """The run's name, and its tasks with their numbers of samples, in one line."""
        words = [f"{n} ({counted(len(t.records), 'sample')})" for n, t in self.tasks.items()]
        if len(words) > _MAX_SHOWN:
            words[_MAX_SHOWN:] = [counted(len(words) - _MAX_SHOWN, "more task")]
        return f"<run {self.name!r}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        """The headlines of `scores` as a small table, for notebooks."""
        scores = (score for task in self.tasks.values() for score in task.scores)
        headlines = _score_table(score for score in scores if score.group == "headline")
        return f"<p>{html.escape(repr(self))}</p>{headlines.to_html(index=False, max_rows=20)}"


def _score_table(scores: Iterable[Score]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for score in scores:
        row = asdict(score)
        low, high = row.pop("interval") or (None, None)
        counts = {name: row.pop(name) for name in ("scored", "total", "left_out", "why_not")}
        rows.append({**row, "low": low, "high": high, **counts})
    return pd.DataFrame(rows).astype(dict.fromkeys(("percent", "low", "high"), float))


def load_run(source: str | Path, tasks: Sequence[str] = ()) -> Run:
    """Open a saved run for analysis in Python.

    Args:
        source: ``PATH`` or ``NAME=PATH``. The path is the folder of ``--output_path``, a results
            file or a sample log. If the folder has several runs, name the folder of one of them.
        tasks: The tasks to read; by default, every task with a benchmark.

    Raises:
        AnswersUnusable: The run cannot be read, or has none of the tasks.
        SettingWrong: `source` contains several runs, or a task has no registered benchmark.
    """
    runs = open_runs([str(source)], tasks)
    if len(runs) > 1:
        folders = ", ".join(f"`{run.folder}`" for run in runs)
        raise SettingWrong(
            f"`{source}` contains {len(runs)} runs: {folders}.", hint="name one of them"
        )
    return runs[0]


def open_runs(
    sources: Iterable[str],
    tasks: Sequence[str] = (),
    find_benchmark: _FindBenchmark = benchmark_of_task,
) -> list[Run]:
    """Open every run that the sources name, each with a unique name.

    Args:
        sources: ``PATH`` or ``NAME=PATH``; one path may contain several runs.
        tasks: The tasks to read; by default, every task with a benchmark.
        find_benchmark: Returns the benchmark of a task name.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
        SettingWrong: One name is given to several runs, or a task has no registered benchmark.
    """
    if unknown := [task for task in tasks if entry_of_task(task) is None]:
        raise SettingWrong(
            f"`{unknown[0]}` is not a task of a registered benchmark.",
            hint=f"task names begin with {entry_names(entries())}",
        )
    was_enabled = gc.isenabled()
    gc.disable()  # the cycle collector would scan all samples read so far again and again
    try:
        runs = [_open(logs, find_benchmark, tasks) for word in sources for logs in find_runs(word)]
    finally:
        if was_enabled:
            gc.enable()
    names = numbered_names([run.name for run in runs])
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _open(logs: RunLogs, find_benchmark: _FindBenchmark, tasks: Sequence[str]) -> Run:
    notes = [f"older logs of the same tasks, ignored: {logs.older}"] if logs.older else []
    opened: dict[str, TaskRun] = {}
    for task, of_task in groupby(logs.logs, key=lambda log: log.task):
        parts = list(of_task)
        if tasks and task not in tasks:
            continue
        if (benchmark := find_benchmark(task)) is None:
            notes.append(f"`{task}` is not a task of a registered benchmark, ignored")
        elif task_run := _read_task(parts, benchmark):
            opened[task] = task_run
        else:
            notes.append(f"`{parts[-1].path.name}` has no scored samples (`--predict_only`?)")
    if not opened:
        requested = [f"none of {', '.join(tasks)}"] if tasks else []
        reason = "; ".join(requested + notes) or "no log of a task"
        raise AnswersUnusable(f"`{logs.folder}` has no readable task: {reason}.", hint=HINT)
    newest = max(logs.logs, key=lambda log: log.date)
    saved = SavedResults.of_log(newest)
    return Run(
        name=logs.name,
        folder=logs.folder,
        tasks={task: opened[task] for task in in_order(opened, saved.options.get("tasks"))},
        started=start_text(newest.date, saved.time_zone),
        notes=tuple(notes),
    )


def start_text(date: str, time_zone: str) -> str:
    """The date of a log for display, in UTC.

    The runner writes local times into the names of logs, by default of Singapore
    (`get_datetime_str` of lmms_eval/utils.py), and the time zone only into the results file. A text
    that is not a date is returned unchanged.

    >>> start_text("20261122_181949", "Asia/Singapore"), start_text("20261122_181949", "")
    ('2026-11-22 10:19 UTC', '2026-11-22 18:19 (time zone not logged)')
    """
    try:
        local = datetime.strptime(date, "%Y%m%d_%H%M%S")  # noqa: DTZ007 - its zone is elsewhere
    except ValueError:
        return date
    try:
        zone = ZoneInfo(time_zone)
    except (ValueError, OSError, KeyError):  # none, or one that is unknown here
        return f"{local:%Y-%m-%d %H:%M} (time zone not logged)"
    return f"{local.replace(tzinfo=zone).astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"


def in_order(tasks: Iterable[str], requested: object) -> list[str]:
    """Tasks in the order of ``--tasks``, a text or a list; those of a group follow by their names.

    >>> in_order(["mia_bench", "mmie", "mmie_sa"], "mmie_all,mia_bench")
    ['mia_bench', 'mmie', 'mmie_sa']
    >>> in_order(["mia_bench", "mmie", "mmie_sa"], ["mmie*", "mia_bench"])
    ['mmie', 'mmie_sa', 'mia_bench']
    """
    words = requested.split(",") if isinstance(requested, str) else requested
    patterns = [str(word).strip() for word in words] if isinstance(words, list) else []

    def place(task: str) -> tuple[int, str]:
        places = (n for n, pattern in enumerate(patterns) if fnmatchcase(task, pattern))
        return next(places, len(patterns)), task

    return sorted(tasks, key=place)


def _read_task(logs: Sequence[SampleLog], benchmark: Benchmark) -> TaskRun | None:
    """Read the samples of the logs of one task; None if no line was scored."""
    records: dict[str, Record] = {}
    notes = [f"{len(logs)} logs, which are parts of one run"] if len(logs) > 1 else []
    doc_ids: list[int] = []
    saved = SavedResults()
    for log in logs:
        read = _ReadLog(log=log, benchmark=benchmark)
        for record in read.records():
            same = records.setdefault(record.id, record)
            if same is not record and same != record:
                raise AnswersUnusable(
                    f"`{log.path}` has two different results of the sample {record.id}.",
                    hint="the runner appends to an existing log: keep one run per file",
                )
        of_log = read.saved()
        saved = of_log if log.date == max(one.date for one in logs) else saved
        notes += read.notes
        doc_ids += read.doc_ids
    if not records:
        return None
    limit, offset = saved.limit, saved.offset
    if len(logs) > 1:
        first, last = min(doc_ids, default=0), max(doc_ids, default=0)
        is_span = last - first + 1 == len(set(doc_ids))
        limit, offset = (len(set(doc_ids)), first) if is_span else (None, None)
        if (limit, offset) == (saved.n_samples.get(logs[0].task, {}).get("original"), 0):
            limit = offset = None  # together they are the whole task
    return TaskRun(
        task=logs[0].task,
        benchmark=benchmark,
        records=tuple(records.values()),
        logs=tuple(log.path for log in logs),
        notes=tuple(notes),
        saved=saved,
        limit=limit,
        offset=offset,
    )


@dataclass(slots=True, kw_only=True)
class _ReadLog:
    """Reads a log, and collects what was unusual; `doc_ids` are the numbers of its samples."""

    log: SampleLog
    benchmark: Benchmark
    doc_ids: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def records(self) -> Iterator[Record]:
        """The samples that were scored, as scores count them."""
        counts = Counter[str]()
        for number, line in ((n.number, n.line) for n in read_lines(self.log.path)):
            if line is None:
                self.notes.append(f"line {number}, the last, is cut off and was ignored")
                continue
            if isinstance(doc_id := line.get("doc_id"), int):
                self.doc_ids.append(doc_id)
            if not is_scored(line):
                counts["never scored (`--predict_only`): ignored"] += 1
                continue
            try:
                logged = Record.of_line(line)
            except BadRecord as error:
                where = f"`{self.log.path}`, line {number}"
                raise AnswersUnusable(f"{where}: {error}.", hint=error.hint or HINT) from error
            record = as_counted(logged, self.benchmark.scale)
            if logged.verdicts is not record.verdicts:
                counts["with points outside the scale: counted as unscored"] += 1
            yield record
        self.notes += [f"{counted(count, 'sample')} {what}" for what, count in counts.items()]

    def saved(self) -> SavedResults:
        """The results file of the log's evaluation; empty if there is none, or only another's."""
        saved = SavedResults.of_log(self.log)
        if not saved.results:
            return SavedResults()
        doc_ids = range(min(self.doc_ids, default=0), max(self.doc_ids, default=-1) + 1)
        if saved.belongs_to(self.log.task, doc_ids):
            return saved
        self.notes.append(f"`{self.log.results.name}` is another evaluation's, and was ignored")
        return SavedResults()


def as_counted(record: Record, scale: Scale) -> Record:
    """The record as scores count it.

    A verdict with points that are not finite or not on the scale becomes unscored; an open-ended
    scale has no limits, because the official script does not clamp. If replies name models other
    than the judges, so does the signature.
    """

    def checked(verdict: Verdict) -> Verdict:
        points = verdict.points if isinstance(verdict, Scored) else 0.0
        if math.isfinite(points) and (scale.open_ended or 0 <= points <= scale.full_marks):
            return verdict
        return Unscored("off_scale", "the log has points that are not on the scale")

    official, robust = checked(record.official), checked(record.robust)
    if (official, robust) != (record.official, record.robust):
        record = record.scored(replace(record.verdicts, official=official, robust=robust))
    others = {
        shown_model(model)
        for judged in record.judgements
        for model in other_models(judged.judge, [reply.model for reply in judged.result.replies])
    }
    if not others:
        return record
    signature = record.signature.with_replies_by(sorted(others))
    return record.model_copy(update={"signature": signature})


def _row(record: Record, scale: Scale) -> dict[str, SampleValue]:
    """A record as a row of `TaskRun.samples`."""
    points: dict[str, float] = {kind: _points(record.verdict(kind)) for kind in SCORE_KINDS}
    percents = {
        f"{kind}_percent": value if math.isnan(value) else scale.percent(value)
        for kind, value in points.items()
    }
    official, robust = record.official, record.robust
    first, second = ((None, None) if record.members else (*record.replies, None, None))[:2]
    costs = [reply.usage.cost_usd for reply in record.replies]
    row: dict[str, SampleValue] = {
        "id": record.id,
        **points,
        **percents,
        "unscored": official.reason if isinstance(official, Unscored) else None,
        "robust_unscored": robust.reason if isinstance(robust, Unscored) else None,
        "unscored_detail": official.detail if isinstance(official, Unscored) else None,
        "differ": record.differs,
        "question": text_of(record.question),
        "gold": text_of(record.gold),
        "answer": text_of(record.answer),
        "answer_images": [
            replace_surrogates(segment.image) for segment in record.answer if segment.image
        ],
        "answer_digest": digest_of(record.answer),
        "judge": first.model if first else None,
        "reply": first.text if first else None,
        "second_reply": second.text if second else None,
        "input_tokens": sum(reply.usage.input_tokens for reply in record.replies),
        "output_tokens": sum(reply.usage.output_tokens for reply in record.replies),
        "cost_usd": math.nan if None in costs else math.fsum(cost for cost in costs if cost),
        "cached": bool(record.replies) and all(reply.cached for reply in record.replies),
        "signature": str(record.signature),
    }
    for kind, names in record.groups.items():
        row[f"group_{kind}" if kind in row else kind] = "|".join(names)
    for score_kind, shares in record.verdicts.shares.items():
        row |= {f"{score_kind}_{name}": 100 * share for name, share in shares.items()}
    return {
        replace_surrogates(name): replace_surrogates(cell) if isinstance(cell, str) else cell
        for name, cell in row.items()
    }


def _points(verdict: Verdict) -> float:
    return verdict.points if isinstance(verdict, Scored) else math.nan


def text_of(segments: Segments) -> str:
    """The texts, with a placeholder for every image, including unusable ones."""
    return "\n".join(_lines(segments))


def _lines(segments: Segments) -> Iterator[str]:
    for segment in segments:
        if segment.text:
            yield segment.text
        if segment.image or segment.problem:
            yield IMAGE_PLACEHOLDER
