"""The command ``mmie-tasks``: a few words of its own, everything else is the runner's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mmie_tasks import __version__
from mmie_tasks.errors import MmieTasksError
from mmie_tasks.paths import task_dir

HELP = """\
mmie-tasks: benchmarks for lmms-eval, scored as their papers score them: MMIE, MileBench and
MIA-Bench.

  mmie-tasks path        print the folder of our task files (for `--include_path`)
  mmie-tasks cache ...   the replies of judges: stats, export, import, prune (`cache --help`)
  mmie-tasks export BENCHMARK RUN -o PATH
                         a run in the official formats; in this version of `mmie` (`--help`)
  mmie-tasks doctor [--tasks A,B] [--judge NAME[:MODEL]] [--judge_args k=v,...] [--json]
                         whether a run can begin: packages, GPUs, room, data, prompts, judges
  mmie-tasks --version   print the version
  mmie-tasks --help      print this

Everything else is handed to lmms-eval, with our tasks and launchers known to it:

  mmie-tasks tasks list                          as `lmms-eval tasks list`, which cannot show ours
  mmie-tasks eval --model ... --tasks milebench  as `lmms-eval eval --model ... --tasks milebench`
  mmie-tasks eval ... --judge openai:MODEL --judge_args base_url=URL,timeout=60
                                                 with another judge, where a task has one
  mmie-tasks eval --help                         what lmms-eval can do
"""


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
        case _:
            _run_lmms_eval()


def _cache(arguments: list[str]) -> int:
    from mmie_tasks.judges.cache_command import run

    try:
        return run(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def _export(arguments: list[str]) -> None:
    """Hand over to ``export.py`` of a benchmark's room."""
    from importlib import import_module

    rooms = sorted(path.parent.name for path in Path(__file__).parent.glob("*/*/export.py"))
    name, *rest = arguments or [""]
    if name not in rooms:
        raise SystemExit(
            f"`mmie-tasks export` needs a benchmark, and one that can be exported: "
            f"{', '.join(rooms)}.\n\nhint: `mmie-tasks export {rooms[0]} --help`"
        )
    try:
        done: str = import_module(f"mmie_tasks.benchmarks.{name}.export").run(rest, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    print(done)


def _doctor(arguments: list[str]) -> int:
    from mmie_tasks.doctor.command import quiet, run

    quiet()
    try:
        report = run(arguments, os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    print(report.text)
    return report.status


def _run_lmms_eval() -> None:
    from mmie_tasks.judge_words import with_launcher_args

    try:
        sys.argv[1:] = with_launcher_args(sys.argv[1:])
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    from mmie_tasks.runner.plugin import install_hooks

    install_hooks()  # before the runner imports its tasks
    from lmms_eval.cli.dispatch import main as run_lmms_eval

    run_lmms_eval()
