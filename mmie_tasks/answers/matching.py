"""Match saved answers to samples: by id, otherwise by the question, otherwise by number.

A number alone is weak evidence: data grow, shrink and are sorted anew, and every later answer
would be scored against another question without notice. So a number counts only where gold answer
and input agree, or at least do not contradict it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Literal, TypeAlias

from mmie_tasks.answers.parsing import MISSING
from mmie_tasks.answers.saved import Format, SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable

_MatchKind: TypeAlias = Literal["id", "content", "position"]
_ContentKey: TypeAlias = tuple[str, ...]
"""What a question is looked up by: its text, `_normalised`, with the gold answer, or the runner's
hash.
"""

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
    formats: tuple[Format, ...]
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


@dataclass(frozen=True, slots=True)
class _Agreement:
    """Whether gold answer and input are the same; None if one side does not know."""

    target: bool | None
    input: bool | None

    @classmethod
    def of(cls, saved: SavedAnswer, sample: RequestedSample) -> _Agreement:
        same_input = same_target = None
        if saved.target is not None and sample.target is not None:
            same_target = saved.target == sample.target
        if sample.input is not None and saved.input is not None:
            same_input = _normalised(saved.input) == _normalised(sample.input)
        elif sample.input is not None and saved.input_hash is not None:
            same_input = saved.input_hash == runner_hash(sample.input)
        return cls(target=same_target, input=same_input)

    @property
    def same_question(self) -> bool:
        """The input is the same, and the gold answer does not contradict."""
        return self.input is True and self.target is not False

    @property
    def contradicts(self) -> bool:
        return self.input is False or self.target is False


def _saved_key(saved: SavedAnswer) -> _ContentKey | None:
    """The key of a saved answer's question; None if its file does not tell."""
    if saved.input is not None and saved.target is not None:
        return ("text", _normalised(saved.input), saved.target)
    return None if saved.input_hash is None else ("hash", saved.input_hash)


