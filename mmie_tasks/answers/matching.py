"""Match saved answers to the samples of a task by their ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.answers.saved import AnswerFormat, SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable

SampleIds: TypeAlias = Sequence[str]
"""The id of a sample; and its URL if the benchmark's own files name samples by URLs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReport:
    """How many samples of a task have an answer.

    Attributes:
        task: Its name.
        formats: The formats of the matched answers.
        matched: Samples with an answer.
        missing: Samples without one.
        null: Samples whose answer is null; they are among the matched.
        strangers: Saved answers to this task, or to none in particular, whose id no sample has.
    """

    task: str
    formats: tuple[AnswerFormat, ...]
    matched: int
    missing: int
    null: int = 0
    strangers: tuple[SavedAnswer, ...] = ()

    @property
    def doubtful(self) -> bool:
        """Whether a user should check it: an answer is missing or null."""
        return self.missing > 0 or self.null > 0

    def text(self) -> str:
        """The report as one line.

        >>> print(MatchReport(
        ...     task="mmie", formats=("id and answer",), matched=9, missing=1).text())
        mmie: 9 of 10 answers found (format: id and answer); 1 missing
        """
        formats = f"format: {', '.join(self.formats)}" if self.formats else "none"
        total = f"{self.matched} of {self.matched + self.missing} answers found ({formats})"
        counts = ((self.missing, "missing"), (self.null, "null"))
        texts = [f"{count} {problem}" for count, problem in counts if count]
        if self.strangers:
            one = self.strangers[0]
            texts.append(
                f"{len(self.strangers)} with an id that no sample has, such as `{one.id}` "
                f"({one.location})"
            )
        return "; ".join([f"{self.task}: {total}", *texts])


@dataclass(frozen=True, slots=True)
class MatchedAnswers:
    """The answers in the order of the samples, None if there is none, and the report."""

    answers: tuple[SavedAnswer | None, ...]
    report: MatchReport


class AnswerMatcher:
    """Saved answers by their ids.

    Args:
        saved: The answers, in the order in which they were read.
    """

    def __init__(self, saved: Sequence[SavedAnswer]) -> None:
        self.saved = saved
        self._by_id: dict[str, list[SavedAnswer]] = defaultdict(list)
        for answer in saved:
            self._by_id[answer.id].append(answer)

    def has_answers(self, ids: Iterable[str], task: str) -> bool:
        """Whether a task has any answer to one of the ids."""
        return any(self._answers((sample_id,), task) for sample_id in ids)

    def match(
        self, task: str, samples: Sequence[SampleIds], *, all_ids: Collection[str] = ()
    ) -> MatchedAnswers:
        """Match the answers to samples of one task.

        Answers in a log of another task do not count.

        Args:
            task: Name of the task.
            samples: The ids of the requested samples.
            all_ids: The ids of all samples of the task, also of those not requested here.

        Raises:
            AnswersUnusable: A sample has two answers; names both locations.
        """
        answers = tuple(self._only_answer(ids, task) for ids in samples)
        known = {*all_ids, *(sample_id for ids in samples for sample_id in ids)}
        missing = answers.count(None)
        report = MatchReport(
            task=task,
            formats=tuple(sorted({answer.format for answer in answers if answer})),
            matched=len(answers) - missing,
            missing=missing,
            null=sum(answer is not None and answer.answer == MISSING for answer in answers),
            strangers=tuple(
                answer
                for answer in self.saved
                if answer.task in {None, task} and answer.id not in known
            ),
        )
        return MatchedAnswers(answers, report)

    def no_match_error(self, task: str, samples: Sequence[SampleIds]) -> AnswersUnusable:
        """The error for a task without a single answer; shows an id of either side."""
        saved = self.saved[0]
        requested = f"id `{samples[0][0]}`" if samples[0] else "samples without an id"
        log = f" in a log of `{saved.task}`" if saved.task else ""
        return AnswersUnusable(
            f"None of the {len(self.saved)} saved answers is to `{task}` ({len(samples)} samples). "
            f"Requested: {requested}. Saved, for example: id `{saved.id}`{log} "
            f"({saved.location}).",
            hint="point `path` at the answers to this task",
        )

    def _answers(self, ids: SampleIds, task: str) -> list[SavedAnswer]:
        found = (answer for sample_id in ids for answer in self._by_id.get(sample_id, ()))
        return [answer for answer in found if answer.task in {None, task}]

    def _only_answer(self, ids: SampleIds, task: str) -> SavedAnswer | None:
        answers = self._answers(ids, task)
        if len(answers) > 1:
            raise AnswersUnusable(
                f"Two saved answers to `{ids[0]}`, a sample of `{task}`: {answers[0].location}, "
                f"and {answers[1].location}.",
                hint="remove one of them, or point `path` at one file or folder",
            )
        return answers[0] if answers else None
