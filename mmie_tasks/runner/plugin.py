"""The entry point through which lmms-eval loads this package.

It is in the group ``lmms_eval.models``, the only one that lmms-eval 0.7.3 loads (``models/registry_v2.py:139``),
whatever way an evaluation is started. If the runner gets a group for tasks one day, only the folder ``runner`` changes.
"""

from __future__ import annotations

import functools
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from mmie_tasks.runner.post_import import after_import

if TYPE_CHECKING:
    from types import ModuleType

    from lmms_eval.models.registry_v2 import ModelManifest


def install_hooks() -> None:
    """Add our tasks and launchers to the runner once it has imported its own."""
    after_import("lmms_eval.tasks", _register_tasks)
    after_import("lmms_eval.llm_judge.launcher", _add_launchers)


# Every start of the runner loads this module, so these import late.
def _register_tasks(tasks: ModuleType) -> None:
    from mmie_tasks.runner.registration import register_tasks

    register_tasks(tasks)


def _add_launchers(launcher: ModuleType) -> None:
    from mmie_tasks.runner.launchers import add_launchers

    add_launchers(launcher)


def runner_commands() -> frozenset[str]:
    """The commands of the installed lmms-eval; empty if it does not list them (``cli/dispatch.py:18``)."""
    from lmms_eval.cli import dispatch

    return frozenset(getattr(dispatch, "_SUBCOMMANDS", ()))


def run_lmms_eval() -> int:
    """Run lmms-eval's command line on ``sys.argv``, with our tasks and launchers.

    Returns:
        The exit status: 1 if an evaluation failed, which the runner prints and forgets.

    Raises:
        SystemExit: The runner ends the process itself.
    """
    failed: list[Namespace] = []

    def watch_evaluations(runner: ModuleType) -> None:
        from mmie_tasks.runner.hooks import wrap_once

        wrap_once(runner, "cli_evaluate_single", functools.partial(_list_failures, failed))

    install_hooks()  # before the runner imports its tasks
    after_import("lmms_eval.__main__", watch_evaluations)
    from lmms_eval.cli.dispatch import main

    main()
    for arguments in failed:
        model = f"{arguments.model} ({arguments.model_args})"  # as the runner prints it
        sys.stderr.write(
            f"mmie-tasks: the evaluation of `{model}` on `{arguments.tasks}` failed; its error is above.\n"
        )
    return int(bool(failed))


def _list_failures(failed: list[Namespace], evaluate: Callable[[Namespace], object]) -> Callable[[Namespace], object]:
    """Wrap the runner's evaluation so that the arguments of one that raises stay in a list.

    The runner catches what an evaluation raises, prints it, goes on with the next one of ``--config``
    and ends with status 0 (``__main__.py:609``); without ``--tasks`` it ends with 0 as well.
    """

    @functools.wraps(evaluate)
    def evaluate_single(arguments: Namespace) -> object:
        if arguments.tasks is None:
            sys.stderr.write("mmie-tasks: an evaluation needs `--tasks`.\n\nhint: `mmie-tasks tasks list`\n")
            raise SystemExit(2)
        failed.append(arguments)
        results = evaluate(arguments)
        failed.pop()
        return results

    return evaluate_single


def manifests() -> list[ModelManifest]:
    """The entry point: install the hooks and return the manifests of our models.

    ``predictions`` is a chat model, so that the runner opens no image for it. ``interleaved`` is what its writer is.
    """
    from lmms_eval.models.registry_v2 import ModelManifest

    install_hooks()
    predictions, interleaved = "mmie_tasks.runner.predictions.Predictions", "mmie_tasks.runner.interleaved.Interleaved"
    return [
        ModelManifest(model_id="predictions", chat_class_path=predictions),
        ModelManifest(model_id="interleaved", chat_class_path=interleaved, simple_class_path=f"{interleaved}Simple"),
    ]
