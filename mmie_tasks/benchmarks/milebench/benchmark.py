"""MileBench: its samples in a run and in a log, its assets and its published scores.

A task file selects samples with ``dataset_name``: ``DocVQA``, ``DocVQA@adv``, ``DocVQA@combined1``,
or ``all`` in place of a dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment, Prepared
from mmie_tasks.benchmarks.milebench import data, metrics, official, robust
from mmie_tasks.benchmarks.milebench.prompts import question_content
from mmie_tasks.benchmarks.milebench.published import PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.milebench.record import MileRecord, record_fields
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANT_OF, Sample, datasets_in
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.record.rows import RunnerTable, aggregation

if TYPE_CHECKING:
    from datasets import Dataset

_READERS = {
    "rouge": (official.score_rouge, robust.read_rouge),
    "needle": (official.score_needle, robust.read_needle),
    "substring": (official.score_substring, robust.read_phrase),
}


class MileBench(Benchmark[MileRecord]):
    """29 datasets with 2 to 109 images a sample, scored by rule."""

    name = "milebench"
    title = "MileBench"
    version = "5-D"
    scale = metrics.SCALE
    metrics = metrics.METRICS
    record = MileRecord
    published = PUBLISHED_SAMPLES
    two_of_each: ClassVar[Mapping[str, int]] = {
        task: 2 * len(datasets_in(variant)) for task, variant in VARIANT_OF.items()
    }
    published_rows = PUBLISHED_ROWS
    datasets = DATASETS

    @override
    def documents(self, selection: str, environment: Environment) -> Dataset:
        return data.dataset(selection, environment)

    @override
    def check_data(self, docs: Any) -> None:
        data.check_data(docs)

    @override
    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
        return data.assets(tasks, environment)

    @override
    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        """Texts and image files; in the variant ``combined1``, one image and a text."""
        return question_content(Sample.from_doc(doc), combined=doc["variant"] == "combined1")

    @override
    def doc_to_target(self, doc: Doc) -> str:
        return str(doc["gold"])

    @override
    def fields(self, doc: Doc) -> Mapping[str, Any]:
        images = [str(part) for part in self.question(doc, {}) if isinstance(part, Path)]
        return {**record_fields(Sample.from_doc(doc)), "images": images}

    @override
    def score(self, sample: Mapping[str, Any], answer: str) -> Verdicts:
        """Both verdicts, 0 to 1, by the rule of the dataset: the branches of ``main`` in the
        official ``evaluate.py`` at 9583e1f, and what each intends.
        """
        rule, gold = sample["rule"], sample["gold"]
        if rule == "choice":
            return Verdicts(
                official=official.score_choice(gold, answer, sample["choices"]),
                robust=robust.read_choice(gold, answer, sample["choices"]),
            )
        score_officially, read = _READERS[rule]
        return Verdicts(official=score_officially(gold, answer), robust=read(gold, answer))

    @override
    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared[MileRecord]:
        """Many samples may have one chosen option as their answer, so it is not noted."""
        prepared = super().prepared(doc, results)
        record = prepared.record
        if record.rule == "choice" and isinstance(record.robust, Scored) and record.robust.reading:
            facts = replace(record.facts, short_text=None)
            return Prepared(record=record.model_copy(update={"facts": facts}), request=None)
        return prepared

    @override
    def table(self, doc: Doc) -> RunnerTable:
        return metrics.TABLE if doc["selection"] == "all" else metrics.DATASET_TABLE

    @override
    def row_fields(self, doc: Doc) -> Mapping[str, object]:
        """Samples with the same images are not independent."""
        return {"image_set": doc["image_set"]}

    @override
    def provenance(self, doc: Doc) -> Mapping[str, object]:
        fields = super().provenance(doc)
        more = {"task": fields["task"], "variant": doc["variant"], "prompt": "official"}
        return {**more, **fields}


BENCHMARK = MileBench()

# The functions that the task files name.
process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
real = aggregation(BENCHMARK.scale, metrics.METRIC_OF["real"].weights)
diag = aggregation(BENCHMARK.scale, metrics.METRIC_OF["diag"].weights)
