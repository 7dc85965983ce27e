"""MileBench: its samples in a run and in a log, its assets and its published scores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import (
    NOT_IN_ANSWER,
    Benchmark,
    Doc,
    Environment,
    Options,
    Prepared,
)
from mmie_tasks.benchmarks.milebench import data, metrics
from mmie_tasks.benchmarks.milebench.combined_image import combined_image
from mmie_tasks.benchmarks.milebench.prompts import (
    PromptImage,
    QuestionPrompt,
    combined,
    interleaved,
)
from mmie_tasks.benchmarks.milebench.published import PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.milebench.record import MileRecord, record_fields
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANTS, Sample, selections, task_name
from mmie_tasks.benchmarks.milebench.scoring import facts_of_answer, score_answer
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.run_memory import RunMemory
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.hub.asset import Asset
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.record import NO_REPLY, BadRecord, Line
from mmie_tasks.record.rows import Row

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image


class MileBench(Benchmark[MileRecord]):
    """29 datasets with 2 to 109 images a sample, scored by rule."""

    name = "milebench"
    title = "MileBench"
    version = "4-B"
    scale = metrics.SCALE
    metrics = metrics.METRICS
    record = MileRecord
    published = PUBLISHED_SAMPLES
    two_of_each: ClassVar[Mapping[str, int]] = {
        task_name("all", variant): 2 * len(selections(variant)["all"]) for variant in VARIANTS
    }
    published_rows = PUBLISHED_ROWS
    datasets = DATASETS

    def __init__(self) -> None:
        super().__init__()
        self._drawn: RunMemory[Path] = RunMemory()  # combined images drawn in this run

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
        content = self.prompt(doc).content
        return [self._image(doc, p.index) if isinstance(p, PromptImage) else p for p in content]

    @override
    def doc_to_messages(
        self, doc: Doc, lmms_eval_specific_kwargs: Options = None
    ) -> list[dict[str, object]]:
        return user_turn(
            self._open_image(doc, part.index) if isinstance(part, PromptImage) else part
            for part in self.prompt(doc).content
        )

    @override
    def doc_to_text(self, doc: Doc, lmms_eval_specific_kwargs: Options = None) -> str:
        token = str((lmms_eval_specific_kwargs or {}).get("image_token", self.image_token))
        return self.prompt(doc).text(lambda n: token.replace("{n}", str(n)))

    @override
    def doc_to_visual(self, doc: Doc) -> list[Image.Image]:
        return [self._open_image(doc, index) for index in self.prompt(doc).images]

    @override
    def doc_to_target(self, doc: Doc) -> str:
        return str(doc["gold"])

    def prompt(self, doc: Doc) -> QuestionPrompt:
        """The texts and images of a question in order, by the task's variant."""
        build = combined if doc["variant"] == "combined1" else interleaved
        return build(Sample.from_doc(doc))

    def _open_image(self, doc: Doc, index: int) -> Image.Image:
        """An image of a prompt, or a blank one if it cannot be opened (see `ImageOpener`)."""
        return self.opener.open(doc["id"], lambda: self._image(doc, index))

    def _image(self, doc: Doc, index: int) -> Path:
        """An image file of a prompt; draws and caches a combined image missing in the archive."""
        files = [Path(path) for path in data.published_image(doc) or doc["images"]]
        if doc["variant"] != "combined1" or data.published_image(doc):
            return files[index]
        drawn = combined_image(files, cache_dir(os.environ) / "milebench" / "combined")
        self._drawn.remember(doc["id"], drawn)
        return drawn

    @override
    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared[MileRecord]:
        sample = Sample.from_doc(doc)
        verdicts = score_answer(sample, results, self.opener.failure(sample.id))
        if doc["variant"] != "combined1":
            images = [doc["images"][index] for index in self.prompt(doc).images]
        elif drawn := self._drawn.of(sample.id):
            images = [str(drawn)]
        else:  # no combined image is drawn for the log
            images = data.published_image(doc) or list(doc["images"])
        record = MileRecord.of(
            verdicts,
            **record_fields(sample),
            images=images,
            facts=facts_of_answer(sample, results, verdicts),
            signature=self.signature(doc),
        )
        return Prepared(record=record, request=None)

    @override
    def process_results(self, doc: Doc, results: Sequence[object]) -> Mapping[str, Row]:
        """The rows of one answer in a ``milebench_<dataset>`` task."""
        # Samples of one `image_set` have the same images.
        record = self.prepared(doc, results).record
        return metrics.DATASET_TABLE.rows(record, image_set=doc["image_set"])

    def process_results_all(self, doc: Doc, results: Sequence[object]) -> Mapping[str, Row]:
        """The rows of one answer in the ``milebench`` task."""
        return metrics.TABLE.rows(self.prepared(doc, results).record)

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
