"""Match saved answers to samples: by id, otherwise by the runner's number in the same task.

A number alone is weak evidence: data grow, shrink and are sorted anew, and every later answer
would be scored against another question without notice. So the answer at a sample's number counts

* if it was given to the same question;
* if its question differs, as prompts differ from model to model, or is not known: only if it is not
  the question of another sample, the gold answer does not differ, and at least 90 % of the task's
  gold answers agree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.answers.saved import AnswerFormat, SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable

# Of the answer at a sample's number: none, to another question, to the same, or not told apart.
_NumberKind: TypeAlias = Literal["none", "another's", "question", "number"]

_IMAGE_PLACEHOLDER = re.compile(r"<image[ _]?\d*>|\[image[ _]?\d*\]", re.IGNORECASE)
_MIN_SHARE_OF_GOLDS = 0.9  # with fewer agreeing gold answers, the numbers of a task do not count


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSample:
    """A sample that needs an answer.

    Attributes:
        task: Name of its task.
        doc_id: The runner's number of it.
        ids: Candidates for its id, the most reliable first.
        input: The text that the tested model is sent.
        target: The gold answer as text.
    """

    task: str
    doc_id: int
    ids: tuple[str, ...] = ()
    input: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReport:
    """How the answers to one task were matched, in numbers of samples.

    Attributes:
        by_content: Input and gold answer are the same.
        by_position: The runner's number is the same; the input is not, or is unknown.
        mismatched: The answer saved at the sample's number belongs to another question.
        unused: Saved answers, of this task or of no task in particular, without a sample.
        null: Matched, and null.
    """

    task: str
    formats: tuple[AnswerFormat, ...]
    by_id: int
    by_content: int
    by_position: int
    missing: int
    mismatched: int
    unused: int
    null: int = 0

    @property
    def matched(self) -> int:
        """Samples with an answer."""
        return self.by_id + self.by_content + self.by_position

    @property
    def requested(self) -> int:
        """All requested samples."""
        return self.matched + self.missing + self.mismatched

    @property
    def doubtful(self) -> bool:
        """Whether a user should check it: an answer is missing, null, or matched by number only."""
        return self.matched < self.requested or self.by_position > 0 or self.null > 0

    def text(self) -> str:
        """The report as one line.

        >>> print(MatchReport(task="mmie", formats=("id and answer",), by_id=9, by_content=0,
        ...                   by_position=0, missing=1, mismatched=0, unused=0).text())
        mmie: 9 of 10 answers found (9 by id; format: id and answer); 1 missing
        """
        kinds = (
            (self.by_id, "by id"),
            (self.by_content, "by content"),
            (self.by_position, "by position only, with another or unknown input"),
        )
        problems = (
            (self.missing, "missing"),
            (self.mismatched, "saved for another question"),
            (self.null, "null"),
            (self.unused, "saved answers of other samples"),
        )
        matches = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
        total = f"{self.matched} of {self.requested} answers found"
        details = f"{matches}; format: {', '.join(self.formats)}" if matches else "none"
        counted = [f"{count} {problem}" for count, problem in problems if count]
        return "; ".join([f"{self.task}: {total} ({details})", *counted])


@dataclass(frozen=True, slots=True)
class MatchedAnswers:
    """The answers in the order of the samples, None if there is none, and the report."""

    answers: tuple[SavedAnswer | None, ...]
    report: MatchReport


def no_match_error(
    requested: Sequence[RequestedSample], saved: Sequence[SavedAnswer]
) -> AnswersUnusable:
    """The error for a task without a single answer; shows how both sides name their samples."""
    sample, answer = requested[0], saved[0]
    requested_name, saved_name = (
        f"id `{one.ids[0]}`"
        if one.ids
        else f"`{one.task or 'a task that is not named'}`, number {one.doc_id}"
        for one in (sample, answer)
    )
    return AnswersUnusable(
        f"None of the {len(saved)} saved answers is to `{sample.task}` "
        f"({len(requested)} samples). Requested: {requested_name}. Saved, for example: "
        f"{saved_name} ({answer.location}).",
        hint="point `path` at the answers to this task",
    )


def runner_hash(text: str) -> str:
    """The runner's hash of a request's text (``caching/response_cache.py`` of lmms-eval)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _normalised(text: str) -> str:
    r"""The text without image placeholders and surplus white space, which differ by model.

    >>> _normalised("<image 1> What is [image 2]\n this?")
    'What is this?'
    """
    return " ".join(_IMAGE_PLACEHOLDER.sub(" ", text).split())


def _question(saved: SavedAnswer) -> str | None:
    """What can be compared with `_questions`; None if the answer was saved without its question."""
    return saved.input_hash if saved.input is None else _normalised(saved.input)


def _questions(sample: RequestedSample) -> set[str]:
    """The forms in which the sample's question may have been saved: the text, and its hash."""
    return set() if sample.input is None else {_normalised(sample.input), runner_hash(sample.input)}


def _same_question(saved: SavedAnswer, sample: RequestedSample) -> bool | None:
    """Whether the questions are the same; None if one side does not know."""
    question, questions = _question(saved), _questions(sample)
    return question in questions if question is not None and questions else None


def _same_target(saved: SavedAnswer, sample: RequestedSample) -> bool | None:
    """Whether the gold answers are the same; None if one side does not know."""
    if saved.target is None or sample.target is None:
        return None
    return saved.target == sample.target


