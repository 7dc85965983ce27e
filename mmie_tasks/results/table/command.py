"""The command ``mmie-tasks table``: models by benchmarks, in Markdown, CSV or LaTeX."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from mmie_tasks.core.wording import counted
from mmie_tasks.results.arguments import Format, listed_names, result_parser

if TYPE_CHECKING:
    from mmie_tasks.results.table.score_table import ScoreTable

_SUFFIXES: Mapping[str, Format] = {".csv": "csv", ".tex": "latex"}


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Print or write the table of runs."""
    options = _parser().parse_args(arguments)
    from mmie_tasks.results.commands import write_text
    from mmie_tasks.results.render import json_text, rendered_table
    from mmie_tasks.results.run import open_runs
    from mmie_tasks.results.table.score_table import score_table

    runs = open_runs(options.runs, listed_names(options.tasks))
    scores = score_table(
        runs, listed_names(options.columns), robust=options.robust, published=options.published
    )
    if options.json:
        return json_text(as_json(scores))
    file_format: Format = options.format or _SUFFIXES.get(Path(options.output or "").suffix, "md")
    text = rendered_table(scores.table(file_format), file_format)
    if options.output is None:
        return text
    write_text(Path(options.output), text)
    return (
        f"{options.output}: {counted(len(scores.rows), 'model')}, "
        f"{counted(len(scores.columns), 'column')}"
    )


def _parser() -> argparse.ArgumentParser:
    description = (
        "Print the scores of runs as a table: models by benchmarks, with footnotes on what is "
        "incomparable."
    )
    parser = result_parser("table", description, score=False)
    help_text = (
        "groups of columns, such as headline, category, field, task, dataset, component, type; or "
        "all; default: %(default)s"
    )
    parser.add_argument("--columns", default="headline", metavar="A,B", help=help_text)
    help_text = "add a column with the robust score beside each official"
    parser.add_argument("--robust", action="store_true", help=help_text)
    parser.add_argument(
        "--published", action="store_true", help="add published scores, each with its source"
    )
    parser.add_argument(
        "--format", choices=get_args(Format), help="default: by the suffix of -o FILE, or else md"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the table to a file; default: print it"
    )
    return parser


def as_json(scores: ScoreTable) -> dict[str, object]:
    """The table for programs; a missing value is None."""
    rows = [
        {
            "model": row.model,
            "published": row.is_published,
            "scores": [
                {
                    "task": column.task,
                    "metric": "_".join(filter(None, [column.kind, column.metric.name])),
                    "drawn_by_reconstruction": column.form == "drawn",
                    **asdict(cell),
                }
                for column, cell in zip(scores.columns, row.cells, strict=True)
                if cell is not None
            ],
            "judges": row.judges,
        }
        for row in scores.rows
    ]
    return {"rows": rows, "remarks": scores.remarks}
