"""MileBench: its samples in a run and in a log, its assets and its published scores.

A task file selects samples with ``dataset_name``: ``DocVQA``, ``DocVQA@adv``, ``DocVQA@combined1``,
or ``all`` in place of a dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment
from mmie_tasks.benchmarks.milebench import data, metrics, official, robust
from mmie_tasks.benchmarks.milebench.prompts import question_content
from mmie_tasks.benchmarks.milebench.published import PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    TASK_OF,
    VARIANT_OF,
    MileSample,
    datasets_in,
)
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.record import Record
from mmie_tasks.record.rows import RunnerTable, aggregation

if TYPE_CHECKING:
    from datasets import Dataset

_READERS = {
    "rouge": (official.score_rouge, robust.read_rouge),
    "needle": (official.score_needle, robust.read_needle),
    "substring": (official.score_substring, robust.read_phrase),
}


def scored_fields(sample: MileSample) -> dict[str, Any]:
    """What the score of an answer to a sample depends on."""
    return {"rule": sample.rule, "gold": sample.gold, "choices": list(sample.choices)}


class MileBench(Benchmark):
    """29 datasets with 2 to 109 images a sample, scored by rule."""

    name = "milebench"
    title = "MileBench"
    version = "5-E"
    scale = metrics.SCALE
    metrics = metrics.METRICS
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
        return question_content(MileSample.from_doc(doc), combined=doc["variant"] == "combined1")

    @override
    def doc_to_target(self, doc: Doc) -> str:
        return str(doc["gold"])

    @override
    def fields(self, doc: Doc) -> Mapping[str, Any]:
        return scored_fields(MileSample.from_doc(doc))

    @override
    def groups(self, doc: Doc) -> Mapping[str, str]:
        sample = MileSample.from_doc(doc)
        return {"dataset": sample.dataset, "task": TASK_OF[sample.dataset], "level": sample.level}

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
    def facts(self, doc: Doc, record: Record) -> Facts:
        """The rule, the number of images, and the option that the answer evidently chose; of a
        needle the length of its haystack in images and, if the question has it, its depth, 0 to 1.
        """
        sample, robust = MileSample.from_doc(doc), record.robust
        images = float(sum(bool(segment.image) for segment in record.question))
        read = robust.reading if isinstance(robust, Scored) else ""
        option = read if sample.rule == "choice" else ""
        facts = facts_of(rule=sample.rule, images=images, option=option)
        if sample.rule != "needle":
            return facts
        prompt = self.doc_to_text(doc)
        position = prompt.find(sample.gold) if sample.gold else -1
        depth = {} if position < 0 else {"needle_depth": position / len(prompt)}
        return {**facts, "needle_length": images, **depth}

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
