"""The functions that the MMIE YAMLs name.

A YAML selects samples with ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr`` or ``1k``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.benchmarks.mmie import data, metrics
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.benchmark import JUDGED, picture_limit
from mmie_tasks.benchmarks.mmie.question import question_parts
from mmie_tasks.benchmarks.mmie.record import sample_record
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.benchmarks.question_task import QuestionTask, gold_text, load_task
from mmie_tasks.interleaved.protocols import INSTRUCT
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.rows import aggregation

if TYPE_CHECKING:
    import datasets

WHOLE_TASKS = ("mmie", "mmie_1k")
"""The tasks with samples of every category."""


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples: see `load_task`."""
    return load_task(stub.config_name, data.TASKS, data.dataset)


def _question(doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
    """The question between ``pre_prompt`` and ``post_prompt``; with ``instruct: true``, the words
    that ask for pictures are after it.
    """
    after = str(options.get("post_prompt", ""))
    if options.get("instruct") and (limit := picture_limit(doc)):
        after += f"\n\n{INSTRUCT.instruction(limit)}"
    parts = question_parts(Sample.from_doc(doc))
    return [str(options.get("pre_prompt", "")), *parts, after]


_TASK = QuestionTask(_question)
doc_to_messages = _TASK.doc_to_messages
doc_to_text = _TASK.doc_to_text
doc_to_visual = _TASK.doc_to_visual
doc_to_target = gold_text  # the judge gets it for MSR only


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    built = requests.build_request(sample, results, doc["task"])
    if problem := _TASK.opener.failure(sample.id):
        built = built.withdrawn("bad_image", problem)
    table = metrics.TABLE if doc["task"] in WHOLE_TASKS else metrics.CATEGORY_TABLE

    def make_rows(judged: Judged) -> MetricRows:
        facts = built.facts.with_usage(judged.result.reply)
        signature = JUDGED.logged_signature(doc, built)
        record = sample_record(sample, judged, facts, built.answer, signature)
        return table.rows(metrics.graded_sample(sample, judged.verdicts), record)

    return JUDGED.submit(built, make_rows, table.names)


percent = aggregation(metrics.SCALE)
