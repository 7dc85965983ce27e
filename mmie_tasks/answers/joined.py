"""What came of the search for saved answers, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mmie_tasks.answers.content import RequestedSample
from mmie_tasks.answers.saved import Format, SavedAnswer
from mmie_tasks.answers.sentinels import MISSING
from mmie_tasks.errors import AnswersUnusable

How = Literal["id", "content", "position"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport:
    """How the answers to one task were found, in numbers of samples."""

    task: str
    formats: tuple[Format, ...]
    by_id: int
    by_content: int  # input and gold answer are the same
    by_position: int  # the runner's number is the same, the input is not, or is not known
    missing: int  # nothing saved
    mismatched: int  # what was saved at the sample's number answers another question
    unused: int  # saved answers, of this task or of no task in particular, nobody asked for
    null: int = 0  # found, and null

    @property
    def matched(self) -> int:
        """Samples with an answer, whatever it was found by."""
        return self.by_id + self.by_content + self.by_position

    @property
    def requested(self) -> int:
        """All samples asked for."""
        return self.matched + self.missing + self.mismatched

    @property
    def doubtful(self) -> bool:
        """Whether a reader should look twice: something is missing, or was found by number only."""
        return self.matched < self.requested or self.by_position > 0 or self.null > 0

    def text(self) -> str:
        """The report as one line.

        >>> print(JoinReport(task="mmie", formats=("id and answer",), by_id=9, by_content=0,
        ...                  by_position=0, missing=1, mismatched=0, unused=0).text())
        mmie: 9 of 10 answers found (9 by id; id and answer); 1 missing
        """
        ways = [
            f"{count} by {way}"
            for count, way in (
                (self.by_id, "id"),
                (self.by_content, "content"),
                (self.by_position, "position only, with another or unknown input"),
            )
            if count
        ]
        found = f"{self.matched} of {self.requested} answers found"
        how = "; ".join([", ".join(ways), *self.formats]) if ways else "none"
        rest = [
            f"{count} {what}"
            for count, what in (
                (self.missing, "missing"),
                (self.mismatched, "saved for another question"),
                (self.null, "null"),
                (self.unused, "saved answers not asked for"),
            )
            if count
        ]
        return "; ".join([f"{self.task}: {found} ({how})", *rest])


@dataclass(frozen=True, slots=True)
class Joined:
    """The answers in the order of the samples, None where there is none, and the report."""

    answers: tuple[SavedAnswer | None, ...]
    report: JoinReport


def nothing_found(
    requested: Sequence[RequestedSample], saved: Sequence[SavedAnswer]
) -> AnswersUnusable:
    """The error for a task without a single answer; shows how both sides name their samples."""
    sample, answer = requested[0], saved[0]
    wanted = f"id `{sample.ids[0]}`" if sample.ids else f"`{sample.task}`, number {sample.doc_id}"
    if answer.ids:
        has = f"id `{answer.ids[0]}`"
    else:
        has = f"`{answer.task or 'a task that is not named'}`, number {answer.doc_id}"
    return AnswersUnusable(
        f"None of the {len(saved)} saved answers is to `{sample.task}` "
        f"({len(requested)} samples). Wanted: {wanted}. Saved, for example: {has} "
        f"({answer.where}).",
        hint="if the task had another name, `rename=TASK_NOW:TASK_IN_THE_LOG`; "
        "else point `path` at the answers to this task",
    )


def is_null(answer: SavedAnswer | None) -> bool:
    """Whether an answer was found, and was null."""
    return answer is not None and answer.answer == MISSING
