"""The judge request of MIA-Bench, and the reading of its replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.benchmarks.mia_bench import metrics, prompts
from mmie_tasks.benchmarks.mia_bench.official import read_official
from mmie_tasks.benchmarks.mia_bench.record import needed_replies
from mmie_tasks.benchmarks.mia_bench.robust import read_robust
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Scored, ScoreKind, Verdicts
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.reply import JudgeResult


def request_for(sample: Sample, answer: str, images: Sequence[Path]) -> JudgeRequest:
    """The official text with the answer, then the images, as in the notebook (cell 11)."""
    text = prompts.judge_prompt(sample.instruction, sample.components, sample.weights, answer)
    return JudgeRequest(parts=(text, *images), max_tokens=prompts.MAX_TOKENS)


def grade(sample: Sample, result: JudgeResult) -> Verdicts:
    """The first reply's official and the last reply's robust verdict, in percent of full marks."""
    result = needed_replies(sample, result)
    official = result.first_verdict(lambda reply: read_official(sample.categories, reply))
    robust = result.verdict(lambda reply: read_robust(sample, reply))
    shares: dict[ScoreKind, Mapping[str, float]] = {}
    if isinstance(official, Scored):
        shares["official"] = metrics.official_shares(sample, result.replies[0].text)
    if isinstance(robust, Scored):
        shares["robust"] = metrics.robust_shares(sample, result.last_text)
    return Verdicts(
        official=metrics.in_percent(official), robust=metrics.in_percent(robust), shares=shares
    )
