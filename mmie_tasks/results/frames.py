"""Saved runs as pandas tables: `mmie_tasks.load_run`."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.core.verdict import SCORE_KINDS, Scored, Verdict
from mmie_tasks.core.wording import counted
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.record import IMAGE_PLACEHOLDER
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segments, digest_of
from mmie_tasks.results.commands import open_run
from mmie_tasks.runs.run import Run
from mmie_tasks.runs.values import metrics_of, value_of

if TYPE_CHECKING:
    import pandas as pd

SCORE_COLUMNS = (
    *("task", "metric", "title", "group", "kind"),
    *("percent", "low", "high", "scored", "total", "left_out", "why_not"),
)
"""The columns of `LoadedRun.scores`."""

_MAX_SHOWN = 5  # tasks in the repr of a run


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run that lmms-eval saved with ``--output_path`` and ``--log_samples``, as pandas tables.

    Attributes:
        run: The logged tasks, as all results commands read them.
    """

    run: Run

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, sorted."""
        return tuple(self.run.tasks)

    def __repr__(self) -> str:
        """The run's name, and its tasks with their numbers of samples, in one line."""
        counts = {name: len(task.samples) for name, task in self.run.tasks.items()}
        words = [f"{name} ({counted(count, 'sample')})" for name, count in counts.items()]
        if len(words) > _MAX_SHOWN:
            words[_MAX_SHOWN:] = [counted(len(words) - _MAX_SHOWN, "more task")]
        return f"<run {self.run.name!r}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        """The headlines of `scores` as a small table, for notebooks."""
        headlines = self._scores(lambda metric: metric.kind == "headline")
        return f"<p>{html.escape(repr(self))}</p>{headlines.to_html(index=False, max_rows=20)}"

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
        import pandas as pd

        if task is None and len(self.run.tasks) == 1:
            (task,) = self.run.tasks
        if task is None or task not in self.run.tasks:
            problem = "has several tasks" if task is None else f"has no task `{task}`"
            names = ", ".join(f"`{name}`" for name in self.run.tasks)
            raise SettingWrong(
                f"The run `{self.run.folder}` {problem}.", hint=f"`samples(TASK)` with {names}"
            )
        task_run = self.run.tasks[task]
        scale = task_run.benchmark.scale
        rows = [
            {replace_surrogates(name): _plain(cell) for name, cell in row.items()}
            for row in (_sample_row(sample, scale) for sample in task_run.samples)
        ]
        frame = pd.DataFrame(rows)
        cells = ((name, cell) for row in rows for name, cell in row.items())
        for column in {name for name, cell in cells if isinstance(cell, _TextOrNone)}:
            texts = [
                cell.text if isinstance(cell := row.get(column), _TextOrNone) else None
                for row in rows
            ]
            frame[column] = pd.Series(texts, dtype=object)
        return frame

    def scores(self) -> pd.DataFrame:
        """One row per task, metric and kind of score, the headline first; in percent.

        Columns: `SCORE_COLUMNS`. ``metric`` is the score's name in the results file, such as
        ``official_SA``; ``low`` and ``high`` are the ends of the 95 % interval; ``scored`` of
        ``total`` samples have points, and the official script leaves out ``left_out`` more. Without
        a score ``percent`` is NaN, and ``why_not`` says why.
        """
        return self._scores(lambda _: True)

    def _scores(self, is_shown: Callable[[Metric], bool]) -> pd.DataFrame:
        import pandas as pd

        rows: list[tuple[object, ...]] = []
        for task, task_run in self.run.tasks.items():
            metrics = filter(is_shown, metrics_of([task_run]))
            for metric, kind in product(metrics, SCORE_KINDS):
                value = value_of(task_run, metric, kind)
                if value is not None:
                    names = (task, f"{kind}_{metric.name}".removesuffix("_"), metric.title)
                    numbers = (value.percent, *(value.interval or (None, None)))
                    counts = (value.scored, value.total, value.left_out)
                    rows.append((*names, metric.kind, kind, *numbers, *counts, value.why_not))
        return pd.DataFrame(rows, columns=list(SCORE_COLUMNS)).astype(
            dict.fromkeys(("percent", "low", "high"), float)
        )


def load_run(source: str | Path) -> LoadedRun:
    """Open a saved run for analysis in Python.

    Args:
        source: The folder of ``--output_path``, a results file or a sample log. If the folder has
            several runs, name the folder of one of them.

    Raises:
        AnswersUnusable: The run cannot be read, or has no task of a registered benchmark.
        SettingWrong: `source` holds several runs.
    """
    return LoadedRun(open_run(str(source)))


@dataclass(frozen=True, slots=True)
class _TextOrNone:
    """A text, or the None that pandas 3 would turn into NaN."""

    text: str | None


def _plain(cell: object) -> object:
    """The cell without lone surrogates, which pandas' texts and UTF-8 cannot hold."""
    match cell:
        case str():
            return replace_surrogates(cell)
        case _TextOrNone(text=str(text)):
            return _TextOrNone(replace_surrogates(text))
        case list():
            return list(map(_plain, cell))
    return cell


