"""The command ``mmie-tasks report``: one HTML file with the scores and samples of runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.results.commands import result_parser

_MAX_NOTES = 3  # printed by the command; the report has all


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Write a report; returns the file, its size and content, and notes on the runs."""
    options = _parser().parse_args(arguments)
    from mmie_tasks.core.files import atomic_write, readable_size
    from mmie_tasks.results.report.page import report_page
    from mmie_tasks.results.run import open_runs

    target = _target(options.output)
    runs = open_runs(options.runs, options.tasks)
    page = report_page(
        runs,
        title=options.title or f"Results of {', '.join(opened.name for opened in runs)}",
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
    )
    try:
        with atomic_write(target) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"The report cannot be written to `{target}`: {error.strerror}.",
            hint="name another file with `-o`",
        ) from error
    tasks = [task for run_ in runs for task in run_.tasks.values()]
    samples = sum(len(task.records) for task in tasks)
    counts = [
        counted(len(runs), "run"),
        counted(len({task.task for task in tasks}), "task"),
        counted(samples, "sample"),
    ]
    notes = [note for opened in runs for note in opened.all_notes]
    more = ["and more notes, in the report"] if len(notes) > _MAX_NOTES else []
    summary = f"{target}: {readable_size(target.stat().st_size)}; {', '.join(counts)}"
    return "\n".join([summary, *notes[:_MAX_NOTES], *more])


def _parser() -> argparse.ArgumentParser:
    parser = result_parser(
        "report",
        "One HTML file with the scores, charts and samples of saved runs; it opens offline.",
        score=False,
    )
    parser.add_argument(
        *("-o", "--output"), metavar="FILE", default="report.html", help="default: %(default)s"
    )
    parser.add_argument(
        "--title", metavar="TEXT", default="", help="of the page; default: the names of the runs"
    )
    return parser


def _target(output: str) -> Path:
    """The file to write; only HTML files, so that no log is overwritten by mistake."""
    target = Path(output).expanduser()
    if target.suffix.lower() not in (".html", ".htm") or target.is_dir():
        raise SettingWrong(
            f"The report cannot be written to `{output}`: it is an HTML file.",
            hint="name a file that ends in .html: `-o report.html`",
        )
    return target
