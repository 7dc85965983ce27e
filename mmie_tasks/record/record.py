"""The record of a sample: everything needed to show it and to score it again.

A run logs it under `RECORD_KEY` in each line of the sample log. Every command reads it, and needs
no code of the benchmark for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from mmie_tasks.core.verdict import Scored, ScoreKind, Unscored, Verdict, Verdicts
from mmie_tasks.record.facts import Facts
from mmie_tasks.record.judgement import Judgement, combine
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import IMAGE_PLACEHOLDER, Segments
from mmie_tasks.record.signature import SharedSignature, Signature

Line: TypeAlias = Mapping[str, object]
"""One line of a sample log, as lmms-eval wrote it."""

RECORD_KEY = "record"
"""The key of the record in a sample's line."""

ALL = "all"
"""The group of all samples; not listed in `Record.groups`."""

NOT_JUDGED = Verdicts.unscored("unavailable", "")
"""The verdicts on an answer before it is judged."""

NO_REPLY = "the log does not hold the reply or answer"
_OLD = "a log of an earlier version, whose scores can no longer be read"
_OLD_HINT = (
    "its answers can be scored again: `mmie-tasks score LOG --tasks TASK`, or `--model predictions "
    "--model_args path=LOG`"
)

_LOGGED_CHARS = 80  # a verdict's reading may be the whole answer; a sign follows where it is cut
_UNION_MEMBERS = ("Scored", "Unscored", "int", "float", "str")


