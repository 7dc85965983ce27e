"""The command lines of the commands on logged runs.

It imports nothing that takes time: a command prints its help, or the error of a typo, at once, and
imports what it needs after it has parsed its arguments.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.core.verdict import SCORE_KINDS

_RUN = "a run with `--log_samples`: the folder of `--output_path`, a results file or a sample log"
_NAME = "; NAME=PATH gives it a name"
_CSV = "; or a CSV with the columns `id, score` (and `rater`, for several people)"


def report(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """``mmie-tasks report``: one HTML file with the scores, charts and samples of runs."""
    parser = result_parser(
        "report",
        "One HTML file with the scores, charts and samples of saved runs; it opens offline.",
        score=False,
    )
    parser.add_argument(
        *("-o", "--output"),
        type=html_file,
        metavar="FILE",
        default="report.html",
        help="default: %(default)s",
    )
    parser.add_argument("--title", metavar="TEXT", help="default: the names of the runs")
    parser.add_argument(
        "--samples",
        type=whole_number(0),
        default=1000,
        metavar="N",
        help="samples of each task, the most disputed, then the worst; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    from mmie_tasks.results.report import run

    return run(options)


def table(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """``mmie-tasks table``: print or write the table of runs."""
    parser = result_parser(
        "table",
        "Print the scores of runs as a table: models by benchmarks, with footnotes on what is "
        "incomparable.",
        score=False,
    )
    parser.add_argument(
        "--columns",
        type=listed_names,
        default="headline",
        metavar="A,B",
        help="groups of columns, such as headline, category, field, task, dataset, component, "
        "type; paper for those of the paper's table, or all; default: %(default)s",
    )
    parser.add_argument(
        "--robust", action="store_true", help="add the robust score after each official one"
    )
    parser.add_argument(
        "--published", action="store_true", help="add published scores, each with its source"
    )
    parser.add_argument(
        "--format",
        choices=("md", "csv", "latex"),
        help="default: by the suffix of -o FILE, or else md",
    )
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        metavar="FILE",
        help="write the table to a file; default: print it",
    )
    options = parser.parse_args(arguments)
    from mmie_tasks.results.table import run

    return run(options)


def compare(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """``mmie-tasks compare``: two tested models over the same samples."""
    parser = result_parser(
        "compare",
        "Compare two tested models over the same samples: paired differences, their intervals, and "
        "whether they could be chance. Runs that were not scored alike (another judge, prompt, "
        "task version or data) are refused.",
        runs=("a", "b"),
        top=10,
    )
    parser.add_argument(
        "--ignore",
        type=listed_names,
        default=[],
        metavar="KEY,...",
        help="keys of the signatures that may differ; default: none",
    )
    options = parser.parse_args(arguments)
    from mmie_tasks.results.compare import run

    return run(options)


def agreement(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """``mmie-tasks agreement``: judges and people on the same answers; corrected scores."""
    parser = result_parser(
        "agreement",
        "How far judges, and people, agree on the same answers: the paper's cosine, MSE, MAE and "
        "Pearson first, then Spearman, quadratic kappa, bias, Krippendorff's alpha, and the "
        "samples they disagree on. Each run's score is corrected by the points that the reference "
        "gave some of its answers, or those of another model judged alike. Reads runs saved with "
        "`--log_samples`, and CSV files.",
        runs="RUN_OR_CSV",
        top=10,
    )
    parser.add_argument("--reference", metavar="NAME", help="default: the people, or the first run")
    options = parser.parse_args(arguments)
    if len(options.tasks) > 1:
        raise SettingWrong(
            f"`agreement` compares one task, and `--tasks` names {len(options.tasks)}.",
            hint="name one of them",
        )
    from mmie_tasks.results.agreement import run

    return run(options)


def export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """``mmie-tasks export``: a run in the official formats of its benchmark."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks export",
        description="Convert a run to the official formats of its benchmark. `mmie-tasks export "
        "FORMAT --help` shows the formats and options.",
    )
    help_text = "a benchmark that has an export"
    parser.add_argument("target", metavar="FORMAT", help=help_text)
    help_text = "what the export takes, such as `RUN -o PATH`"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=help_text)
    parsed = parser.parse_args(arguments)
    from mmie_tasks.benchmarks.registry import entries

    benchmarks = [e.load() for e in entries() if e.is_ours or e.name == parsed.target]
    exports = {one.name: one.export for one in benchmarks if one.has_export}
    if parsed.target not in exports:
        names = valid_names_text(exports, parsed.target)
        parser.error(f"there is no export `{parsed.target}`; there are {names}")
    return exports[parsed.target](parsed.arguments, environment)


def result_parser(
    command: str,
    description: str,
    *,
    runs: Sequence[str] | Literal["RUN", "RUN_OR_CSV"] = "RUN",
    score: bool = True,
    top: int | None = None,
) -> argparse.ArgumentParser:
    """A parser with the shared arguments.

    It parses ``runs`` (or one per name in `runs`), the list ``tasks``, and ``json`` for every
    command but ``report``.

    Args:
        command: The words after ``mmie-tasks``.
        description: The text above the list of arguments.
        runs: Names of single runs, or the kind of a list of one or more.
        score: Whether there is ``--score``, parsed as ``score_kind``.
        top: Default of ``--top``, the number of samples to list; None for no such option.
    """
    parser = argparse.ArgumentParser(prog=f"mmie-tasks {command}", description=description)
    if isinstance(runs, str):
        help_text = f"{_RUN}{_CSV if runs == 'RUN_OR_CSV' else ''}{_NAME}"
        parser.add_argument("runs", nargs="+", metavar=runs, help=help_text)
    else:
        for name in runs:
            parser.add_argument(name, metavar=name.upper(), help=f"{_RUN}{_NAME}")
    parser.add_argument(
        *("--tasks", "--task"),
        type=listed_names,
        default=[],
        metavar="A,B",
        help=f"only these; default: all{' that the runs have in common' if score else ''}",
    )
    if score:
        parser.add_argument(
            "--score",
            dest="score_kind",
            choices=SCORE_KINDS,
            default="official",
            help="the official or the robust score; default: %(default)s",
        )
    if top is not None:
        help_text = "list at most N samples; default: %(default)s"
        whole = whole_number(0)
        parser.add_argument("--top", type=whole, default=top, metavar="N", help=help_text)
    if command != "report":
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def whole_number(lowest: int) -> Callable[[str], int]:
    """The type of an option that is a whole number; another value is a usage error."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= lowest):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {lowest} or more")
        return int(text)

    return parse


def html_file(text: str) -> Path:
    """The type of an option that names an HTML file, so that no log is overwritten by mistake."""
    path = Path(text).expanduser()
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file that ends in `.html`")
    return path


def listed_names(text: str) -> list[str]:
    """The names of an option like ``--tasks A,B``.

    >>> listed_names("mmie, mia_bench,")
    ['mmie', 'mia_bench']
    """
    return [name.strip() for name in text.split(",") if name.strip()]
