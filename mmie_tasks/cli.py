"""The command ``mmie-tasks``: its own subcommands; all others are passed on to lmms-eval."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias

from mmie_tasks import __version__
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.paths import task_dir

Run: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], str | int]
"""Runs a subcommand on its arguments and an environment.

Returns the text to print, or, if the command has printed its text already, the exit status.
Raises a `MmieTasksError`, which ends the process with its message and status 1.
"""


COMMANDS: Mapping[str, str] = {
    "path": "cli:_path",
    "doctor": "cli:_doctor",
    "prefetch": "preflight.prefetch:run",
    "cache": "judges.cache_command:run",
    "export": "cli:_export",
    "report": "results.report.command:run",
    "table": "results.table:run",
    "agreement": "results.agreement.command:run",
    "compare": "results.compare:run",
    "subset": "results.subset:run",
    "rescore": "results.rescore:run",
}
"""Subcommand to the module and function that run it."""

HELP = """\
mmie-tasks: benchmarks for lmms-eval, scored as their papers score them: MMIE, MileBench
and MIA-Bench.

  mmie-tasks path        print the folder of our task files (for `--include_path`)
  mmie-tasks doctor [--model A,B] [--tasks A,B] [--judge NAME[:MODEL]] [--judge_args k=v,...]
                         check whether a run can start: packages, model, disk, data, prompts, judges
  mmie-tasks prefetch BENCHMARK... [--judge]
                         download data, prompts and a judge, for machines without internet access
  mmie-tasks cache stats|export|import|prune
                         the cache of judge replies (`cache --help`)
  mmie-tasks export BENCHMARK RUN -o PATH
                         convert a run to the benchmark's official formats (`export mmie --help`)
  mmie-tasks --version   print the version
  mmie-tasks --help      print this help

Subcommands for runs that were saved with `--output_path` and `--log_samples`:

  mmie-tasks report RUN... -o report.html
                         scores, charts and every sample, in one file for a browser
  mmie-tasks table RUN... [--columns A,B] [--published] [--format md|csv|latex]
                         models by benchmarks, with footnotes on what is incomparable
  mmie-tasks agreement RUN_OR_CSV RUN_OR_CSV...
                         whether judges agree with each other, or with human scores
  mmie-tasks compare RUN RUN
                         whether one tested model is significantly better than another
  mmie-tasks subset RUN...
                         how far the score of fewer samples deviates
  mmie-tasks rescore RUN...
                         score saved replies again with the readers of this version

All other subcommands are those of lmms-eval, with our tasks and launchers:

  mmie-tasks tasks list                          like `lmms-eval tasks list`, with our tasks
  mmie-tasks eval --model ... --tasks milebench  like `lmms-eval eval ...`
  mmie-tasks eval ... --judge openai:MODEL --judge_args base_url=URL,timeout=60
                                                 with another judge, for tasks that use one
  mmie-tasks eval --help                         the options of lmms-eval
"""
"""The text of ``mmie-tasks --help``."""


def main() -> None:
    """Run ``sys.argv``.

    The exit status of lmms-eval's subcommands is its own: 0 even for an evaluation that failed
    (0.7.3).
    """
    match sys.argv[1:]:
        case [] | ["-h" | "--help"]:
            print(HELP, end="")
        case ["--version"]:
            print(f"mmie-tasks {__version__}")
        case [name, *arguments] if name in COMMANDS:
            _run_command(name, arguments)
        case _:
            _run_lmms_eval()


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


def load_command(name: str) -> Run:
    """Import the function that runs a subcommand."""
    if name not in COMMANDS:
        raise ValueError(f"no subcommand `{name}`")
    module, _, function = COMMANDS[name].partition(":")
    run: Run = getattr(import_module(f"mmie_tasks.{module}"), function)
    return run


def _path(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    if arguments:
        raise SystemExit(f"`mmie-tasks path` takes no arguments, but got {' '.join(arguments)}.")
    return str(task_dir())


def _doctor(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    from mmie_tasks.preflight.doctor import mute_logs, run
    from mmie_tasks.runner.model_check import check_model

    mute_logs()
    report = run(arguments, environment, check_model)
    print(report.text)
    return report.status


def _export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run the export of the benchmark that the first argument names."""
    from mmie_tasks.benchmarks.registry import entries

    name, *rest = arguments or [""]
    benchmarks = {entry.name: entry.load() for entry in entries() if entry.is_ours or entry.name == name}
    benchmark = benchmarks.get(name)
    if benchmark is not None and benchmark.export is not None:
        return benchmark.export(rest, environment)
    names = [name for name, benchmark in benchmarks.items() if benchmark.export is not None]
    raise SystemExit(
        f"`mmie-tasks export` needs the name of a benchmark that has an export: "
        f"{', '.join(names)}.\n\nhint: `mmie-tasks export {names[0]} --help`"
    )


def _run_lmms_eval() -> None:
    """Pass the command line on to lmms-eval, with ``--judge`` as ``--launcher_args``."""
    from mmie_tasks.judges.choice import with_launcher_args

    try:
        sys.argv[1:] = with_launcher_args(sys.argv[1:])
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    from mmie_tasks.runner.plugin import run_lmms_eval

    run_lmms_eval()
