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

from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.benchmarks.milebench import data, metrics
from mmie_tasks.benchmarks.milebench.benchmark import signature
from mmie_tasks.benchmarks.milebench.combined_image import combined_image
from mmie_tasks.benchmarks.milebench.prompts import (
    PromptImage,
    QuestionPrompt,
    combined,
    interleaved,
)
from mmie_tasks.benchmarks.milebench.record import sample_record
from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample
from mmie_tasks.benchmarks.milebench.scoring import facts_of_answer, score_answer
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.run_memory import RunMemory
from mmie_tasks.core.settings import coverage_floor
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.record.rows import Row, aggregation, group_of
from mmie_tasks.record.sample import LoggedSample

if TYPE_CHECKING:
    import datasets
    from PIL import Image

_OPENER = ImageOpener()  # remembers the samples with an image that the model could not be shown
_DRAWN: RunMemory[Path] = RunMemory()  # the combined image of a sample, if this run has drawn it


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples in place of the stub that the task file loads.

    Missing or broken data and invalid settings stop the run by SystemExit, because the runner
    would retry any other exception.
    """
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        return data.dataset(stub.config_name, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from error


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
        drawn = combined_image(files, cache_dir(os.environ) / "milebench" / "combined")
        _DRAWN.remember(doc["id"], drawn)
        return drawn

    return _OPENER.open(doc["id"], find)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, Row]:
    """The rows of a ``milebench_<dataset>`` task for one answer."""
    graded, record = _score(doc, results)
    # Samples of one `image_set` have the same images.
    return metrics.DATASET_TABLE.rows(graded, record, image_set=doc["image_set"])


def process_results_all(doc: Doc, results: Sequence[object]) -> Mapping[str, Row]:
    """The rows of the ``milebench`` task for one answer."""
    return metrics.TABLE.rows(*_score(doc, results))


def _score(doc: Doc, results: Sequence[object]) -> tuple[LoggedSample, Row]:
    sample = Sample.from_doc(doc)
    verdicts = score_answer(sample, results, _OPENER.failure(sample.id))
    if doc["variant"] != "combined1":
        images = [doc["images"][index] for index in _prompt(doc).images]
    elif drawn := _DRAWN.of(sample.id):
        images = [str(drawn)]
    else:  # no combined image is drawn for the log
        images = data.published_image(doc) or list(doc["images"])
    facts = facts_of_answer(sample, results, verdicts)
    record = sample_record(sample, verdicts, signature(doc), images, facts)
    return metrics.graded_sample(sample, verdicts), record


def task_percent(rows: Sequence[Row]) -> float:
    """Mean over the datasets of the rows' task, in percent; NaN unless all of them are in the
    run.
    """
    datasets = (group_of(row) for row in rows if row)
    task = next((TASK_OF[dataset] for dataset in datasets), None)
    return (
        math.nan
        if task is None
        else aggregation(metrics.SCALE, metrics.METRIC_OF[task].weights)(rows)
    )


percent = aggregation(metrics.SCALE)
real = aggregation(metrics.SCALE, metrics.METRIC_OF["real"].weights)
diag = aggregation(metrics.SCALE, metrics.METRIC_OF["diag"].weights)
