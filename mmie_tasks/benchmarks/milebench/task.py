"""The functions that MileBench's task files name.

A task selects its samples by ``dataset_name``: ``DocVQA``, ``DocVQA@adv``, ``DocVQA@combined1``,
or ``all`` in place of a dataset.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.answers.saved import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.milebench import data, metrics
from mmie_tasks.benchmarks.milebench.metrics import MetricRow
from mmie_tasks.benchmarks.milebench.prompts import PromptImage, QuestionPrompt, combined, interleaved
from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample
from mmie_tasks.core import __version__
from mmie_tasks.core.coverage import coverage_floor, floor_signature
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.hub.images import ImageOpener, check_images
from mmie_tasks.runs.benchmark import Doc, LoggedSample
from mmie_tasks.runs.rows import Row, aggregation

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


def check_data(docs: datasets.Dataset) -> None:
    """Check the header of every image of one task, before anything is generated.

    Raises:
        DataMissing: Files do not exist or are no images; says how many and names the first.
    """
    owners: dict[str, str] = {}
    for doc in docs:
        for path in _published_image(doc) or doc["images"]:
            owners.setdefault(path, doc["id"])
    hint = "unpack the archive with its images, or unset `MILEBENCH_DATA` to download it"
    check_images("this MileBench task", owners, hint)


def doc_to_messages(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> list[dict[str, object]]:
    """The question as one user turn, with opened images at their placeholders."""
    del lmms_eval_specific_kwargs  # chat models need no placeholders
    return user_turn(
        _open_image(doc, part.index) if isinstance(part, PromptImage) else part for part in _prompt(doc).parts
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
        files = [Path(path) for path in _published_image(doc) or doc["images"]]
        if doc["variant"] != "combined1" or _published_image(doc):
            return files[index]
        _drawn_images[doc["id"]] = data.combined_image(files, cache_dir(os.environ) / "milebench" / "combined")
        return _drawn_images[doc["id"]]

    return _OPENER.open(doc["id"], find)


def _published_image(doc: Doc) -> list[str]:
    """The combined image of the archive, if the task needs one and the archive has it."""
    is_combined = doc["variant"] == "combined1"
    return [path for path in doc["combined"] if is_combined and Path(path).is_file()]


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, MetricRow]:
    """The rows of a ``milebench_<dataset>`` task for one answer."""
    graded, record = _score(doc, results)
    return metrics.DATASET_TABLE.rows(graded, record, image_set=doc["image_set"])  # samples with the same images


def process_results_all(doc: Doc, results: Sequence[object]) -> Mapping[str, MetricRow]:
    """The rows of the ``milebench`` task for one answer."""
    return metrics.TABLE.rows(*_score(doc, results))


def _score(doc: Doc, results: Sequence[object]) -> tuple[LoggedSample, MetricRow]:
    sample = Sample.from_doc(doc)
    verdicts = score_answer(sample, results, _OPENER.failure(sample.id))
    if doc["variant"] != "combined1":
        images = [doc["images"][index] for index in _prompt(doc).images]
    elif drawn := _drawn_images.get(sample.id):
        images = [str(drawn)]
    else:  # no combined image is drawn for the log
        images = _published_image(doc) or list(doc["images"])
    record = metrics.sample_record(sample, verdicts, signature(doc), images)
    return metrics.graded_sample(sample, verdicts), record


def score_answer(sample: Sample, results: Sequence[object], image_problem: str | None = None) -> Verdicts:
    """Score the answer to one sample with both readers.

    Args:
        sample: The question.
        results: What the runner got from the tested model. Several results (a model that answers
            in rounds) are not a text.
        image_problem: Why the model could not be shown an image; None if it saw all of them.
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
    return (
        f"task:milebench@{VERSION}|variant:{doc['variant']}|prompt:official|reader:official+robust|data:{doc['data']}"
    )


def signature(doc: Doc) -> str:
    """Everything that can move the score: `provenance` and the version of this package."""
    return f"{provenance(doc)}{floor_signature(os.environ)}|pkg:{__version__}"


def task_percent(rows: Sequence[Row]) -> float:
    """Mean over the datasets of the rows' task, in percent; NaN unless all of them are in the run."""
    datasets = (str(row["group"]) for row in rows if row)
    task = next((TASK_OF[dataset] for dataset in datasets), None)
    return math.nan if task is None else aggregation(metrics.SCALE, metrics.METRIC_OF[task].weights)(rows)


percent = aggregation(metrics.SCALE)
real = aggregation(metrics.SCALE, metrics.METRIC_OF["real"].weights)
diag = aggregation(metrics.SCALE, metrics.METRIC_OF["diag"].weights)
