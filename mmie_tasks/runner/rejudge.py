"""The command ``mmie-tasks rejudge``, which judges the saved answers of a run again.

* ``--judge``: another judge gets every answer.
* ``--failed``: the judge of the run gets the answers that it left unscored. The logged replies that
  gave points are first copied into its cache, so that only the others cost a request.
* neither: today's readers read the saved replies; no judge is asked.

The first two run ``mmie-tasks eval --model predictions`` with the run's tasks and settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from mmie_tasks.judges.names import add_judge_options


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Judge a run again; the exit status is 0 if every task has a score, else 1.

    Raises:
        AnswersUnusable: The run cannot be read, or has no log of samples.
        SettingWrong: No judge is chosen, or the run lacks needed information.
    """
    options = _parser().parse_args(arguments)
    from mmie_tasks.runner.judge_again import judge_again

    return judge_again(options, environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks rejudge",
        description="Judge the saved answers of a run again, by another judge or where the judge "
        "failed; with neither option, today's readers read the saved replies, and the scores "
        "before and after are compared. The tested model is not needed. The new run has the tasks, "
        "the limit and the other options of the old one; variables such as `MMIE_DATA` must be set "
        "as they were.",
    )
    run_help = "a run with `--log_samples`: the folder of `--output_path`, or a file in it"
    parser.add_argument("run", metavar="RUN", help=run_help)
    failed_help = (
        "keep the replies of the run that gave points, and ask its judge for the others; "
        "`--judge` is needed only for options that move no score, such as `timeout`"
    )
    parser.add_argument("--failed", action="store_true", help=failed_help)
    tasks_help = "only these tasks; default: all of the run that the judges are for"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=tasks_help)
    output_help = (
        "the folder of the new run; default: beside RUN, with `-by-JUDGE` after its name, or "
        "`-filled` with `--failed`"
    )
    parser.add_argument("--output_path", default="", metavar="FOLDER", help=output_help)
    answers_help = (
        "where the images of the answers are, if they were moved, and whether answers are judged "
        "without those that do not exist: `images=FOLDER`, `missing=count`; default: `missing=stop`"
    )
    parser.add_argument("--model_args", default="", metavar="k=v,...", help=answers_help)
    add_judge_options(parser)
    return parser
