"""MIA-Bench: its judge, its samples in a run and in a log, and its assets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment
from mmie_tasks.benchmarks.mia_bench import data, metrics, prompts
from mmie_tasks.benchmarks.mia_bench.official import read_official
from mmie_tasks.benchmarks.mia_bench.prompts import runner_prompt
from mmie_tasks.benchmarks.mia_bench.robust import is_impossible, read_robust
from mmie_tasks.benchmarks.mia_bench.sample import MiaSample
from mmie_tasks.benchmarks.text_answer import answer_of_results
from mmie_tasks.core.verdict import Scored, ScoreKind, Unscored, Verdicts
from mmie_tasks.hub.asset import Asset, installed_asset
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.facts import Facts
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import RunnerTable

if TYPE_CHECKING:
    from datasets import Dataset

_SKIPPED = "error"  # the notebook leaves out an answer that is only this word (cell 11)


class MiaBench(Benchmark):
    """One image, one instruction with up to five parts, each graded by a judge."""

    name = "mia_bench"
    title = "MIA-Bench"
    version = "6-D"
    scale = metrics.SCALE
    metrics = metrics.METRICS
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
    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
        """The samples with images, and the judge prompt, which is installed with the runner."""

        def describe_prompt() -> str:
            runner_prompt()
            return "unchanged, as in lmms-eval's own task"

        return [
            data.asset(environment),
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
    def fields(self, doc: Doc) -> Mapping[str, Any]:
        sample = MiaSample.from_doc(doc)
        return {"categories": list(sample.categories), "weights": list(sample.weights)}

    @override
    def groups(self, doc: Doc) -> Mapping[str, str | tuple[str, ...]]:
        return metrics.groups(MiaSample.from_doc(doc))

    @override
    def facts(self, doc: Doc, record: Record) -> Facts:
        return metrics.reply_facts(MiaSample.from_doc(doc), record)

    @override
    def answer(self, results: Sequence[object]) -> str | Unscored:
        """The official script judges empty answers, and leaves out those that are only a word."""
        answer = answer_of_results(results)
        if answer == _SKIPPED:
            return Unscored("no_answer", f"the official script skips the answer `{_SKIPPED}`")
        return answer

    @override
    def request(self, doc: Doc, answer: str) -> JudgeRequest:
        """The official text with the answer, then the image, as in the notebook (cell 11)."""
        sample = MiaSample.from_doc(doc)
        text = prompts.judge_prompt(sample.instruction, sample.components, sample.weights, answer)
        parts = (text, Path(doc["image"]))
        return JudgeRequest(parts=parts, max_tokens=prompts.MAX_TOKENS)

    @override
    def grade(self, sample: Mapping[str, Any], result: JudgeResult) -> Verdicts:
        """The first reply's official and the last reply's robust verdict, in percent of full marks,
        and the shares of the categories.
        """
        categories, weights = sample["categories"], sample["weights"]
        result = metrics.needed_replies(weights, result)
        official = result.first_verdict(lambda reply: read_official(categories, reply))
        robust = result.verdict(lambda reply: read_robust(weights, reply))
        shares: dict[ScoreKind, Mapping[str, float]] = {}
        if isinstance(official, Scored):
            shares["official"] = metrics.official_shares(categories, result.replies[0].text)
        if isinstance(robust, Scored):
            shares["robust"] = metrics.robust_shares(categories, weights, result.last_text)
        return Verdicts(
            official=metrics.in_percent(official), robust=metrics.in_percent(robust), shares=shares
        )

    @override
    def is_impossible(self, sample: Mapping[str, Any], reply: str) -> bool:
        return is_impossible(sample["weights"], reply)

    @override
    def table(self, doc: Doc) -> RunnerTable:
        return metrics.TABLE

    @override
    def request_provenance(self) -> Mapping[str, object]:
        runner_prompt()
        return {"prompt": f"official,max_tokens={prompts.MAX_TOKENS}"}


BENCHMARK = MiaBench()

# The functions that the task files name.
process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
