"""The samples of the report: aligned by run, as columns for filters, and in detail.

Columns hold what the page needs of every sample to filter and sort. Details (texts, replies and
thumbnails) are unpacked in the browser when a sample is opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeAlias, TypeVar

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.tables import NO_VALUE
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.record.answering_model import other_models
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.sample import READER_KINDS, LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.embedded_image import EmbeddedImage, embed_image
from mmie_tasks.results.page_data import (
    MAX_LABEL,
    MAX_SEGMENTS,
    FindImage,
    Json,
    cut,
    has_image,
    segments_json,
)
from mmie_tasks.runs.panels import judge_facts
from mmie_tasks.runs.run import Run, TaskRun

MAX_PREVIEW = 100  # characters of a question in the list of samples
MAX_IMAGES = 6  # images of a question, a gold answer or an answer that are shown
MAX_REPLY = 100_000  # characters of a judge's reply
MAX_SIGNATURE = 2_000  # characters of a signature

_T = TypeVar("_T")
_MAX_REPLIES = 10
_MAX_FACTS = 50

BUDGET_BYTES = 9 * 1024 * 1024
"""Of all thumbnails of a report together; in the file they take a third more."""

SAMPLES_WITH_THUMBNAILS = 400
"""Of each task, unless the user sets another number: images take most of the time."""

SIDE_PX = 192  # the longest side of a thumbnail
_THREADS = 4
_BATCH = 32  # samples between two checks of the budget
_QUALITY = 60

thumbnail = partial(embed_image, max_side_px=SIDE_PX, quality=_QUALITY)
"""The thumbnail of a logged file; never raises."""

SampleRow: TypeAlias = tuple[LoggedSample | None, ...]
"""One sample in each run; None where a run does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTask:
    """One task of several runs.

    Attributes:
        task: Its name in lmms-eval.
        benchmark: That the task belongs to.
        runs: Every run of the report; None where it does not have the task.
        rows: Every sample, in the order of the first run, then those that only later runs have.
    """

    task: str
    benchmark: Benchmark
    runs: tuple[TaskRun | None, ...]
    rows: tuple[SampleRow, ...]

    @property
    def title(self) -> str:
        """For headings; with the task's name where the task is a part of the benchmark."""
        title = self.benchmark.title
        return title if self.benchmark.name == self.task else f"{title} ({self.task})"

    @property
    def present(self) -> Iterator[tuple[int, TaskRun]]:
        """The runs that have the task, with their index in the report."""
        return ((index, run) for index, run in enumerate(self.runs) if run is not None)

    @property
    def signatures(self) -> list[Signature]:
        """Every signature of every run."""
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


def thumbnail_priority(row: SampleRow, full_marks: float) -> float:
    """Higher for the worst and the most disputed samples; 0 to 2."""
    points = [v.points if isinstance(v, Scored) else 0.0 for v in _verdicts(row)]
    return dispute(row, full_marks) + 1 - min(points) / full_marks


def _verdicts(row: SampleRow) -> list[Verdict]:
    return [s.verdict(kind) for s in row if s is not None for kind in READER_KINDS]


def sample_columns(task: JoinedTask) -> Json:
    """The columns of a task's samples: what the page filters and sorts by."""
    full_marks = task.benchmark.scale.full_marks
    by_run = list(zip(*task.rows, strict=True))
    samples = [next(filter(None, row)) for row in task.rows]  # as the first run logged them
    kinds = dict.fromkeys(kind for sample in samples for kind in sample.groups)

    def columns(cell: Callable[[Verdict | None], object]) -> Json:
        """For each score, one column per run."""
        return {
            kind: [[cell(s.verdict(kind) if s else None) for s in column] for column in by_run]
            for kind in READER_KINDS
        }

    return {
        "ids": [sample.id for sample in samples],
        "first": [_preview(row) for row in task.rows],
        "points": columns(lambda v: v.points if isinstance(v, Scored) else None),
        "reasons": columns(lambda v: v.reason if isinstance(v, Unscored) else ""),
        "missing": [[sample is None for sample in column] for column in by_run],
        "groups": {kind: _group_columns(task.benchmark, kind, samples) for kind in kinds},
        "disputed": [dispute(row, full_marks) for row in task.rows],
    }


def _preview(row: SampleRow) -> str:
    """The beginning of the question in one line."""
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


NO_THUMBNAIL = EmbeddedImage(None, "no thumbnail")  # of an image that is outside the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskThumbnails:
    """The thumbnails of a task.

    Attributes:
        rows: The samples whose images are shown.
        by_image: A file's name in the log to its thumbnail.
        left_out: How many samples have images and no thumbnails.
        used_bytes: Of the budget; an image counts as often as it is shown.
    """

    rows: Collection[int]
    by_image: Mapping[str, EmbeddedImage]
    left_out: int
    used_bytes: int

    def find(self, row: int, image: str) -> EmbeddedImage:
        """The thumbnail of an image of a sample."""
        return self.by_image.get(image, NO_THUMBNAIL) if row in self.rows else NO_THUMBNAIL


