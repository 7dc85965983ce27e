"""The command ``mmie-tasks``: its own commands, and those of lmms-eval, which it passes on."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias

from mmie_tasks.core import __version__
from mmie_tasks.core.errors import MmieTasksError

_RunCommand: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], str | int]
"""Runs a command on its arguments and an environment.

It returns the text to print, or, if it has printed its text already, the exit status. A
`MmieTasksError` ends the process with its message and status 1.
"""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "eval": ("cli:_eval", "evaluate a model: `lmms-eval eval` with our tasks, and with `--judge`"),
    "score": ("runner.score:run", "score answers that exist already"),
    "rejudge": ("runner.rejudge:run", "judge a saved run again, or read its replies again"),
    "report": ("results.commands:report", "scores, charts and every sample, in one HTML file"),
    "table": ("results.commands:table", "models by benchmarks, as Markdown, CSV or LaTeX"),
    "compare": ("results.commands:compare", "whether one tested model is better than another"),
    "agreement": (
        "results.commands:agreement",
        "whether judges agree with each other, or with people",
    ),
    "export": ("results.commands:export", "convert a run to the official formats of its benchmark"),
    "doctor": ("preflight.doctor:run", "check whether a run can start: data, judges, answers"),
    "prefetch": ("preflight.prefetch:run", "download data, prompts and judges"),
    "serve": (
        "judges.mmie_score.serve:run",
        "serve the judge MMIE-Score by vLLM: `vllm serve` with its official tokens",
    ),
    "cache": ("judges.cache_command:run", "the cache of judge replies: path, export, clear"),
    "path": ("cli:_path", "print the folder of our task files, for `--include_path`"),
}
"""Command to module and function, and its line of ``mmie-tasks --help``."""

HELP = f"""\
usage: mmie-tasks COMMAND ...

MMIE, MileBench, MIA-Bench and OpenING for lmms-eval, scored as their papers score them.

{chr(10).join(f"  {name:<11} {summary}" for name, (_, summary) in COMMANDS.items())}

`report` to `export` read what a run saved with `--output_path` and `--log_samples`.
`mmie-tasks COMMAND --help` shows the options of a command, `mmie-tasks --version` the version.
The other commands of lmms-eval work as well, with our tasks: `mmie-tasks tasks list`, ...
"""
"""The text of ``mmie-tasks --help``."""


def main() -> None:
    """Run ``sys.argv``.

    The exit status is 1 for an error or a failed evaluation, 2 for an invalid command line, 130
    after Ctrl-C, else 0.
    """
    for stream in (sys.stdout, sys.stderr):  # such as a pipe in cp1252
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        os.environ.setdefault("LOGURU_COLORIZE", "no")  # before loguru is imported, which reads it
    try:
        match sys.argv[1:]:
            case [] | ["-h" | "--help"]:
                print(HELP, end="")
            case ["--version"]:
                print(f"mmie-tasks {__version__}")
            case [name, *arguments] if name in COMMANDS:
                _run(load_command(name), arguments)
            case arguments if arguments[0].startswith("-"):  # lmms-eval evaluates without a command
                _run(_eval, arguments)
            case arguments:
                _run(_pass_on, arguments)
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped by Ctrl-C.\n")
        raise SystemExit(130) from None


def load_command(name: str) -> _RunCommand:
    """Import the function that runs a command."""
    module, _, function = COMMANDS[name][0].partition(":")
    run: _RunCommand = getattr(import_module(f"mmie_tasks.{module}"), function)
    return run


def _run(command: _RunCommand, arguments: Sequence[str]) -> None:
    try:
        output = command(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    if isinstance(output, int):
        raise SystemExit(output)
    try:
        print(output, flush=True)
    except BrokenPipeError:  # the reader has closed the pipe: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _eval(arguments: Sequence[str], _environment: Mapping[str, str]) -> int:
    from mmie_tasks.judges.names import judge_parser

    if {"-h", "--help"} & {*arguments}:
        judge_parser().print_help()
        return 0
    from mmie_tasks.benchmarks.registry import is_setting, require_judged
    from mmie_tasks.judges.choice import split_eval_arguments
    from mmie_tasks.runner.command_line import run_lmms_eval

    split = split_eval_arguments(arguments, is_setting)
    require_judged(split.choices, "`--judge`")
    sys.argv[1:] = ["eval", *split.for_runner]
    return run_lmms_eval(split.choices)


def _pass_on(arguments: Sequence[str], _environment: Mapping[str, str]) -> int:
    from mmie_tasks.core.suggestions import nearest
    from mmie_tasks.runner.command_line import run_lmms_eval, runner_commands

    name, theirs = arguments[0], runner_commands()
    if not theirs or name in theirs:
        return run_lmms_eval()
    similar = nearest(name, [*COMMANDS, *theirs], 1)
    sys.stderr.write(
        f"There is no command `{name}`.{f' Did you mean `{similar[0]}`?' if similar else ''}\n\n"
        f"hint: mmie-tasks has {', '.join(COMMANDS)}; lmms-eval has {', '.join(sorted(theirs))}\n"
    )
    return 2


def _path(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    from mmie_tasks.core.files import task_dir

    description = (
        "Print the folder of our task files: `lmms-eval tasks list --include-path $(mmie-tasks "
        "path)`."
    )
    argparse.ArgumentParser(prog="mmie-tasks path", description=description).parse_args(arguments)
    return str(task_dir())