class AnswerMatcher:
    """Saved answers, indexed for matching.

    Args:
        saved: All of them, in the order they were read.

    Attributes:
        saved: The same.
        by_id: Id to the indices of the answers with it.
        by_number: Task in the log (None if it names none) and number to the indices.
    """

    def __init__(self, saved: Sequence[SavedAnswer]) -> None:
        self.saved = saved
        self.by_id: dict[str, list[int]] = {}
        self.by_number: dict[tuple[str | None, int], list[int]] = {}
        for index, answer in enumerate(saved):
            for sample_id in answer.ids:
                self.by_id.setdefault(sample_id, []).append(index)
            if answer.doc_id is not None:
                self.by_number.setdefault((answer.task, answer.doc_id), []).append(index)

    def has_answers(self, ids: Iterable[str], task: str) -> bool:
        """Whether any answer has one of the ids, or is from a log of the task."""
        return any(sample_id in self.by_id for sample_id in ids) or any(
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
        task = requested[0].task if requested else ""
        ids = all_ids or [sample_id for sample in requested for sample_id in sample.ids]
        prefixes = {sample_id.rpartition("/")[0] for sample_id in ids if "/" in sample_id}
        search = _Search(
            matcher=self, requested=requested, task=task, has_one_dataset=len(prefixes) == 1
        )
        search.by_id()
        search.by_number()
        search.by_content()
        search.by_number_alone()
        return search.result()

    @cached_property
    def by_content(self) -> dict[_ContentKey, list[int]]:
        """Key of a question to the indices of the answers to it."""
        by_content: dict[_ContentKey, list[int]] = {}
        for index, answer in enumerate(self.saved):
            if (key := _saved_key(answer)) is not None:
                by_content.setdefault(key, []).append(index)
        return by_content


@dataclass(kw_only=True)
class _Search:
    """The search for the answers to one task's samples; each step leaves less to the next.

    Samples are identified by their position in `requested`, answers by their index in the
    matcher's `saved`.
    """

    matcher: AnswerMatcher
    requested: Sequence[RequestedSample]
    task: str
    has_one_dataset: bool
    matches: dict[int, tuple[int, _MatchKind]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    requested_counts: Counter[_ContentKey] = field(default_factory=Counter)
    disputed: set[int] = field(default_factory=set)  # at the number of another question's sample
    confirmed: int = 0  # numbers whose content agreed
    # The same number, but unknown content:
    unconfirmed: dict[int, tuple[int, _Agreement]] = field(default_factory=dict)

    def by_id(self) -> None:
        saved = self.matcher.saved
        for position, sample in enumerate(self.requested):
            bare_ids = [name.rpartition("/")[2] for name in sample.ids if "/" in name]
            for sample_id in (*sample.ids, *(bare_ids if self.has_one_dataset else ())):
                indices = self.matcher.by_id.get(sample_id, [])
                own = [i for i in indices if saved[i].task in {None, self.task}]
                # Ids such as `17` occur in many tasks, so there the content must not contradict.
                if indices := own or [
                    i for i in indices if not _Agreement.of(saved[i], sample).contradicts
                ]:
                    self._assign(position, self._only(indices, f"id `{sample_id}`"), "id")
                    break

    def by_number(self) -> None:
        """Accept the runner's number where the content agrees; remember the rest."""
        # If ids match at all, an answer with an id that did not match is to another sample.
        has_id_matches = bool(self.matches)
        for position, sample in self._unmatched():
            indices = [
                index
                for task in (self.task, None)
                for index in self.matcher.by_number.get((task, sample.doc_id), [])
                if not (has_id_matches and self.matcher.saved[index].ids and sample.ids)
            ]
            if not indices or indices[0] in self.used:
                continue
            index = self._only(indices, f"`{sample.task}`, number {sample.doc_id}")
            agreement = _Agreement.of(self.matcher.saved[index], sample)
            if agreement.same_question:
                self.confirmed += 1
                self._assign(position, index, "content")
            else:
                self.unconfirmed[position] = (index, agreement)
                self.disputed.add(index)

    def by_content(self) -> None:
        """Search the answers to this task by question, if a number turned out wrong.

        Only for questions that were asked once and answered once: many share text and gold answer
        and differ in the image.
        """
        if not (unmatched := self._unmatched()):
            return
        keys: list[list[_ContentKey]] = []
        for sample in self.requested:
            text, target = sample.input, sample.target
            hash_keys = [] if text is None else [("hash", runner_hash(text))]
            text_keys = (
                [] if text is None or target is None else [("text", _normalised(text), target)]
            )
            keys.append([*text_keys, *hash_keys])
        self.requested_counts = counts = Counter(chain.from_iterable(keys))
        for position, _ in unmatched:
            for key in keys[position]:
                indices = [
                    index
                    for index in self.matcher.by_content.get(key, [])
                    if self.matcher.saved[index].task in {None, self.task}
                ]
                if len(indices) != 1 or counts[key] != 1 or indices[0] in self.used:
                    continue
                # An answer may be used out of order only if the order of its log is wrong.
                if indices[0] in self.disputed or position in self.unconfirmed:
                    self._assign(position, indices[0], "content")
                    break

    def by_number_alone(self) -> None:
        """Accept the number with another input text, which may differ from model to model."""
        agreeing = self.confirmed
        contradicting = 0
        for position, (index, agreement) in self.unconfirmed.items():
            moved = position in self.matches or index in self.used
            agreeing += agreement.target is True and not moved
            contradicting += agreement.target is False or moved
        if agreeing < _MIN_SHARE_OF_GOLDS * (agreeing + contradicting):
            return
        for position, (index, agreement) in self.unconfirmed.items():
            is_free = position not in self.matches and index not in self.used
            is_anothers = _saved_key(self.matcher.saved[index]) in self.requested_counts
            if is_free and not is_anothers and agreement.target is not False:
                self._assign(position, index, "position")

    def result(self) -> MatchedAnswers:
        counts = Counter(kind for _, kind in self.matches.values())
        answers = tuple(
            self.matcher.saved[self.matches[position][0]] if position in self.matches else None
            for position in range(len(self.requested))
        )
        mismatched = sum(position not in self.matches for position in self.unconfirmed)
        report = MatchReport(
            task=self.task,
            formats=tuple(sorted({answer.format for answer in answers if answer})),
            by_id=counts["id"],
            by_content=counts["content"],
            by_position=counts["position"],
            mismatched=mismatched,
            missing=answers.count(None) - mismatched,
            null=sum(answer is not None and answer.answer == MISSING for answer in answers),
            unused=sum(
                answer.task in {None, self.task} and index not in self.used
                for index, answer in enumerate(self.matcher.saved)
            ),
        )
        return MatchedAnswers(answers, report)

    def _unmatched(self) -> list[tuple[int, RequestedSample]]:
        return [pair for pair in enumerate(self.requested) if pair[0] not in self.matches]

    def _assign(self, position: int, index: int, kind: _MatchKind) -> None:
        self.matches[position] = (index, kind)
        self.used.add(index)

    def _only(self, indices: Sequence[int], sample_name: str) -> int:
        if len(indices) > 1:
            first, second = (self.matcher.saved[index].location for index in indices[:2])
            raise AnswersUnusable(
                f"Two saved answers to {sample_name}: {first}, and {second}.",
                hint="remove one of them, or point `path` at one file or folder",
            )
        return indices[0]
