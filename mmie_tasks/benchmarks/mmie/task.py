"""The functions that the MMIE YAMLs name.

A YAML selects samples with ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr`` or ``1k``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.benchmarks.mmie import data, metrics
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.benchmark import JUDGE, grade, picture_limit, provenance, signature
from mmie_tasks.benchmarks.mmie.record import sample_record
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.options import coverage_floor
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.interleaved.protocols import INSTRUCT
from mmie_tasks.judging.batch import PendingSample
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record.panel import Judged
from mmie_tasks.record.rows import aggregation, plain_score
from mmie_tasks.record.signature import signature_text

if TYPE_CHECKING:
    import datasets
    from PIL import Image

WHOLE_TASKS = ("mmie", "mmie_1k")
"""The tasks with samples of every category."""
_OPENER = ImageOpener()  # of this process: a sample whose image could not be opened is not scored


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    selection = stub.config_name
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        samples = data.dataset(selection, os.environ)
        return samples.add_column("task", [data.TASKS[selection]] * len(samples))
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn with opened images, in order."""
    before, after = _affixes(doc, lmms_eval_specific_kwargs)
    parts = [_open(doc, part) if isinstance(part, Path) else part for part in _question(doc)]
    return user_turn([before, *parts, after])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images separately.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    before, after = _affixes(doc, lmms_eval_specific_kwargs)
    count, texts = 0, []
    for part in _question(doc):
        count += isinstance(part, Path)
        texts.append(part if isinstance(part, str) else token.replace("{n}", str(count)))
    return f"{before}{''.join(texts)}{after}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The images of the question, opened, in order."""
    return [_open(doc, part) for part in _question(doc) if isinstance(part, Path)]


def doc_to_target(doc: Doc) -> str:
    """The text of the gold answer, for the log. The judge gets it for MSR only."""
    return "\n".join(segment["text"] for segment in doc["gold"] if segment["text"])


def _question(doc: Doc) -> list[str | Path]:
    return requests.question_parts(Sample.from_doc(doc))


def _affixes(doc: Doc, specific: Mapping[str, Any] | None) -> tuple[str, str]:
    """The texts before and after a question; with ``instruct: true`` in the task file, the words
    that ask for pictures are after it.
    """
    options = specific or {}
    after = str(options.get("post_prompt", ""))
    if options.get("instruct") and (limit := picture_limit(doc)):
        after += f"\n\n{INSTRUCT.instruction(limit)}"
    return str(options.get("pre_prompt", "")), after


def _open(doc: Doc, path: Path) -> Image.Image:
    """The image; a blank one if it cannot be opened (see `ImageOpener`)."""
    return _OPENER.open(doc["id"], lambda: path)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    built = requests.build_request(sample, results, doc["task"])
    if problem := _OPENER.failure(sample.id):
        built = built.withdrawn("bad_image", problem)
    table = metrics.TABLE if doc["task"] in WHOLE_TASKS else metrics.CATEGORY_TABLE

    def make_rows(judged: Judged) -> MetricRows:
        facts = requests.with_usage(built.facts, judged.result.reply)
        record = sample_record(sample, judged, facts, built.answer, _shown_signature(doc, built))
        return table.rows(metrics.graded_sample(sample, judged.verdicts), record)

    if built.request is None:
        return make_rows(Judged(verdicts=Verdicts.unscored(built.reason, built.detail)))
    request = GradedRequest(request=built.request, grade=grade)
    return JUDGE.submit(
        PendingSample(request=request, make_rows=make_rows, metrics=table.names), plain=plain_score
    )


def _shown_signature(doc: Doc, built: requests.BuiltRequest) -> str:
    """For the record of a judged sample: a judge in this process fixes its signature when it
    starts.
    """
    try:
        shown_signature = signature(doc)
    except MmieTasksError as error:  # an unusable judge leaves samples unscored
        why = signature_text(judge="unknown", why=str(error).splitlines()[0])
        shown_signature = signature_text(why, provenance(doc))
    if built.answer_signature is not None:
        shown_signature = signature_text(shown_signature, answers=built.answer_signature)
    return shown_signature


percent = aggregation(metrics.SCALE)
