"""Finding the saved answer of each sample: by its id, else by what it asks, else by its number.

A number alone says little: data grow, shrink and are sorted anew, and every later answer would be
scored against another question without a word. So a number counts only where gold answer and
input agree, or at least do not speak against it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mmie_tasks.answers.saved import (
    MISSING,
    Agreement,
    ContentKey,
    Format,
    RequestedSample,
    SavedAnswer,
    agreement,
    key_of_saved,
    keys_of_requested,
)
from mmie_tasks.core.errors import AnswersUnusable

# What came of the search for saved answers, and how it is said.

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


_SHARE_OF_GOLDS = 0.9
"""Below this share of agreeing gold answers, the numbers of a task are not believed."""


class Joiner:
    """Saved answers, ready to be looked up."""

    def __init__(self, saved: Sequence[SavedAnswer]) -> None:
        self._saved = saved
        self._by_id: defaultdict[str, list[int]] = defaultdict(list)
        self._by_number: defaultdict[tuple[str | None, int], list[int]] = defaultdict(list)
        self._by_content: defaultdict[ContentKey, list[int]] | None = None
        for index, answer in enumerate(saved):
            for each in answer.ids:
                self._by_id[each].append(index)
            if answer.doc_id is not None:
                self._by_number[answer.task, answer.doc_id].append(index)

    def knows(self, ids: Iterable[str], *, logged_as: str) -> bool:
        """Whether there is anything for the task: one of the ids, or its name in a log."""
        return any(each in self._by_id for each in ids) or any(
            answer.task == logged_as for answer in self._saved
        )

    def join(
        self,
        requested: Sequence[RequestedSample],
        *,
        logged_as: str | None = None,
        all_ids: Collection[str] = (),
    ) -> Joined:
        """Find the answers to samples of one task.

        Args:
            requested: The samples, each once.
            logged_as: The task's name in the logs, where it is another one.
            all_ids: The ids of all samples of the task, also of those not requested here.

        Raises:
            AnswersUnusable: Two answers claim the same sample; names both places.
        """
        task = requested[0].task if requested else ""
        search = _Search(self, requested, logged_as or task, all_ids)
        search.by_id()
        search.by_number()
        search.by_content()
        search.by_number_alone()
        return search.result(task)

    def with_id(self, sample_id: str) -> Sequence[int]:
        """Where in the saved answers this id occurs."""
        return self._by_id.get(sample_id, ())

    def with_number(self, task: str, doc_id: int) -> Sequence[int]:
        """Where the runner's number occurs, in logs of the task or in one that names none."""
        own = self._by_number.get((task, doc_id), [])
        return [*own, *self._by_number.get((None, doc_id), [])]

    def with_content(self, key: ContentKey) -> Sequence[int]:
        """Where the same question was answered."""
        if self._by_content is None:
            self._by_content = defaultdict(list)
            for index, answer in enumerate(self._saved):
                if (own := key_of_saved(answer)) is not None:
                    self._by_content[own].append(index)
        return self._by_content.get(key, ())

    @property
    def saved(self) -> Sequence[SavedAnswer]:
        """All of them, in the order they were read."""
        return self._saved


