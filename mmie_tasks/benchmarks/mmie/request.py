"""The request to the judge for a sample and an answer, and the question to the tested model.

The rules of the text are in `prompts`, its templates in `judge_prompts`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmie_tasks.answers.images import check_image, resolve_images
from mmie_tasks.answers.picture_signs import picture_signs
from mmie_tasks.answers.segments import ParsedAnswer
from mmie_tasks.benchmarks.mmie import prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import judge_templates
from mmie_tasks.benchmarks.mmie.prompts import Assembled
from mmie_tasks.benchmarks.mmie.record import RequestFacts
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.benchmarks.model_answers import facts_of_answer, read_results, resolver
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.options import choice_setting
from mmie_tasks.core.tables import listed
from mmie_tasks.core.verdict import UnscoredReason
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.segment import Segment, Segments
from mmie_tasks.record.signature import signature_text

ASSEMBLY = "MMIE_ASSEMBLY"
_UNUSABLE = ("unreadable", "too_large")  # problems of images that are there


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRequest:
    """The request for one answer, or the reason why the judge gets none.

    Attributes:
        request: None if the judge gets none.
        reason: The reason, if so.
        detail: The reason for people.
        facts: Counts about the request and the answer.
        answer: The answer with the files of its images.
        answer_signature: Protocol and drawer of an answer of ``--model interleaved``; None for
            other answers.
        cut_images: Existing images of the answer that the limit removed.
        cut_texts: Texts of the answer that the limit removed.
    """

    request: JudgeRequest | None = None
    reason: UnscoredReason = "no_answer"
    detail: str = ""
    facts: RequestFacts
    answer: Segments = ()
    answer_signature: str | None = None
    cut_images: int = 0
    cut_texts: int = 0

    def withdrawn(self, reason: UnscoredReason, detail: str) -> BuiltRequest:
        """The same answer without a request."""
        return replace(
            self,
            request=None,
            reason=reason,
            detail=detail,
            facts=replace(self.facts, shown_images=0),
        )


def check_setup() -> None:
    """Check, before a run, that the judge's templates are available and the settings valid.

    Raises:
        MmieTasksError: They are not.
    """
    _is_full_assembly(os.environ)
    judge_templates()


def describe_prompts() -> str:
    """A sentence about the templates, after `check_setup`.

    Raises:
        MmieTasksError: As `check_setup`.
    """
    check_setup()
    used = judge_templates()
    return f"{used.name}; {'they are' if used.official else 'they are not'} MMIE's own"


def signature() -> str:
    """The part of the signature about the request: templates and assembly.

    Raises:
        MmieTasksError: As `check_setup`.
    """
    assembly = "full" if _is_full_assembly(os.environ) else "official"
    prompt = f"{judge_templates().name},max_tokens={prompts.MAX_TOKENS}"
    return signature_text(prompt=prompt, assembly=assembly)


def _is_full_assembly(environment: Mapping[str, str]) -> bool:
    hint = f"`export {ASSEMBLY}=full` keeps the text that the official assembly cuts"
    return choice_setting(environment, ASSEMBLY, "official", "full", hint=hint) == "full"


def question_parts(sample: Sample) -> list[str | Path]:
    """The question to the tested model: text and images, in order.

    A line ends between a text and its neighbours. A missing image is left out, as in the request to
    the judge.
    """
    parts: list[str | Path] = []
    for segment in map(_with_missing, sample.question):
        image = None if segment.problem or segment.image is None else Path(segment.image)
        for part in (segment.text or None, image):
            if part is None:
                continue
            if parts and (isinstance(part, str) or isinstance(parts[-1], str)):
                parts.append("\n")
            parts.append(part)
    return parts


def build_request(sample: Sample, results: Sequence[object], task: str) -> BuiltRequest:
    """The request for an answer. Never raises: a run's answers would be lost.

    Args:
        sample: The sample.
        results: The runner's results of the tested model: one text, or one per round.
        task: Name of the task.
    """
    answer = read_results(results)
    built = _built_for(sample, answer, task)
    if answer.drawing is None:
        return built
    if withheld := answer.drawing.withheld:
        built = built.withdrawn("not_drawn", f"pictures not drawn: {listed(withheld)}")
    return replace(built, answer_signature=answer.drawing.signature)


def _built_for(sample: Sample, answer: ParsedAnswer, task: str) -> BuiltRequest:
    facts = replace(
        facts_of_answer(RequestFacts, answer), unfilled_placeholders=answer.unfilled_placeholders
    )
    if answer.failure:
        reason: UnscoredReason = "not_text" if answer.shape == "not text" else "no_answer"
        return BuiltRequest(reason=reason, detail=answer.failure, facts=facts)
    files = resolver()
    segments = resolve_images(answer, files, task, sample.row)
    facts = replace(facts, picture_signs=dict.fromkeys(picture_signs(segments, files), 1))
    try:
        return _built(sample, facts, segments)
    except MmieTasksError as error:  # no templates, and nothing checked before
        return BuiltRequest(reason="unavailable", detail=str(error).partition("\n")[0], facts=facts)


def request_for(sample: Sample, answer: Sequence[Segment]) -> BuiltRequest:
    """The request for an answer whose images are files.

    Raises:
        MmieTasksError: The templates are not available, or the assembly's setting is invalid.
    """
    return _built(sample, RequestFacts(), tuple(map(_checked, answer)))


def with_usage(facts: RequestFacts, reply: JudgeReply | None) -> RequestFacts:
    """The facts with the tokens of the request that the judge reports with its reply, if any."""
    if reply is None or not reply.usage.input_tokens:
        return facts
    return replace(facts, judge_tokens=reply.usage.input_tokens, judge_tokens_exact=True)


def _built(sample: Sample, facts: RequestFacts, segments: Segments) -> BuiltRequest:
    full = _is_full_assembly(os.environ)
    template = judge_templates().texts[sample.category]
    checked = replace(sample, question=tuple(map(_with_missing, sample.question)))
    answer = [_for_assembly(segment, full=full) for segment in segments]
    assembled = prompts.assemble(checked, answer, template, full=full)
    unusable = _unusable(checked.question, segments)
    built = BuiltRequest(
        request=JudgeRequest(
            parts=assembled.parts, max_tokens=prompts.MAX_TOKENS, wants_digits=True
        ),
        facts=_facts(facts, checked, assembled, segments, unusable),
        answer=segments,
        cut_images=assembled.cut_images,
        cut_texts=assembled.cut_texts,
    )
    if assembled.left_out:
        return built.withdrawn(
            "left_out", f"{len(assembled.images)} images: the official script takes up to 4"
        )
    if assembled.bad_gold:
        return built.withdrawn("bad_gold", assembled.bad_gold)
    broken = [unusable[image] for image in assembled.images if image in unusable]
    return built.withdrawn("bad_image", broken[0]) if broken else built


def _facts(
    facts: RequestFacts,
    sample: Sample,
    assembled: Assembled,
    segments: Segments,
    unusable: Mapping[str, str],
) -> RequestFacts:
    problems = Counter[str](segment.problem for segment in segments if segment.problem)
    n_unusable = sum(problems[problem] for problem in _UNUSABLE)
    of_question = [s.image for s in sample.question if s.image and not s.problem]
    return replace(
        facts,
        dropped=assembled.left_out,
        missing_images=problems.total()
        - n_unusable
        + sum(bool(segment.problem) for segment in sample.question),
        bad_images=n_unusable + sum(image in unusable for image in of_question),
        image_problems=dict(problems),
        truncated=bool(assembled.cut_images or assembled.cut_texts),
        typed=assembled.typed,
        shown_images=sum(image not in unusable for image in assembled.images),
        answer_images=sum(bool(segment.image) for segment in segments),
    )


def _with_missing(segment: Segment) -> Segment:
    if segment.image is None:
        return segment
    is_file = os.path.isfile(segment.image)  # noqa: PTH113 - 4x quicker
    return replace(segment, problem="" if is_file else "missing")


def _checked(segment: Segment) -> Segment:
    """The segment with the problem of its image, which is a path."""
    if not segment.image:
        return segment
    file = check_image(Path(segment.image))
    return replace(segment, problem=file.problem, detail=file.detail)


def _for_assembly(segment: Segment, *, full: bool) -> Segment:
    """A segment of the answer, whose problem is that the image counts as missing.

    The official script ends when it opens a file that is no image; such a file exists for the
    official assembly and is missing for the full one.
    """
    exists = not segment.problem or (not full and _is_unusable_file(segment))
    return replace(segment, problem="") if exists else segment


def _is_unusable_file(segment: Segment) -> bool:
    """Whether the image is a file that cannot be used; a data URI is none."""
    return segment.problem in _UNUSABLE and not (segment.image or "").startswith("data:")


def _unusable(question: Iterable[Segment], answer: Segments) -> dict[str, str]:
    """Every image file that cannot be used, by its path in the assembly, and why."""
    existing = [_checked(segment) for segment in question if not segment.problem]
    return {
        segment.image: segment.detail
        for segment in (*existing, *answer)
        if segment.image and _is_unusable_file(segment)
    }
