"""The command ``mmie-tasks judge-exam``: how often a judge agrees with people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.arguments import require_range


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str | int:
    """Grade a judge on people's verdicts; returns text or JSON, or the status 130 if the user
    interrupts.

    Raises:
        MmieTasksError: An option is invalid, the judge cannot be used or gave no verdict at all, or
            people's verdicts could not be loaded.
    """
    options = _parser().parse_args(arguments)
    _check_options(options)
    from mmie_tasks.quality.judge_exam.exam import hold_exam

    return hold_exam(options, environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks judge-exam",
        description="Grade a judge on people's published verdicts on OpenING: it compares two "
        "answers to the same question, in both orders, or gives points to each one in a "
        "benchmark's own prompt. The grade says how often it agrees with people.",
    )
    add = parser.add_argument
    judge_help = "as for `--judge`: openai:MODEL, or NAME:k=v,..."
    add("judge", nargs="?", metavar="JUDGE", help=judge_help)
    args_help = "more options of the judge; default: none"
    add("--judge_args", default="", metavar="k=v,...", help=args_help)
    add("--judge-args", dest="judge_args", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    folder_help = (
        "a local folder in the layout of OpenING's repository; default: download the verdicts, "
        "which is enough for `--verdicts`"
    )
    add("--folder", metavar="FOLDER", help=folder_help)
    method_help = (
        "compare, or a benchmark whose prompt and official reader give points to each answer: "
        "mmie, mia_bench, opening; default: compare, and for mmie_score mmie"
    )
    add("--method", metavar="NAME", help=method_help)
    limit_help = "ask about N pairs, a fixed random choice; default: all"
    add("--limit", type=int, metavar="N", help=limit_help)
    verdicts_help = (
        "grade the verdicts that are published for a judge in this file, and ask no "
        "judge; default: none"
    )
    add("--verdicts", metavar="FILE", help=verdicts_help)
    add("--json", action="store_true", help="print JSON")
    return parser


def _check_options(options: argparse.Namespace) -> None:
    if bool(options.judge) == bool(options.verdicts):
        problem = "both a judge and `--verdicts`" if options.judge else "no judge"
        exam = as_called("mmie-tasks judge-exam openai:MODEL")
        hint = f"`{exam}`, or `--verdicts FILE` for published verdicts"
        raise SettingWrong(f"`judge-exam` got {problem}.", hint=hint)
    if options.limit is not None:
        hint = "the number of pairs: 100, for example"
        require_range("--limit", options.limit, 1, None, hint=hint)
    for name in ("judge_args", "limit", "method"):
        if options.verdicts and getattr(options, name):
            message = f"`--{name}` has no effect with `--verdicts`."
            raise SettingWrong(message, hint=f"leave `--{name}` out")
