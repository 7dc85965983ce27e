"""The functions that MileBench's task files name, its `Benchmark`, and its samples in a log.

A task selects its samples by ``dataset_name``: ``DocVQA``, ``DocVQA@adv``, ``DocVQA@combined1``,
or ``all`` in place of a dataset.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from mmie_tasks.answers.parsing import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, PublishedRow
from mmie_tasks.benchmarks.milebench import data, metrics
from mmie_tasks.benchmarks.milebench.combined_image import combined_image
from mmie_tasks.benchmarks.milebench.metrics import MetricRow
from mmie_tasks.benchmarks.milebench.prompts import (
    PromptImage,
    QuestionPrompt,
    combined,
    interleaved,
)
from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    TASK_OF,
    TASKS,
    VARIANTS,
    Rule,
    Sample,
    has_variant,
)
from mmie_tasks.core import __version__
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.options import coverage_floor, floor_signature
from mmie_tasks.core.verdict import Unscored, Verdict, Verdicts
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.record import log_line
from mmie_tasks.record.rows import Row, aggregation
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import LoggedSegment

if TYPE_CHECKING:
    import datasets
    from PIL import Image

VERSION = "1-B"  # of every task of MileBench: the number moves with the scores

_OPENER = ImageOpener()  # remembers the samples with an image that the model could not be shown
_drawn_images: dict[str, Path] = {}  # sample id to its combined image, drawn in this process


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples in place of the stub that the task file loads.

    Missing or broken data and invalid settings stop the run by SystemExit, because the runner
    would retry any other exception.
    """
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        return data.dataset(stub.config_name, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn, with opened images at their placeholders."""
    del lmms_eval_specific_kwargs  # chat models need no placeholders
    return user_turn(
        _open_image(doc, part.index) if isinstance(part, PromptImage) else part
        for part in _prompt(doc).parts
    )


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images separately.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    return _prompt(doc).text(lambda n: token.replace("{n}", str(n)))


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The opened images of the question, in the order of their placeholders."""
    return [_open_image(doc, index) for index in _prompt(doc).images]


def doc_to_target(doc: Doc) -> str:
    """The gold answer, for the log."""
    return str(doc["gold"])


def _prompt(doc: Doc) -> QuestionPrompt:
    build = combined if doc["variant"] == "combined1" else interleaved
    return build(Sample.from_doc(doc))


def _open_image(doc: Doc, index: int) -> Image.Image:
    """The image of a prompt, or a blank one if it cannot be opened (see `ImageOpener`).

    If a prompt needs a combined image and the archive has none, it is drawn once and cached.
    """

    def find() -> Path:
        files = [Path(path) for path in data.published_image(doc) or doc["images"]]
        if doc["variant"] != "combined1" or data.published_image(doc):
            return files[index]
        _drawn_images[doc["id"]] = combined_image(
            files, cache_dir(os.environ) / "milebench" / "combined"
        )
        return _drawn_images[doc["id"]]

    return _OPENER.open(doc["id"], find)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, MetricRow]:
    """The rows of a ``milebench_<dataset>`` task for one answer."""
    graded, record = _score(doc, results)
    return metrics.DATASET_TABLE.rows(
        graded, record, image_set=doc["image_set"]
    )  # samples with the same images


def process_results_all(doc: Doc, results: Sequence[object]) -> Mapping[str, MetricRow]:
    """The rows of the ``milebench`` task for one answer."""
    return metrics.TABLE.rows(*_score(doc, results))


def _score(doc: Doc, results: Sequence[object]) -> tuple[LoggedSample, MetricRow]:
    sample = Sample.from_doc(doc)
    verdicts = _score_answer(sample, results, _OPENER.failure(sample.id))
    if doc["variant"] != "combined1":
        images = [doc["images"][index] for index in _prompt(doc).images]
    elif drawn := _drawn_images.get(sample.id):
        images = [str(drawn)]
    else:  # no combined image is drawn for the log
        images = data.published_image(doc) or list(doc["images"])
    record = metrics.sample_record(sample, verdicts, signature(doc), images)
    return metrics.graded_sample(sample, verdicts), record


