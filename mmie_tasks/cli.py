"""The command ``mmie-tasks``: a few words of its own, everything else is the runner's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module

from mmie_tasks import __version__
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.paths import task_dir

HELP = """\
mmie-tasks: benchmarks for lmms-eval, scored as their papers score them: MMIE, MileBench and
MIA-Bench.

  mmie-tasks path        print the folder of our task files (for `--include_path`)
  mmie-tasks cache ...   the replies of judges: stats, export, import, prune (`cache --help`)
  mmie-tasks export BENCHMARK RUN -o PATH
                         a run in the official formats; in this version of `mmie` (`--help`)
  mmie-tasks doctor [--tasks A,B] [--judge NAME[:MODEL]] [--judge_args k=v,...] [--json]
                         whether a run can begin: packages, GPUs, room, data, prompts, judges
  mmie-tasks prefetch BENCHMARK... [--judge]
                         download data, prompts and a judge, for machines without internet
  mmie-tasks --version   print the version
  mmie-tasks --help      print this

What a run saved with `--output_path` and `--log_samples` is looked at with:

  mmie-tasks report RUN... -o report.html
                         numbers, charts and every sample, in one file for a browser
  mmie-tasks agreement RUN_OR_CSV RUN_OR_CSV...
                         whether judges, or a judge and people, agree
  mmie-tasks compare A B whether one tested model is really better
  mmie-tasks subset RUN...
                         how far the score of fewer samples strays
  mmie-tasks rescore RUN...
                         saved replies, read again with the readers of this version

Everything else is handed to lmms-eval, with our tasks and launchers known to it:

  mmie-tasks tasks list                          as `lmms-eval tasks list`, which cannot show ours
  mmie-tasks eval --model ... --tasks milebench  as `lmms-eval eval --model ... --tasks milebench`
  mmie-tasks eval ... --judge openai:MODEL --judge_args base_url=URL,timeout=60
                                                 with another judge, where a task has one
  mmie-tasks eval --help                         what lmms-eval can do
"""


COMMANDS: Mapping[str, str] = {
    "report": "mmie_tasks.results.report.command",
    "agreement": "mmie_tasks.results.agreement.command",
    "compare": "mmie_tasks.results.compare",
    "subset": "mmie_tasks.results.subset",
    "rescore": "mmie_tasks.results.rescore",
    "prefetch": "mmie_tasks.preflight.prefetch",
}
"""Word to the module whose ``run(arguments, environment)`` gives what is printed."""


def main() -> None:
    """Obey ``sys.argv``; what is not ours goes to lmms-eval as it stands.

    The exit status is lmms-eval's own: 0 even for an evaluation that failed (0.7.3).
    """
    match sys.argv[1:]:
        case [] | ["-h" | "--help"]:
            print(HELP, end="")
        case ["--version"]:
            print(f"mmie-tasks {__version__}")
        case ["path"]:
            print(task_dir())
        case ["cache", *rest]:
            raise SystemExit(_cache(rest))
        case ["export", *rest]:
            _export(rest)
        case ["doctor", *rest]:
            raise SystemExit(_doctor(rest))
        case ["path", *rest]:
            raise SystemExit(f"`mmie-tasks path` takes nothing more, and was given {rest}.")
        case [word, *rest] if word in COMMANDS:
            _printed(COMMANDS[word], rest)
        case _:
            _run_lmms_eval()


def _printed(module: str, arguments: list[str]) -> None:
    """Print what a command says; an error of ours ends the process in words, with status 1."""
    try:
        said: str = import_module(module).run(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    try:
        print(said, flush=True)
    except BrokenPipeError:  # who reads it has seen enough: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cache(arguments: list[str]) -> int:
    from mmie_tasks.judges.cache_command import run

    try:
        return run(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def _export(arguments: list[str]) -> None:
    """Run the export command of a benchmark."""
    from mmie_tasks.benchmarks.registry import entries

    name, *rest = arguments or [""]
    try:
        benchmarks = {
            entry.name: entry.load() for entry in entries() if entry.is_ours or entry.name == name
        }
        chosen = benchmarks.get(name)
        if chosen is not None and chosen.export is not None:
            print(chosen.export(rest, os.environ))
            return
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    names = [name for name, benchmark in benchmarks.items() if benchmark.export is not None]
    raise SystemExit(
        f"`mmie-tasks export` needs the name of a benchmark that has an export: "
        f"{', '.join(names)}.\n\nhint: `mmie-tasks export {names[0]} --help`"
    )


def _doctor(arguments: list[str]) -> int:
    from mmie_tasks.preflight.doctor import quiet, run

    quiet()
    try:
        report = run(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    print(report.text)
    return report.status


def _run_lmms_eval() -> None:
    from mmie_tasks.judges.choice import with_launcher_args

    try:
        sys.argv[1:] = with_launcher_args(sys.argv[1:])
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    from mmie_tasks.runner.plugin import install_hooks

    install_hooks()  # before the runner imports its tasks
    from lmms_eval.cli.dispatch import main as run_lmms_eval

    run_lmms_eval()