def _only(answers: Sequence[SavedAnswer], sample_name: str) -> SavedAnswer | None:
    """The only answer, None if there is none."""
    if len(answers) > 1:
        raise AnswersUnusable(
            f"Two saved answers to {sample_name}: {answers[0].location}, and "
            f"{answers[1].location}.",
            hint="remove one of them, or point `path` at one file or folder",
        )
    return answers[0] if answers else None


class AnswerMatcher:
    """Saved answers, indexed for matching.

    Args:
        saved: All of them, in the order they were read.
    """

    def __init__(self, saved: Sequence[SavedAnswer]) -> None:
        self.saved = saved
        self._by_id: dict[str, list[SavedAnswer]] = {}
        self._by_number: dict[tuple[str | None, int], list[SavedAnswer]] = {}
        for answer in saved:
            for sample_id in answer.ids:
                self._by_id.setdefault(sample_id, []).append(answer)
            if answer.doc_id is not None:
                self._by_number.setdefault((answer.task, answer.doc_id), []).append(answer)

    def has_answers(self, ids: Iterable[str], task: str) -> bool:
        """Whether any answer has one of the ids, or is from a log of the task."""
        return any(sample_id in self._by_id for sample_id in ids) or any(
            answer.task == task for answer in self.saved
        )

    def match(
        self, requested: Sequence[RequestedSample], *, all_ids: Collection[str] = ()
    ) -> MatchedAnswers:
        """Match the answers to samples of one task.

        Args:
            requested: The samples, without repeats.
            all_ids: The ids of all samples of the task, also of those not requested here.

        Raises:
            AnswersUnusable: Two answers claim the same sample; names both locations.
        """
        ids = all_ids or [sample_id for sample in requested for sample_id in sample.ids]
        datasets = {sample_id.rpartition("/")[0] for sample_id in ids if "/" in sample_id}
        by_id = [self._with_id(sample, bare_ids=len(datasets) == 1) for sample in requested]
        has_ids = any(by_id)
        at_number = [
            None if answer else self._at_number(sample, has_ids=has_ids)
            for sample, answer in zip(requested, by_id, strict=True)
        ]
        kinds = _kinds_of_numbers(requested, at_number)
        answers = tuple(
            answer or (other if kind in ("question", "number") else None)
            for answer, other, kind in zip(by_id, at_number, kinds, strict=True)
        )
        task = requested[0].task if requested else ""
        mismatched = kinds.count("another's")
        report = MatchReport(
            task=task,
            formats=tuple(sorted({answer.format for answer in answers if answer})),
            by_id=len(by_id) - by_id.count(None),
            by_content=kinds.count("question"),
            by_position=kinds.count("number"),
            mismatched=mismatched,
            missing=answers.count(None) - mismatched,
            null=sum(answer is not None and answer.answer == MISSING for answer in answers),
            unused=_count_of(task, self.saved) - _count_of(task, answers),
        )
        return MatchedAnswers(answers, report)

    def _with_id(self, sample: RequestedSample, *, bare_ids: bool) -> SavedAnswer | None:
        """The answer with the first of the sample's ids that has one.

        Ids such as `17` occur in many tasks: in the log of another task, question and gold answer
        must not differ.
        """
        bare = [sample_id.rpartition("/")[2] for sample_id in sample.ids] if bare_ids else []
        for sample_id in (*sample.ids, *bare):
            answers = self._by_id.get(sample_id, [])
            own = [answer for answer in answers if answer.task in {None, sample.task}]
            others = [
                answer
                for answer in answers
                if _same_question(answer, sample) is not False
                and _same_target(answer, sample) is not False
            ]
            if answer := _only(own or others, f"id `{sample_id}`"):
                return answer
        return None

    def _at_number(self, sample: RequestedSample, *, has_ids: bool) -> SavedAnswer | None:
        """The answer at the sample's number.

        If ids match at all, an answer with an id that did not match is to another sample.
        """
        answers = [
            answer
            for task in (sample.task, None)
            for answer in self._by_number.get((task, sample.doc_id), [])
            if not (has_ids and answer.ids and sample.ids)
        ]
        return _only(answers, f"`{sample.task}`, number {sample.doc_id}")


def _kinds_of_numbers(
    requested: Sequence[RequestedSample], at_number: Sequence[SavedAnswer | None]
) -> list[_NumberKind]:
    """What the answers at the samples' numbers are: see the module's docstring."""
    questions = {question for sample in requested for question in _questions(sample)}
    kinds: list[_NumberKind] = []
    n_same_golds = 0
    for sample, answer in zip(requested, at_number, strict=True):
        if answer is None:
            kinds.append("none")
        elif _same_target(answer, sample) is False:
            kinds.append("another's")
        elif _same_question(answer, sample):
            kinds.append("question")
        elif _question(answer) in questions:
            kinds.append("another's")
        else:
            kinds.append("number")
            n_same_golds += _same_target(answer, sample) is True
    agreeing = kinds.count("question") + n_same_golds
    if agreeing >= _MIN_SHARE_OF_GOLDS * (agreeing + kinds.count("another's")):
        return kinds
    return ["another's" if kind == "number" else kind for kind in kinds]


def _count_of(task: str, answers: Iterable[SavedAnswer | None]) -> int:
    """How many answers are of a task, or of none in particular."""
    return sum(answer is not None and answer.task in {None, task} for answer in answers)
