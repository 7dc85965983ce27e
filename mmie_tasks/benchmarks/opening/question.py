"""The question of an OpenING sample to the tested model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from mmie_tasks.benchmarks.opening import prompts
from mmie_tasks.benchmarks.opening.judge_prompts import fixed_texts
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.benchmarks.opening.settings import OpeningSettings

MOST_STEPS = 10
"""Steps of the longest gold answer."""


def told_steps(sample: Sample, settings: OpeningSettings) -> int | None:
    """The number of steps that the tested model is told; None if it is told nothing."""
    return None if settings.steps == "untold" else len(sample.gold)


def question_content(
    sample: Sample, settings: OpeningSettings, *, instruction: bool = True
) -> list[str | Path]:
    """Texts and existing pictures of the question, in order; `instruction` puts the official
    instruction to write and draw before them.
    """
    texts, steps = fixed_texts(settings.prompts), told_steps(sample, settings)
    question = [
        segment
        if segment.image and os.path.isfile(segment.image)  # noqa: PTH113 - of any name
        else replace(segment, image=None)
        for segment in sample.question
    ]
    opening = "" if steps is None else texts.steps.replace("{steps}", str(steps))
    return prompts.question_content(question, texts.instruction if instruction else "", opening)