class BadRecord(ValueError):
    """A log line is not a scored sample of a benchmark; `hint` is what to do, if that is known."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Record(BaseModel):
    """What a run logs of one sample of any benchmark.

    Attributes:
        id: Unique within the benchmark.
        groups: Kind of group to the sample's groups: ``{"category": ("SA",)}``.
        question: Texts and images of the question, as the tested model got them.
        gold: The reference answer; empty if there is none.
        answer: The tested model's answer without its thinking, as it was scored.
        verdicts: All verdicts, on the benchmark's own scale; `scored` cuts long readings.
        judgements: Replies and verdicts of each judge, in order; empty without judge requests.
        signature: Everything that can move the score.
        facts: What was noted about the answer and its request.
        sample: The benchmark's own sample, as far as the verdicts depend on it.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    groups: Mapping[str, tuple[str, ...]] = {}
    question: Segments = ()
    gold: Segments = ()
    answer: Segments = ()
    verdicts: Verdicts
    judgements: tuple[Judgement, ...] = ()
    signature: SharedSignature = Signature()
    facts: Facts = {}
    sample: Mapping[str, Any] = {}

    @property
    def official(self) -> Verdict:
        """The official verdict."""
        return self.verdicts.official

    @property
    def robust(self) -> Verdict:
        """The robust verdict."""
        return self.verdicts.robust

    @property
    def differs(self) -> bool:
        """Whether official and robust points differ, or only one verdict has points."""
        return self.verdicts.differ

    @property
    def replies(self) -> tuple[JudgeReply, ...]:
        """All judges' replies, judge by judge."""
        return tuple(r for judgement in self.judgements for r in judgement.result.replies)

    @property
    def members(self) -> tuple[Judgement, ...]:
        """The judgements of a panel; empty for a single judge."""
        return self.judgements if self.signature.is_panel else ()

    @property
    def answer_text(self) -> str:
        """The texts of the answer, one per line."""
        return "\n".join(segment.text for segment in self.answer if segment.text)

    @property
    def logged(self) -> dict[str, object]:
        """The record as it is logged: without fields that have their default."""
        return self.model_dump(exclude_defaults=True)

    def verdict(self, kind: ScoreKind) -> Verdict:
        """The verdict of this kind, on the benchmark's own scale."""
        return self.verdicts.verdict(kind)

    def names(self, kind: str) -> tuple[str, ...]:
        """The sample's groups of this kind."""
        return (ALL,) if kind == ALL else self.groups.get(kind, ())

    def scored(self, verdicts: Verdicts) -> Record:
        """The record with other verdicts."""
        return self.model_copy(update={"verdicts": _shortened(verdicts)})

    def judged(self, judgements: Sequence[Judgement]) -> Record:
        """The record with the verdicts of a judge, or the combined verdicts of a panel."""
        scored = self.scored(combine(judgements))
        return scored.model_copy(update={"judgements": tuple(judgements)})

    def regraded(self, grade: Callable[[JudgeResult], Verdicts]) -> Record:
        """The record with `grade`'s verdicts on its saved replies.

        Raises:
            BadRecord: The log does not hold the replies of a score.
        """
        return self.judged([_regraded(judgement, grade) for judgement in self.judgements])

    def line(self, line: Line, full_marks: float) -> dict[str, object]:
        """The runner's line with the record, after columns of plain values.

        pandas, Weights & Biases, the viewer of the Hub and lmms-eval's own show the columns first,
        and need not know the record. lmms-eval's ``--baseline`` compares the column ``score``.

        * ``id``: The sample's id.
        * ``score`` and ``robust``: Official and robust score as shares of full marks, 0 to 1.
        * ``unscored``: Why there is no official score.
        * ``question`` and ``answer``: Their texts, with ``<image>`` for each image.
        * ``reply``: The judges' replies.

        A column without a value is None.
        """
        official = self.official
        columns = {
            "id": self.id,
            "score": _share(official, full_marks),
            "robust": _share(self.robust, full_marks),
            "unscored": official.reason if isinstance(official, Unscored) else None,
            "question": _flat(self.question),
            "answer": _flat(self.answer),
            "reply": "\n\n".join(reply.text for reply in self.replies) or None,
        }
        others = {name: value for name, value in line.items() if name != RECORD_KEY}
        return {**columns, **others, RECORD_KEY: self.logged}

    @classmethod
    def of_line(cls, line: Line) -> Record:
        """The record of a line.

        Raises:
            BadRecord: The line has no record, or a field is missing or malformed; names the field.
        """
        record = line.get(RECORD_KEY)
        if not isinstance(record, Mapping):
            raise BadRecord(
                f"no record under `{RECORD_KEY}`: not a scored sample of a task of ours"
            )
        if "official" in record and "verdicts" not in record:
            raise BadRecord(_OLD, hint=_OLD_HINT)
        try:
            return cls.model_validate(record)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            # For a verdict of neither kind, a wrong field says more than a missing one.
            detail = next((d for d in details if d["type"] != "missing"), details[0])
            name = ".".join(str(part) for part in detail["loc"] if part not in _UNION_MEMBERS)
            value = repr(detail["input"])[:80]
            raise BadRecord(f"`{name}` is {value}: {detail['msg']}") from error


def is_scored(line: Line) -> bool:
    """Whether the line has a record; lines of ``--predict_only`` runs have none."""
    return "bypass" not in line or RECORD_KEY in line


def _shortened(verdicts: Verdicts) -> Verdicts:
    official, robust = _short(verdicts.official), _short(verdicts.robust)
    if official is verdicts.official and robust is verdicts.robust:
        return verdicts
    return replace(verdicts, official=official, robust=robust)


def _short(verdict: Verdict) -> Verdict:
    if isinstance(verdict, Scored) and len(verdict.reading) > _LOGGED_CHARS + 1:
        return Scored(verdict.points, f"{verdict.reading[:_LOGGED_CHARS]}…")
    return verdict


def _regraded(judgement: Judgement, grade: Callable[[JudgeResult], Verdicts]) -> Judgement:
    if judgement.result != JudgeResult():
        return replace(judgement, verdicts=grade(judgement.result))
    if isinstance(judgement.verdicts.official, Scored):
        raise BadRecord(NO_REPLY)
    return judgement


def _share(verdict: Verdict, full_marks: float) -> float | None:
    return verdict.points / full_marks if isinstance(verdict, Scored) else None


def _flat(segments: Segments) -> str:
    return "".join(
        f"{segment.text or ''}{IMAGE_PLACEHOLDER if segment.image or segment.problem else ''}"
        for segment in segments
    )
