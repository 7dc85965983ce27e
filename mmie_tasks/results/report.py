"""The command ``mmie-tasks report``: one HTML file with the scores, charts and samples of runs.

The texts of models, datasets and people are untrusted: the template escapes them. A policy in the
page's head allows our script and Plotly's by their hashes, and no other script, request or form.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import heapq
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmie_tasks.core import __version__
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, readable_size
from mmie_tasks.core.tables import percent_cell, signed_cell
from mmie_tasks.core.verdict import SCORE_KINDS, ScoreKind
from mmie_tasks.core.wording import counted
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.comparability import NotComparable, mixed_keys
from mmie_tasks.results.compare import Difference, compare
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.report_charts import COLOURS, charts
from mmie_tasks.results.report_samples import (
    MAX_NAME,
    Images,
    SampleRow,
    Values,
    cut,
    filter_choices,
    plain,
    priority,
    sample_rows,
    sample_values,
)
from mmie_tasks.results.run import Run, TaskRun, open_runs
from mmie_tasks.results.scores import INTERVAL_NOTE, Score

_ASSETS = Path(__file__).resolve().parent / "assets"
_MAX_NOTES = 3  # printed by the command; the page has all
_IMAGE_CHARACTERS = 12 * 1024 * 1024  # of all images of a page
_HALF_DIGIT = 0.005  # half of the last digit of a displayed percentage


def run(options: argparse.Namespace) -> str:
    """Write the report of a command line; returns the file, its size, and notes on the runs."""
    runs = open_runs(options.runs, options.tasks)
    title = options.title or f"Results of {', '.join(opened.name for opened in runs)}"
    page = report_page(runs, title=title, max_samples=options.samples)
    try:
        with atomic_write(options.output) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"`{options.output}` cannot be written: {error.strerror}.",
            hint="name another file with `-o`",
        ) from error
    notes = [note for opened in runs for note in opened.all_notes]
    more = ["and more notes, in the report"] if len(notes) > _MAX_NOTES else []
    size = readable_size(options.output.stat().st_size)
    return "\n".join([f"{options.output}: {size}", *notes[:_MAX_NOTES], *more])


def report_page(
    runs: Sequence[Run], *, title: str, max_samples: int, image_characters: int = _IMAGE_CHARACTERS
) -> str:
    """The page, to be written as UTF-8.

    It has at most `max_samples` samples of each task. `image_characters` limits all images; what
    one task leaves is available to the next.
    """
    names = dict.fromkeys(name for run in runs for name in run.tasks)
    tasks = [
        ReportedTask(plain(name), {run.name: run.tasks[name] for run in runs if name in run.tasks})
        for name in names
    ]
    numbers = {run.name: number for number, run in enumerate(runs)}
    images = Images()
    samples: list[list[Values]] = []
    for task in tasks:
        left_over = image_characters - images.characters
        images.limit = images.characters + left_over // (len(tasks) - len(samples))
        rows = task.most_disputed(max_samples)
        samples.append([sample_values(row, task.runs, n, images) for n, row in rows])
    library, script = get_plotlyjs(), (_ASSETS / "report.js").read_text(encoding="utf-8")
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (library, script))
    values: Values = {
        "title": title,
        "created": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC by mmie-tasks {__version__}",
        "policy": f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "style": Markup((_ASSETS / "report.css").read_text(encoding="utf-8")),  # noqa: S704 - ours
        "colours": COLOURS,
        "kinds": SCORE_KINDS,
        "runs": runs,
        "numbers": numbers,
        "interval_note": INTERVAL_NOTE if any(task.is_judged for task in tasks) else "",
        "tasks": list(zip(tasks, samples, strict=True)),
        "charts": lambda task: charts(task.runs, numbers),
        "images": Markup(json.dumps(images.addresses)),  # noqa: S704 - base64
        "images_left_out": images.n_left_out,
        "image_budget": readable_size(image_characters),
    }
    body = plain(_environment().get_template("report.html.j2").render(values))
    scripts = "".join(f"<script>{text}</script>\n" for text in (library, script))
    return f"{body}\n{scripts}</body>\n</html>"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _environment() -> Environment:
    """A missing value is an error."""
    environment = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"percent": percent_cell, "signed": signed_cell, "count": "{:,}".format, "cut": cut}
    environment.filters |= filters
    return environment


@dataclass(frozen=True)
class ReportedTask:
    """One task of the runs that have it, by their names, as the template shows it."""

    name: str
    runs: Mapping[str, TaskRun]

    @property
    def first(self) -> TaskRun:
        """The first run."""
        return next(iter(self.runs.values()))

    @property
    def title(self) -> str:
        """The benchmark's title, with the task's name if the task is a part of the benchmark."""
        benchmark = self.first.benchmark
        return (
            benchmark.title if benchmark.name == self.name else f"{benchmark.title} ({self.name})"
        )

    @property
    def is_judged(self) -> bool:
        """Whether judges scored it."""
        return self.first.benchmark.judge is not None

    @cached_property
    def rows(self) -> list[SampleRow]:
        """Each sample in every run, in the order of the logs."""
        return sample_rows(list(self.runs.values()))

    def most_disputed(self, count: int) -> list[tuple[int, SampleRow]]:
        """The most disputed, then the worst samples, with their positions in the logs."""
        full_marks = self.first.benchmark.scale.full_marks
        return heapq.nsmallest(
            count, enumerate(self.rows), lambda n_row: priority(n_row[1], full_marks)
        )

    @cached_property
    def metrics(self) -> dict[str, list[ReportedMetric]]:
        """The metrics of each kind that a run has samples for, the headline first."""
        found: dict[tuple[str, str], ReportedMetric] = {}
        for run, task_run in self.runs.items():
            for score in task_run.scores:
                name = score.metric.removeprefix(score.kind).removeprefix("_")
                key = (score.group, name)
                if key not in found:
                    difference = self.differences.get(key)
                    found[key] = ReportedMetric(name, score.title, {}, difference)
                found[key].scores[run, score.kind] = score
        kinds: dict[str, list[ReportedMetric]] = {}
        for (kind, _), metric in found.items():
            kinds.setdefault(kind, []).append(metric)
        return kinds

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """Kind and name of each metric to the difference of two runs that were scored alike."""
        if len(self.runs) != 2:
            return {}
        first, second = self.runs.values()
        try:
            compared = compare(first, second).metrics
        except NotComparable:
            return {}
        return {(one.metric.kind, one.metric.name): one for one in compared}

    @property
    def headlines(self) -> list[ReportedMetric]:
        """The metrics of the first screen: the headline, and others of its kind in the paper."""
        in_table = {metric.name for metric in self.first.metrics if metric.in_table}
        first, *others = self.metrics["headline"]
        return [first, *(metric for metric in others if metric.name in in_table)]

    @property
    def tables(self) -> dict[str, list[ReportedMetric]]:
        """Title to metrics of each table below the first screen."""
        shown = self.headlines
        tables = {
            "Means of groups" if kind == "mean" else f"By {kind}": metrics
            for kind, metrics in self.metrics.items()
            if kind != "headline"
        }
        others = [metric for metric in self.metrics["headline"] if metric not in shown]
        return {**tables, "Other headlines": others} if others else tables

    def stored(self, run: str, score: Score) -> float | None:
        """The runner's score in the results file, if it differs from that of the samples."""
        number = self.runs[run].stored.get(score.metric)
        percent = math.inf if score.percent is None else score.percent
        return number if number is not None and abs(number - percent) > _HALF_DIGIT else None

    def marks(self, run: str) -> list[str]:
        """What makes a run incomparable with the paper."""
        return [cut(mark, MAX_NAME) for mark in paper_marks(self.runs[run])]

    def judge(self, run: str) -> str:
        """The name of a run's judge."""
        return cut(self.runs[run].judge_name, MAX_NAME) or "by rule"

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """What went wrong, each with the name of its run; empty for all runs."""
        signatures = self.signatures
        if keys := ", ".join(mixed_keys(signatures)):
            yield "", f"The samples were not all scored alike: their signatures differ in {keys}."
        for name, run in self.runs.items():
            yield from ((name, note) for note in run.notes)
            if unlike := sum(self.stored(name, score) is not None for score in run.scores):
                yield name, f"{counted(unlike, 'score')} unlike those of the results file"
            if absent := len(self.rows) - len(run.records):
                yield name, f"it lacks {counted(absent, 'sample')} that other runs have"

    @property
    def replies(self) -> Iterator[Values]:
        """Tokens and cost of each run's replies; cached ones count like new ones."""
        for name, run in self.runs.items():
            replies = [reply for record in run.records for reply in record.replies]
            if replies:
                costs = [reply.usage.cost_usd for reply in replies]
                models = Counter(cut(reply.model, MAX_NAME) for reply in replies).most_common()
                yield {
                    "run": name,
                    "count": len(replies),
                    "cached": sum(reply.cached for reply in replies),
                    "input": sum(reply.usage.input_tokens for reply in replies),
                    "output": sum(reply.usage.output_tokens for reply in replies),
                    "cost": "unknown"
                    if None in costs
                    else f"${math.fsum(filter(None, costs)):,.4f}",
                    "models": ", ".join(f"{model} ({n:,})" for model, n in models),
                }

    def filters(self, count: int) -> dict[str, dict[str, int]]:
        """The choices of each filter for the first `count` samples."""
        rows = [row for _, row in self.most_disputed(count)]
        return filter_choices(rows, self.first.benchmark.metrics)

    @property
    def signatures(self) -> list[Signature]:
        """The distinct signatures of all runs."""
        return list(dict.fromkeys(s for run in self.runs.values() for s in run.signatures))

    @property
    def signature_rows(self) -> list[tuple[str, list[str]]]:
        """Each key of the signatures with its values."""
        fields = [signature.fields for signature in self.signatures]
        keys = dict.fromkeys(key for of_signature in fields for key in of_signature)
        return [(key, [cut(of.get(key, ""), 2000) for of in fields]) for key in keys]


@dataclass(frozen=True)
class ReportedMetric:
    """One metric: its scores by run and kind, and the difference of two runs."""

    name: str
    title: str
    scores: dict[tuple[str, ScoreKind], Score]
    difference: Difference | None
