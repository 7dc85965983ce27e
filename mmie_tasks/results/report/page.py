"""The page of the report: collects what it shows of some runs and fills its template."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmie_tasks.core import __version__
from mmie_tasks.core.files import readable_size
from mmie_tasks.core.wording import counted
from mmie_tasks.record.intervals import LEVEL
from mmie_tasks.record.sample import SCORE_KINDS
from mmie_tasks.results.comparability import mixed_keys
from mmie_tasks.results.embedded_image import EmbeddedImage, embed_images
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.page import inert_json, rendered
from mmie_tasks.results.page_data import Json, cut, page_data
from mmie_tasks.results.report.charts import charts
from mmie_tasks.results.report.render import RichText, html
from mmie_tasks.results.report.samples import (
    ASSETS,
    JoinedTask,
    image_files,
    join_tasks,
    sample_columns,
    sample_html,
)
from mmie_tasks.results.report.tables import (
    MAX_MARK,
    TaskScores,
    metric_tables,
    reply_table,
    run_table,
    score_table,
    signature_table,
    task_scores,
)
from mmie_tasks.results.run import Run
from mmie_tasks.results.scores import INTERVAL_NOTE

BUDGET_CHARACTERS = 12 * 1024 * 1024
"""The limit for all images of a report, as base64."""

CHUNK_BYTES = 300_000
"""The limit for the HTML of one chunk of samples, uncompressed; a single sample may exceed it."""

_SIDE_PX = 384  # the longest side of an image
_QUALITY = 60
_NOT_SHOWN = EmbeddedImage(None, "left out for lack of space:")
_ORDERS = (
    ("disputed", "most disputed first"),
    ("worst", "worst first"),
    ("best", "best first"),
    ("logged", "as logged"),
)
_METHOD = (
    f"Intervals are {LEVEL:.0%} intervals (Student's t) for the whole benchmark, of which the "
    "samples are a random draw; there is none for fewer than 10 samples."
)


def report_page(
    runs: Sequence[Run], *, title: str, made: str, budget_characters: int = BUDGET_CHARACTERS
) -> str:
    """The page, to be written as UTF-8.

    `made` is date and time, for the page's head. `budget_characters` limits all images; what one
    task leaves is available to the next.
    """
    names = [run.name for run in runs]
    all_scores = [task_scores(task, names) for task in join_tasks(runs)]
    is_judged = any(scores.task.benchmark.judge is not None for scores in all_scores)
    pictures: list[str] = []
    tasks = []
    for number, scores in enumerate(all_scores):
        left_characters = budget_characters - sum(map(len, pictures))
        share = left_characters // (len(all_scores) - number)
        tasks.append(_task(scores, pictures, share, readable_size(budget_characters)))
    library = get_plotlyjs()
    values = {
        "title": title,
        "made": made,
        "package": __version__,
        "method": _METHOD,
        "scores": html(score_table(all_scores), "scores"),
        "lines": [INTERVAL_NOTE] if is_judged else [],
        "runs": html(run_table(runs)),
        "several_runs": len(runs) > 1,
        "compares": len(runs) == 2,
        "tasks": tasks,
        "pictures": list(map(Markup, pictures)),  # base64: not escaped
        "library": _packed_library(),
    }
    return rendered(ASSETS, values, library)


def _task(scores: TaskScores, pictures: list[str], share: int, budget: str) -> Json:
    """The template's values for a task; adds the task's images to `pictures`."""
    task = scores.task
    files = image_files(task)
    images = _stored(embed_images(files, _SIDE_PX, _QUALITY, share), pictures)
    left_out = len(files) - len(images)
    signatures = task.signatures
    drawn = charts(scores)
    details = (
        sample_html(row, task, scores.names, lambda file: images.get(file, _NOT_SHOWN))
        for row in task.rows
    )
    chunk_starts, chunks = pack(details)
    columns = sample_columns(task)
    data = {
        "names": scores.names,
        "present": [index for index, _ in task.present],
        "full_marks": task.benchmark.scale.full_marks,
        "charts": [chart.figure for chart in drawn],
        "chunk_starts": chunk_starts,
        **columns,
    }
    has_judge = any(signature.judges for signature in signatures)
    marks = ([cut(mark, MAX_MARK) for mark in paper_marks(run)] for _, run in task.present)
    return {
        "name": task.task,
        "title": task.title,
        "unit": task.benchmark.scale.unit,
        "count": len(task.rows),
        "marks": list(zip(scores.runs, marks, strict=True)),
        "notes": [*_warnings(scores), *_notes(scores, left_out, budget)],
        "tables": [(table.title, len(table.rows), html(table)) for table in metric_tables(scores)],
        "charts": [(chart, html(chart.table)) for chart in drawn],
        "replies": html(reply_table(scores)) if has_judge else "",
        "signatures_title": "Signature" if len(signatures) == 1 else "Signatures",
        "signatures": html(signature_table(signatures)) if signatures else "",
        "filters": _filters(task, scores, columns),
        "data": inert_json(page_data(data)),
        "chunks": list(map(Markup, chunks)),  # base64: not escaped
    }


def _stored(images: Mapping[str, EmbeddedImage], pictures: list[str]) -> dict[str, EmbeddedImage]:
    """The images with element ids as addresses; adds their contents to `pictures`."""
    stored = {}
    for file, image in images.items():
        stored[file] = image
        if image.address:
            stored[file] = replace(image, address=f"x-picture-{len(pictures)}")
            pictures.append(image.address)
    return stored


def _warnings(scores: TaskScores) -> Iterator[tuple[str, RichText | None, str]]:
    """The class, run and text of each note."""
    if keys := ", ".join(mixed_keys(scores.task.signatures)):
        note = f"their signatures differ in {keys}, which affects scores"
        yield "warning", None, f"The samples were not all scored alike: {note}."
    for row in scores.rows.get("headline", ()):
        for run, of_run in zip(scores.runs, row.scores, strict=True):
            for kind in SCORE_KINDS:
                value = of_run and of_run.values.get(kind)
                if value and value.percent is None:
                    score = f"{row.metric.title}, {kind} score"
                    yield "warning", run, f"{score}: no score, because {value.why_not}."
    of_runs = [of_run for rows in scores.rows.values() for row in rows for of_run in row.scores]
    if differing := sum(len(of_run.stored) for of_run in of_runs if of_run):
        one = differing == 1
        what = "score in a results file differs" if one else "scores in the results files differ"
        note = "from the score of the logged samples; the tables show both"
        yield "warning", None, f"{differing:,} {what} {note}."


def _notes(
    scores: TaskScores, left_out: int, budget: str
) -> Iterator[tuple[str, RichText | None, str]]:
    task = scores.task
    for name, (_, run) in zip(scores.runs, task.present, strict=True):
        yield from (("", name, note) for note in run.notes)
        if absent := len(task.rows) - len(run.records):
            yield "", name, f"it lacks {counted(absent, 'sample')} that other runs have"
    if scores.why_no_difference:
        yield "", None, scores.why_no_difference
    if left_out:
        note = (
            f"{counted(left_out, 'image')} left out: a report has at most {budget} of images, "
            "those of the most disputed, then of the worst samples first"
        )
        yield "", None, note


def _filters(task: JoinedTask, scores: TaskScores, columns: Json) -> Json:
    """The form above the samples: its lists of choices, and its checkboxes with their counts."""
    choices: list[tuple[str, str, list[tuple[object, str]]]] = []
    checks = [("scores_differ", "Only where official and robust differ")]
    if len(scores.runs) > 1:
        runs: list[tuple[object, str]] = [(run.run, run.text) for run in scores.runs]
        choices.append(("run", "Run", [("any", "any"), *runs]))
        checks.append(("runs_differ", "Only where runs differ"))
    for number, (kind, groups) in enumerate(columns["groups"].items()):
        of_group = Counter(group for of_sample in groups["of"] for group in of_sample)
        names = [(n, f"{name} ({of_group[n]:,})") for n, name in enumerate(groups["names"])]
        options: list[tuple[object, str]] = [("", "all"), *names]
        choices.append((f"group-{number}", kind.capitalize(), options))
    reasons = _reason_counts(columns["reasons"])
    if reasons:
        named = [(f"={reason}", f"{reason} ({n:,})") for reason, n in reasons.most_common()]
        options = [("", "all samples"), ("any", "only unscored"), *named]
        choices.append(("unscored", "Unscored", options))
    choices.append(("order", "Order", list(_ORDERS)))
    is_disputed = any(columns["disputed"]) or len(scores.runs) > 1
    return {
        "choices": choices,
        "checks": [(name, title, sum(columns[name])) for name, title in checks],
        "order": "disputed" if is_disputed else "worst",
        "full_marks": f"{task.benchmark.scale.full_marks:g}",
        "step": 1 if task.benchmark.scale.whole else "any",
    }


def _reason_counts(reasons: Mapping[str, Sequence[Sequence[str]]]) -> Counter[str]:
    """How many samples have no points for each reason, in any run or score."""
    by_sample = zip(*(column for of_kind in reasons.values() for column in of_kind), strict=True)
    return Counter(reason for of_sample in by_sample for reason in set(of_sample) if reason)


def pack(details: Iterable[str]) -> tuple[list[int], list[str]]:
    """Compress details of samples into chunks that the browser unpacks when needed.

    Holds no more than one chunk of details in memory. Returns for each chunk the index of its first
    sample, and base64 of gzip of a JSON list.
    """
    starts: list[int] = []
    texts: list[str] = []
    chunk: list[bytes] = []
    for index, detail in enumerate(details):
        text = json.dumps(detail, ensure_ascii=False).encode()
        if chunk and sum(map(len, chunk)) + len(text) > CHUNK_BYTES:
            texts.append(_packed(b"[" + b",".join(chunk) + b"]"))
            chunk = []
        if not chunk:
            starts.append(index)
        chunk.append(text)
    if chunk:
        texts.append(_packed(b"[" + b",".join(chunk) + b"]"))
    return starts, texts


@cache
def _packed_library() -> Markup:
    return Markup(_packed(get_plotlyjs().encode(), level=9))  # noqa: S704  # base64


def _packed(data: bytes, level: int = 6) -> str:
    """Base64 of gzip; higher levels are slower and save little."""
    return base64.b64encode(gzip.compress(data, level, mtime=0)).decode()