def task_thumbnails(task: JoinedTask, max_samples: int, budget_bytes: int) -> TaskThumbnails:
    """The thumbnails of the worst and most disputed samples of a task, see `make_thumbnails`."""
    full_marks = task.benchmark.scale.full_marks
    priorities = [thumbnail_priority(row, full_marks) for row in task.rows]
    order = sorted(range(len(task.rows)), key=priorities.__getitem__, reverse=True)
    samples = ((row, shown_images(task.rows[row])) for row in order)
    return make_thumbnails(samples, max_samples, budget_bytes)


def make_thumbnails(
    samples: Iterable[tuple[int, Sequence[str]]], max_samples: int, budget_bytes: int
) -> TaskThumbnails:
    """Make thumbnails until those of the next sample exceed the budget; each file is read once.

    Args:
        samples: Index of each sample and the files it shows, as often as it shows them; the most
            important samples first.
        max_samples: Samples that get thumbnails at most.
        budget_bytes: Of all thumbnails.
    """
    with_images = [(row, images) for row, images in samples if images]
    by_image: dict[str, EmbeddedImage] = {}
    rows: set[int] = set()
    used = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for position, (row, images) in enumerate(with_images[:max_samples]):
            if position % _BATCH == 0:
                batch = with_images[position : min(position + _BATCH, max_samples)]
                new = dict.fromkeys(i for _, files in batch for i in files if i not in by_image)
                by_image.update(zip(new, pool.map(thumbnail, new), strict=True))
            size = sum(by_image[image].size_bytes for image in images)
            if used + size > budget_bytes:
                break
            used += size
            rows.add(row)
    return TaskThumbnails(
        rows=rows, by_image=by_image, left_out=len(with_images) - len(rows), used_bytes=used
    )


def sample_detail(
    row: SampleRow, signatures: Mapping[Signature, int], find_thumbnail: FindImage
) -> Json:
    """The details of a sample in every run.

    Args:
        row: The sample.
        signatures: Each signature of the task to its index in the payload.
        find_thumbnail: Gives the thumbnail of an image.
    """
    question, gold = question_and_gold(row)
    return {
        "question": segments_json(question, "the question", find_thumbnail, MAX_IMAGES),
        "gold": segments_json(gold, "the gold answer", find_thumbnail, MAX_IMAGES),
        "runs": [sample and _run_json(sample, signatures, find_thumbnail) for sample in row],
    }


def shown_images(row: SampleRow) -> list[str]:
    """The image files of a sample that are shown, as often as they are shown."""
    answers = [sample.answer for sample in row if sample is not None]
    return [
        segment.image
        for segments in (*question_and_gold(row), *answers)
        for segment in islice(filter(has_image, segments[:MAX_SEGMENTS]), MAX_IMAGES)
        if segment.image and not segment.problem
    ]


def question_and_gold(row: SampleRow) -> tuple[Sequence[Segment], Sequence[Segment]]:
    """Question and gold answer, from the run whose log holds most of them."""

    def completeness(segments: Sequence[Segment]) -> tuple[int, bool]:
        return sum(bool(s.image) and not s.problem for s in segments), bool(segments)

    samples = list(filter(None, row))
    question = max((s.question for s in samples), key=completeness)
    return question, max((s.gold for s in samples), key=completeness)


def _run_json(
    sample: LoggedSample, signatures: Mapping[Signature, int], find_thumbnail: FindImage
) -> Json:
    facts = {**judge_facts(sample), **sample.facts}
    expected = sample.expected
    return {
        "answer": segments_json(sample.answer, "the answer", find_thumbnail, MAX_IMAGES),
        "official": _verdict_json(sample.official),
        "robust": _verdict_json(sample.robust),
        "expected": {**_verdict_json(expected), "entropy_bits": sample.entropy_bits}
        if isinstance(expected, Scored)
        else None,
        "replies": _replies_json(sample),
        "signature": signatures[sample.signature],
        "facts": {_label(name): _fact_json(fact) for name, fact in _first(facts)},
        "parts": {
            kind: {
                _label(name): share
                for name, share in _first(sample.parts.get(kind, {}))
                if math.isfinite(share)
            }
            for kind in READER_KINDS
        },
    }


def _label(text: str) -> str:
    return cut(text, MAX_LABEL)


def _first(facts: Mapping[str, _T]) -> list[tuple[str, _T]]:
    return list(facts.items())[:_MAX_FACTS]


def _verdict_json(verdict: Verdict) -> Json:
    if isinstance(verdict, Scored):
        return {"points": verdict.points, "reading": _label(verdict.reading)}
    return {"unscored": verdict.reason, "detail": _label(verdict.detail)}


def _replies_json(sample: LoggedSample) -> list[Json]:
    replies = [
        _reply_json(reply, judge)
        for judge, judge_replies in sample.replies_by_judge
        for reply in judge_replies
    ]
    return replies[-_MAX_REPLIES:]


def _reply_json(reply: JudgeReply, judge: Signature) -> Json:
    is_other = bool(other_models(judge, [reply.model]))
    return {
        "text": cut(reply.text, MAX_REPLY),
        "model": _label(reply.model),
        "instead_of": _label(judge.name) if is_other else "",
        "finish": reply.finish,
        "cached": reply.cached,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "cost_usd": reply.usage.cost_usd,
    }


def _fact_json(fact: str | float | bool) -> str | float | bool:
    if isinstance(fact, str):
        return _label(fact)
    return fact if math.isfinite(fact) else NO_VALUE
