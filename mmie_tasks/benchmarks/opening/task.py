"""The functions that the OpenING YAMLs name.

A YAML selects samples with ``dataset_name``: ``all``, or a topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.benchmarks.opening import data, metrics
from mmie_tasks.benchmarks.opening import request as requests
from mmie_tasks.benchmarks.opening.benchmark import JUDGED
from mmie_tasks.benchmarks.opening.question import question_parts
from mmie_tasks.benchmarks.opening.record import sample_record
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.benchmarks.question_task import QuestionTask, gold_text, load_task
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.rows import aggregation

if TYPE_CHECKING:
    import datasets


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples: see `load_task`."""
    return load_task(stub.config_name, data.TASKS, _dataset)


def _dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    requests.check_setup()  # the question to the tested model has official texts, too
    return data.dataset(selection, environment)


def _question(doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
    """The question; with ``instruction: false`` in the task file without the official instruction,
    for models that get another one.
    """
    instruction = bool(options.get("instruction", True))
    return question_parts(Sample.from_doc(doc), instruction=instruction)


_TASK = QuestionTask(_question)
doc_to_messages = _TASK.doc_to_messages
doc_to_text = _TASK.doc_to_text
doc_to_visual = _TASK.doc_to_visual
doc_to_target = gold_text  # the judge does not get it


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    built = requests.build_request(sample, results, doc["task"])
    if problem := _TASK.opener.failure(sample.id):
        built = built.withdrawn("bad_image", problem)

    def make_rows(judged: Judged) -> MetricRows:
        signature = JUDGED.logged_signature(doc, built)
        record = sample_record(sample, judged, built.facts, built.answer, signature)
        return metrics.TABLE.rows(metrics.graded_sample(sample, judged.verdicts), record)

    return JUDGED.submit(built, make_rows, metrics.TABLE.names)


percent = aggregation(metrics.SCALE)
