"""Matches saved answers to the samples of a task by their ids."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.answers.saved import SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSample:
    """A sample that needs an answer.

    Attributes:
        ids: Its id, and its URL if the benchmark's own files name samples by URL.
        input: The text that is sent to the tested model.
    """

    ids: tuple[str, ...]
    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedAnswers:
    """The saved answers to samples of a task.

    Attributes:
        task: Name of the task.
        answers: The answer to each sample, which may be null; None without one.
        unanswered: Ids of the samples without an answer, by the numbers in them.
    """

    task: str
    answers: tuple[SavedAnswer | None, ...]
    unanswered: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of samples with an answer."""
        return len(self.answers) - len(self.unanswered)

    @property
    def counts(self) -> str:
        """How many samples have an answer: ``mmie: answers 9 of 10``."""
        return f"{self.task}: answers {self.count:,} of {len(self.answers):,}"


def padded_ids(given: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """The known id of each unknown one that lost its leading zeros, as in a spreadsheet: known id
    to given id.

    Digits are padded to the length of all known ids of digits, if these have one length.

    >>> padded_ids(["101", "0202", "x"], ["0101", "0202"])
    {'0101': '101'}
    """
    lengths = {len(one) for one in known if one.isdecimal()}
    if len(lengths) != 1:
        return {}
    (length,) = lengths
    ids = {*given}
    lost = {one.zfill(length): one for one in ids if one.isdecimal() and one not in known}
    return {id_: one for id_, one in lost.items() if id_ in known and id_ not in ids}


class AnswerMatcher:
    """Finds saved answers by their ids."""

    def __init__(self, saved: Sequence[SavedAnswer]) -> None:
        self.saved = saved
        self._tasks: set[str] = set()  # that were matched
        self._known: set[str] = set()  # the ids of their samples, as answers may have them
        self._by_id: dict[str, list[SavedAnswer]] = defaultdict(list)
        for answer in saved:
            self._by_id[answer.id].append(answer)

    def has_answers(self, ids: Collection[str]) -> bool:
        """Whether any answer has one of the ids."""
        return bool(self._by_id.keys() & {*ids} or padded_ids(self._by_id, ids))

    def match(
        self, task: str, samples: Sequence[RequestedSample], *, all_ids: Collection[str] = ()
    ) -> MatchedAnswers:
        """Match the answers to samples of a task; `all_ids` includes samples not requested here.

        An answer in the log of another task counts if the model was sent the same text:
        ``milebench`` includes the samples of ``milebench_DocVQA``, but not of its variants.

        Raises:
            AnswersUnusable: A sample has two answers.
        """
        known = {*all_ids, *(sample_id for sample in samples for sample_id in sample.ids)}
        padded = padded_ids(self._by_id, known)
        answers = tuple(self._only_answer(sample, task, padded) for sample in samples)
        self._tasks.add(task)
        self._known |= known | {*padded.values()}
        pairs = zip(samples, answers, strict=True)
        return MatchedAnswers(
            task=task,
            answers=answers,
            unanswered=tuple(
                sorted(("".join(one.ids[:1]) for one, answer in pairs if not answer), key=_numbers)
            ),
        )

    @property
    def of_no_sample(self) -> str:
        """How many saved answers have an id that no sample of the matched tasks has; may be empty.

        Those in logs of other tasks are not counted.
        """
        strangers = [
            answer
            for answer in self.saved
            if answer.id not in self._known and answer.task in {None, *self._tasks}
        ]
        if not strangers or not self._tasks:
            return ""
        have = "has an id" if len(strangers) == 1 else "have ids"
        return (
            f"{counted(len(strangers), 'answer')} {have} that no sample of "
            f"{', '.join(f'`{task}`' for task in sorted(self._tasks))} has, such as "
            f"`{strangers[0].id}`, {strangers[0].location}"
        )

    def no_match_error(self, task: str, samples: Sequence[RequestedSample]) -> AnswersUnusable:
        """The error for a task without any answer; it shows a requested and a saved id."""
        saved = self.saved[0]
        ids = samples[0].ids
        requested = f"id `{ids[0]}`" if ids else "samples without an id of their own"
        log = f" in a log of `{saved.task}`" if saved.task else ""
        return AnswersUnusable(
            f"None of the {len(self.saved)} saved answers is to `{task}` ({len(samples)} samples). "
            f"Requested: {requested}. Saved, for example: id `{saved.id}`{log} "
            f"({saved.location}).",
            hint=self._prefix_hint(samples)
            or "write ids as the benchmark does, name the file or folder with its answers, or "
            f"leave `{task}` out of `--tasks`",
        )

    def _prefix_hint(self, samples: Sequence[RequestedSample]) -> str:
        """What to write if saved ids lack the first part of ``TQA/1``; empty for other ids."""
        whole = {id_.rpartition("/")[2]: id_ for one in samples for id_ in one.ids if "/" in id_}
        short = [one.id for one in self.saved if one.id in whole][:1]
        return "".join(f"ids have a prefix: `{whole[id_]}` in place of `{id_}`" for id_ in short)

    def _only_answer(
        self, sample: RequestedSample, task: str, padded: Mapping[str, str]
    ) -> SavedAnswer | None:
        """`padded` has a sample's id to that of its answer where they differ: `padded_ids`."""
        with_id = [
            answer for one in sample.ids for answer in self._by_id.get(padded.get(one, one), ())
        ]
        answers = [answer for answer in with_id if answer.task in {None, task}] or [
            answer for answer in with_id if answer.input == sample.input
        ]
        if len({(answer.answer, answer.images) for answer in answers}) > 1:
            raise AnswersUnusable(
                f"Two saved answers to `{sample.ids[0]}`, a sample of `{task}`: "
                f"{answers[0].location}, and {answers[1].location}.",
                hint="remove one of them, or name one file or folder",
            )
        return answers[0] if answers else None


def _numbers(id_: str) -> list[str | int]:
    """The order of ids as people count: ``A/9`` before ``A/10``."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", id_)]
