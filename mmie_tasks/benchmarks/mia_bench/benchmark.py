"""MIA-Bench: its judge, its samples in a run and in a log, and its assets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment, Prepared
from mmie_tasks.benchmarks.mia_bench import data, download, metrics, prompts
from mmie_tasks.benchmarks.mia_bench.prompts import runner_prompt
from mmie_tasks.benchmarks.mia_bench.record import MiaRecord
from mmie_tasks.benchmarks.mia_bench.request import grade, request_for
from mmie_tasks.benchmarks.mia_bench.robust import is_impossible
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.benchmarks.text_answer import answer_of_results, facts_of_results
from mmie_tasks.core.verdict import Unscored, Verdicts
from mmie_tasks.hub.asset import Asset, installed_asset
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import RunnerTable

if TYPE_CHECKING:
    from datasets import Dataset

_SKIPPED = "error"  # the notebook leaves out an answer that is only this word (cell 11)


class MiaBench(Benchmark[MiaRecord]):
    """One image, one instruction with up to five parts, each graded by a judge."""

    name = "mia_bench"
    title = "MIA-Bench"
    version = "6-B"
    scale = metrics.SCALE
    metrics = metrics.METRICS
    record = MiaRecord
    judge = BenchmarkJudge(
        "mia_bench",
        "openai:gpt-4o-2024-11-20",
        paper="openai:gpt-4o",  # the notebook's alias, dated
        title="MIA-Bench",
        max_images=1,
    )
    image_token = ""
    published: ClassVar[Mapping[str, int]] = {"mia_bench": 400}

    @override
    def documents(self, selection: str, environment: Environment) -> Dataset:
        return data.dataset(environment)

    @override
    def check_data(self, docs: Any) -> None:
        data.check_data(docs)

    @override
    def check_setup(self) -> None:
        runner_prompt()

    @override
    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
        """The samples with images, and the judge prompt, which is installed with the runner."""

        def describe_prompt() -> str:
            runner_prompt()
            return "unchanged, as in lmms-eval's own task"

        return [
            download.asset(environment, lambda: data.describe(environment)),
            installed_asset("mia_bench: judge prompt", "lmms-eval", describe_prompt),
        ]

    @override
    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        """The image, then the instruction with ``pre_prompt`` and ``post_prompt``, as in the
        runner's own task.
        """
        before, after = options.get("pre_prompt", ""), options.get("post_prompt", "")
        return [Path(doc["image"]), f"{before}{doc['instruction']}{after}"]

    @override
    def doc_to_target(self, doc: Doc) -> str:
        """Empty: an instruction has no gold answer."""
        return ""

    @override
    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared[MiaRecord]:
        """Missing answers are not judged, and thinking is removed from answers."""
        sample = Sample.from_doc(doc)
        answer = _answer(results)
        why = answer if isinstance(answer, Unscored) else Unscored("unavailable")
        record = MiaRecord.of(
            Verdicts.unscored(why.reason, why.detail),
            id=sample.id,
            type=sample.type,
            categories=sample.categories,
            weights=sample.weights,
            contradictory=sample.contradictory,
            components=sample.components,
            instruction=sample.instruction,
            image=doc["image"],
            facts=facts_of_results(results),
        )
        if isinstance(answer, Unscored):
            return Prepared(record=record, request=None)
        request = request_for(sample, answer, [Path(doc["image"])])
        return Prepared(record=record, request=request)

    @override
    def grade(self, record: MiaRecord, result: JudgeResult) -> Verdicts:
        return grade(record.released, result)

    @override
    def is_impossible(self, record: MiaRecord, reply: str) -> bool:
        return is_impossible(record.released, reply)

    @override
    def table(self, doc: Doc) -> RunnerTable:
        return metrics.TABLE

    @override
    def provenance(self, doc: Doc) -> Mapping[str, object]:
        prompt = f"official,max_tokens={prompts.MAX_TOKENS}"
        return {"prompt": prompt, **super().provenance(doc)}

    @override
    def counts(self, records: Sequence[MiaRecord]) -> Mapping[str, float]:
        return metrics.counts(records)

    @override
    def notes(self, records: Sequence[MiaRecord]) -> Iterator[str]:
        return metrics.notes(records)


def _answer(results: Sequence[object]) -> str | Unscored:
    """The answer, or why it is not sent to the judge; the official script judges empty answers."""
    answer = answer_of_results(results)
    if isinstance(answer, Unscored):
        return answer
    if answer == _SKIPPED:
        return Unscored("no_answer", f"the official script skips the answer `{_SKIPPED}`")
    return answer


BENCHMARK = MiaBench()