class _Search:
    """The search for the answers to one task's samples; each step leaves less to the next."""

    def __init__(
        self,
        joiner: Joiner,
        requested: Sequence[RequestedSample],
        logged_as: str,
        all_ids: Collection[str],
    ) -> None:
        self._joiner = joiner
        self._saved = joiner.saved
        self._requested = requested
        self._logged_as = logged_as
        self._found: dict[int, tuple[int, How]] = {}
        self._used: set[int] = set()
        self._asked: Counter[ContentKey] = Counter()
        self._disputed: set[int] = set()  # saved at a number whose sample asks something else
        self._confirmed = 0  # numbers whose content agreed
        self._rivals: dict[int, tuple[int, Agreement]] = {}  # at the same number, not believed yet
        known = all_ids or [each for sample in requested for each in sample.ids]
        prefixes = {each.rpartition("/")[0] for each in known if "/" in each}
        self._one_dataset = len(prefixes) == 1

    def by_id(self) -> None:
        for position, sample in enumerate(self._requested):
            for sample_id in self._spellings(sample):
                hits = self._eligible(self._joiner.with_id(sample_id), sample)
                if hits:
                    self._take(position, self._only(hits, f"id `{sample_id}`"), "id")
                    break

    def by_number(self) -> None:
        """Believe the runner's number where the content agrees; remember the rest."""
        ids_speak = bool(self._found)  # who has an id, and was not found by it, is another sample
        for position, sample in self._left():
            hits = self._joiner.with_number(self._logged_as, sample.doc_id)
            hits = [i for i in hits if not (ids_speak and self._saved[i].ids and sample.ids)]
            if not hits or hits[0] in self._used:
                continue
            index = self._only(hits, f"`{sample.task}`, number {sample.doc_id}")
            agreed = agreement(self._saved[index], sample)
            if agreed.content:
                self._confirmed += 1
                self._take(position, index, "content")
            else:
                self._rivals[position] = (index, agreed)
                self._disputed.add(index)

    def by_content(self) -> None:
        """Search elsewhere, if the number turned out wrong or another task was logged.

        Only where a question was asked once and answered once: many share text and gold answer
        and differ in the image.
        """
        left = self._left()
        if not left:
            return
        keys = {
            position: keys_of_requested(sample) for position, sample in enumerate(self._requested)
        }
        self._asked = asked = Counter(key for each in keys.values() for key in each)
        for position, _ in left:
            for key in keys[position]:
                hits = self._joiner.with_content(key)
                if len(hits) == 1 and asked[key] == 1 and self._may_move(position, hits[0]):
                    self._take(position, hits[0], "content")
                    break

    def by_number_alone(self) -> None:
        """Believe the number against another input text, which may differ from model to model."""
        right = self._confirmed
        wrong = 0
        for position, (index, agreed) in self._rivals.items():
            moved = position in self._found or index in self._used
            right += agreed.target is True and not moved
            wrong += agreed.target is False or moved
        if right < _SHARE_OF_GOLDS * (right + wrong):
            return
        for position, (index, agreed) in self._rivals.items():
            unclaimed = position not in self._found and index not in self._used
            anothers = key_of_saved(self._saved[index]) in self._asked
            if unclaimed and not anothers and agreed.target is not False:
                self._take(position, index, "position")

    def result(self, task: str) -> Joined:
        counts = Counter(how for _, how in self._found.values())
        answers = tuple(
            self._saved[self._found[position][0]] if position in self._found else None
            for position in range(len(self._requested))
        )
        mismatched = sum(position not in self._found for position in self._rivals)
        report = JoinReport(
            task=task,
            formats=tuple(sorted({answer.format for answer in answers if answer})),
            by_id=counts["id"],
            by_content=counts["content"],
            by_position=counts["position"],
            mismatched=mismatched,
            missing=answers.count(None) - mismatched,
            null=sum(map(is_null, answers)),
            unused=sum(
                answer.task in {None, self._logged_as} and index not in self._used
                for index, answer in enumerate(self._saved)
            ),
        )
        return Joined(answers, report)

    def _spellings(self, sample: RequestedSample) -> list[str]:
        bare = [each.rpartition("/")[2] for each in sample.ids if "/" in each]
        return [*sample.ids, *bare] if self._one_dataset else list(sample.ids)

    def _eligible(self, hits: Sequence[int], sample: RequestedSample) -> list[int]:
        """Answers to this task, or to none in particular; else to the same question in another.

        Ids such as ``17`` are those of many tasks, so there the content must not contradict.
        """
        own = [i for i in hits if self._saved[i].task in {None, self._logged_as}]
        return own or [i for i in hits if not agreement(self._saved[i], sample).contradicts]

    def _may_move(self, position: int, index: int) -> bool:
        """A log of this task may be read out of order only where its order is seen to be wrong."""
        other_task = self._saved[index].task not in {None, self._logged_as}
        wrong = other_task or index in self._disputed or position in self._rivals
        return wrong and index not in self._used

    def _left(self) -> list[tuple[int, RequestedSample]]:
        return [each for each in enumerate(self._requested) if each[0] not in self._found]

    def _take(self, position: int, index: int, how: How) -> None:
        self._found[position] = (index, how)
        self._used.add(index)

    def _only(self, hits: Sequence[int], what: str) -> int:
        if len(hits) > 1:
            first, second = (self._saved[index].where for index in hits[:2])
            raise AnswersUnusable(
                f"Two saved answers to {what}: {first}, and {second}.",
                hint="remove one of them, or point `path` at one file or folder",
            )
        return hits[0]
