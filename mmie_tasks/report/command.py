"""The command ``mmie-tasks report``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.errors import SettingWrong

if TYPE_CHECKING:
    from mmie_tasks.runs.run import Run

_MOST_NOTES = 3


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Obey ``mmie-tasks report ARGUMENTS``: write the report, and say where.

    Raises:
        MmieTasksError: A run cannot be read, or the report cannot be written.
    """
    del environment  # nothing in it matters to a report
    from mmie_tasks.report.page import render
    from mmie_tasks.report.payload import Settings, payload
    from mmie_tasks.runs.opening import open_runs

    asked = _parser().parse_args(arguments)
    target = _target(asked.output)
    runs = open_runs(asked.runs, [name for name in asked.tasks.split(",") if name])
    settings = Settings(
        title=asked.title or f"Results of {', '.join(run.name for run in runs)}",
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        samples_with_thumbnails=0 if asked.no_thumbnails else asked.thumbnails,
    )
    _write(target, render(payload(runs, settings)))
    return "\n".join([_in_words(target, runs), *_notes(runs)])


def _parser() -> argparse.ArgumentParser:
    from mmie_tasks.report.thumbnails import SAMPLES_WITH_THUMBNAILS

    parser = argparse.ArgumentParser(
        prog="mmie-tasks report",
        description="One HTML file of what runs saved, with every sample; it opens offline.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a folder that `--output_path` named, a results file or a sample log; or NAME=PATH",
    )
    parser.add_argument(
        *("-o", "--output"), metavar="FILE", default="report.html", help="report.html if not given"
    )
    parser.add_argument("--tasks", metavar="A,B", default="", help="only these tasks")
    parser.add_argument("--title", metavar="TEXT", default="", help="of the page")
    pictures = parser.add_mutually_exclusive_group()
    pictures.add_argument(
        "--thumbnails",
        metavar="N",
        type=_count,
        default=SAMPLES_WITH_THUMBNAILS,
        help="show the images of at most N samples of a task, the worst and most disputed first, "
        "as far as there is room; %(default)s if not given",
    )
    pictures.add_argument("--no_thumbnails", action="store_true", help="show no images")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _target(named: str) -> Path:
    """The file to write: one that ends like a page, so that no log is written over by mistake."""
    target = Path(named).expanduser()
    if target.suffix.lower() not in (".html", ".htm") or target.is_dir():
        raise SettingWrong(
            f"The report cannot be written to `{named}`: it is a page.",
            hint="name a file that ends in .html: `-o report.html`",
        )
    return target


def _write(target: Path, page: str) -> None:
    from mmie_tasks.sources.archives import whole

    try:
        with whole(target) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"The report cannot be written to `{target}`: {error.strerror}.",
            hint="name another file with `-o`",
        ) from error


def _in_words(target: Path, runs: Sequence[Run]) -> str:
    from mmie_tasks.report.plain import counted
    from mmie_tasks.sources.archives import in_words

    tasks = {task for run in runs for task in run.tasks}
    samples = sum(len(task.samples) for run in runs for task in run.tasks.values())
    size = in_words(target.stat().st_size)
    found = (
        f"{counted(len(runs), 'run')}, {counted(len(tasks), 'task')}, {counted(samples, 'sample')}"
    )
    return f"{target}: {size}; {found}"


def _notes(runs: Sequence[Run]) -> list[str]:
    """The first notes on the runs; all are in the report."""
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes]
    notes += [
        f"{run.name}, {task.task}: {note}"
        for run in runs
        for task in run.tasks.values()
        for note in task.notes
    ]
    more = ["and more notes, in the report"]
    return [*notes[:_MOST_NOTES], *(more if len(notes) > _MOST_NOTES else [])]
