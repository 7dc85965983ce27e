"""Saves the tested model's answers before they are judged.

lmms-eval writes answers at the end of a run, which may be after hours of judging. So each process
of a run with a judge saves its answers after the last one, as
``<date>_rank<rank>-<run>_answers_<task>.jsonl`` in the folder of the run's results; ``<run>`` is
random, since runs that begin in the same second have the same date. Lines have the fields of
lmms-eval's sample log that ``--model predictions`` reads. A task's files are removed when its
sample log has been written.
"""

from __future__ import annotations

import functools
import json
import shlex
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from loguru import logger

from mmie_tasks.core.files import atomic_write
from mmie_tasks.record.model_name import model_name
from mmie_tasks.runner.loaded_tasks import Method, Task


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
    _run: str = ""  # the part of the files' names that no other run has
    _has_warned: bool = False
    _files: dict[str, list[Path]] = field(default_factory=dict)  # by task, of all processes
    _texts: dict[str, list[Path]] = field(default_factory=dict)  # by task, of `interleaved`

    @classmethod
    def of_run(cls, options: Mapping[str, Any]) -> RunOutput:
        """The output of a run, by the arguments of ``simple_evaluate`` with their defaults."""
        tracker: Any = options.get("evaluation_tracker")
        output = cls(
            has_samples=bool(options.get("log_samples")),
            _model=options.get("model"),
            _model_args=options.get("model_args"),
            _tracker=tracker,
            _date=str(options.get("datetime_str")).replace(":", "-"),
            _run=uuid.uuid4().hex[:8],
        )
        if callable(getattr(tracker, "save_results_samples", None)):
            tracker.save_results_samples = output._removing_after_logging(tracker)
        return output

    def _removing_after_logging(self, tracker: Any) -> Method:  # noqa: ANN401 - the runner's
        """Wrap ``save_results_samples`` of the tracker: then a task's answers are in its log."""
        from mmie_tasks.runner.predictions import id_of

        save = type(tracker).save_results_samples  # not the wrapper of an earlier evaluation

        @functools.wraps(save)
        def save_results_samples(task_name: str, samples: Sequence[dict[str, object]]) -> None:
            for sample in samples:
                if "bypass" in sample:  # --predict_only logs no metric with an id
                    sample["sample"] = {"id": id_of(sample["doc"])}
            save(tracker, task_name=task_name, samples=samples)
            self.remove(task_name, len(samples))

        return save_results_samples

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
        """The options that score the saved answers; empty if none are saved."""
        arguments = shlex.quote(f"model={self.tested_model},path={self.folder}")
        return f"`--model predictions --model_args {arguments}`" if self._files else ""

    @property
    def kept(self) -> str:
        """The files of answers, as one path or pattern; empty without any."""
        files = [path for paths in self._files.values() for path in paths]
        match files:
            case []:
                return ""
            case [path]:
                return str(path)
        return str(files[0].with_name(f"{self._date}_rank*-{self._run}_answers_*.jsonl"))

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
        """Write the answers of this process; a failure is logged."""
        if self.folder is None:
            return
        rank, ranks, count = self._share_name(), self._ranks(), 0
        for task in tasks:
            name = str(getattr(getattr(task, "config", None), "task", type(task).__name__))
            start, end = f"{self._date}_rank", f"-{self._run}_answers_{name}.jsonl"
            paths = [self.folder / f"{start}{number}{end}" for number in range(ranks)]
            try:
                lines = list(_lines(task))
                if lines:
                    with atomic_write(paths[rank]) as part:
                        part.write_text("".join(lines), encoding="ascii")
            except Exception as error:  # noqa: BLE001 - a plugin's task, or the disk
                logger.warning(
                    f"mmie-tasks: the answers to `{name}` could not be saved before they are "
                    f"judged: {type(error).__name__}: {error}"
                )
                continue
            count += len(lines)
            if lines or ranks > 1:  # another process may have answers where this one has none
                self._files[name] = paths
        if rank == 0 and self._files:
            logger.info(
                f"mmie-tasks: {count:,} answers are in {self.kept} until the run is over. If it "
                f"ends before, the same command with {self.resume_hint} scores them."
            )

    def _share_name(self) -> int:
        """Use rank 0's date and name of the run, for each process has its own; returns the rank."""
        if self._ranks() == 1:
            return 0
        import torch.distributed

        names = [self._date, self._run]
        torch.distributed.broadcast_object_list(names, src=0)
        self._date, self._run = names
        return torch.distributed.get_rank()

    @staticmethod
    def _ranks() -> int:
        """The number of processes of the run."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return 1
        return int(distributed.get_world_size()) if distributed.is_initialized() else 1

    def keep_until_logged(self, task: str, text: Path) -> None:
        """Remove a file with a text of the writer of `interleaved` when its sample is logged."""
        self._texts.setdefault(task, []).append(text)

    def scored(self, *, is_first_process: bool) -> None:
        """Remove the texts after scoring, unless this process logs samples."""
        if self.path is None or not self.has_samples or not is_first_process:
            _unlink(path for paths in self._texts.values() for path in paths)
            self._texts.clear()

    def remove(self, task: str, sample_count: int) -> None:
        """Remove the answers to a task and the texts of its samples if its log has all samples."""
        files = [*self._files.get(task, ()), *self._texts.get(task, ())]
        if self.folder is None or not files:
            return
        log = self.folder / f"{self._date}_samples_{task}.jsonl"
        logged = log.read_bytes().count(b"\n") if log.is_file() else 0
        if logged < sample_count:
            logger.warning(
                f"mmie-tasks: the log of samples of `{task}` has {logged:,} of {sample_count:,} "
                f"samples; the answers stay in {files[0].parent}."
            )
            return
        _unlink(files)
        self._files.pop(task, None)
        self._texts.pop(task, None)


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _lines(task: Task) -> Iterator[str]:
    """A JSON line for each sample of this process that has an answer in text."""
    from mmie_tasks.runner.predictions import id_columns

    ids = next(iter(id_columns(task.eval_docs_no_media)), None)
    seen: set[int] = set()
    for request in task.instances:
        number = request.doc_id
        is_text = str(request.request_type).startswith("generate") and request.resps
        if not is_text or number in seen:
            continue
        seen.add(number)
        if ids is None:
            raise LookupError("its samples have no `id`, so nothing could match the answers")
        line = {
            "doc_id": number,
            "input": request.args[0],
            "resps": request.resps,
            "sample": {"id": ids[number]},
        }
        yield json.dumps(line, default=str) + "\n"