def _score_answer(
    sample: Sample, results: Sequence[object], image_problem: str | None = None
) -> Verdicts:
    """The verdicts of both readers. Several results (a model that answers in rounds) are not a
    text.
    """
    answer = results[0] if len(results) == 1 else list(results)
    if isinstance(answer, str) and answer.startswith(NOT_TEXT):
        return Verdicts.unscored("not_text", answer.removeprefix(NOT_TEXT).strip()[:80])
    if image_problem:
        return Verdicts.unscored("bad_image", image_problem)
    if failure := failure_of(answer):
        return Verdicts.unscored("no_answer", failure)
    return metrics.score(sample, answer)


def provenance(doc: Doc) -> str:
    """Task version, prompt, readers and data in one line, which is saved with the results."""
    data = f"variant:{doc['variant']}|prompt:official|reader:official+robust|data:{doc['data']}"
    return f"task:milebench@{VERSION}|{data}"


def signature(doc: Doc) -> str:
    """Everything that can move the score: `provenance` and the version of this package."""
    return f"{provenance(doc)}{floor_signature(os.environ)}|pkg:{__version__}"


def task_percent(rows: Sequence[Row]) -> float:
    """Mean over the datasets of the rows' task, in percent; NaN unless all of them are in the
    run.
    """
    datasets = (str(row["group"]) for row in rows if row)
    task = next((TASK_OF[dataset] for dataset in datasets), None)
    return (
        math.nan
        if task is None
        else aggregation(metrics.SCALE, metrics.METRIC_OF[task].weights)(rows)
    )


percent = aggregation(metrics.SCALE)
real = aggregation(metrics.SCALE, metrics.METRIC_OF["real"].weights)
diag = aggregation(metrics.SCALE, metrics.METRIC_OF["diag"].weights)


