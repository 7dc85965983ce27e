"""The request to MMIE's judge about an answer, and what is noted about both.

The rules of the text are in `prompts`, its templates in `judge_prompts`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from mmie_tasks.answers.images import check_image
from mmie_tasks.benchmarks.benchmark import Prepared
from mmie_tasks.benchmarks.mmie import prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import judge_templates
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.benchmarks.model_answers import ImageAnswer, read_image_answer
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.segment import Segment, Segments

_UNUSABLE = ("unreadable", "too_large")  # problems of existing images


def prepared(sample: MmieSample, results: Sequence[object], settings: MmieSettings) -> Prepared:
    """The record of an answer, and its request unless the answer is not judged.

    The facts are those of `read_image_answer`, and these:

    * ``answer_images``: images of the answer, in the request or not.
    * ``shown_images``: images in the request, including the question's.
    * ``missing_images`` and ``bad_images``: references without a file, and images, in files or in
      data URIs, that cannot be used; ``image_problems`` has those of the answer by reason.
    * ``truncated``: the limit on images removed text or images of the answer.
    * ``dropped``: the official script leaves the sample out, for more than 4 images.
    * ``typed_controls``: question or answer has control strings of the judge; ``controls`` has
      their numbers.
    """
    answer = read_image_answer(results)
    if answer.unscored is not None:
        return _prepared(sample, answer, answer.unscored)
    try:
        template = judge_templates(settings.prompts).texts[sample.category]
    except MmieTasksError as error:  # the setup was not checked before
        return _prepared(sample, answer, Unscored("unavailable", first_line(error)))
    question = question_segments(sample)
    existing = [_checked(segment) for segment in question if not segment.problem]
    unusable = {s.image: s.detail for s in (*existing, *answer.segments) if _is_unusable_file(s)}
    assembled = prompts.assemble(  # the official script fails on a file that is not an image
        replace(sample, question=question),
        [replace(s, problem="") if _is_unusable_file(s) else s for s in answer.segments],
        template,
    )
    broken = [unusable[image] for image in assembled.images if image in unusable]
    request: JudgeRequest | Unscored
    if assembled.left_out:
        detail = f"{len(assembled.images)} images: the official script takes up to 4"
        request = Unscored("left_out", detail)
    elif assembled.bad_gold:
        request = Unscored("bad_gold", assembled.bad_gold)
    elif broken:
        request = Unscored("bad_image", broken[0])
    else:
        request = JudgeRequest(parts=assembled.parts, max_tokens=prompts.MAX_TOKENS)
    problems = Counter[str](segment.problem for segment in answer.segments if segment.problem)
    n_unusable = sum(problems[problem] for problem in _UNUSABLE)
    facts = facts_of(
        answer_images=sum(bool(segment.image) for segment in answer.segments),
        shown_images=0 if isinstance(request, Unscored) else len(assembled.images),
        missing_images=problems.total() - n_unusable + len(question) - len(existing),
        bad_images=n_unusable + sum(segment.image in unusable for segment in existing),
        image_problems=problems,
        truncated=assembled.truncated,
        dropped=assembled.left_out,
        typed_controls=any(assembled.typed.values()),
        controls=assembled.typed,
    )
    return _prepared(sample, answer, request, facts)


def _prepared(
    sample: MmieSample,
    answer: ImageAnswer,
    request: JudgeRequest | Unscored,
    facts: Facts = MappingProxyType({}),
) -> Prepared:
    record = Record(
        id=sample.id,
        question=sample.question,
        gold=sample.gold,
        answer=tuple(segment.logged for segment in answer.segments),
        verdicts=NOT_JUDGED,
        facts={**answer.facts, **facts},
    )
    return Prepared.of(record, request, answer.drawn_by)


def question_segments(sample: MmieSample) -> Segments:
    """The segments of the question; the problem ``missing`` marks an image that is not a file."""
    return tuple(map(_with_missing, sample.question))


def _with_missing(segment: Segment) -> Segment:
    if segment.image is None:
        return segment
    is_file = os.path.isfile(segment.image)  # noqa: PTH113 - 4x quicker
    return replace(segment, problem="" if is_file else "missing")


def _checked(segment: Segment) -> Segment:
    """The segment with the problem of its image file."""
    if not segment.image:
        return segment
    file = check_image(Path(segment.image))
    return replace(segment, problem=file.problem, detail=file.detail)


def _is_unusable_file(segment: Segment) -> bool:
    """Whether the image is a file that cannot be used; a data URI is not a file."""
    return segment.problem in _UNUSABLE and not (segment.image or "").startswith("data:")
