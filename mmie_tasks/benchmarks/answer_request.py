"""The request to a judge about an answer with images, or why the judge gets none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.benchmarks.benchmark import Prepared
from mmie_tasks.benchmarks.model_answers import resolver
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.verdict import UnscoredReason, Verdicts
from mmie_tasks.core.wording import listed
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.answer_facts import FactsT, with_text
from mmie_tasks.record.record import ImageRecord
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.text_facts import text_facts

ImageRecordT = TypeVar("ImageRecordT", bound=ImageRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRequest(Generic[FactsT]):
    """The request for one answer, or the reason why the judge gets none.

    Attributes:
        request: None if the judge gets none.
        reason: Why there is no request.
        detail: The reason in words.
        facts: Counts about the request and the answer.
        answer: The answer; its images are files.
        answer_signature: Protocol and drawer of an answer of ``--model interleaved``, else None.
    """

    request: JudgeRequest | None = None
    reason: UnscoredReason = "no_answer"
    detail: str = ""
    facts: FactsT
    answer: Segments = ()
    answer_signature: str | None = None

    def withdrawn(self, reason: UnscoredReason, detail: str) -> BuiltRequest[FactsT]:
        """The same answer without a request."""
        facts = self.facts.without_request()
        return replace(self, request=None, reason=reason, detail=detail, facts=facts)

    def prepared(self, kind: type[ImageRecordT], **fields: object) -> Prepared[ImageRecordT]:
        """The answer with its record, of class `kind` and with the sample's `fields`."""
        record = kind.of(
            Verdicts.unscored(self.reason, self.detail),
            facts=self.facts,
            answer=self.answer,
            **fields,
        )
        return Prepared(record=record, request=self.request, drawn_by=self.answer_signature)


def build_request(
    results: Sequence[object],
    *,
    start: FactsT,
    build: Callable[[FactsT, Segments], BuiltRequest[FactsT]],
) -> BuiltRequest[FactsT]:
    """The request for an answer. Never raises, or a run's answers would be lost.

    Args:
        results: lmms-eval's results of the tested model: one text, or one per round.
        start: The benchmark's own facts before there is a request.
        build: Builds from facts and an answer whose images are files. Raises a `MmieTasksError`
            if something that every request needs is not available.
    """
    answer = read_answer(results)
    has_images = bool(answer.images)
    facts = replace(
        with_text(start, text_facts(answer.text, thinking=answer.thinking, is_expected=has_images)),
        shape=answer.shape,
        unread=answer.unread,
        unfilled_placeholders=answer.unfilled,
        unplaced=answer.unplaced,
        looks_unread=answer.looks_unread,
    )
    if answer.drawing:
        drawn = answer.drawing
        facts = replace(facts, drawn=drawn.drawn, not_drawn=drawn.failed, unused=drawn.unused)
    if answer.failure:
        built = BuiltRequest(reason="no_answer", detail=answer.failure, facts=facts)
    else:
        segments = resolver().resolved(answer.segments)
        try:
            built = build(facts, segments)
        except MmieTasksError as error:  # the setup was not checked before
            detail = first_line(error)
            built = BuiltRequest(reason="unavailable", detail=detail, facts=facts)
    if answer.drawing is None:
        return built
    if withheld := answer.drawing.withheld:
        built = built.withdrawn("not_drawn", f"pictures not drawn: {listed(withheld)}")
    return replace(built, answer_signature=answer.drawing.signature)
