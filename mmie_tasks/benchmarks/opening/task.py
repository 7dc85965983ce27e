"""The functions that the OpenING YAMLs name.

A YAML selects samples with ``dataset_name``: ``all``, or a topic.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.benchmarks.opening import data, metrics
from mmie_tasks.benchmarks.opening import request as requests
from mmie_tasks.benchmarks.opening.benchmark import JUDGE, graded_request, provenance, signature
from mmie_tasks.benchmarks.opening.record import sample_record
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.options import coverage_floor
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.judging.batch import PendingSample
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.record.panel import Judged
from mmie_tasks.record.rows import aggregation, plain_score
from mmie_tasks.record.signature import signature_text

if TYPE_CHECKING:
    import datasets
    from PIL import Image

_OPENER = ImageOpener()  # of this process: a sample whose picture could not be opened has no score


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    selection = stub.config_name
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        requests.check_setup()  # the question to the tested model has official texts, too
        samples = data.dataset(selection, os.environ)
        return samples.add_column("task", [data.TASKS[selection]] * len(samples))
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn with opened pictures, in order."""
    parts = _question(doc, lmms_eval_specific_kwargs)
    return user_turn([_open(doc, part) if isinstance(part, Path) else part for part in parts])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and pictures separately.

    ``image_token`` (default ``<image>``) marks a picture; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    count, texts = 0, []
    for part in _question(doc, lmms_eval_specific_kwargs):
        count += isinstance(part, Path)
        texts.append(part if isinstance(part, str) else token.replace("{n}", str(count)))
    return "".join(texts)


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The pictures of the question, opened, in order."""
    return [_open(doc, part) for part in _question(doc, None) if isinstance(part, Path)]


def doc_to_target(doc: Doc) -> str:
    """The text of the gold answer, for the log. The judge does not get it."""
    return "\n".join(segment["text"] for segment in doc["gold"] if segment["text"])


def _question(doc: Doc, specific: Mapping[str, Any] | None) -> list[str | Path]:
    """The question; with ``instruction: false`` in the task file without the official instruction,
    for models that get another one.
    """
    instruction = bool((specific or {}).get("instruction", True))
    return requests.question_parts(Sample.from_doc(doc), instruction=instruction)


def _open(doc: Doc, path: Path) -> Image.Image:
    """The picture; a blank one if it cannot be opened (see `ImageOpener`)."""
    return _OPENER.open(doc["id"], lambda: path)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    built = requests.build_request(sample, results, doc["task"])
    if problem := _OPENER.failure(sample.id):
        built = built.withdrawn("bad_image", problem)

    def make_rows(judged: Judged) -> MetricRows:
        signature = _shown_signature(doc, built.answer_signature)
        record = sample_record(sample, judged, built.facts, built.answer, signature)
        return metrics.TABLE.rows(metrics.graded_sample(sample, judged.verdicts), record)

    request = graded_request(built)
    if request is None:
        return make_rows(Judged(verdicts=Verdicts.unscored(built.reason, built.detail)))
    pending = PendingSample(request=request, make_rows=make_rows, metrics=metrics.TABLE.names)
    return JUDGE.submit(pending, plain=plain_score)


def _shown_signature(doc: Doc, of_answer: str | None) -> str:
    """For the record of a judged sample."""
    try:
        shown = signature(doc)
    except MmieTasksError as error:  # an unusable judge leaves samples unscored
        why = signature_text(judge="unknown", why=str(error).splitlines()[0])
        shown = signature_text(why, provenance(doc))
    return shown if of_answer is None else signature_text(shown, answers=of_answer)


percent = aggregation(metrics.SCALE)
