"""Saved answers to the samples of a task, with their images: found, counted and checked."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.failures import NULL
from mmie_tasks.answers.images import ImageFile, ImageProblem, check_image
from mmie_tasks.answers.matcher import AnswerMatcher, MatchedAnswers, RequestedSample
from mmie_tasks.answers.saved import SUPPORTED_FILES, ResultText, SavedAnswer
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.model_answers import resolver
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.wording import counted, listed

_PROBLEMS: Mapping[ImageProblem, str] = {
    "missing": "does not exist",
    "unreadable": "is not an image that can be opened",
    "too_large": "has too many pixels",
    "remote": "is a URL, which is never fetched",
}
_FORMS = "name it as the path of an image, or as a data URI"
_UNREAD = "with JSON or an image in a form that is not read"
_ID_COLUMNS = ("id", "sample_id", "question_id", "index")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImages:
    """The images that a saved answer names in fields, parts or Markdown.

    Attributes:
        answer: The answer, with the absolute paths of the images that exist.
        count: The number of images.
        unusable: References in fields and parts that cannot be used, each with the problem: no such
            file, a header that cannot be read, a URL.
        unusable_in_markdown: Those in Markdown, which a text may only mention.
        moved: Paths of another machine, each with the file that was found by its end.
        elsewhere: Files that were found, by a relative path or another machine's, outside the
            folder of the saved answers.
        folders: The folders that were searched.
        location: File, position and field of the answer's id.
    """

    answer: ResultText
    count: int
    unusable: tuple[tuple[str, ImageProblem], ...]
    unusable_in_markdown: tuple[tuple[str, ImageProblem], ...]
    moved: Mapping[str, Path]
    elsewhere: tuple[Path, ...]
    folders: tuple[Path, ...]
    location: str


def named_images(saved: SavedAnswer) -> NamedImages:
    """Find the images that an answer names. Raises `AnswersUnusable` if it is not clear whether the
    images of its record are those of the answer.
    """
    answer, files = saved.with_images(), resolver(saved.folder)
    count, moved, rounds = 0, {}, []
    unusable: list[tuple[str, ImageProblem]] = []
    in_markdown: list[tuple[str, ImageProblem]] = []
    elsewhere: list[Path] = []
    for text in [answer] if isinstance(answer, str) else answer:
        read = read_answer([text])
        located = text
        for reference in read.images:
            count += 1
            file = files.locate(reference)
            opened = check_image(file.path, header_only=True) if file.path else file
            if file.path and _is_elsewhere(file, reference, saved.folder):
                elsewhere.append(file.path)
            if read.shape == "markdown":
                in_markdown += [(reference, opened.problem)] if opened.problem else []
                continue
            if file.path is not None:
                located = _with_path(located, reference, file.path)
                if file.is_moved:
                    moved[reference] = file.path
            if opened.problem:
                unusable.append((reference, opened.problem))
        rounds.append(located)
    return NamedImages(
        answer=rounds[0] if isinstance(answer, str) else tuple(rounds),
        count=count,
        unusable=tuple(unusable),
        unusable_in_markdown=tuple(in_markdown),
        moved=moved,
        elsewhere=tuple(elsewhere),
        folders=files.roots,
        location=saved.location,
    )


def _is_elsewhere(file: ImageFile, reference: str, folder: Path) -> bool:
    """Whether a file is neither below the folder of the saved answers nor at the path named."""
    is_at_its_path = Path(reference).expanduser().is_absolute() and not file.is_moved
    return not is_at_its_path and file.path is not None and not file.path.is_relative_to(folder)


def _with_path(answer: str, reference: str, path: Path) -> str:
    """An answer in JSON with a path in place of a reference."""
    for is_ascii in (True, False):
        old = json.dumps(reference, ensure_ascii=is_ascii)
        answer = answer.replace(old, json.dumps(str(path), ensure_ascii=False))
    return answer


@dataclass(frozen=True, kw_only=True)  # no slots: it keeps what it has read
class TaskAnswers:
    """Saved answers to samples of a task.

    Attributes:
        answers: The answer to each sample, with the absolute paths of its images; None without one.
        matched: The answers as they were saved, and how many are missing.
        images: The images that the answers name; None if the benchmark's answers are texts.
        unread_images: Number of images beside answers that are texts.
    """

    answers: tuple[ResultText | None, ...]
    matched: MatchedAnswers
    images: tuple[NamedImages, ...] | None = None
    unread_images: int = 0

    @property
    def text(self) -> str:
        """One line: ``mmie: answers 11 of 11, images 14 of 14``, and what is unusual."""
        counts, remarks = self.matched.counts, self._unusual
        if self.images is not None:
            count, problems = self._image_counts
            in_markdown = sum(len(one.unusable_in_markdown) for one in self.images)
            usable = count - problems.total() - in_markdown
            counts = f"{counts}, images {usable:,} of {count:,}"
            remarks += [listed(problems)] if problems.keys() - {"missing"} else []
            remarks += [f"{in_markdown:,} in Markdown missing"] if in_markdown else []
            if elsewhere := [path for one in self.images for path in one.elsewhere]:
                folder = os.path.commonpath([path.parent for path in elsewhere])
                remarks.append(f"{len(elsewhere):,} found in `{folder}`")
        if self.unread_images:
            remarks.append(f"{counted(self.unread_images, 'image')} not read")
        return "; ".join([counts, *remarks])

    @property
    def _unusual(self) -> list[str]:
        """How many answers are null, failures, empty or in a form that may not be read whole."""
        return [f"{count:,} {kind}" for kind, count in self._kinds.most_common()]

    @cached_property
    def _kinds(self) -> Counter[str]:
        """What is unusual about answers, and how many."""
        kinds = (_kind(answer) for answer in self.answers if answer is not None)
        return Counter(filter(None, kinds))

    @property
    def _image_counts(self) -> tuple[int, Counter[str]]:
        """The number of named images, and of those that cannot be used, by problem."""
        images = self.images or ()
        problems = Counter[str](problem for one in images for _, problem in one.unusable)
        return sum(one.count for one in images), problems

    def check(self, *, counts_missing: bool, images_option: str, count_option: str) -> None:
        """Check that every sample has its answer, and the answers their images.

        Args:
            counts_missing: Whether missing answers, and images that cannot be used, are only
                counted.
            images_option: How the user names the folder of the images, for the hint.
            count_option: How the user has what is missing counted, for the hint.

        Raises:
            AnswersUnusable: An answer is missing, two images were found as one file, or one cannot
                be used.
        """
        unanswered = self.matched.unanswered
        if unanswered and not counts_missing:
            raise AnswersUnusable(
                f"No answer to {len(unanswered):,} of {len(self.answers):,} samples of "
                f"`{self.matched.task}`, the first by its id: `{unanswered[0]}`.",
                hint="complete the answers, or score those that exist, and count the others as "
                f"unscored, with `{count_option}`; `--limit N` scores the first N samples",
            )
        first_of: dict[Path, str] = {}
        for reference, path in (pair for one in self.images or () for pair in one.moved.items()):
            if (first := first_of.setdefault(path, reference)) != reference:
                raise AnswersUnusable(
                    f"Two images of answers to `{self.matched.task}`, `{first:.200}` and "
                    f"`{reference:.200}`, were found by the ends of their paths as one file: "
                    f"`{path}`.",
                    hint=f"name a folder that has them in their folders with `{images_option}`",
                )
        if counts_missing or self.images is None:
            return
        if self._kinds[_UNREAD] == len(self.answers) > 1:
            first = self.answers[0] if isinstance(self.answers[0], str) else ""
            raise AnswersUnusable(
                f"{self.images[0].location}: this answer and all others to `{self.matched.task}` "
                f"look like JSON or an image in a form that is not read: `{first:.100}`.",
                hint=f"{SUPPORTED_FILES}; if they are texts, `{count_option}` scores them as such",
            )
        self._check_images(images_option, count_option)

    def _check_images(self, images_option: str, count_option: str) -> None:
        """Raise `AnswersUnusable` for the first image that cannot be used; those in Markdown, which
        a text may only mention, count if all images of the answers are such.
        """
        images = self.images or ()
        count, problems = self._image_counts
        in_markdown = [problem for one in images for _, problem in one.unusable_in_markdown]
        counts_markdown = len(in_markdown) == count > 1
        problems += Counter(in_markdown if counts_markdown else ())
        for one in images:
            unusable = one.unusable + (one.unusable_in_markdown if counts_markdown else ())
            if not unusable:
                continue
            reference, problem = unusable[0]
            is_unread = reference.startswith("{")
            what = "is in a form that is not read" if is_unread else _PROBLEMS[problem]
            is_elsewhere = problem == "missing" and not is_unread
            way_out = f"name the images' folder with `{images_option}`" if is_elsewhere else _FORMS
            folders = ", ".join(f"`{folder}`" for folder in one.folders)
            raise AnswersUnusable(
                f"{one.location}: the answer's image `{reference:.200}` {what}. "
                f"{problems.total():,} of {counted(count, 'image')} of answers to "
                f"`{self.matched.task}` cannot be used: {listed(problems)}. Searched in {folders}.",
                hint=f"{way_out}, or score the answers without them, and count them, with "
                f"`{count_option}`",
            )


def _kind(answer: ResultText) -> str:
    """What is unusual about an answer; empty if nothing is."""
    if answer == NULL:
        return "null"
    read = read_answer([answer] if isinstance(answer, str) else answer)
    if read.failure:
        return "with an error in place of an answer"
    if not read.images and not read.text.strip():
        return "empty"
    return _UNREAD if read.looks_unread else ""


def answers_to(
    task: str,
    benchmark: Benchmark | None,
    matcher: AnswerMatcher,
    samples: Sequence[RequestedSample],
    all_ids: Collection[str],
) -> TaskAnswers:
    """Find the answers to samples of a task; `all_ids` includes samples not requested.

    Raises:
        AnswersUnusable: A sample has two answers, or it is not clear whose the images beside an
            answer are.
    """
    matched = matcher.match(task, samples, all_ids=all_ids)
    if benchmark is not None and benchmark.has_picture_answers:
        named = [None if saved is None else named_images(saved) for saved in matched.answers]
        return TaskAnswers(
            answers=tuple(None if one is None else one.answer for one in named),
            matched=matched,
            images=tuple(filter(None, named)),
        )
    return TaskAnswers(
        answers=tuple(None if saved is None else saved.answer for saved in matched.answers),
        matched=matched,
        unread_images=sum(len(saved.images) for saved in matched.answers if saved),
    )


def search_images(
    benchmarks: Iterable[Benchmark], paths: Sequence[Path], images: Path | None
) -> None:
    """Search for the images of answers below `images`, or else below the only path.

    Several paths are not searched: their images may have the same names.
    """
    answers_path = images or (paths[0] if len(paths) == 1 else None)
    if answers_path is not None:
        folder = answers_path if answers_path.is_dir() else answers_path.parent
        for benchmark in benchmarks:
            benchmark.add_answer_folder(folder)


def id_columns(docs: object) -> list[list[str]]:
    """The column of unique ids, if there is one, and the column ``url``, by which MIA-Bench's own
    files of answers name samples.
    """
    columns = {name: _texts(docs, name) for name in (*_ID_COLUMNS, "url")}
    ids = next((columns[name] for name in _ID_COLUMNS if columns[name]), [])
    return [column for column in (ids, columns["url"]) if column]


def id_of(doc: object) -> str | None:
    """The id of a sample; None if it has no column of ids."""
    fields = doc if isinstance(doc, Mapping) else {}
    return next((str(fields[name]) for name in _ID_COLUMNS if name in fields), None)


def _texts(docs: object, name: str) -> list[str]:
    """A column of unique texts or numbers, as texts; empty for other columns."""
    from datasets import Dataset

    column: list[object] = []
    if isinstance(docs, Dataset) and name in docs.column_names:
        column = list(docs.select_columns([name])[name])
    elif isinstance(docs, list) and all(isinstance(doc, Mapping) and name in doc for doc in docs):
        column = [doc[name] for doc in docs]
    texts = {str(value): None for value in column if isinstance(value, str | int) and value != ""}
    return list(texts) if len(texts) == len(column) else []
