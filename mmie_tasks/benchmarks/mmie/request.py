"""The request to MMIE's judge for a sample and an answer.

The rules of the text are in `prompts`, its templates in `judge_prompts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmie_tasks.answers.images import check_image
from mmie_tasks.benchmarks import answer_request
from mmie_tasks.benchmarks.answer_request import BuiltRequest
from mmie_tasks.benchmarks.mmie import prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import judge_templates
from mmie_tasks.benchmarks.mmie.question import question_segments
from mmie_tasks.benchmarks.mmie.record import RequestFacts
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.segment import Segment, Segments

_UNUSABLE = ("unreadable", "too_large")  # problems of existing images


def describe_prompts(settings: MmieSettings) -> str:
    """A sentence about the templates."""
    used = judge_templates(settings.prompts)
    return f"{used.name}; {'they are' if used.official else 'they are not'} MMIE's own"


def provenance(settings: MmieSettings) -> dict[str, str]:
    """The request in the signature."""
    return {"prompt": f"{judge_templates(settings.prompts).name},max_tokens={prompts.MAX_TOKENS}"}


def build_request(
    sample: Sample, results: Sequence[object], settings: MmieSettings
) -> BuiltRequest[RequestFacts]:
    """The request for an answer; see `answer_request.build_request`."""
    return answer_request.build_request(
        results, start=RequestFacts(), build=partial(_built, sample, settings)
    )


def _built(
    sample: Sample, settings: MmieSettings, facts: RequestFacts, answer: Segments
) -> BuiltRequest[RequestFacts]:
    """The official script fails on a non-image file."""
    template = judge_templates(settings.prompts).texts[sample.category]
    question = question_segments(sample)
    existing = [_checked(segment) for segment in question if not segment.problem]
    unusable = {s.image: s.detail for s in (*existing, *answer) if _is_unusable_file(s)}
    assembled = prompts.assemble(
        replace(sample, question=question),
        [replace(s, problem="") if _is_unusable_file(s) else s for s in answer],
        template,
    )
    problems = Counter[str](segment.problem for segment in answer if segment.problem)
    n_unusable = sum(problems[problem] for problem in _UNUSABLE)
    built = BuiltRequest(
        request=JudgeRequest(parts=assembled.parts, max_tokens=prompts.MAX_TOKENS),
        facts=replace(
            facts,
            dropped=assembled.left_out,
            missing_images=problems.total() - n_unusable + len(question) - len(existing),
            bad_images=n_unusable + sum(segment.image in unusable for segment in existing),
            image_problems=dict(problems),
            truncated=assembled.truncated,
            typed=assembled.typed,
            shown_images=len(assembled.images),
            answer_images=sum(bool(segment.image) for segment in answer),
        ),
        answer=answer,
    )
    if assembled.left_out:
        return built.withdrawn(
            "left_out", f"{len(assembled.images)} images: the official script takes up to 4"
        )
    if assembled.bad_gold:
        return built.withdrawn("bad_gold", assembled.bad_gold)
    broken = [unusable[image] for image in assembled.images if image in unusable]
    return built.withdrawn("bad_image", broken[0]) if broken else built


def _checked(segment: Segment) -> Segment:
    """The segment with the problem of its image file."""
    if not segment.image:
        return segment
    file = check_image(Path(segment.image))
    return replace(segment, problem=file.problem, detail=file.detail)


def _is_unusable_file(segment: Segment) -> bool:
    """Whether the image is a file that cannot be used; a data URI is not a file."""
    return segment.problem in _UNUSABLE and not (segment.image or "").startswith("data:")
