"""The command ``mmie-tasks``: its own commands, and those of lmms-eval, which it passes on."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias

from mmie_tasks.core import __version__
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.suggestions import nearest

_RunCommand: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], str | int]
"""Runs a command on its arguments and an environment.

It returns the text to print, or, if it has printed its text already, the exit status. A
`MmieTasksError` ends the process with its message and status 1.
"""


_RUN_COMMANDS: Mapping[str, tuple[str, str]] = {
    "rejudge": (
        "runner.rejudge:run",
        "judge a saved run again, by another judge or where its judge failed",
    )
}
"""Commands that evaluate: module and function of each, and its line of ``mmie-tasks --help``."""

_RESULT_COMMANDS: Mapping[str, tuple[str, str]] = {
    "report": ("results.report.command:run", "scores, charts and every sample, in one HTML file"),
    "table": ("results.commands:table", "models by benchmarks, as Markdown, CSV or LaTeX"),
    "compare": ("results.commands:compare", "whether one tested model is better than another"),
    "agreement": (
        "results.commands:agreement",
        "whether judges agree with each other, or with people",
    ),
    "export": ("results.commands:export", "convert a run to the official formats of its benchmark"),
}
"""Commands on runs that were saved with ``--output_path`` and ``--log_samples``."""

_SETUP_COMMANDS: Mapping[str, tuple[str, str]] = {
    "doctor": ("cli:_doctor", "check whether a run can start: packages, data, prompts, judges"),
    "prefetch": (
        "cli:_prefetch",
        "download data, prompts and judges, for machines without internet",
    ),
    "serve": (
        "judges.mmie_score.serve:run",
        "serve the judge MMIE-Score by vLLM: `vllm serve` with its official tokens",
    ),
    "cache": ("judges.cache_command:run", "the cache of judge replies: path, export, clear"),
    "path": ("cli:_path", "print the folder of our task files, for `--include_path`"),
}

COMMANDS = {**_RUN_COMMANDS, **_RESULT_COMMANDS, **_SETUP_COMMANDS}


def _help_lines(commands: Mapping[str, tuple[str, str]]) -> str:
    return "\n".join(f"  {name:<11} {summary}" for name, (_, summary) in commands.items())


HELP = f"""\
usage: mmie-tasks COMMAND ...

MMIE, MileBench, MIA-Bench and OpenING for lmms-eval, scored as their papers score them.

Run:
  eval        evaluate a model: `lmms-eval eval` with our tasks, and with `--judge`
{_help_lines(_RUN_COMMANDS)}
  tasks list  list the tasks of lmms-eval and ours

Look at results that were saved with `--output_path` and `--log_samples`:
{_help_lines(_RESULT_COMMANDS)}

Set up:
{_help_lines(_SETUP_COMMANDS)}

`mmie-tasks COMMAND --help` shows the options of a command, `mmie-tasks --version` the version.
All other commands of lmms-eval work as well: `mmie-tasks models`, `mmie-tasks power`, ...
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
        _run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped by Ctrl-C.\n")
        raise SystemExit(130) from None


def _run(words: Sequence[str]) -> None:
    match words:
        case [] | ["-h" | "--help"]:
            print(HELP, end="")
        case ["--version"]:
            print(f"mmie-tasks {__version__}")
        case [name, *arguments] if name in COMMANDS:
            _run_command(name, arguments)
        case arguments:
            _run_lmms_eval(arguments)


def _run_command(name: str, arguments: Sequence[str]) -> None:
    try:
        output = load_command(name)(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    if isinstance(output, int):
        raise SystemExit(output)
    try:
        print(output, flush=True)
    except BrokenPipeError:  # the reader has closed the pipe: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def load_command(name: str) -> _RunCommand:
    """Import the function that runs a command."""
    module, _, function = COMMANDS[name][0].partition(":")
    run: _RunCommand = getattr(import_module(f"mmie_tasks.{module}"), function)
    return run


def _path(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    from mmie_tasks.core.files import task_dir

    description = (
        "Print the folder of our task files: `lmms-eval tasks list --include-path $(mmie-tasks "
        "path)`."
    )
    argparse.ArgumentParser(prog="mmie-tasks path", description=description).parse_args(arguments)
    return str(task_dir())


def _doctor(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    from mmie_tasks.preflight.arguments import doctor_parser

    options = doctor_parser().parse_args(arguments)
    from mmie_tasks.core.log import plain_logs
    from mmie_tasks.preflight.doctor import examine

    plain_logs("WARNING")
    report = examine(options, environment)
    print(report.text)
    return report.status


def _prefetch(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    from mmie_tasks.preflight.arguments import prefetch_parser

    options = prefetch_parser().parse_intermixed_args(arguments)
    from mmie_tasks.core.log import plain_logs
    from mmie_tasks.preflight.prefetch import fetch

    plain_logs("INFO")
    return fetch(options, environment)


def _run_lmms_eval(arguments: Sequence[str]) -> None:
    """Run lmms-eval in this process, with the judges of ``--judge``."""
    from mmie_tasks.runner.command_line import run_lmms_eval, runner_commands

    name = arguments[0]
    if name != "eval" and not name.startswith("-"):  # lmms-eval evaluates without a command, too
        if (commands := runner_commands()) and name not in commands:
            _stop_at_unknown_command(name, commands)
        raise SystemExit(run_lmms_eval())
    from mmie_tasks.benchmarks.registry import is_setting, require_judged
    from mmie_tasks.judges.choice import split_eval_arguments
    from mmie_tasks.judges.names import judge_parser

    try:
        split = split_eval_arguments(arguments, is_setting)
        require_judged(split.choices, "`--judge`")
        sys.argv[1:] = split.for_runner
        status = run_lmms_eval(split.choices)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    finally:
        if {"-h", "--help"} & {*arguments}:  # the runner has printed its options, and ended
            print(f"\n{judge_parser().format_help()}", end="")
    raise SystemExit(status)


def _stop_at_unknown_command(name: str, runner_commands: Collection[str]) -> None:
    similar = nearest(name, [*COMMANDS, *runner_commands], 1)
    suggestion = f" Did you mean `{similar[0]}`?" if similar else ""
    ours, theirs = ", ".join(COMMANDS), ", ".join(sorted(runner_commands))
    sys.stderr.write(
        f"There is no command `{name}`.{suggestion}\n\n"
        f"hint: mmie-tasks has {ours}; lmms-eval has {theirs}\n"
    )
    raise SystemExit(2)
