"""The record of an MMIE sample: what a run logs about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from typing_extensions import override

from mmie_tasks.record.answer_facts import AnswerFacts, properties_of
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.record import ImageRecord, Line
from mmie_tasks.record.sample import LoggedSample

_TITLES = {
    "shape": "shape of the answer",
    "answer_images": "images in the answer",
    "shown_images": "images shown to the judge",
    "truncated": "truncated",
    "dropped": "dropped",
    "missing_images": "missing images",
    "bad_images": "bad images",
    "drawn": "pictures drawn",
}
_COUNTS = {"image_problems": "images of the answer not used"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts(AnswerFacts):
    """Counts about an answer and its request; some answers have no request.

    Attributes:
        dropped: Whether the official script leaves the sample out, for more than 4 images.
        missing_images: Image references without a file.
        bad_images: Images, in files or in data URIs, that cannot be used.
        image_problems: Missing and unusable images of the answer, by reason.
        truncated: Whether the limit on images removed text or images of the answer.
        typed: Control string in the question or the answer to its number.
        shown_images: Images in the request, including the question's.
        answer_images: Images of the answer, in the request or not.
    """

    dropped: bool = False
    missing_images: int = 0
    bad_images: int = 0
    image_problems: Mapping[str, int] = field(default_factory=dict)
    truncated: bool = False
    typed: Mapping[str, int] = field(default_factory=dict)
    shown_images: int = 0
    answer_images: int = 0


class MmieRecord(ImageRecord):
    """The record of a sample of MMIE.

    Attributes:
        index: Position in the order of the data file, from 0.
        category: The sample's category.
        field: The released field; empty if the data has none.
        facts: Counts about the answer and its request.
    """

    index: int = 0
    category: Literal["SA", "PBL", "MSR"]
    field: str = ""
    facts: RequestFacts = RequestFacts()

    @property
    def judge_tokens(self) -> int | None:
        """Tokens of the request, as the (first) judge reports them; None if unknown."""
        reply = self.judgements[0].result.reply if self.judgements else None
        return (reply.usage.input_tokens or None) if reply else None

    @property
    @override
    def groups(self) -> dict[str, tuple[str, ...]]:
        field_slug = slug(self.field)
        return {"category": (self.category,), **({"field": (field_slug,)} if field_slug else {})}

    @property
    @override
    def shown_properties(self) -> dict[str, str | float | bool]:
        shown = properties_of(self.facts, _TITLES, _COUNTS)
        if self.judge_tokens:
            shown["judge tokens"] = self.judge_tokens
        if marks := ", ".join(self.facts.typed):
            shown["typed control marks"] = marks
        return shown

    @override
    def sample(self, line: Line) -> LoggedSample:
        return replace(super().sample(line), answer_cut=self.facts.truncated)
