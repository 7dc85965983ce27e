"""MileBench: its samples in a run and in a log, its assets and its published scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import NOT_IN_ANSWER, Benchmark, Doc, Environment, Prepared
from mmie_tasks.benchmarks.milebench import data, metrics
from mmie_tasks.benchmarks.milebench.prompts import question_content
from mmie_tasks.benchmarks.milebench.published import PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.milebench.record import MileRecord, record_fields
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANT_OF, Sample, datasets_in
from mmie_tasks.benchmarks.milebench.scoring import facts_of_answer, score_answer
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.hub.asset import Asset
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.record import NO_REPLY, BadRecord, Line
from mmie_tasks.record.rows import RunnerTable

if TYPE_CHECKING:
    from datasets import Dataset


class MileBench(Benchmark[MileRecord]):
    """29 datasets with 2 to 109 images a sample, scored by rule."""

    name = "milebench"
    title = "MileBench"
    version = "5-C"
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
    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared[MileRecord]:
        sample = Sample.from_doc(doc)
        verdicts = score_answer(sample, results)
        record = MileRecord.of(
            verdicts,
            **record_fields(sample),
            images=[str(part) for part in self.question(doc, {}) if isinstance(part, Path)],
            facts=facts_of_answer(sample, results, verdicts),
        )
        return Prepared(record=record, request=None)

    @override
    def table(self, doc: Doc) -> RunnerTable:
        return metrics.TABLE if doc["selection"] == "all" else metrics.DATASET_TABLE

    @override
    def row_fields(self, doc: Doc) -> Mapping[str, object]:
        """Samples with the same images are not independent."""
        return {"image_set": doc["image_set"]}

    @override
    def regraded(self, record: MileRecord, line: Line) -> MileRecord:
        """The record with new verdicts on the saved answer."""
        reasons = [v.reason for v in (record.official, record.robust) if isinstance(v, Unscored)]
        if len(reasons) == 2 and NOT_IN_ANSWER.issuperset(reasons):
            return record
        answer = line.get("filtered_resps")
        if not isinstance(answer, str):
            raise BadRecord(NO_REPLY)
        return record.graded(Judged(verdicts=score_answer(record.released, [answer])))

    @override
    def provenance(self, doc: Doc) -> Mapping[str, object]:
        fields = super().provenance(doc)
        more = {"task": fields["task"], "variant": doc["variant"], "prompt": "official"}
        return {**more, **fields}


BENCHMARK = MileBench()
