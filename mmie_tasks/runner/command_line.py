"""Runs the command line of lmms-eval for ``mmie-tasks``, with an exit status for what failed."""

from __future__ import annotations

import functools
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mmie_tasks.core.command import as_called
from mmie_tasks.runner.entry_point import WITHOUT_TASKS, install
from mmie_tasks.runner.plugin import wrap

if TYPE_CHECKING:
    from mmie_tasks.judges.choice import JudgeChoices
    from mmie_tasks.judges.served_model import ServedModel


def runner_commands() -> frozenset[str]:
    """The commands that the installed lmms-eval lists (``cli/dispatch.py:18``)."""
    from lmms_eval.cli import dispatch

    return frozenset(getattr(dispatch, "_SUBCOMMANDS", ()))


def run_lmms_eval(
    judges: JudgeChoices | None = None,
    tested: ServedModel | None = None,
    scored_tasks: Sequence[str] = (),
) -> int:
    """Run lmms-eval's command line on ``sys.argv``, with our tasks and launchers.

    Returns the exit status: 1 if an evaluation failed, for which the runner would return 0, or if
    one of `scored_tasks`, those of ``score`` and ``rejudge``, has no score. The runner may also end
    the process itself. The other arguments are those of `CommandOptions`.
    """
    failed: list[Namespace] = []
    if sys.argv[1:2] != [WITHOUT_TASKS]:
        install()
    if sys.argv[1:2] == ["eval"]:
        listing = functools.partial(_list_failures, failed)
        wrap("lmms_eval.__main__:cli_evaluate_single", listing)
    from lmms_eval.cli.dispatch import main

    from mmie_tasks.runner.evaluation import COMMAND_OPTIONS, CommandOptions

    options = CommandOptions(judges=judges or {}, tested=tested, is_score=bool(scored_tasks))
    token = COMMAND_OPTIONS.set(options)
    try:
        main()
    finally:
        COMMAND_OPTIONS.reset(token)
    for arguments in failed:
        model = f"{arguments.model} ({arguments.model_args})"  # as the runner prints it
        sys.stderr.write(
            f"mmie-tasks: the evaluation of `{model}` on `{arguments.tasks}` failed; its error is "
            "above.\n"
        )
    if unscored := [task for task in scored_tasks if options.scores.get(task) is None]:
        names = ", ".join(f"`{task}`" for task in unscored)
        sys.stderr.write(f"mmie-tasks: no score of {names}; the last lines say why.\n")
    return int(bool(failed or unscored))


def _list_failures(
    failed: list[Namespace], evaluate: Callable[[Namespace], tuple[Any, Any]]
) -> Callable[[Namespace], tuple[Any, Any]]:
    """Wrap the runner's evaluation so that the arguments of failed ones are listed.

    The runner prints what an evaluation raises, goes on with the next one of ``--config`` and ends
    with status 0 (``__main__.py:609``), also without ``--tasks``. Of ``score``, only the table is
    printed, without the runner's banner.
    """

    def evaluate_single(arguments: Namespace) -> tuple[Any, Any]:
        from lmms_eval.utils import make_table

        from mmie_tasks.runner.evaluation import COMMAND_OPTIONS, CommandOptions

        if arguments.tasks is None:
            list_tasks = as_called("mmie-tasks tasks list")
            sys.stderr.write(
                f"mmie-tasks: an evaluation needs `--tasks`.\n\nhint: `{list_tasks}`\n"
            )
            raise SystemExit(2)
        failed.append(arguments)
        results, samples = evaluate(arguments)
        failed.pop()
        if results is not None and COMMAND_OPTIONS.get(CommandOptions()).is_score:
            print(make_table(results))
            return None, samples
        return results, samples

    return evaluate_single
