"""Saves the tested model's answers before they are judged.

lmms-eval writes answers at the end of a run, which may be after hours of judging. So a run with a
judge saves all answers when the last one has been generated, as
``<date>-<id>_answers_<task>.jsonl`` in the folder of its results. Lines have the fields of
lmms-eval's sample log that ``--model predictions`` reads; the files stay.
"""

from __future__ import annotations

import json
import shlex
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from loguru import logger

from mmie_tasks.answers.saved import answer_paths, is_uri
from mmie_tasks.benchmarks.task_answers import id_columns
from mmie_tasks.core.files import atomic_write
from mmie_tasks.record.model_name import model_name
from mmie_tasks.runner.loaded_tasks import Task


@runtime_checkable
class NamedModel(Protocol):
    """A model of lmms-eval that itself names the tested model; others are named by arguments."""

    tested_model: str


@dataclass(slots=True)
class RunOutput:
    """Where a run writes its results and answers; `has_samples` if it logs its samples."""

    has_samples: bool = False
    _model: object = None  # `--model`
    _model_args: object = None
    _tracker: Any = None
    _date: str = ""
    _id: str = ""  # in the names of answers: runs that begin in one second have one date
    _has_warned: bool = False
    _has_saved: bool = False

    @classmethod
    def of_run(cls, options: Mapping[str, Any]) -> RunOutput:
        """The output of a run, by the arguments of ``simple_evaluate`` with their defaults.

        A path that the runner would split at a comma is a URI, as by `argument_of`.
        """
        owners: list[Any] = [options.get("evaluation_tracker"), options.get("cli_args")]
        for owner in owners:
            if is_uri(path := str(getattr(owner, "output_path", ""))):
                owner.output_path = str(answer_paths(path)[0])
        return cls(
            has_samples=bool(options.get("log_samples")),
            _model=options.get("model"),
            _model_args=options.get("model_args"),
            _tracker=options.get("evaluation_tracker"),
            _date=str(options.get("datetime_str")).replace(":", "-"),
            _id=uuid.uuid4().hex[:8],
        )

    def name_folder(self, model: NamedModel) -> None:
        """Name the folder of the results, which the runner names by ``--model_args``."""
        from lmms_eval.utils import sanitize_model_name

        if config := getattr(self._tracker, "general_config_tracker", None):
            config.model_name = model.tested_model
            config.model_name_sanitized = sanitize_model_name(model.tested_model)

    @property
    def tested_model(self) -> str:
        """The tested model, as the results file names it."""
        config = getattr(self._tracker, "general_config_tracker", None)
        return model_name(self._model, self._model_args, getattr(config, "model_name", None))

    @property
    def path(self) -> str | None:
        """The run's ``--output_path``, if any."""
        return getattr(self._tracker, "output_path", None) or None

    @property
    def folder(self) -> Path | None:
        """The folder of the results; None without ``--output_path``.

        The runner names it when the tested model is loaded (``loggers/evaluation_tracker.py:216``).
        """
        config = getattr(self._tracker, "general_config_tracker", None)
        name = getattr(config, "model_name_sanitized", None) or ""
        return None if self.path is None else Path(self.path, name)

    @property
    def resume_hint(self) -> str:
        """How to score the saved answers; empty if none are saved."""
        if self._model == "predictions":
            return "the same command again" if self._has_saved else ""
        arguments = shlex.quote(f"model={self.tested_model},path={self.folder}")
        command = f"the same command with `--model predictions --model_args {arguments}`"
        return command if self._has_saved else ""

    def warn_of_what_is_not_saved(self) -> None:
        """Warn once if an option is missing without which results, samples or answers are lost."""
        if self._has_warned or (self.path and self.has_samples):
            return
        self._has_warned = True
        option, lost = "--log_samples", "no samples, which `report`, `compare` and others need"
        if self.path is None:
            option = "--output_path"
            lost = "no results, and no answers if it ends while they are judged"
        hint = "hint: `--output_path DIR --log_samples`"
        logger.warning(f"mmie-tasks: without `{option}`, this run saves {lost}. {hint}")

    def save(self, tasks: Sequence[Task]) -> None:
        """Write the answers of all processes, on the first one; a failure is logged."""
        if self.folder is None:
            return
        answers: dict[str, list[str]] = {}
        for task in tasks:
            name = str(getattr(getattr(task, "config", None), "task", type(task).__name__))
            try:
                answers[name] = list(_lines(task))
            except Exception as error:  # noqa: BLE001 - a plugin's task
                _warn_of_failure(name, error)
        gathered = _gathered(answers)
        count = sum(self._write(name, lines) for name, lines in gathered.items())
        self._has_saved = count > 0
        if self._has_saved:
            logger.info(
                f"mmie-tasks: {count:,} answers are in {self._path('*')}. If the run ends before "
                f"they are judged, {self.resume_hint} scores them."
            )

    def _write(self, task: str, lines: Sequence[str]) -> int:
        """Write the answers to a task; returns their number, 0 after a failure."""
        try:
            with atomic_write(self._path(task)) as part:
                part.write_text("".join(lines), encoding="ascii")
        except OSError as error:
            _warn_of_failure(task, error)
            return 0
        return len(lines)

    def _path(self, task: str) -> Path:
        assert self.folder is not None  # noqa: S101 - see `save`
        return self.folder / f"{self._date}-{self._id}_answers_{task}.jsonl"


def _warn_of_failure(name: str, error: Exception) -> None:
    logger.warning(
        f"mmie-tasks: the answers to `{name}` could not be saved before they are judged: "
        f"{type(error).__name__}: {error}"
    )


def _gathered(answers: dict[str, list[str]]) -> dict[str, list[str]]:
    """The lines of all processes by task, on the first process; none on the others."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {name: lines for name, lines in answers.items() if lines}
    is_first = distributed.get_rank() == 0
    parts: list[Any] | None = [None] * distributed.get_world_size() if is_first else None
    distributed.gather_object(answers, parts, dst=0)
    gathered: dict[str, list[str]] = {}
    for part in parts or ():
        for name, lines in part.items():
            if lines:
                gathered.setdefault(name, []).extend(lines)
    return gathered


def _lines(task: Task) -> Iterator[str]:
    """A JSON line for each sample of this process that has an id and an answer in text."""
    ids = next(iter(id_columns(task.eval_docs_no_media)), None)
    if ids is None:  # nothing could match the answers
        return
    seen: set[int] = set()
    for request in task.instances:
        number = request.doc_id
        is_text = str(request.request_type).startswith("generate") and request.resps
        if not is_text or number in seen:
            continue
        seen.add(number)
        line = {
            "doc_id": number,
            "input": request.args[0],
            "resps": request.resps,
            "sample": {"id": ids[number]},
        }
        yield json.dumps(line, default=str) + "\n"
