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
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.answers.parsing import MISSING
from mmie_tasks.answers.saved import AnswerFormat, SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable

_MatchKind: TypeAlias = Literal["id", "question", "number"]

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
        task: Name of the task.
        formats: Formats of the matched answers.
        by_id: Matched by an id.
        by_content: Input and gold answer are the same.
        by_position: The runner's number is the same; the input is not, or is unknown.
        missing: Without a saved answer.
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


def _same_target(saved: SavedAnswer, sample: RequestedSample) -> bool | None:
    """Whether the gold answers are the same; None if one side does not know."""
    if saved.target is None or sample.target is None:
        return None
    return saved.target == sample.target


def _same_question(saved: SavedAnswer, sample: RequestedSample) -> bool | None:
    """Whether the questions are the same; None if one side does not know."""
    if sample.input is None:
        return None
    if saved.input is not None:
        return _normalised(saved.input) == _normalised(sample.input)
    return None if saved.input_hash is None else saved.input_hash == runner_hash(sample.input)


class AnswerMatcher:
    """Saved answers, indexed for matching.

    Args:
        saved: All of them, in the order they were read.

    Attributes:
        saved: The same.
    """

    def __init__(self, saved: Sequence[SavedAnswer]) -> None:
        self.saved = saved
        self._by_id: dict[str, list[int]] = {}
        self._by_number: dict[tuple[str | None, int], list[int]] = {}
        for index, answer in enumerate(saved):
            for sample_id in answer.ids:
                self._by_id.setdefault(sample_id, []).append(index)
            if answer.doc_id is not None:
                self._by_number.setdefault((answer.task, answer.doc_id), []).append(index)

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
        matches: dict[int, tuple[int, _MatchKind]] = {}  # position in `requested` to an answer
        for position, sample in enumerate(requested):
            bare_ids = [sample_id.rpartition("/")[2] for sample_id in sample.ids]
            candidates = (*sample.ids, *(bare_ids if len(datasets) == 1 else ()))
            index = self._index_by_id(sample, candidates)
            if index is not None:
                matches[position] = (index, "id")
        at_number = self._indices_by_number(requested, matches)
        matches |= self._matches_by_number(requested, at_number)
        return self._result(requested, matches, mismatched=len(at_number.keys() - matches.keys()))

    def _index_by_id(self, sample: RequestedSample, ids: Iterable[str]) -> int | None:
        """The answer with the first of the ids that has one.

        Ids such as `17` occur in many tasks: in the log of another task, question and gold answer
        must not differ.
        """
        for sample_id in ids:
            indices = self._by_id.get(sample_id, [])
            own = [i for i in indices if self.saved[i].task in {None, sample.task}]
            indices = own or [
                i
                for i in indices
                if _same_question(self.saved[i], sample) is not False
                and _same_target(self.saved[i], sample) is not False
            ]
            if indices:
                return self._only(indices, f"id `{sample_id}`")
        return None

    def _indices_by_number(
        self, requested: Sequence[RequestedSample], matches: Mapping[int, tuple[int, _MatchKind]]
    ) -> dict[int, int]:
        """The answer at the number of each sample without a match, by the sample's position.

        If ids match at all, an answer with an id that did not match is to another sample.
        """
        used = {index for index, _ in matches.values()}
        at_number: dict[int, int] = {}
        for position, sample in enumerate(requested):
            indices = [
                index
                for task in (sample.task, None)
                for index in self._by_number.get((task, sample.doc_id), [])
                if not (matches and self.saved[index].ids and sample.ids)
            ]
            if position not in matches and indices and indices[0] not in used:
                name = f"`{sample.task}`, number {sample.doc_id}"
                at_number[position] = self._only(indices, name)
        return at_number

    def _matches_by_number(
        self, requested: Sequence[RequestedSample], at_number: Mapping[int, int]
    ) -> dict[int, tuple[int, _MatchKind]]:
        """Which of the answers at the samples' numbers count: see the module's docstring."""
        questions = {_normalised(sample.input) for sample in requested if sample.input is not None}
        hashes = {runner_hash(sample.input) for sample in requested if sample.input is not None}
        matches: dict[int, tuple[int, _MatchKind]] = {}
        unconfirmed: dict[int, tuple[int, _MatchKind]] = {}
        agreeing = differing = 0
        for position, index in at_number.items():
            saved = self.saved[index]
            same_question = _same_question(saved, requested[position])
            same_target = _same_target(saved, requested[position])
            is_anothers = not same_question and (
                saved.input_hash in hashes
                or (saved.input is not None and _normalised(saved.input) in questions)
            )
            if same_target is False or is_anothers:
                differing += 1
            elif same_question:
                agreeing += 1
                matches[position] = (index, "question")
            else:
                agreeing += same_target is True
                unconfirmed[position] = (index, "number")
        if agreeing >= _MIN_SHARE_OF_GOLDS * (agreeing + differing):
            matches |= unconfirmed
        return matches

    def _result(
        self,
        requested: Sequence[RequestedSample],
        matches: Mapping[int, tuple[int, _MatchKind]],
        mismatched: int,
    ) -> MatchedAnswers:
        task = requested[0].task if requested else ""
        counts = Counter(kind for _, kind in matches.values())
        used = {index for index, _ in matches.values()}
        answers = tuple(
            self.saved[matches[position][0]] if position in matches else None
            for position in range(len(requested))
        )
        report = MatchReport(
            task=task,
            formats=tuple(sorted({answer.format for answer in answers if answer})),
            by_id=counts["id"],
            by_content=counts["question"],
            by_position=counts["number"],
            mismatched=mismatched,
            missing=answers.count(None) - mismatched,
            null=sum(answer is not None and answer.answer == MISSING for answer in answers),
            unused=sum(
                answer.task in {None, task} and index not in used
                for index, answer in enumerate(self.saved)
            ),
        )
        return MatchedAnswers(answers, report)

    def _only(self, indices: Sequence[int], sample_name: str) -> int:
        if len(indices) > 1:
            first, second = (self.saved[index].location for index in indices[:2])
            raise AnswersUnusable(
                f"Two saved answers to {sample_name}: {first}, and {second}.",
                hint="remove one of them, or point `path` at one file or folder",
            )
        return indices[0]
