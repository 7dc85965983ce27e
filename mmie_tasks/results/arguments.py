"""The arguments that commands on logged runs share, and their checks.

It imports nothing that takes time: a command prints its help, or the error of a typo, at once, and
imports what it needs after it has parsed its arguments.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from mmie_tasks.core.verdict import SCORE_KINDS

_RUN = "a run with `--log_samples`: the folder of `--output_path`, a results file or a sample log"

Format: TypeAlias = Literal["md", "csv", "latex"]


def result_parser(
    command: str,
    description: str,
    *,
    runs: Sequence[str] | Literal["RUN", "RUN_OR_CSV"] = "RUN",
    score: bool = True,
    top: int | None = None,
) -> argparse.ArgumentParser:
    """A parser with the shared arguments.

    It parses ``runs`` (or one per name in `runs`), ``tasks``, a text for `listed_names`, and
    ``json`` for every command but ``report``.

    Args:
        command: The words after ``mmie-tasks``.
        description: The text above the list of arguments.
        runs: Names of single runs, or the kind of a list of one or more.
        score: Whether there is ``--score``, parsed as ``score_kind``.
        top: Default of ``--top``, the number of samples to list; None for no such option.
    """
    parser = argparse.ArgumentParser(prog=f"mmie-tasks {command}", description=description)
    name_hint = "; NAME=PATH gives it a name"
    if isinstance(runs, str):
        csv_hint = "; or a CSV with the columns `id, score` (and `rater`, for several people)"
        help_text = f"{_RUN}{csv_hint if runs == 'RUN_OR_CSV' else ''}{name_hint}"
        parser.add_argument("runs", nargs="+", metavar=runs, help=help_text)
    else:
        for name in runs:
            parser.add_argument(name, metavar=name.upper(), help=f"{_RUN}{name_hint}")
    default = "all that the runs have in common" if score else "all"
    help_text = f"only these{' tasks' if score else ''}; default: {default}"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=help_text)
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


def listed_names(text: str) -> list[str]:
    """The names of an option like ``--tasks A,B``.

    >>> listed_names("mmie, mia_bench,")
    ['mmie', 'mia_bench']
    """
    return [name.strip() for name in text.split(",") if name.strip()]
