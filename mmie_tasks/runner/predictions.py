"""``--model predictions --model_args path=...``: scores saved answers instead of a model's.

To the runner this is a chat model, whose images ``doc_to_messages`` would open. It is never called
here, so a run needs no images.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from accelerate import Accelerator  # type: ignore[import-untyped]
from lmms_eval.api.model import lmms
from loguru import logger

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.answers.matcher import AnswerMatcher, RequestedSample
from mmie_tasks.answers.saved import ResultText, read_answers
from mmie_tasks.benchmarks.model_answers import NamedImages, named_images
from mmie_tasks.benchmarks.registry import benchmark_of_task, dataset_names, entries
from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.runner.answer_files import id_columns

_ARGUMENTS = (
    "--model_args path=FILE_OR_FOLDER[;MORE][,model=NAME][,images=FOLDER][,missing=stop|count]"
)
_PASSED_BY_THE_RUNNER = {"batch_size", "max_batch_size", "device"}


class _RunnerRequest(Protocol):
    """The part of the runner's ``Instance`` that is used here."""

    @property
    def args(self) -> tuple[object, ...]:
        """``(ctx, doc_to_messages, gen_kwargs, doc_id, task, split)`` of a chat task."""
        ...


@dataclass(frozen=True, slots=True)
class _ParsedRequest:
    """The parts of a request that identify its sample; the task's object may be unknown (None)."""

    task: str
    doc_id: int
    input: str
    task_object: object


