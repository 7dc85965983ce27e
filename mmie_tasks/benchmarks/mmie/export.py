"""``mmie-tasks export mmie``: a run as input of the official script, or as leaderboard rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.benchmarks.export_run import export_parser, named_runs
from mmie_tasks.benchmarks.mmie.judge_input import write_judge_input
from mmie_tasks.benchmarks.mmie.leaderboard import MODEL_TYPES, write_leaderboard
from mmie_tasks.core.errors import SettingWrong


def run_export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export mmie ARGUMENTS``; returns a sentence about the result.

    Invalid arguments end the process with status 2, as argparse does.

    Raises:
        MmieTasksError: The export is not possible.
    """
    parser = export_parser(
        "mmie",
        "Write a run as input of MMIE's official script: a folder with `data.json` and images. Or, "
        "with --leaderboard, write one or more runs as rows of its leaderboard: a CSV file.",
        "the new folder, or the CSV file",
    )
    parser.add_argument("--leaderboard", action="store_true", help="write a CSV, one row per run")
    help_text = "the leaderboard's kind of model, for all runs; default: integrated for pairs"
    parser.add_argument("--type", choices=MODEL_TYPES, help=help_text)
    parsed = parser.parse_args(arguments)
    runs, output = named_runs(parsed), Path(parsed.output).expanduser()
    if parsed.leaderboard:
        return write_leaderboard(runs, MODEL_TYPES.get(parsed.type), output)
    if len(runs) > 1:
        raise SettingWrong("A judge's input is made of one run.", hint="name one RUN")
    return write_judge_input(runs[0], output, environment)