def _sample_row(sample: LoggedSample, scale: Scale) -> dict[str, object]:
    points: dict[str, float] = {kind: _points(sample.verdict(kind)) for kind in SCORE_KINDS}
    official, robust = (
        (None, None) if isinstance(verdict, Scored) else (verdict.reason, verdict.detail)
        for verdict in (sample.official, sample.robust)
    )
    row: dict[str, object] = {
        "id": sample.id,
        **points,
        **{
            f"{kind}_percent": value if math.isnan(value) else scale.percent(value)
            for kind, value in points.items()
        },
        "unscored": _TextOrNone(official[0]),
        "robust_unscored": _TextOrNone(robust[0]),
        "unscored_detail": _TextOrNone(official[1]),
        "differ": sample.differs,
        "question": text_of(sample.question),
        "gold": text_of(sample.gold),
        "answer": text_of(sample.answer),
        "answer_images": [segment.image for segment in sample.answer if segment.image],
        "answer_digest": digest_of(sample.answer),
        **_reply_columns(sample),
        "signature": str(sample.signature),
    }
    groups = {
        (f"group_{kind}" if kind in row else kind): "|".join(names)
        for kind, names in sample.groups.items()
    }
    shares = {
        f"{kind}_{name}": 100 * share
        for kind, of_kind in sample.shares.items()
        for name, share in of_kind.items()
    }
    return {**row, **groups, **shares}


def _points(verdict: Verdict) -> float:
    return verdict.points if isinstance(verdict, Scored) else math.nan


def text_of(segments: Segments) -> str:
    """The texts, with a placeholder for every image, including unusable ones."""
    lines: list[str] = []
    for segment in segments:
        lines += [segment.text] if segment.text else []
        lines += [IMAGE_PLACEHOLDER] if segment.image or segment.problem else []
    return "\n".join(lines)


def _reply_columns(sample: LoggedSample) -> Mapping[str, object]:
    first, second = ((None, None) if sample.members else (*sample.replies, None, None))[:2]
    costs = [reply.usage.cost_usd for reply in sample.replies]
    known_costs = [cost for cost in costs if cost is not None]
    return {
        "judge": _TextOrNone(first.model if first else None),
        "reply": _TextOrNone(first.text if first else None),
        "second_reply": _TextOrNone(second.text if second else None),
        "input_tokens": sum(reply.usage.input_tokens for reply in sample.replies),
        "output_tokens": sum(reply.usage.output_tokens for reply in sample.replies),
        "cost_usd": sum(known_costs) if len(known_costs) == len(costs) else math.nan,
        "cached": bool(sample.replies) and all(reply.cached for reply in sample.replies),
    }
