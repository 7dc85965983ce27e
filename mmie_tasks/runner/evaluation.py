"""The state of the evaluation that this process runs, in one object.

Other state is elsewhere because the runner's calls force it to be. The options of our command line
(`COMMAND_OPTIONS`) outlive an evaluation. The runner calls a task's functions with a sample only,
``process_results`` in its own threads, so what they read is in their modules: the settings of a
benchmark, the session of its judge (`BenchmarkJudge.session`), what is remembered about samples
(`hub.run_images`) and folders of answers (`benchmarks.model_answers`). `running` and `judging_in`
reset these.
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
from mmie_tasks.benchmarks.settings import TaskSettings
from mmie_tasks.core.choice import split_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.hub.run_images import forget_last_run
from mmie_tasks.judges.base import Outcome
from mmie_tasks.judges.choice import JudgeChoices
from mmie_tasks.judges.served_model import ServedModel, served_model
from mmie_tasks.judges.session import JudgingSession
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.runner.answer_files import RunOutput
from mmie_tasks.runner.loaded_tasks import Task
from mmie_tasks.runner.model_memory import free_tested_models
from mmie_tasks.runner.run_summary import RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The options of ``mmie-tasks eval`` that lmms-eval does not know.

    Attributes:
        judges: The judges of ``--judge``, for all evaluations of the command line.
        tested: The tested model whose saved answers are judged, if it was on a server.
        is_score: Whether the command is ``score``, which prints less.
        scores: Task to its official score in percent, when its evaluation has ended.
    """

    judges: JudgeChoices = field(default_factory=dict)
    tested: ServedModel | None = None
    is_score: bool = False
    scores: dict[str, float | None] = field(default_factory=dict)


COMMAND_OPTIONS: ContextVar[CommandOptions] = ContextVar("options")
"""The options of the command line that runs. They outlive an evaluation, because the runner's
``main`` (``cli/dispatch.py``) begins evaluations with arguments of its own only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEvaluation:
    """One evaluation, from the call of ``simple_evaluate`` to its end.

    Attributes:
        session: The judges, and what they judge.
        benchmarks: Our tasks, to their benchmarks; filled when ``evaluate`` begins.
        models: The tested model, held weakly; filled when ``evaluate`` begins.
        output: Where results are written.
        summary: The summary of our tasks.
        settings: The settings of our tasks' benchmarks.
        until_end: Contexts that end with the evaluation.
    """

    session: JudgingSession
    benchmarks: dict[Task, Benchmark] = field(default_factory=dict)
    models: WeakSet[object] = field(default_factory=WeakSet)
    output: RunOutput = field(default_factory=RunOutput)
    summary: RunSummary = field(default_factory=RunSummary)
    settings: dict[Benchmark, TaskSettings] = field(default_factory=dict)
    until_end: ExitStack = field(default_factory=ExitStack)

    def configure(self, task: str, benchmark: Benchmark, metadata: object) -> None:
        """Read the settings of a task's benchmark, until the evaluation ends.

        Raises:
            SettingWrong: A setting is invalid, or another task of the benchmark has another one.
        """
        if benchmark not in self.settings:
            self.until_end.callback(setattr, benchmark, "settings", benchmark.settings)
        benchmark.configure(self.session.choices, metadata)
        if self.settings.setdefault(benchmark, benchmark.settings) != benchmark.settings:
            raise SettingWrong(
                f"`{task}` has other settings than another task of {benchmark.title} in this run.",
                hint="run the two tasks one after the other, or make their `metadata` equal",
            )


_RUNNING: ContextVar[RunningEvaluation | None] = ContextVar("running", default=None)
"""The evaluation of this thread. The runner calls ``evaluate``, our models and the aggregation of a
task in one thread, for one model at a time, and passes on nothing of ours.
"""


def running_evaluation() -> RunningEvaluation | None:
    """The evaluation that this thread runs, if any."""
    return _RUNNING.get()


def new_evaluation(choices: JudgeChoices, options: Mapping[str, Any]) -> RunningEvaluation:
    """An evaluation with these judges, or else with the judges of ``mmie-tasks eval --judge``.

    The options are the arguments of ``simple_evaluate``, with their defaults, or of ``evaluate`` if
    it is called directly.
    """
    command = COMMAND_OPTIONS.get(CommandOptions())
    models: WeakSet[object] = WeakSet()
    session = JudgingSession(
        choices or command.judges,
        on_outcome=_log_judge_usage,
        before_loading=functools.partial(free_tested_models, models),
        tested=command.tested or served_model_of(options),
    )
    return RunningEvaluation(session=session, models=models, output=RunOutput.of_run(options))


def served_model_of(options: Mapping[str, Any]) -> ServedModel | None:
    """The tested model, if it is on a server."""
    name = options.get("model")
    if not isinstance(name, str):
        return None
    return served_model(name, model_arguments(options.get("model_args")), os.environ)


def model_arguments(arguments: object) -> Mapping[str, object]:
    """``model_args``, also of a command line, by name."""
    if isinstance(arguments, Mapping):
        return arguments
    pairs = (part.partition("=") for part in split_options(str(arguments or "")))
    return {key.strip(): value.strip() for key, _, value in pairs}


@contextmanager
def running(evaluation: RunningEvaluation) -> Iterator[None]:
    """Run an evaluation with no state of an earlier one, and leave none."""
    forget_last_run()
    before = _RUNNING.set(evaluation)
    try:
        with answer_folders_of_run(), evaluation.until_end:
            yield
    finally:
        _RUNNING.reset(before)


def _log_judge_usage(outcome: Outcome) -> None:
    """Log the tokens of a reply as the runner's usage of ``judge``, unless it was cached."""
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
