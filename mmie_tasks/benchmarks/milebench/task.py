"""The functions the MileBench YAMLs name.

A task says which samples it wants in ``dataset_name``: ``DocVQA``, ``DocVQA@adv``,
``DocVQA@combined1``, or ``all`` in place of a dataset.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from loguru import logger

from mmie_tasks import __version__
from mmie_tasks.benchmarks.milebench import data as source
from mmie_tasks.benchmarks.milebench import metrics
from mmie_tasks.benchmarks.milebench.benchmark import grade
from mmie_tasks.benchmarks.milebench.context import combined_image, context_limit, load_tokenizer
from mmie_tasks.benchmarks.milebench.metrics import by_dataset, summary, total
from mmie_tasks.benchmarks.milebench.prompts import (
    ImagePlace,
    Prompt,
    Tokenizer,
    Truncation,
    combined,
    interleaved,
)
from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.core.verdict import Mean, mean_of, tally, verdict_of
from mmie_tasks.hub.images import Opener, require

if TYPE_CHECKING:
    import datasets
    from PIL import Image


Doc = Mapping[str, Any]
_OPENER = Opener()  # of this process: what a model could not be shown is not scored
_drawn: dict[str, Path] = {}  # in this process: a sample's combined picture
VERSION = "1-A"  # of every task here: the number moves with the scores, the letter otherwise


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples in place of the stub the YAML loads.

    Data that is missing or broken, and a setting that is wrong, stop the run in words: the runner
    would retry an exception.
    """
    try:
        truncation(os.environ)
        return source.dataset(stub.config_name, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def before_requests(docs: datasets.Dataset) -> None:
    """Look at the header of every image, before anything is generated.

    Called by our hook for models that look at images, with the documents of one task.

    Raises:
        DataMissing: Files are not there or are no images; says how many and names the first.
    """
    wanted: dict[str, str] = {}
    for doc in docs:
        for path in _published(doc) or doc["images"]:
            wanted.setdefault(path, doc["id"])
    hint = "unpack the archive with its images, or unset `MILEBENCH_DATA` to download it"
    require("this MileBench task", wanted, hint)


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn, images opened and at their places."""
    del lmms_eval_specific_kwargs  # chat models need no placeholders
    return user_turn(
        _open(doc, part.index) if isinstance(part, ImagePlace) else part
        for part in _prompt(doc).parts
    )


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images apart.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    return _prompt(doc).text(lambda n: token.replace("{n}", str(n)))


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The images of the question, opened, in the order of their places."""
    return [_open(doc, index) for index in _prompt(doc).images]


def doc_to_target(doc: Doc) -> str:
    """The gold answer, for the log."""
    return str(doc["gold"])


def _prompt(doc: Doc) -> Prompt:
    assemble = combined if doc["variant"] == "combined1" else interleaved
    return assemble(Sample.from_doc(doc), truncation(os.environ))


def _open(doc: Doc, index: int) -> Image.Image:
    """The image at a place of the prompt; a blank where it cannot be opened (see `Opener`)."""
    return _OPENER.open(doc["id"], lambda: _files(doc)[index])


def _files(doc: Doc) -> list[Path]:
    """The files the image places of the prompt count: the sample's own, or the combined picture.

    Where the archive has no combined picture, it is drawn once and kept.
    """
    files = [Path(path) for path in _published(doc) or doc["images"]]
    if doc["variant"] != "combined1" or _published(doc):
        return files
    drawn = combined_image(files, cache_dir(os.environ) / "milebench" / "combined")
    _drawn[doc["id"]] = drawn
    return [drawn]


def _published(doc: Doc) -> list[str]:
    """The combined picture of the archive, where the task wants one and the archive has it."""
    wanted = doc["variant"] == "combined1"
    return [path for path in doc["combined"] if wanted and Path(path).is_file()]


def truncation(environment: Mapping[str, str]) -> Truncation | None:
    """The official truncation, if ``MILEBENCH_TOKENIZER`` and its two companions ask for it.

    Raises:
        SettingWrong: Only some are set, or the tokenizer cannot be loaded.
    """
    limit = context_limit(environment, "MILEBENCH")
    if limit is None:
        return None
    return Truncation(
        tokenizer=cast("Tokenizer", load_tokenizer(limit.tokenizer)),
        max_context_tokens=limit.max_context_tokens,
        tokens_per_image=limit.tokens_per_image,
    )


def process_results(doc: Doc, results: Sequence[object]) -> metrics.Row:
    """The rows of a ``milebench_<dataset>`` task for one answer."""
    sample = Sample.from_doc(doc)
    return metrics.dataset_rows(
        sample,
        _read(sample, results),
        signature(doc),
        image_set=doc["image_set"],
        images=_shown(doc),
    )


def process_results_all(doc: Doc, results: Sequence[object]) -> metrics.Row:
    """The rows of the ``milebench`` task for one answer."""
    sample = Sample.from_doc(doc)
    return metrics.benchmark_rows(
        sample, _read(sample, results), signature(doc), images=_shown(doc)
    )


def _read(sample: Sample, results: Sequence[object]) -> metrics.Reading:
    return grade(sample, results, _OPENER.failure(sample.id))


def _shown(doc: Doc) -> list[str]:
    """The files at the places of the prompt, for the log: a picture is not drawn only for it."""
    if doc["variant"] != "combined1":
        return [doc["images"][index] for index in _prompt(doc).images]
    if drawn := _drawn.get(doc["id"]):
        return [str(drawn)]
    return _published(doc) or list(doc["images"])


def provenance(doc: Doc) -> str:
    """Task version, prompt, readings and data, in one line; saved with the results."""
    limit = context_limit(os.environ, "MILEBENCH")
    prompt = f"official,cut={limit}" if limit else "official"
    return (
        f"task:milebench@{VERSION}|variant:{doc['variant']}|prompt:{prompt}"
        f"|reader:official+robust|data:{doc['data']}"
    )


def signature(doc: Doc) -> str:
    """Everything that moves the number: `provenance` and the version of this package."""
    return f"{provenance(doc)}|pkg:{__version__}"


def coverage(records: Sequence[metrics.Row]) -> float:
    """Scored samples as a fraction of all; prints the run's summary."""
    logger.info(f"MileBench\n{summary(records)}")
    return tally(verdict_of(r["official"]) for r in records).coverage  # type: ignore[arg-type]


def differ(rows: Sequence[metrics.Row]) -> float:
    """How many samples the official and the robust reading score differently."""
    return float(sum(bool(row["differ"]) for row in rows))


def mean(rows: Sequence[metrics.Row]) -> float:
    """Mean points (0 to 1) over the scored samples; NaN below the floor of coverage."""
    return _number(mean_of(tally(map(verdict_of, rows))))


def task_mean(rows: Sequence[metrics.Row]) -> float:
    """Mean over the datasets of the one task the rows are from; NaN unless all are there."""
    return _total(TASK_OF[str(rows[0]["dataset"])], rows)


def _total(name: str, rows: Sequence[metrics.Row]) -> float:
    verdicts = ((str(row["dataset"]), verdict_of(row)) for row in rows)
    return _number(total(name, by_dataset(verdicts)))


def _number(found: Mean) -> float:
    return float("nan") if found.value is None else found.value


def _named(name: str) -> Callable[[Sequence[metrics.Row]], float]:
    def of_total(rows: Sequence[metrics.Row]) -> float:
        return _total(name, rows)

    of_total.__name__ = of_total.__qualname__ = name
    of_total.__doc__ = f"Mean {name!r} of `totals.total`: 0 to 1, NaN unless all parts are there."
    return of_total


real = _named("real")
diag = _named("diag")
temporal = _named("temporal")
semantic = _named("semantic")
needles = _named("needles")
retrieval = _named("retrieval")
tasks12 = _named("tasks12")
datasets26 = _named("datasets26")