class Predictions(lmms):  # type: ignore[misc]  # the runner is untyped
    """A model that returns saved answers.

    Args:
        path: A file or folder of saved answers, or several separated by ``;``. See
            `mmie_tasks.answers.saved.SUPPORTED_FILES`.
        model: The tested model; by default what `mmie_tasks.answers.saved.SavedAnswers` says, and
            ``predictions`` if that is nothing.
        images: A folder to search for the images of answers, for several paths.
        missing: ``stop`` ends the run before anything is judged if images that answers name in a
            field or part do not exist and the benchmark shows them to its judge; ``count`` goes on
            without them, and counts them.
        others: The runner's own arguments are ignored; others are an error.

    Raises:
        SystemExit: Answers or arguments cannot be used. The runner exits with status 0 on every
            other exception (``__main__.py``, ``cli_evaluate``).
    """

    is_simple = False

    def __init__(
        self,
        path: object = "",
        model: object = "",
        images: object = "",
        missing: object = "stop",
        **others: object,
    ) -> None:
        super().__init__()
        self.accelerator = Accelerator()  # the runner gathers with it when there are several ranks
        self.device = self.accelerator.device
        try:
            _check_arguments(images, missing, others)
            benchmarks = [entry.load() for entry in entries()]
            reading = read_answers(str(path), dataset_names())
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        self.tested_model = str(model) or reading.model or "predictions"
        self._matcher = AnswerMatcher(reading.answers)
        self._counts_missing = missing == "count"
        answers_path = Path(str(images or path)).expanduser()
        if answers_path.exists():  # not for several paths, whose pictures may have the same names
            folder = answers_path if answers_path.is_dir() else answers_path.parent
            for benchmark in benchmarks:
                benchmark.add_answer_folder(folder)
        if self.accelerator.is_main_process:
            for note in reading.notes:
                logger.warning("predictions: {}", note)

    def generate_until(self, requests: Sequence[_RunnerRequest]) -> list[str | list[str]]:
        """Return the saved answer to each request, `MISSING` if there is none.

        Raises:
            SystemExit: A sample has two answers, no sample of a task has one, or images of answers
                are missing.
        """
        parsed = [_parse(request) for request in requests]
        by_task: dict[str, dict[int, _ParsedRequest]] = {}
        for request in parsed:
            by_task.setdefault(request.task, {})[request.doc_id] = request
        try:
            saved = {task: self._answers(task, [*ours.values()]) for task, ours in by_task.items()}
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        answers = (saved[request.task][request.doc_id] for request in parsed)
        return [answer if isinstance(answer, str) else list(answer) for answer in answers]

    def generate_until_multi_round(
        self, requests: Sequence[_RunnerRequest]
    ) -> list[str | list[str]]:
        """Return saved answers like `generate_until`; rounds are a list."""
        return self.generate_until(requests)

    def loglikelihood(self, requests: Sequence[_RunnerRequest]) -> NoReturn:
        """Refuse: saved texts have no likelihoods."""
        raise _unsupported(requests, "requests likelihoods")

    def generate_visual_cot(self, requests: Sequence[_RunnerRequest]) -> NoReturn:
        """Refuse: the images between the steps were not saved."""
        raise _unsupported(requests, "requests the images between its steps")

    def _answers(self, task: str, requests: Sequence[_ParsedRequest]) -> dict[int, ResultText]:
        """Match the samples of a task to saved answers, and log one line about it.

        A rank may have no answer to any of its samples. That is an error only if no rank has one.
        """
        columns = id_columns(getattr(requests[0].task_object, "eval_docs_no_media", None))
        samples = [
            RequestedSample(
                ids=tuple(column[request.doc_id] for column in columns), input=request.input
            )
            for request in requests
        ]
        all_ids = {sample_id for column in columns for sample_id in column}
        matched = self._matcher.match(task, samples, all_ids=all_ids)
        shared = self.world_size > 1 and self._matcher.has_answers(all_ids)
        if not matched.report.matched and not shared:
            raise self._matcher.no_match_error(task, samples)
        saved = {
            request.doc_id: answer
            for request, answer in zip(requests, matched.answers, strict=True)
            if answer
        }
        benchmark = benchmark_of_task(task)
        if benchmark is not None and benchmark.has_picture_answers:
            named = {doc_id: named_images(one) for doc_id, one in saved.items()}
            answers = {doc_id: images.answer for doc_id, images in named.items()}
            note = self._images_note(task, [*named.values()])
        else:
            answers = {doc_id: one.answer for doc_id, one in saved.items()}
            n_images = sum(len(one.images) for one in saved.values())
            note = f"; {counted(n_images, 'image')} beside them not read" if n_images else ""
        level = "WARNING" if matched.report.doubtful else "INFO"
        rank = f" (rank {self.rank} of {self.world_size})" if self.world_size > 1 else ""
        logger.log(level, "predictions{}: {}{}", rank, matched.report.text(), note)
        return {request.doc_id: answers.get(request.doc_id, MISSING) for request in requests}

    def _images_note(self, task: str, named: Sequence[NamedImages]) -> str:
        """How many of the images that answers name exist; raises if some do not, unless the run is
        to count them, or if two were found as one file.
        """
        first_of: dict[Path, str] = {}
        for reference, path in (pair for images in named for pair in images.moved.items()):
            if (first := first_of.setdefault(path, reference)) != reference:
                raise AnswersUnusable(
                    f"Two images of answers to `{task}`, `{first:.200}` and `{reference:.200}`, "
                    f"were found by the ends of their paths as one file: `{path}`.",
                    hint="name a folder that has them in their folders with `--model_args "
                    "...,images=FOLDER`",
                )
        count = sum(images.count for images in named)
        n_missing = sum(len(images.missing) for images in named)
        if n_missing and not self._counts_missing:
            lacking = next(images for images in named if images.missing)
            folders = ", ".join(f"`{folder}`" for folder in lacking.folders)
            raise AnswersUnusable(
                f"{lacking.location}: the answer's image `{lacking.missing[0]:.200}` does not "
                f"exist. Missing: {n_missing:,} of {counted(count, 'image')} of answers to "
                f"`{task}`. Searched in {folders}.",
                hint="name the images' folder with `--model_args ...,images=FOLDER`, or score the "
                "answers without them, and count them, with `--model_args ...,missing=count`",
            )
        return f"; {count - n_missing:,} of {counted(count, 'image')} found" if count else ""


def _check_arguments(images: object, missing: object, others: Collection[str]) -> None:
    message = ""
    if unknown := sorted(set(others) - _PASSED_BY_THE_RUNNER):
        names = ", ".join(f"`{name}`" for name in unknown)
        message = f"The model `predictions` has no argument {names}."
    elif images and not Path(str(images)).expanduser().is_dir():
        message = f"`images=` of `predictions` is `{images}`, which is not a folder."
    elif missing not in ("stop", "count"):
        message = f"`missing=` of `predictions` is `{missing}`, not `stop` or `count`."
    if message:
        raise SettingWrong(message, hint=_ARGUMENTS)


def _parse(request: _RunnerRequest) -> _ParsedRequest:
    match request.args:
        case (str(text), messages, _, int(doc_id), str(task), _) if callable(messages):
            return _ParsedRequest(task, doc_id, text, getattr(messages, "__self__", None))
    raise _unsupported([request], "sends requests of an unknown kind")


def _unsupported(requests: Sequence[object], why: str) -> SystemExit:
    task = getattr(next(iter(requests), None), "task_name", None)
    error = AnswersUnusable(
        f"`{task or 'a task'}` {why}, and `predictions` has only texts, saved from "
        "generate_until and generate_until_multi_round.",
        hint="leave that task out of `--tasks`",
    )
    return SystemExit(str(error))
