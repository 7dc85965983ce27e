"""The command ``mmie-tasks report``: one HTML file with the scores and samples of runs."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from mmie_tasks.core import __version__
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, readable_size
from mmie_tasks.core.wording import counted
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.results.annotation import (
    Annotation,
    Annotator,
    JudgeNote,
    OpenAnnotator,
    add_people_options,
    judge_lines,
)
from mmie_tasks.results.commands import listed_names, notes_of, open_runs, result_parser
from mmie_tasks.results.comparability import mixed_keys
from mmie_tasks.results.embedded_image import EmbeddedImage, embed_images
from mmie_tasks.results.page_data import Json, cut, ends, page_data
from mmie_tasks.results.report.page import packed_text, render
from mmie_tasks.results.report.samples import (
    MAX_SIGNATURE,
    JoinedTask,
    image_files,
    join_tasks,
    sample_columns,
    sample_detail,
)
from mmie_tasks.results.report.tables import (
    METHOD,
    charts,
    differences_of,
    metric_tables,
    signature_rows,
)
from mmie_tasks.runs.marks import paper_marks
from mmie_tasks.runs.run import Run, TaskRun

_MAX_NOTES = 3  # that the command prints; the report has all
_MAX_MODEL = 100  # characters of a model's name
_MAX_REASON = 500  # characters of why there is no corrected score: it may hold ids of samples
_MAX_MARK = 150  # characters of a mark: it may hold a model's name

BUDGET_CHARACTERS = 12 * 1024 * 1024
"""Of all images of a report, as base64."""

_SIDE_PX = 384  # the longest side of an image
_QUALITY = 60
_NOT_SHOWN = EmbeddedImage(None, "left out for lack of space:")

CHUNK_BYTES = 300_000
"""Of the JSON of one chunk, before it is packed; a single sample may be larger."""


def run(
    arguments: Sequence[str], environment: Mapping[str, str], open_annotator: OpenAnnotator
) -> str:
    """Write a report; returns the file, its size and content, and notes on the runs.

    Raises:
        AnswersUnusable: A run or a file of people's scores cannot be read, or the file is not of
            these runs.
        SettingWrong: The report cannot be written.
    """
    options = _parser().parse_args(arguments)
    target = _target(options.output)
    runs = open_runs(options.runs, listed_names(options.tasks))
    page = render(
        payload(
            runs,
            open_annotator(runs, options.people, environment, options.population),
            title=options.title or f"Results of {', '.join(opened.name for opened in runs)}",
            made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
            corrected_only=options.population == "run",
        )
    )
    try:
        with atomic_write(target) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"The report cannot be written to `{target}`: {error.strerror}.",
            hint="name another file with `-o`",
        ) from error
    tasks = [task for run_ in runs for task in run_.tasks.values()]
    samples = sum(len(task.samples) for task in tasks)
    counts = [
        counted(len(runs), "run"),
        counted(len({task.task for task in tasks}), "task"),
        counted(samples, "sample"),
    ]
    notes = notes_of(runs)
    more = ["and more notes, in the report"] if len(notes) > _MAX_NOTES else []
    summary = f"{target}: {readable_size(target.stat().st_size)}; {', '.join(counts)}"
    return "\n".join([summary, *notes[:_MAX_NOTES], *more])


def _parser() -> argparse.ArgumentParser:
    parser = result_parser(
        "report",
        "One HTML file with the scores, charts and samples of saved runs; it opens offline.",
        reading=False,
    )
    parser.add_argument(
        *("-o", "--output"), metavar="FILE", default="report.html", help="default: %(default)s"
    )
    parser.add_argument(
        "--title", metavar="TEXT", default="", help="of the page; default: the names of the runs"
    )
    add_people_options(parser)
    return parser


def _target(output: str) -> Path:
    """The file to write; only HTML files, so that no log is overwritten by mistake."""
    target = Path(output).expanduser()
    if target.suffix.lower() not in (".html", ".htm") or target.is_dir():
        raise SettingWrong(
            f"The report cannot be written to `{output}`: it is an HTML file.",
            hint="name a file that ends in .html: `-o report.html`",
        )
    return target


def payload(
    runs: Sequence[Run],
    annotator: Annotator,
    *,
    title: str,
    made: str,
    corrected_only: bool = False,
    budget_characters: int = BUDGET_CHARACTERS,
) -> Json:
    """Everything that the page shows, ready for JSON; `render` takes it.

    Args:
        runs: The runs of the report.
        annotator: Of these runs: grades of judges, and scores that people corrected.
        title: Of the page.
        made: Date and time, for the page's head.
        corrected_only: Whether the first screen has only scores that people corrected.
        budget_characters: Of all images; what one task leaves is available to the next.
    """
    joined_tasks = join_tasks(runs)
    judges: list[JudgeNote] = []
    tasks = []
    pictures: list[str] = []
    for index, task in enumerate(joined_tasks):
        files = image_files(task)
        left_characters = budget_characters - sum(map(len, pictures))
        share = left_characters // (len(joined_tasks) - index)
        images = _stored(embed_images(files, _SIDE_PX, _QUALITY, share), pictures)
        annotations = {number: annotator.annotation(run_) for number, run_ in task.present}
        judges += [judge for annotation in annotations.values() for judge in annotation.judges]
        differences = differences_of(task)
        notes = _notes(task)
        if differences.why_not:
            notes.append((None, differences.why_not))
        if left_out := len(files) - len(images):
            note = (
                f"{counted(left_out, 'image')} left out: a report has at most "
                f"{readable_size(budget_characters)} of images, those of the most disputed, then "
                "of the worst samples first"
            )
            notes.append((None, note))
        tables = metric_tables(task, differences)
        tasks.append({**_task_json(task, tables, images, annotations), "notes": notes})
    is_judged = any(task.benchmark.judge is not None for task in joined_tasks)
    content = {
        "title": title,
        "made": made,
        "package": __version__,
        "method": METHOD,
        "corrected_only": corrected_only,
        "judge_error": annotator.interval_note if is_judged else "",
        "judges": judge_lines(judges),
        "runs": [
            {
                "name": run_.name,
                "folder": str(run_.folder),
                "started": run_.started_text,
                "notes": run_.notes,
            }
            for run_ in runs
        ],
        "tasks": tasks,
    }
    return {**page_data(content), "pictures": pictures}


def _stored(images: Mapping[str, EmbeddedImage], pictures: list[str]) -> dict[str, EmbeddedImage]:
    """The images with ids of elements as addresses; adds their contents to `pictures`."""
    stored = {}
    for file, image in images.items():
        stored[file] = image
        if image.address:
            stored[file] = EmbeddedImage(f"x-picture-{len(pictures)}")
            pictures.append(image.address)
    return stored


def _task_json(
    task: JoinedTask,
    tables: Sequence[Json],
    images: Mapping[str, EmbeddedImage],
    annotations: Mapping[int, Annotation],
) -> Json:
    """A task, without its notes."""
    scale = task.benchmark.scale
    signatures = {signature: index for index, signature in enumerate(task.signatures)}
    # Cached replies count as when they were new.
    replies = {
        index: [reply for s in run_.samples for reply in s.replies] for index, run_ in task.present
    }
    details = (
        sample_detail(row, signatures, lambda file: images.get(file, _NOT_SHOWN))
        for row in task.rows
    )
    chunk_starts, chunks = pack(details)
    return {
        "task": task.task,
        "title": task.title,
        "unit": scale.unit,
        "full_marks": scale.full_marks,
        "whole": scale.whole,
        "judged": any(signature.judges for signature in signatures),
        "present": [index for index, _ in task.present],
        "summaries": [_summary(index, run_, annotations[index]) for index, run_ in task.present],
        "signatures": [cut(str(signature), MAX_SIGNATURE) for signature in signatures],
        "signature_rows": signature_rows(signatures),
        "mixed_keys": mixed_keys(signatures),
        "spend": [[index, _usage_json(of_run)] for index, of_run in replies.items() if of_run],
        "tables": tables,
        "charts": charts(task, tables),
        "samples": {**sample_columns(task), "chunk_starts": chunk_starts},
        "chunks": chunks,
    }


def _summary(index: int, task_run: TaskRun, annotation: Annotation) -> Json:
    """What the first screen shows next to the scores of a run.

    `published` is None where it is unknown, `corrected` where no labels of the benchmark were
    named.
    """
    judges, corrected = annotation.judges, annotation.corrected
    prefix = "{0.judge}: " if len(judges) > 1 else ""
    return {
        "run": index,
        "judge": cut(task_run.judge_name, _MAX_MODEL),
        "grades": [f"{prefix.format(judge)}{judge.short_text}" for judge in judges],
        "published": task_run.benchmark.published.get(task_run.task),
        "marks": [cut(mark, _MAX_MARK) for mark in paper_marks(task_run)],
        "corrected": corrected
        and {
            "percent": corrected.percent,
            **ends(corrected.interval),
            "notes": [cut(note, _MAX_REASON) for note in corrected.notes],
        },
    }


def _notes(task: JoinedTask) -> list[tuple[int | None, str]]:
    """Notes on the scores, with the index of the run."""
    notes: list[tuple[int | None, str]] = []
    for index, task_run in task.present:
        notes += [(index, note) for note in task_run.notes]
        if absent := len(task.rows) - len(task_run.samples):
            notes.append((index, f"it lacks {counted(absent, 'sample')} that other runs have"))
    return notes


def _usage_json(replies: Sequence[JudgeReply]) -> Json:
    costs = [reply.usage.cost_usd for reply in replies]
    finite_costs = [cost for cost in costs if cost is not None and math.isfinite(cost)]
    models = Counter(cut(reply.model, _MAX_MODEL) for reply in replies)
    return {
        "replies": len(replies),
        "cached": sum(reply.cached for reply in replies),
        "models": dict(models.most_common()),
        "input_tokens": sum(reply.usage.input_tokens for reply in replies),
        "output_tokens": sum(reply.usage.output_tokens for reply in replies),
        "cost_usd": math.fsum(finite_costs) if len(finite_costs) == len(costs) else None,
    }


def pack(details: Iterable[Json]) -> tuple[list[int], list[str]]:
    """Details of samples, in order, in compressed chunks that the browser unpacks when needed.

    No more than one chunk of them is in memory at a time.

    Returns:
        For each chunk the index of its first sample, and base64 of gzip of a JSON list.
    """
    starts: list[int] = []
    texts: list[str] = []
    chunk: list[bytes] = []
    for index, detail in enumerate(details):
        text = json.dumps(
            page_data(detail), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
        if chunk and sum(map(len, chunk)) + len(text) > CHUNK_BYTES:
            texts.append(packed_text(b"[" + b",".join(chunk) + b"]"))
            chunk = []
        if not chunk:
            starts.append(index)
        chunk.append(text)
    if chunk:
        texts.append(packed_text(b"[" + b",".join(chunk) + b"]"))
    return starts, texts
