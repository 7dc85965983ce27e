"""The request to OpenING's judge for a sample and an answer, by the rules in `prompts`.

Each picture is sent as the JPEG that the official script makes of it; only a picture that has one
gets a number in the text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmie_tasks.benchmarks import answer_request
from mmie_tasks.benchmarks.answer_request import BuiltRequest
from mmie_tasks.benchmarks.opening import prompts
from mmie_tasks.benchmarks.opening.jpeg import reencode
from mmie_tasks.benchmarks.opening.judge_prompts import fixed_texts
from mmie_tasks.benchmarks.opening.record import StepFacts
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.benchmarks.opening.settings import OpeningSettings
from mmie_tasks.core.files import cache_dir
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.segment import Segment

_NO_JPEG = "no JPEG"  # the picture exists, but the official script cannot send it


def describe_prompts(settings: OpeningSettings) -> str:
    """A sentence about the fixed texts."""
    return fixed_texts(settings.prompts).name


def provenance(settings: OpeningSettings) -> dict[str, str]:
    """The request and the question in the signature."""
    import PIL

    fields = {
        "prompt": f"{fixed_texts(settings.prompts).name},max_tokens={prompts.MAX_TOKENS}",
        "pillow": PIL.__version__,  # makes the pictures that the judge gets
        "steps": settings.steps,
    }
    return fields | ({"missing": "blind"} if settings.missing_images == "blind" else {})


def build_request(
    sample: Sample, results: Sequence[object], settings: OpeningSettings
) -> BuiltRequest[StepFacts]:
    """The request for an answer; see `answer_request.build_request`."""
    built = answer_request.build_request(
        results,
        start=StepFacts(gold_steps=len(sample.gold)),
        build=partial(_built, sample, settings),
    )
    if built.request is None and built.reason != "unavailable" and not built.facts.steps:
        return replace(built, facts=replace(built.facts, shape=""))  # there are no steps to count
    return built


def _built(
    sample: Sample, settings: OpeningSettings, facts: StepFacts, answer: Sequence[Segment]
) -> BuiltRequest[StepFacts]:
    texts = fixed_texts(settings.prompts)
    steps = prompts.answer_steps(answer)
    question = _as_jpegs(sample.question)
    shown_answer = _as_jpegs(steps)
    question_lost = [segment for segment in question if segment.problem]
    pictures_lost = Counter(segment.problem for segment in shown_answer if segment.problem)
    parts = prompts.judge_parts(question, shown_answer, texts.ending)
    built = BuiltRequest(
        request=JudgeRequest(
            parts=parts, max_tokens=prompts.MAX_TOKENS, system=texts.system, schema=texts.schema
        ),
        facts=replace(
            facts,
            steps=len(steps),
            answer_pictures=sum(bool(step.image) for step in steps),
            pictures_lost=dict(pictures_lost),
            question_pictures_lost=len(question_lost),
            shown_pictures=sum(isinstance(part, Path) for part in parts),
        ),
        answer=steps,
    )
    if question_lost and settings.missing_images == "unscored":
        return built.withdrawn("bad_image", question_lost[0].detail)
    return built


def _as_jpegs(segments: Iterable[Segment]) -> list[Segment]:
    """The segments with the judge's JPEGs; without one, a segment has no image but a problem."""
    folder = cache_dir(os.environ) / "opening" / "jpeg"
    return [_as_jpeg(segment, folder) for segment in segments]


def _as_jpeg(segment: Segment, folder: Path) -> Segment:
    image = segment.image
    if segment.problem or not image:
        return replace(segment, image=None)
    jpeg = reencode(Path(image), folder, prompts.PICTURE_PX)
    if jpeg is not None:
        return replace(segment, image=str(jpeg))
    problem = _NO_JPEG if os.path.isfile(image) else "missing"  # noqa: PTH113 - of any name
    return replace(segment, image=None, problem=problem, detail=f"`{image}`: {problem}")
