"""OpenING: its judge, its samples in a run and in a log, its assets and its published scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment, Prepared
from mmie_tasks.benchmarks.opening import data, metrics, official_files, prompts, request
from mmie_tasks.benchmarks.opening.export import run_export
from mmie_tasks.benchmarks.opening.judge_prompts import fixed_texts
from mmie_tasks.benchmarks.opening.official import asks_again, read_official
from mmie_tasks.benchmarks.opening.published import PUBLISHED_ROWS, TOPIC_SIZES
from mmie_tasks.benchmarks.opening.robust import read_robust
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.benchmarks.opening.settings import OpeningSettings
from mmie_tasks.core.verdict import SCORE_KINDS, Scored, Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import RunnerTable

if TYPE_CHECKING:
    from datasets import Dataset

MOST_STEPS = 10
"""Steps of the longest gold answer."""


def grade(result: JudgeResult) -> Verdicts:
    """All verdicts on the last reply that the official script would have asked for. It also reads a
    JSON reply that was cut off at its limit.
    """
    reply = result.reply
    if reply is not None and not asks_again(reply.text):
        result = replace(result, second_reply=None)
    official = result.verdict(read_official)
    if result.second_reply is None:
        official = result.first_verdict(read_official, read_cut_off=True)
    robust, of_reply = result.verdict(read_robust), metrics.shares(result.last_text)
    verdicts = {"official": official, "robust": robust}
    shares = {
        kind: of_reply[kind]
        for kind in SCORE_KINDS
        if kind in of_reply and isinstance(verdicts[kind], Scored)
    }
    return Verdicts(official=official, robust=robust, shares=shares)


class Opening(Benchmark):
    """Open-ended questions answered in steps of text and picture, judged on seven metrics."""

    name = "opening"
    title = "OpenING"
    version = "3-D"
    scale = metrics.SCALE
    metrics = metrics.ALL_METRICS
    judge = BenchmarkJudge(
        "opening",
        "openai:gpt-4o-2024-11-20",
        paper="openai:gpt-4o",  # the script's alias, dated
        title="OpenING",
        max_images=19,  # 9 of a question and 10 steps with one
    )
    strata = "topic"
    stratum_sizes = TOPIC_SIZES
    published: ClassVar[Mapping[str, int]] = {name: sum(TOPIC_SIZES.values())}
    published_rows = PUBLISHED_ROWS
    settings_type = OpeningSettings
    settings: OpeningSettings

    @override
    def documents(self, selection: str, environment: Environment) -> Dataset:
        return data.dataset(environment)

    @override
    def check_data(self, docs: Any) -> None:
        data.check_data(docs)
        self.check_setup()  # the question to the tested model has official texts, too

    @override
    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
        """The questions with their pictures, and the fixed texts."""
        return [
            data.asset(environment),
            official_files.files_asset(
                "opening: prompts",
                "prompts",
                self.settings.prompts,
                official_files.PROMPT_FILES,
                environment,
                lambda: fixed_texts(self.settings.prompts).name,
            ),
        ]

    @override
    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        """The official instruction, then the question."""
        sample, texts = OpeningSample.from_doc(doc), fixed_texts(self.settings.prompts)
        steps = self._told_steps(sample)
        opening = "" if steps is None else texts.steps.replace("{steps}", str(steps))
        question = [
            segment
            if segment.image and os.path.isfile(segment.image)  # noqa: PTH113 - of any name
            else replace(segment, image=None)
            for segment in sample.question
        ]
        return prompts.question_content(question, texts.instruction, opening)

    @override
    def picture_limit(self, doc: Doc) -> int:
        """How many pictures an answer may have: the number of steps that the model is told."""
        return self._told_steps(OpeningSample.from_doc(doc)) or MOST_STEPS

    def _told_steps(self, sample: OpeningSample) -> int | None:
        return None if self.settings.steps == "untold" else len(sample.gold)

    @override
    def groups(self, doc: Doc) -> Mapping[str, str]:
        return metrics.groups(OpeningSample.from_doc(doc))

    @override
    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared:
        return request.prepared(OpeningSample.from_doc(doc), results, self.settings)

    @override
    def facts(self, doc: Doc, record: Record) -> Facts:
        return facts_of(asked_twice=any(j.result.second_reply for j in record.judgements))

    @override
    def grade(self, sample: Mapping[str, Any], result: JudgeResult) -> Verdicts:
        return grade(result)

    @override
    def is_impossible(self, sample: Mapping[str, Any], reply: str) -> bool:
        return asks_again(reply)

    @override
    def table(self, doc: Doc) -> RunnerTable:
        return metrics.TABLE

    @override
    def request_provenance(self) -> Mapping[str, object]:
        import PIL

        fields = {
            "prompt": f"{fixed_texts(self.settings.prompts).name},max_tokens={prompts.MAX_TOKENS}",
            "pillow": PIL.__version__,  # makes the pictures that the judge gets
            "steps": self.settings.steps,
        }
        return fields | ({"missing": "blind"} if self.settings.missing_images == "blind" else {})

    @override
    def counts(self, records: Sequence[Record]) -> Mapping[str, float]:
        return metrics.counts(records)

    @override
    def notes(self, records: Sequence[Record]) -> Iterator[str]:
        return metrics.notes(records)

    @override
    def export(self, arguments: Sequence[str], environment: Environment) -> str:
        return run_export(arguments, environment)


BENCHMARK = Opening()

# The functions that the task files name.
process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
