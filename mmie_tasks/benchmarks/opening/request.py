"""The request to OpenING's judge about an answer, by the rules in `prompts`.

Each picture is sent as the JPEG that the official script makes of it; only a picture that has one
gets a number in the text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from mmie_tasks.benchmarks.benchmark import Prepared
from mmie_tasks.benchmarks.model_answers import ImageAnswer, read_image_answer
from mmie_tasks.benchmarks.opening import prompts
from mmie_tasks.benchmarks.opening.jpeg import reencode
from mmie_tasks.benchmarks.opening.judge_prompts import fixed_texts
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.benchmarks.opening.settings import OpeningSettings
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.segment import Segment

_NO_JPEG = "no JPEG"  # the picture exists, but the official script cannot send it


def prepared(
    sample: OpeningSample, results: Sequence[object], settings: OpeningSettings
) -> Prepared:
    """The record of an answer, and its request unless the answer is not judged.

    The facts are those of `read_image_answer`, and these:

    * ``steps`` and ``gold_steps``: steps of the answer and of the gold answer, which are measures;
      ``other_length``: they differ.
    * ``answer_pictures``: pictures that the answer names; ``without_picture``: it names none.
    * ``shown_pictures``: pictures in the request.
    * ``pictures_lost`` and ``question_pictures_lost``: pictures of answer and question that the
      judge does not see; ``lost`` has those of the answer by reason.
    """
    answer = read_image_answer(results)
    if answer.unscored is not None:
        return _prepared(sample, answer, answer.unscored)
    try:
        texts = fixed_texts(settings.prompts)
    except MmieTasksError as error:  # the setup was not checked before
        return _prepared(sample, answer, Unscored("unavailable", first_line(error)))
    steps = prompts.answer_steps(answer.segments)
    question, shown = _as_jpegs(sample.question), _as_jpegs(steps)
    unseen = [segment for segment in question if segment.problem]
    lost = Counter(segment.problem for segment in shown if segment.problem)
    parts = prompts.judge_parts(question, shown, texts.ending)
    request: JudgeRequest | Unscored = JudgeRequest(
        parts=parts, max_tokens=prompts.MAX_TOKENS, system=texts.system, schema=texts.schema
    )
    n_pictures = sum(isinstance(part, Path) for part in parts)
    if unseen and settings.missing_images == "unscored":
        request, n_pictures = Unscored("bad_image", unseen[0].detail), 0
    n_named = sum(bool(step.image) for step in steps)
    facts = facts_of(
        steps=float(len(steps)),
        gold_steps=float(len(sample.gold)),
        other_length=len(steps) != len(sample.gold),
        answer_pictures=n_named,
        without_picture=n_named == 0,
        shown_pictures=n_pictures,
        pictures_lost=lost.total(),
        lost=lost,
        question_pictures_lost=len(unseen),
    )
    return _prepared(sample, answer, request, facts)


def _prepared(
    sample: OpeningSample,
    answer: ImageAnswer,
    request: JudgeRequest | Unscored,
    facts: Facts = MappingProxyType({}),
) -> Prepared:
    record = Record(
        id=sample.id,
        question=sample.question,
        gold=sample.gold,
        answer=tuple(segment.logged for segment in prompts.answer_steps(answer.segments)),
        verdicts=NOT_JUDGED,
        facts={**answer.facts, **facts},
    )
    return Prepared.of(record, request, answer.drawn_by)


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
