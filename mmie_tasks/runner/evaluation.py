"""The evaluation that this process runs: all that the hooks know of it, in one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmie_tasks.benchmarks.model_answers import answer_folders_of_run
from mmie_tasks.core.run_memory import forget_last_run
from mmie_tasks.judges.base import Outcome
from mmie_tasks.judges.choice import JudgeChoices
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.runner.answer_files import RunOutput
from mmie_tasks.runner.command_options import COMMAND_OPTIONS, CommandOptions
from mmie_tasks.runner.run_summary import RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEvaluation:
    """One evaluation, from the call of ``simple_evaluate`` to its end.

    Attributes:
        session: Its judges.
        output: Where it writes its results.
        summary: Of its tasks.
        sketch_file: The page of ``mmie-tasks eval --sketch``; None for other evaluations.
    """

    session: JudgingSession
    output: RunOutput = field(default_factory=RunOutput)
    summary: RunSummary = field(default_factory=RunSummary)
    sketch_file: Path | None = None


_RUNNING: ContextVar[RunningEvaluation | None] = ContextVar("running", default=None)
"""Process-wide, because the runner calls ``evaluate``, the aggregation of a task and our models
without anything of ours. It evaluates one model at a time.
"""


def running_evaluation() -> RunningEvaluation | None:
    """The evaluation that this process runs; None outside one."""
    return _RUNNING.get()


def new_evaluation(choices: JudgeChoices, options: Mapping[str, Any]) -> RunningEvaluation:
    """An evaluation with these judges, or those of ``mmie-tasks eval --judge``.

    Args:
        choices: The judges of the runner's launcher.
        options: The arguments of ``simple_evaluate``, with their defaults; of ``evaluate`` if that
            is called directly.
    """
    from mmie_tasks.runner.model_memory import free_tested_models

    command = COMMAND_OPTIONS.get(CommandOptions())
    session = JudgingSession(
        choices or command.judges, on_outcome=log_judge_usage, before_loading=free_tested_models
    )
    return RunningEvaluation(
        session=session, output=RunOutput.of_run(options), sketch_file=command.sketch_file
    )


@contextmanager
def running(evaluation: RunningEvaluation) -> Iterator[None]:
    """Begin an evaluation: nothing of the one before is left, and nothing is left of it at the end.

    The samples that wait for a judge are those of its session.
    """
    forget_last_run()
    before = _RUNNING.set(evaluation)
    try:
        with answer_folders_of_run():
            yield
    finally:
        _RUNNING.reset(before)


def log_judge_usage(outcome: Outcome) -> None:
    """Enter the tokens of a reply into the runner's ledger as ``judge``, unless it was cached."""
    from lmms_eval.models.model_utils.usage_metrics import log_usage

    if isinstance(outcome, JudgeReply) and not outcome.cached:
        usage = outcome.usage
        log_usage(
            outcome.model,
            input_tokens=usage.input_tokens,
            output_tokens=max(0, usage.output_tokens - usage.reasoning_tokens),
            reasoning_tokens=usage.reasoning_tokens,
            source="judge",
        )
