"""The command ``mmie-tasks score``: scores answers that exist already.

It is ``mmie-tasks eval --model predictions`` with its arguments written for a person. The answers
are checked before lmms-eval is imported.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.preflight.answers import add_answer_options

if TYPE_CHECKING:
    from mmie_tasks.benchmarks.registry import BenchmarkEntry

_SEPARATORS = r"[,;'\"{}\[\]]"  # of lmms-eval's arguments


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Score saved answers; the exit status is 0 if every task has a score, else 1.

    Raises:
        SettingWrong: There is no such task or judge, or a name cannot be passed to lmms-eval.
        SystemExit: Answers or images are missing.
    """
    options = _parser().parse_args(arguments)
    from mmie_tasks.benchmarks.registry import is_setting, require_judged
    from mmie_tasks.core.errors import SettingWrong
    from mmie_tasks.core.log import quiet_libraries
    from mmie_tasks.judges.choice import parse_flags
    from mmie_tasks.preflight.needed import select_tasks

    quiet_libraries()
    choices = parse_flags(options.judge, options.judge_args, is_setting)
    require_judged(choices, "`--judge`")
    selection = select_tasks(options.tasks.split(","))
    if not selection:
        raise SettingWrong("`--tasks` names no task.", hint="`--tasks mmie,milebench`")
    for entry in selection:
        entry.load().configure(choices)  # OpenING's questions have words of `prompts=`
    _check(options, selection, environment)
    tasks = [task for names in selection.values() for task in names]
    sys.argv[1:] = ["eval", *_eval_arguments(options, tasks, environment), "--verbosity", "WARNING"]
    from mmie_tasks.runner.command_line import run_lmms_eval

    return run_lmms_eval(choices, scored_tasks=tasks)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks score",
        description="Score answers that exist already, without the tested model. Samples are "
        "logged. The exit status is 0 if every task has a score.",
        epilog="example: mmie-tasks score answers.jsonl --tasks mmie --judge openai:MODEL "
        "--judge_args base_url=http://HOST:8000/v1",
    )
    add_answer_options(parser, are_required=True)
    return parser


def _check(
    options: argparse.Namespace,
    selection: Mapping[BenchmarkEntry, Sequence[str]],
    environment: Mapping[str, str],
) -> None:
    """Print a line on the answers to each task; ends the process if some are missing."""
    from mmie_tasks.preflight.answers import check_answers

    errors: dict[str, None] = {}
    for finding in check_answers(options, selection, environment, downloads=True):
        line = finding.subject if finding.hint else finding.text
        if ": " in line:  # else nothing was counted
            print(line, flush=True)
        if finding.hint:
            errors[f"{finding.message}.\n\nhint: {finding.hint}"] = None
    if errors:
        raise SystemExit("\n\n".join(errors))


def _eval_arguments(
    options: argparse.Namespace, tasks: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The arguments of an evaluation of `predictions`."""
    from mmie_tasks.answers.saved import argument_of, read_answers
    from mmie_tasks.benchmarks.registry import dataset_names
    from mmie_tasks.core.errors import SettingWrong
    from mmie_tasks.drawing.registry import open_drawer
    from mmie_tasks.runner.saved_answers import predictions_arguments

    saved_by = read_answers(options.answers, dataset_names()).model or "predictions"
    model = options.model or re.sub(_SEPARATORS, "_", saved_by)
    if re.search(_SEPARATORS, model):
        message = f"lmms-eval cannot take the name `{model}`."
        raise SettingWrong(message, hint="`--model NAME` without commas, quotes and brackets")
    more, name = [f"model={model}", f"missing={options.missing}"], model
    more += [f"images={argument_of(options.images)}"] if options.images else []
    if options.t2i:
        if re.search(r"['\"{}\[\]]", options.t2i):
            raise SettingWrong("lmms-eval cannot take quotes or brackets.", hint="`--t2i` without")
        more.append(f"t2i={options.t2i.replace(',', ';')}")
        name = f"{model} + {open_drawer(options.t2i, environment).name}"
    return predictions_arguments(
        options.answers,
        ",".join(tasks),
        {"limit": options.limit},
        argument_of(options.output or Path("out", name.replace("/", "__"))),
        ",".join(more),
    )
