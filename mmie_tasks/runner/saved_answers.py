"""Command lines that score saved answers with ``--model predictions``."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path

from mmie_tasks.answers.saved import argument_of
from mmie_tasks.core.command import as_called

SAMPLE_OPTIONS = ("limit", "offset", "include_path", "reasoning_tags", "timezone")
"""Options of lmms-eval that select the samples and how their answers are read."""

_DEFAULTS = ('[["<think>", "</think>"], ["<analysis>", "</analysis>"]]', "Asia/Singapore")
"""Those of lmms-eval 0.7.3, which a command to type need not repeat (``__main__.py``)."""


def predictions_arguments(
    answers: Iterable[Path], tasks: str, options: Mapping[str, object], output: str, more: str = ""
) -> list[str]:
    """The arguments of an evaluation of saved answers.

    Args:
        answers: Their files or folders.
        tasks: As in ``--tasks``.
        options: Options of the run that saved them; only `SAMPLE_OPTIONS` are used.
        output: The folder for the results.
        more: Further arguments of the model `predictions`, as in ``--model_args``.
    """
    model_args = f"path={';'.join(map(argument_of, answers))}{more and f',{more}'}"
    words = ["--model", "predictions", "--model_args", model_args]
    # Of a single name that is a folder here, lmms-eval would read the task files in the folder.
    words += ["--tasks", f"{tasks},{tasks}" if Path(tasks).is_dir() else tasks]
    for option in SAMPLE_OPTIONS:
        if (value := options.get(option)) not in (None, ""):
            words += [f"--{option}", f"{value:.15g}" if isinstance(value, float) else str(value)]
    return [*words, "--output_path", output, "--log_samples"]


def scoring_lines(
    model: str, folder: Path, command_line: Namespace, *, asked_for_images: bool = False
) -> str:
    """The last lines of a ``--predict_only`` run: the command that scores its answers. If a task
    asked for images (`drawing.protocol`), it has a drawer to fill in.
    """
    options = {
        name: value
        for name, value in vars(command_line).items()
        if value and value not in _DEFAULTS
    }
    purpose, command = "To score them", as_called("mmie-tasks eval")
    words = predictions_arguments([folder], command_line.tasks, options, command_line.output_path)
    if asked_for_images:
        purpose, command = "To draw their images and score them", as_called("mmie-tasks score")
        limit = [f"--limit={options['limit']:g}"] if "limit" in options else []
        words = [str(folder), "--tasks", command_line.tasks, *limit, "--t2i", "DRAWER:MODEL"]
    return (
        f"\nmmie-tasks: the answers of {model} are in {folder}. {purpose}:\n\n"
        f"{command} {shlex.join(words)}"
    )
