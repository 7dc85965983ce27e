"""The judge request of MIA-Bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmie_tasks.benchmarks.mia_bench import prompts
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.judges.base import JudgeRequest


def request_for(sample: Sample, answer: str, images: Sequence[Path]) -> JudgeRequest:
    """The official text with the answer, then the images, as in the notebook (cell 11)."""
    text = prompts.judge_prompt(sample.instruction, sample.components, sample.weights, answer)
    return JudgeRequest(parts=(text, *images), max_tokens=prompts.MAX_TOKENS)
