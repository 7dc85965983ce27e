"""Finding the saved answer of each sample: by its id, else by what it asks, else by its number.

A number alone says little: data grow, shrink and are sorted anew, and every later answer would be
scored against another question without a word. So a number counts only where gold answer and
input agree, or at least do not speak against it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from mmie_tasks.answers.content import (
    Agreement,
    ContentKey,
    RequestedSample,
    agreement,
    key_of_saved,
    keys_of_requested,
)
from mmie_tasks.answers.joined import How, Joined, JoinReport, is_null
from mmie_tasks.answers.saved import SavedAnswer
from mmie_tasks.errors import AnswersUnusable

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
