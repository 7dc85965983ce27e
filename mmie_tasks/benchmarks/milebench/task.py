"""The functions the MileBench YAMLs name.

A task says which samples it wants in ``dataset_name``: ``DocVQA``, ``DocVQA@adv``,
``DocVQA@combined1``, or ``all`` in place of a dataset.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from loguru import logger

from mmie_tasks import __version__
from mmie_tasks.answers.sentinels import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.milebench.prompts import (
    ImagePlace,
    Prompt,
    Tokenizer,
    Truncation,
    combined,
    interleaved,
)
from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample
from mmie_tasks.benchmarks.milebench.scoring import metrics
from mmie_tasks.benchmarks.milebench.scoring.summary import summary
from mmie_tasks.benchmarks.milebench.scoring.totals import Mean, by_dataset, mean_of, total
from mmie_tasks.errors import DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.messages import user_turn
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources import milebench as source
from mmie_tasks.sources.collage import combined_image
from mmie_tasks.sources.images import open_rgb
from mmie_tasks.verdict import tally

if TYPE_CHECKING:
    import datasets
    from PIL import Image

Doc = Mapping[str, Any]
VERSION = "1-A"  # of every task here: the number moves with the scores, the letter otherwise


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples in place of the stub the YAML loads.

    Data that is missing or broken stops the run in words: the runner would retry an exception.
    """
    try:
        return source.dataset(stub.config_name, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def before_requests(docs: datasets.Dataset) -> None:
    """Check that the images are there, before anything is generated.

    Called by our hook for models that look at images, with the documents of one task.

    Raises:
        DataMissing: Files are not there; says how many and names the first.
    """
    truncation()  # a wrong setting stops here as well
    rows = zip(docs["id"], docs["images"], strict=True)
    wanted = ((i, path) for i, row in rows for path in row)
    missing = [(i, path) for i, path in wanted if not Path(path).is_file()]
    if missing:
        first, path = missing[0]
        raise DataMissing(
            f"{len(missing)} images of MileBench are missing, the first of them "
            f"`{path}` of sample {first}.",
            hint="unpack the archive with its images, or unset `MILEBENCH_DATA` to download it",
        )


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn, images opened and at their places."""
    del lmms_eval_specific_kwargs  # chat models need no placeholders
    prompt, files = _prompt(doc), _files(doc)
    return user_turn(
        open_rgb(files[part.index]) if isinstance(part, ImagePlace) else part
        for part in prompt.parts
    )


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images apart.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    return _prompt(doc).text(lambda n: token.replace("{n}", str(n)))


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The images of the question, opened, in the order of their places."""
    files = _files(doc)
    return [open_rgb(files[index]) for index in _prompt(doc).images]


def doc_to_target(doc: Doc) -> str:
    """The gold answer, for the log."""
    return str(doc["gold"])


def _prompt(doc: Doc) -> Prompt:
    assemble = combined if doc["variant"] == "combined1" else interleaved
    return assemble(Sample.from_doc(doc), truncation())


def _files(doc: Doc) -> list[Path]:
    """The files the image places of the prompt count: the sample's own, or the combined picture.

    Where the archive has no combined picture, it is drawn once and kept.
    """
    images = [Path(path) for path in doc["images"]]
    if doc["variant"] != "combined1":
        return images
    published = [Path(path) for path in doc["combined"]]
    if published and published[0].is_file():
        return published
    return [combined_image(images, cache_dir(os.environ) / "milebench" / "combined")]


def truncation() -> Truncation | None:
    """The official truncation, if the environment asks for it (see `truncation_settings`)."""
    settings = truncation_settings(os.environ)
    return _truncation(*settings) if settings else None


def truncation_settings(environment: Mapping[str, str]) -> tuple[str, int, int] | None:
    """Tokenizer, context length and tokens per image, or None when no variable is set.

    ``MILEBENCH_TOKENIZER`` (a name on the Hub or a folder), ``MILEBENCH_MAX_CONTEXT_TOKENS`` and
    ``MILEBENCH_TOKENS_PER_IMAGE``; all three or none.

    Raises:
        SettingWrong: Only some are set, or a number is none.
    """
    names = ("MILEBENCH_TOKENIZER", "MILEBENCH_MAX_CONTEXT_TOKENS", "MILEBENCH_TOKENS_PER_IMAGE")
    values = [environment.get(name, "") for name in names]
    if not any(values):
        return None
    tokenizer, context, per_image = values
    if not tokenizer or not context.isdecimal() or not per_image.isdecimal():
        raise SettingWrong(
            "MileBench's truncation needs a tokenizer and two whole numbers, and found "
            + ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True)),
            hint="set all three, or none for no truncation",
        )
    return tokenizer, int(context), int(per_image)


@lru_cache(maxsize=1)
def _truncation(tokenizer: str, max_context_tokens: int, tokens_per_image: int) -> Truncation:
    from transformers import AutoTokenizer

    return Truncation(
        tokenizer=cast("Tokenizer", AutoTokenizer.from_pretrained(tokenizer)),
        max_context_tokens=max_context_tokens,
        tokens_per_image=tokens_per_image,
    )


def process_results(doc: Doc, results: Sequence[object]) -> metrics.Row:
    """The rows of a ``milebench_<dataset>`` task for one answer."""
    sample = Sample.from_doc(doc)
    return metrics.dataset_rows(
        sample, _read(sample, results), signature(doc), image_set=doc["image_set"]
    )


def process_results_all(doc: Doc, results: Sequence[object]) -> metrics.Row:
    """The rows of the ``milebench`` task for one answer."""
    sample = Sample.from_doc(doc)
    return metrics.benchmark_rows(sample, _read(sample, results), signature(doc))


def _read(sample: Sample, results: Sequence[object]) -> metrics.Reading:
    """One answer, read both ways; several (a model that answers in rounds) are no text."""
    answer = results[0] if len(results) == 1 else list(results)
    if isinstance(answer, str) and answer.startswith(NOT_TEXT):
        return metrics.read(sample, json.loads(answer.removeprefix(NOT_TEXT)))
    return metrics.read(sample, answer, failure_of(answer))


def signature(doc: Doc) -> str:
    """Everything that moves the number, in one line."""
    cut = truncation_settings(os.environ)
    prompt = "official" if cut is None else f"official,cut={cut[1]}x{cut[2]}@{cut[0]}"
    return (
        f"task:milebench@{VERSION}|variant:{doc['variant']}|prompt:{prompt}"
        f"|reader:official+robust|data:{doc['data']}|pkg:{__version__}"
    )


def coverage(records: Sequence[metrics.Row]) -> float:
    """Scored samples as a fraction of all; prints the run's summary."""
    logger.info(f"MileBench\n{summary(records)}")
    return tally(metrics.verdict_of(r["official"]) for r in records).coverage  # type: ignore[arg-type]


def differ(rows: Sequence[metrics.Row]) -> float:
    """How many samples the official and the robust reading score differently."""
    return float(sum(bool(row["differ"]) for row in rows))


def mean(rows: Sequence[metrics.Row]) -> float:
    """Mean points (0 to 1) over the scored samples; NaN below the floor of coverage."""
    return _number(mean_of(tally(map(metrics.verdict_of, rows))))


def task_mean(rows: Sequence[metrics.Row]) -> float:
    """Mean over the datasets of the one task the rows are from; NaN unless all are there."""
    return _total(TASK_OF[str(rows[0]["dataset"])], rows)


def _total(name: str, rows: Sequence[metrics.Row]) -> float:
    verdicts = ((str(row["dataset"]), metrics.verdict_of(row)) for row in rows)
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