_NOT_IN_ANSWER = {"no_answer", "not_text", "bad_image"}  # reasons that the saved answer lacks


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    record = _record(line)
    images = log_line.texts(record, "images")
    gold = log_line.optional_text(record, "gold") or log_line.optional_text(line, "target")
    answer = log_line.answer(line)
    return LoggedSample(
        id=log_line.text(record, "id"),
        official=log_line.verdict(record, "official", 1),
        robust=log_line.verdict(record, "robust", 1),
        groups={kind: (log_line.text(record, kind),) for kind in ("dataset", "task", "level")},
        question=log_line.question(line, images),
        gold=(LoggedSegment(text=gold),) if gold else (),
        answer=(LoggedSegment(text=answer),) if answer else (),
        signature=log_line.optional_text(record, "signature"),
        facts=_facts(line, record, images),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to the answer of a line; None if the line lacks what they need.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    verdicts = _score_again(line, _record(line))
    return {"official": verdicts.official, "robust": verdicts.robust} if verdicts else None


def rerecord(line: Line) -> Record:
    """The record of a line with the current readers' verdicts, or unchanged if they cannot read.

    Raises:
        BadRecord: The line is not a scored sample of MileBench.
    """
    record = _record(line)
    verdicts = _score_again(line, record)
    return {**record, **metrics.verdict_fields(verdicts)} if verdicts else record


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("rule") not in get_args(Rule):
        raise BadRecord("`rule` is not a rule of MileBench: the line is not one of its samples")
    return record


def _score_again(line: Line, record: Record) -> Verdicts | None:
    official, robust = (
        log_line.verdict(record, "official", 1),
        log_line.verdict(record, "robust", 1),
    )
    stored = Verdicts(official=official, robust=robust)
    if all(isinstance(v, Unscored) and v.reason in _NOT_IN_ANSWER for v in (official, robust)):
        return stored
    if not isinstance(line.get("filtered_resps"), str) or "choices" not in record:
        return None
    dataset, gold = log_line.text(record, "dataset"), record.get("gold")
    sample = Sample(
        dataset=dataset,
        sample_id=log_line.text(record, "id").removeprefix(f"{dataset}/"),
        rule=cast("Rule", log_line.text(record, "rule")),
        instruction="",
        context="",
        images=(),
        gold=None if gold is None else log_line.optional_text(record, "gold"),
        choices=log_line.texts(record, "choices") or (),
    )
    return _score_answer(sample, [line["filtered_resps"]])


def _facts(
    line: Line, record: Record, images: Sequence[str] | None
) -> dict[str, str | float | bool]:
    """Rule and number of images; of a needle in a haystack, its depth (0 to 1) and the length."""
    question = log_line.optional_text(line, "input")
    n_images = question.count(log_line.IMAGE_PLACEHOLDER) if images is None else len(images)
    facts: dict[str, str | float | bool] = {"rule": str(record["rule"]), "images": n_images}
    if record["rule"] == "needle":
        facts["needle_length"] = n_images
        if (gold := log_line.optional_text(record, "gold")) and (
            position := question.find(gold)
        ) >= 0:
            facts["needle_depth"] = position / len(question)
    return facts


def _published() -> dict[str, int]:
    """The number of samples of each task: of the datasets' files, at the pinned revision."""
    other_sizes = {"TextNeedleInAHaystack": 320, "ImageNeedleInAHaystack": 320, "GPR1200": 600}
    n_samples: dict[str, int] = {}
    for variant in VARIANTS:
        sizes = {
            name: other_sizes.get(name, 200) for name in DATASETS if has_variant(name, variant)
        }
        suffix = "" if variant == "test" else f"_{variant}"
        n_samples |= {f"milebench{suffix}": sum(sizes.values())}
        n_samples |= {f"milebench_{name}{suffix}": size for name, size in sizes.items()}
    return n_samples


_SOURCE = "MileBench's paper, arXiv 2404.18532v2"
_SOURCE_WITHOUT_RETRIEVAL = f"{_SOURCE}; its Diagnostic leaves out I-1, unlike that of other models"
PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores=dict(zip(("real", "diag", *TASKS), percents, strict=True)),
        source=_SOURCE_WITHOUT_RETRIEVAL if model in ("GPT-4V", "GPT-4o") else _SOURCE,
    )
    for model, percents in {  # real, diag, T-1 to T-4, S-1 to S-5, N-1, N-2, I-1
        "GPT-4o": (
            60.3,
            99.4,
            61.8,
            56.8,
            38.0,
            68.3,
            85.3,
            83.3,
            15.3,
            47.2,
            86.5,
            99.7,
            99.1,
            88.8,
        ),
        "Gemini 1.5": (
            54.7,
            94.5,
            55.0,
            54.5,
            34.0,
            57.3,
            73.9,
            72.7,
            17.8,
            44.7,
            82.5,
            99.4,
            96.3,
            88.0,
        ),
        "GPT-4V": (
            53.0,
            99.4,
            51.7,
            50.1,
            22.3,
            58.5,
            82.8,
            77.3,
            11.1,
            42.4,
            81.0,
            99.7,
            99.1,
            86.7,
        ),
        "Mantis-7B": (
            47.5,
            19.9,
            54.8,
            49.9,
            25.3,
            48.9,
            65.8,
            55.5,
            17.4,
            31.9,
            78.0,
            27.5,
            0.0,
            32.2,
        ),
        "VILA-7B": (
            44.4,
            12.8,
            40.3,
            49.1,
            35.3,
            49.3,
            68.1,
            41.3,
            12.4,
            30.7,
            73.0,
            25.0,
            0.3,
            13.0,
        ),
        "Claude 3 Opus": (
            43.3,
            65.2,
            37.7,
            42.1,
            21.0,
            48.6,
            64.8,
            59.7,
            13.3,
            44.0,
            58.5,
            98.1,
            72.5,
            25.0,
        ),
        "Qwen-VL-Chat-7B": (
            39.1,
            37.2,
            34.7,
            40.0,
            22.3,
            44.6,
            57.3,
            52.3,
            14.3,
            26.7,
            59.5,
            35.3,
            62.8,
            13.5,
        ),
        "LLaVA-1.5-7B": (
            38.0,
            2.1,
            37.8,
            45.5,
            31.5,
            46.4,
            50.8,
            32.0,
            11.3,
            24.2,
            62.5,
            0.0,
            0.0,
            6.2,
        ),
    }.items()
)
BENCHMARK = Benchmark(
    name="milebench",
    title="MileBench",
    scale=metrics.SCALE,
    metrics=metrics.METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    published=_published(),
    two_of_each={
        "milebench" if variant == "test" else f"milebench_{variant}": 2
        * sum(has_variant(d, variant) for d in DATASETS)
        for variant in VARIANTS
    },
    published_rows=PUBLISHED_ROWS,
    datasets=DATASETS,
    assets=data.assets,
    check_data=data.check_data,
    provenance=provenance,
    signature=signature,
)
