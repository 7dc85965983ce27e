"""``--model predictions --model_args path=...``: scores saved answers instead of a model's.

With ``t2i=DRAWER``, a text-to-image model draws the images that the answers ask for: see
`mmie_tasks.drawing`.

To the runner this is a chat model, whose images ``doc_to_messages`` would open. It is never called
here, so a run needs no images.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from accelerate import Accelerator  # type: ignore[import-untyped]
from lmms_eval.api.model import lmms
from loguru import logger

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.answers.matcher import AnswerMatcher, RequestedSample
from mmie_tasks.answers.saved import ResultText, answer_paths, read_answers
from mmie_tasks.benchmarks.registry import benchmark_of_task, dataset_names, entries
from mmie_tasks.benchmarks.task_answers import answers_to, id_columns, search_images
from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.drawing.answers import AnswerDrawer, UndrawnAnswer

_ARGUMENTS = (
    "--model_args path=FILE_OR_FOLDER[;MORE][,model=NAME][,images=FOLDER][,missing=stop|count]"
    "[,t2i=DRAWER:MODEL]"
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
    task_object: Any


class Predictions(lmms):  # type: ignore[misc]  # the runner is untyped
    """A model that returns saved answers.

    Args:
        path: A file or folder of saved answers, or several separated by ``;``, as
            `mmie_tasks.answers.saved.answer_paths` reads them.
        model: The tested model; by default what `mmie_tasks.answers.saved.SavedAnswers` says, and
            ``predictions`` if that is nothing.
        images: A folder to search for the images of answers, written as one of `path`.
        missing: ``stop`` ends the run before anything is judged if answers are missing, or images
            that they name in a field or part and that the benchmark shows to its judge; ``count``
            goes on without them, and counts them.
        t2i: A drawer as ``NAME:MODEL`` or ``NAME:k=v;k=v``, which draws what answers ask for.
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
        t2i: object = "",
        **others: object,
    ) -> None:
        super().__init__()
        self.accelerator = Accelerator()  # the runner gathers with it when there are several ranks
        self.device = self.accelerator.device
        try:
            paths, folder = answer_paths(str(path)), next(iter(answer_paths(str(images))), None)
            _check_arguments(folder, missing, others)
            reading = read_answers(paths, dataset_names())
            search_images([entry.load() for entry in entries()], paths, folder)
            self._drawer = AnswerDrawer.open(str(t2i), os.environ) if t2i else None
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        writer = str(model) or reading.model or "predictions"
        self.tested_model = f"{writer} + {self._drawer.drawer.name}" if self._drawer else writer
        self._matcher = AnswerMatcher(reading.answers)
        self._counts_missing = missing == "count"
        if self.accelerator.is_main_process:
            for note in reading.notes:
                logger.info("predictions: {}", note)  # `score` has printed it

    def generate_until(self, requests: Sequence[_RunnerRequest]) -> list[str | list[str]]:
        """Return the saved answer to each request, `MISSING` if there is none.

        Raises:
            SystemExit: A sample has two answers or none, images of answers are missing, or the
                drawer cannot draw.
        """
        parsed = [_parse(request) for request in requests]
        by_task: dict[str, dict[int, _ParsedRequest]] = {}
        for request in parsed:
            by_task.setdefault(request.task, {})[request.doc_id] = request
        try:
            saved = {task: self._answers(task, [*ours.values()]) for task, ours in by_task.items()}
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        if strangers := self._matcher.of_no_sample:
            logger.info("predictions: {}", strangers)
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
        found = answers_to(task, benchmark_of_task(task), self._matcher, samples, all_ids)
        shared = self.world_size > 1 and self._matcher.has_answers(all_ids)
        if not found.matched.count and not shared:
            raise self._matcher.no_match_error(task, samples)
        found.check(
            counts_missing=self._counts_missing,
            images_option="--model_args ...,images=FOLDER",
            count_option="--model_args ...,missing=count",
        )
        rank = f" (rank {self.rank} of {self.world_size})" if self.world_size > 1 else ""
        logger.info("predictions{}: {}", rank, found.text)
        answers = [MISSING if answer is None else answer for answer in found.answers]
        doc_ids = [request.doc_id for request in requests]
        return self._drawn(task, requests[0].task_object, dict(zip(doc_ids, answers, strict=True)))

    def _drawn(
        self,
        task: str,
        task_object: Any,  # noqa: ANN401 - the runner's
        answers: dict[int, ResultText],
    ) -> dict[int, ResultText]:
        """The answers, by document, with the images that they ask for."""
        benchmark = benchmark_of_task(task)
        if self._drawer is None or benchmark is None or not benchmark.has_picture_answers:
            return answers
        docs = task_object.eval_docs_no_media
        undrawn = {
            doc_id: UndrawnAnswer(
                sample_id=str(docs[doc_id]["id"]),
                text=answer,
                limit=benchmark.picture_limit(docs[doc_id]),
            )
            for doc_id, answer in answers.items()
            if isinstance(answer, str)
        }
        drawn = self._drawer.draw(list(undrawn.values()), shows_bar=self.rank == 0)
        return {**answers, **dict(zip(undrawn, drawn, strict=True))}

    def clean(self) -> None:
        """Free the memory of the drawer; the runner calls it after generation."""
        if self._drawer is not None:
            self._drawer.drawer.close()
        super().clean()


def _check_arguments(images: Path | None, missing: object, others: Collection[str]) -> None:
    message = ""
    if unknown := sorted(set(others) - _PASSED_BY_THE_RUNNER):
        names = ", ".join(f"`{name}`" for name in unknown)
        message = f"The model `predictions` has no argument {names}."
    elif images and not images.is_dir():
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
