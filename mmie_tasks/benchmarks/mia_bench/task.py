"""The functions that MIA-Bench's YAML names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.answers.failures import failure_of, not_text_content, null_failure
from mmie_tasks.answers.thinking import without_thinking
from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.benchmarks.mia_bench import data, metrics
from mmie_tasks.benchmarks.mia_bench.benchmark import JUDGE, signature
from mmie_tasks.benchmarks.mia_bench.record import sample_record
from mmie_tasks.benchmarks.mia_bench.request import graded_request, last_reply
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.settings import coverage_floor
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.judging.batch import PendingSample
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.rows import aggregation, plain_score

if TYPE_CHECKING:
    import datasets
    from PIL import Image

_OPENER = ImageOpener()  # a sample whose image could not be opened is not scored
_SKIPPED = "error"  # the notebook leaves out an answer that is only this word (cell 11)


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:  # noqa: ARG001 - the runner's signature
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        return data.dataset(os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from error


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The image, then the instruction, as one user turn."""
    return user_turn([_open(doc), doc_to_text(doc, lmms_eval_specific_kwargs)])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The instruction, between ``pre_prompt`` and ``post_prompt`` as in the runner's own task."""
    options = lmms_eval_specific_kwargs or {}
    return f"{options.get('pre_prompt', '')}{doc['instruction']}{options.get('post_prompt', '')}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The image, opened."""
    return [_open(doc)]


def doc_to_target(doc: Doc) -> str:  # noqa: ARG001 - the runner's signature
    """Empty: an instruction has no gold answer."""
    return ""


def _open(doc: Doc) -> Image.Image:
    return _OPENER.open(doc["id"], lambda: Path(doc["image"]))


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged, and
    thinking is not part of an answer.
    """
    sample = Sample.from_doc(doc)
    answers = [without_thinking(result) for result in results]

    def make_rows(judged: Judged) -> MetricRows:
        reply = last_reply(sample, judged)
        record = sample_record(
            sample, judged, reply, image=doc["image"], signature=signature(doc), results=results
        )
        return metrics.TABLE.rows(metrics.graded_sample(sample, judged.verdicts), record)

    if (verdicts := _unscored(sample, answers)) is not None:
        return make_rows(Judged(verdicts=verdicts))
    request = graded_request(sample, str(answers[0]), [Path(doc["image"])])
    pending = PendingSample(request=request, make_rows=make_rows, metrics=metrics.TABLE.names)
    return JUDGE.submit(pending, plain=plain_score)


def _unscored(sample: Sample, answers: Sequence[object]) -> Verdicts | None:
    """The verdicts on an answer that is not sent to the judge; None for every other.

    The official script leaves out an answer that is only the word `_SKIPPED`; it judges an empty
    one.
    """
    answer = answers[0] if len(answers) == 1 else None
    if not isinstance(answer, str):
        return Verdicts.unscored("not_text", f"{len(answers)} answers instead of one text")
    if (content := not_text_content(answer)) is not None:
        return Verdicts.unscored("not_text", content[:80])
    if answer == _SKIPPED:
        return Verdicts.unscored("no_answer", f"the official script skips the answer `{_SKIPPED}`")
    sample_texts = (sample.instruction, *sample.components)
    if failure := failure_of(answer) or null_failure(answer, sample_texts):
        return Verdicts.unscored("no_answer", failure)
    if problem := _OPENER.failure(sample.id):
        return Verdicts.unscored("bad_image", problem)
    return None


percent = aggregation(metrics.SCALE)
