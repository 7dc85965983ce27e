"""The evaluation that this process runs: all that the hooks know of it, in one object.

Two things outlive an evaluation: the benchmarks of loaded tasks (`loaded_tasks.BENCHMARKS`) and the
options of our command line (`command_options.COMMAND_OPTIONS`). And the runner calls the functions
of a task with a sample only, ``process_results`` in threads of its own, so what those read is in
their modules: the session of a benchmark's judge (`BenchmarkJudge.session`), what is remembered of
samples (`core.run_memory`) and folders of answers (`benchmarks.model_answers`). `running` and
`judging_in` reset it. Each says which call of the runner forces it to be there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.model_answers import answer_folders_of_run
from mmie_tasks.core.choice import split_options
from mmie_tasks.core.run_memory import forget_last_run
from mmie_tasks.judges.base import Outcome
from mmie_tasks.judges.choice import JudgeChoices
from mmie_tasks.judging.benchmark_judge import judging_in
from mmie_tasks.judging.served_model import ServedModel, served_model
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.runner.answer_files import RunOutput
from mmie_tasks.runner.command_options import COMMAND_OPTIONS, CommandOptions
from mmie_tasks.runner.model_memory import free_tested_models
from mmie_tasks.runner.run_summary import RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEvaluation:
    """One evaluation, from the call of ``simple_evaluate`` to its end.

    Attributes:
        session: Its judges.
        loaded: Its tasks that are ours, by name, as the runner has loaded them.
        benchmarks: The tasks of ours that are evaluated, to their benchmarks; filled when
            ``evaluate`` begins.
        models: The tested model, held weakly; filled then, too.
        output: Where it writes its results.
        summary: Of its tasks.
        until_end: Contexts that end with it.
    """

    session: JudgingSession
    loaded: dict[str, object] = field(default_factory=dict)
    benchmarks: dict[object, Benchmark] = field(default_factory=dict)
    models: WeakSet[object] = field(default_factory=WeakSet)
    output: RunOutput = field(default_factory=RunOutput)
    summary: RunSummary = field(default_factory=RunSummary)
    until_end: ExitStack = field(default_factory=ExitStack)

    def add_loaded(self, name: str, task: object, benchmark: Benchmark) -> None:
        """Add a task of ours, and hand the session to its judge until the evaluation ends."""
        self.loaded[name] = task
        if benchmark.judge is not None:
            self.until_end.enter_context(judging_in(self.session, [benchmark.judge]))


_RUNNING: ContextVar[RunningEvaluation | None] = ContextVar("running", default=None)
"""Of the thread that evaluates, because the runner calls ``evaluate``, our models and the
aggregation of a task there, without anything of ours. It evaluates one model at a time.
"""


def running_evaluation() -> RunningEvaluation | None:
    """The evaluation that this thread runs; None outside one."""
    return _RUNNING.get()


def new_evaluation(choices: JudgeChoices, options: Mapping[str, Any]) -> RunningEvaluation:
    """An evaluation with these judges, or those of ``mmie-tasks eval --judge``.

    Args:
        choices: The judges of the runner's launcher.
        options: The arguments of ``simple_evaluate``, with their defaults; of ``evaluate`` if that
            is called directly.
    """
    command = COMMAND_OPTIONS.get(CommandOptions())
    models: WeakSet[object] = WeakSet()
    session = JudgingSession(
        choices or command.judges,
        on_outcome=log_judge_usage,
        before_loading=functools.partial(free_tested_models, models),
        sync=bool(getattr(options.get("cli_args"), "baseline", None)),
        tested=command.tested or served_model_of(options),
    )
    return RunningEvaluation(session=session, models=models, output=RunOutput.of_run(options))


def served_model_of(options: Mapping[str, Any]) -> ServedModel | None:
    """The tested model if it is on a server: of the options ``model`` and ``model_args``; of a pair
    the writer.

    Raises:
        SettingWrong: The arguments of a pair are wrong.
    """
    name, arguments = options.get("model"), options.get("model_args") or {}
    if not isinstance(name, str):
        return None
    if name == "interleaved":
        from mmie_tasks.runner.pair_arguments import parse_pair_arguments, split_arguments

        pair = parse_pair_arguments(split_arguments(arguments))
        name, arguments = pair.writer, pair.writer_arguments
    elif not isinstance(arguments, Mapping):
        pairs = (part.partition("=") for part in split_options(str(arguments)))
        arguments = {key.strip(): value.strip() for key, _, value in pairs}
    return served_model(name, arguments, os.environ)


@contextmanager
def running(evaluation: RunningEvaluation) -> Iterator[None]:
    """Begin an evaluation: nothing of the one before is left, and nothing is left of it at the end.

    The samples that wait for a judge are those of its session.
    """
    forget_last_run()
    before = _RUNNING.set(evaluation)
    try:
        with answer_folders_of_run(), evaluation.until_end:
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
