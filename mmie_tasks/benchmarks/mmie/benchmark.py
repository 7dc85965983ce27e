"""MMIE: its judge, its samples in a run and in a log, its assets and its published scores.

A task file selects samples with ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr``, ``1k`` or
``step``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment, Prepared
from mmie_tasks.benchmarks.mmie import data, judge_prompts, metrics, prompts, request
from mmie_tasks.benchmarks.mmie.export import run_export
from mmie_tasks.benchmarks.mmie.official import read_official
from mmie_tasks.benchmarks.mmie.published import CATEGORY_SIZES, PUBLISHED_ROWS, PUBLISHED_SAMPLES
from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.drawing import protocol
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.facts import Facts
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import RunnerTable

if TYPE_CHECKING:
    from datasets import Dataset

WHOLE_TASKS = ("mmie", "mmie_1k", data.STEP_TASK)
"""The tasks with samples of every category."""


def grade(result: JudgeResult) -> Verdicts:
    """Both verdicts on a reply. The official script also reads a reply that was cut off at its
    limit.
    """
    return Verdicts(
        official=result.first_verdict(read_official, read_cut_off=True),
        robust=result.first_verdict(read_robust),
    )


class Mmie(Benchmark):
    """Interleaved text and images in and out, judged from 0 to 6."""

    name = "mmie"
    title = "MMIE"
    version = "8-F"
    scale = metrics.SCALE
    metrics = metrics.METRICS
    judge = BenchmarkJudge("mmie", "mmie_score", paper="mmie_score", title="MMIE", max_images=12)
    strata = "category"
    stratum_sizes = CATEGORY_SIZES
    published = PUBLISHED_SAMPLES
    published_rows = PUBLISHED_ROWS
    settings_type = MmieSettings
    settings: MmieSettings

    @override
    def documents(self, selection: str, environment: Environment) -> Dataset:
        return data.task_dataset(selection, environment)

    @override
    def check_data(self, docs: Any) -> None:
        data.check_data(docs, self.settings)

    @override
    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
        """The data and the official judge prompts; every task of MMIE needs both."""
        return [
            data.asset(environment, self.settings),
            judge_prompts.prompts_asset(environment, self.settings.prompts, self._describe_prompts),
        ]

    @override
    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        """The question between ``pre_prompt`` and ``post_prompt``, with line ends around texts; a
        missing image is left out, as in the request to the judge. In ``mmie_step``, the words that
        ask for images follow.
        """
        content: list[str | Path] = []
        for segment in request.question_segments(MmieSample.from_doc(doc)):
            image = None if segment.problem or segment.image is None else Path(segment.image)
            for part in (segment.text or None, image):
                if part is None:
                    continue
                if content and (isinstance(part, str) or isinstance(content[-1], str)):
                    content.append("\n")
                content.append(part)
        before, after = (str(options.get(name, "")) for name in ("pre_prompt", "post_prompt"))
        if doc["task"] == data.STEP_TASK and (limit := self.picture_limit(doc)):
            after += f"\n\n{protocol.instruction(limit)}"
        return [before, *content, after]

    @override
    def picture_limit(self, doc: Doc) -> int:
        """How many pictures of an answer the judge can see; 0 for the texts of multi-step
        reasoning.

        The answer ends at the third image of question and answer together (D9 and D5 in `prompts`).
        """
        sample = MmieSample.from_doc(doc)
        question = request.question_segments(sample)
        in_question = sum(bool(s.image) and not s.problem for s in question)
        return 0 if sample.category == "MSR" else max(0, prompts.IMAGES_AT_END - in_question)

    @override
    def groups(self, doc: Doc) -> Mapping[str, str]:
        return metrics.groups(MmieSample.from_doc(doc))

    @override
    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared:
        return request.prepared(MmieSample.from_doc(doc), results, self.settings)

    @override
    def facts(self, doc: Doc, record: Record) -> Facts:
        return metrics.judge_facts(record)

    @override
    def grade(self, sample: Mapping[str, Any], result: JudgeResult) -> Verdicts:
        return grade(result)

    @override
    def table(self, doc: Doc) -> RunnerTable:
        return metrics.TABLE if doc["task"] in WHOLE_TASKS else metrics.CATEGORY_TABLE

    @override
    def provenance(self, doc: Doc) -> Mapping[str, object]:
        words = protocol.SIGNATURE if doc["task"] == data.STEP_TASK else None
        return {**super().provenance(doc), "answers": words}

    @override
    def request_provenance(self) -> Mapping[str, object]:
        templates = judge_prompts.judge_templates(self.settings.prompts)
        return {"prompt": f"{templates.name},max_tokens={prompts.MAX_TOKENS}"}

    def _describe_prompts(self) -> str:
        used = judge_prompts.judge_templates(self.settings.prompts)
        return f"{used.name}; {'they are' if used.official else 'they are not'} MMIE's own"

    @override
    def counts(self, records: Sequence[Record]) -> Mapping[str, float]:
        return metrics.counts(records)

    @override
    def notes(self, records: Sequence[Record]) -> Iterator[str]:
        return metrics.notes(records)

    @override
    def export(self, arguments: Sequence[str], environment: Environment) -> str:
        return run_export(arguments, environment)


BENCHMARK = Mmie()

# The functions that the task files name.
process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
