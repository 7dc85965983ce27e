"""The command ``mmie-tasks``: its own subcommands; all others are passed on to lmms-eval."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand, as ``mmie-tasks --help`` lists it.

    Attributes:
        name: The first word after ``mmie-tasks``.
        arguments: Its arguments in short.
        help: One line.
        reads_runs: Whether it works on saved runs; the help lists these separately.
    """

    name: str
    arguments: str = ""
    help: str
    reads_runs: bool = False

    @property
    def help_text(self) -> str:
        """Usage and help line; the latter is in column 26."""
        usage = f"  mmie-tasks {self.name} {self.arguments}".rstrip()
        separator = " " * (25 - len(usage)) if len(usage) < 25 else f"\n{'':25}"
        return f"{usage}{separator}{self.help}\n"


COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command(name="path", help="print the folder of our task files (for `--include_path`)"),
        Command(
            name="doctor",
            arguments="[--tasks A,B] [--judge NAME[:MODEL]] [--judge_args k=v,...] [--json]",
            help="check whether a run can start: packages, GPUs, disk, data, prompts, judges",
        ),
        Command(
            name="prefetch",
            arguments="BENCHMARK... [--judge]",
            help="download data, prompts and a judge, for machines without internet access",
        ),
        Command(
            name="cache",
            arguments="stats|export|import|prune",
            help="the cache of judge replies (`cache --help`)",
        ),
        Command(
            name="export",
            arguments="BENCHMARK RUN -o PATH",
            help="convert a run to the benchmark's official formats (`export mmie --help`)",
        ),
        Command(
            name="report",
            arguments="RUN... -o report.html",
            help="scores, charts and every sample, in one file for a browser",
            reads_runs=True,
        ),
        Command(
            name="agreement",
            arguments="RUN_OR_CSV RUN_OR_CSV...",
            help="whether judges agree with each other, or with human scores",
            reads_runs=True,
        ),
        Command(
            name="compare",
            arguments="RUN RUN",
            help="whether one tested model is significantly better than another",
            reads_runs=True,
        ),
        Command(
            name="subset",
            arguments="RUN...",
            help="how far the score of fewer samples deviates",
            reads_runs=True,
        ),
        Command(
            name="rescore",
            arguments="RUN...",
            help="score saved replies again with the readers of this version",
            reads_runs=True,
        ),
    )
}

_FUNCTIONS: Mapping[str, str] = {
    "path": "cli:_path",
    "doctor": "cli:_doctor",
    "prefetch": "preflight.prefetch:run",
    "cache": "judges.cache_command:run",
    "export": "cli:_export",
    "report": "results.report.command:run",
    "agreement": "results.agreement.command:run",
    "compare": "results.compare:run",
    "subset": "results.subset:run",
    "rescore": "results.rescore:run",
}

_FLAGS = """\
  mmie-tasks --version   print the version
  mmie-tasks --help      print this help
"""

_LMMS_EVAL = """\
All other subcommands are those of lmms-eval, with our tasks and launchers:

  mmie-tasks tasks list                          like `lmms-eval tasks list`, with our tasks
  mmie-tasks eval --model ... --tasks milebench  like `lmms-eval eval ...`
  mmie-tasks eval ... --judge openai:MODEL --judge_args base_url=URL,timeout=60
                                                 with another judge, for tasks that use one
  mmie-tasks eval --help                         the options of lmms-eval
"""


def help_text() -> str:
    """The text of ``mmie-tasks --help``."""
    general, on_runs = (
        "".join(command.help_text for command in COMMANDS.values() if command.reads_runs is flag)
        for flag in (False, True)
    )
    return (
        "mmie-tasks: benchmarks for lmms-eval, scored as their papers score them: MMIE, MileBench\n"
        f"and MIA-Bench.\n\n{general}{_FLAGS}\n"
        "Subcommands for runs that were saved with `--output_path` and `--log_samples`:\n\n"
        f"{on_runs}\n{_LMMS_EVAL}"
    )


def main() -> None:
    """Run ``sys.argv``.

    The exit status of lmms-eval's subcommands is its own: 0 even for an evaluation that failed
    (0.7.3).
    """
    match sys.argv[1:]:
        case [] | ["-h" | "--help"]:
            print(help_text(), end="")
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
    module, _, function = _FUNCTIONS[name].partition(":")
    run: Run = getattr(import_module(f"mmie_tasks.{module}"), function)
    return run


def _path(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    if arguments:
        raise SystemExit(f"`mmie-tasks path` takes no arguments, but got {' '.join(arguments)}.")
    return str(task_dir())


def _doctor(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    from mmie_tasks.preflight.doctor import mute_logs, run

    mute_logs()
    report = run(arguments, environment)
    print(report.text)
    return report.status


def _export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run the export of the benchmark that the first argument names."""
    from mmie_tasks.benchmarks.registry import entries

    name, *rest = arguments or [""]
    benchmarks = {
        entry.name: entry.load() for entry in entries() if entry.is_ours or entry.name == name
    }
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
