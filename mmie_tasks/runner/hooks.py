"""What is put around the runner's evaluator, in the order in which a run comes to it:
`check_first`, `add_data_to_tasks`, `judge_answers` and `summarise`.
"""

from __future__ import annotations

import inspect
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.task_answers import id_of
from mmie_tasks.core.log import is_first_process
from mmie_tasks.judges.session import judging_in
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.model_name import run_name
from mmie_tasks.record.record import RECORD_KEY
from mmie_tasks.record.rows import logged_value
from mmie_tasks.runner.answer_files import NamedModel
from mmie_tasks.runner.early_checks import (
    answers_are_saved,
    check_before_model,
    check_before_requests,
    check_judges,
    errors_end,
)
from mmie_tasks.runner.evaluation import (
    COMMAND_OPTIONS,
    CommandOptions,
    RunningEvaluation,
    new_evaluation,
    running,
    running_evaluation,
)
from mmie_tasks.runner.generation import (
    called_after_generation,
    name_null_replies,
    one_task_per_call,
)
from mmie_tasks.runner.launchers import chosen_judges, parse_launcher_args
from mmie_tasks.runner.loaded_tasks import Task, benchmark_of, is_judged, leaf_tasks
from mmie_tasks.runner.plugin import Function, wrap
from mmie_tasks.runner.results_metadata import add_data, add_signatures
from mmie_tasks.runner.run_summary import print_at_exit, report_command
from mmie_tasks.runner.saved_answers import scoring_lines


def change_evaluator() -> None:
    """Change the runner's evaluator, if it is imported.

    The command line looks up ``simple_evaluate`` after the index of tasks is built
    (``__main__.py:735``), so a wrong API key ends a run in seconds, before a model is loaded. Code
    that imported the function by name earlier is checked when ``evaluate`` begins.
    """
    if "lmms_eval.evaluator" in sys.modules:
        wrap("lmms_eval.evaluator:simple_evaluate", check_first)
        wrap("lmms_eval.evaluator:get_task_dict", add_data_to_tasks)
        wrap("lmms_eval.evaluator:evaluate", judge_answers)
        wrap("lmms_eval.evaluator_utils:TaskOutput.calculate_aggregate_metric", summarise)


def add_data_to_tasks(load: Function) -> Function:
    """Wrap the function that loads the tasks of a run, before ``--use_cache`` derives its keys."""

    def load_with_data(*args: object, **kwargs: object) -> Mapping[Any, Any]:
        loaded: Mapping[Any, Any] = load(*args, **kwargs)
        for task in leaf_tasks(loaded).values():
            if benchmark_of(task) is not None:
                add_data(task)
        return loaded

    return load_with_data


def summarise(aggregate: Function) -> Function:
    """Wrap the method that aggregates the metrics of a task: it summarises our tasks."""

    def aggregate_and_summarise(output: Any, *args: object, **kwargs: object) -> None:  # noqa: ANN401
        evaluation = running_evaluation()
        benchmark = evaluation.benchmarks.get(output.task) if evaluation else None
        for line in output.logged_samples:
            if "bypass" in line:  # --predict_only logs no metric with an id
                line["sample"] = {"id": id_of(line["doc"])}
        records = [] if benchmark is None else _take_records(output, benchmark.scale)
        aggregate(output, *args, **kwargs)
        if benchmark is None or evaluation is None or not records:
            return
        arguments = getattr(output.task, "args", None)
        options = {name: getattr(arguments, name, None) or 0 for name in ("limit", "offset")}
        part = {name: value for name, value in options.items() if value > 0}
        lines = output.logged_samples
        evaluation.summary.add(output.task_name, benchmark, records, part, lines)

    return aggregate_and_summarise


def _take_records(output: Any, scale: Scale) -> list[dict[str, Any]]:  # noqa: ANN401 - the runner's
    """Take the records out of a task's metrics; its lines in the log get numbers in place of rows.

    The runner takes whatever ``process_results`` returns for rows of a metric, and would give the
    metric ``record`` the value ``[]`` (`consolidate_results` in ``evaluator_utils.py``).
    """
    rows = output.sample_metrics
    keys = [key for key in rows if key[0] == RECORD_KEY]
    records = [record for key in keys for record in rows.pop(key)]
    for line in output.logged_samples if records else ():
        line |= {metric: logged_value(line[metric], scale) for metric, _ in rows}
        line["input"] = line["arguments"][0]  # as the runner saves it later
    return records


def judge_answers(evaluate: Function) -> Function:
    """Wrap the function that generates answers and scores them: it checks the data of our tasks,
    keeps tasks apart in the model's batches, judges, and signs the results.
    """
    signature = inspect.signature(evaluate)

    def evaluate_and_judge(*args: object, **kwargs: object) -> object:
        options = signature.bind(*args, **kwargs).arguments
        model = options["lm"]
        named_tasks = leaf_tasks(options["task_dict"])
        tasks = list(named_tasks.values())
        with _begun(options) as evaluation:
            evaluation.models.add(model)
            evaluation.benchmarks.update(
                {task: benchmark for task in tasks if (benchmark := benchmark_of(task))}
            )
            if isinstance(model, NamedModel):
                evaluation.output.name_folder(model)
            with (
                one_task_per_call(model, has_ours=bool(evaluation.benchmarks)),
                _judging(evaluation, options, tasks),
            ):
                results = evaluate(*args, **kwargs)
                if isinstance(results, dict):  # None on all ranks but 0
                    add_signatures(results["configs"], named_tasks, evaluation.benchmarks)
                    evaluation.summary.add_details(results)
        return results

    return evaluate_and_judge


@contextmanager
def _begun(options: Mapping[str, Any]) -> Iterator[RunningEvaluation]:
    """The evaluation of ``simple_evaluate``, or a new one if ``evaluate`` is called directly."""
    if (evaluation := running_evaluation()) is not None:
        yield evaluation
        return
    launcher = options.get("eval_server_launcher")
    evaluation = new_evaluation(chosen_judges(launcher), options)
    with running(evaluation):
        yield evaluation


@contextmanager
def _judging(
    evaluation: RunningEvaluation, options: Mapping[str, Any], tasks: Sequence[Task]
) -> Iterator[None]:
    """Judge in the run's session, after data and judges are checked; answers are saved when the
    model has given all of them. `options` are the arguments of ``evaluate``.
    """
    ours = evaluation.benchmarks
    if not ours:
        yield
        return
    session, output = evaluation.session, evaluation.output
    if is_first_process(os.environ):
        output.warn_of_what_is_not_saved()
    with ExitStack() as stack:
        stack.callback(session.close)
        judges = [benchmark.judge for benchmark in ours.values() if benchmark.judge is not None]
        stack.enter_context(judging_in(session, judges))
        command_line = options.get("cli_args")
        with errors_end(command_line):
            check_before_requests(ours, evaluation, options)
        functions = [lambda: name_null_replies(ours)]
        judged = [task for task, benchmark in ours.items() if is_judged(task, benchmark)]
        if judged:
            functions.append(lambda: output.save(tasks))
        if is_first_process(os.environ) and any(map(answers_are_saved, judged)):
            functions.append(lambda: _check_judges_of(judged, ours))
        stack.enter_context(called_after_generation(options["lm"], functions))
        yield


def _check_judges_of(tasks: Sequence[Task], benchmarks: Mapping[Task, Benchmark]) -> None:
    """Check the judges of saved answers, which are matched and have their images by now."""
    with errors_end(getattr(tasks[0], "args", None)):
        check_judges({benchmarks[task] for task in tasks})


def check_first(evaluate: Function) -> Function:
    """Wrap the function that loads a model and evaluates it: judges are checked first, Ctrl-C ends
    it, and the last lines are printed.
    """
    signature = inspect.signature(evaluate)

    def simple_evaluate(*args: object, **kwargs: Any) -> object:  # noqa: ANN401 - as the original
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        options = call.arguments
        command_line = options["cli_args"]
        with errors_end(command_line):
            choices = parse_launcher_args(options["launcher_args"])
            evaluation = new_evaluation(choices, options)
            if is_first_process(os.environ):
                check_before_model(options, evaluation)
        ending = nullcontext() if command_line is None else _ending_on_ctrl_c(evaluation)
        with ending, running(evaluation):
            results = evaluate(*args, **kwargs)
        if command_line is not None and results is not None:
            print_at_exit(_last_lines(evaluation, command_line))
        return results

    return simple_evaluate


@contextmanager
def _ending_on_ctrl_c(evaluation: RunningEvaluation) -> Iterator[None]:
    """On Ctrl-C, stop the judges, print what is stored, and end with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        hint, stored = evaluation.output.resume_hint, evaluation.session.stop()
        next_step = f"To go on: {hint}" if hint else "No answers are saved."
        if is_first_process(os.environ):
            sys.stderr.write(f"\nmmie-tasks: stopped; {stored}. {next_step}\n")
        raise SystemExit(130) from None


def _last_lines(evaluation: RunningEvaluation, command_line: Namespace) -> str:
    output, name = evaluation.output, run_name(evaluation.output.tested_model)
    if command_line.predict_only:
        ours = evaluation.benchmarks
        if output.folder is None or not ours:
            return ""
        asked = any(
            ours[task].provenance(task.eval_docs_no_media[0]).get("answers") for task in ours
        )
        return scoring_lines(name, output.folder, command_line, asked_for_images=asked)
    command, summary = COMMAND_OPTIONS.get(CommandOptions()), evaluation.summary
    command.scores.update(summary.scores)
    report = report_command(output.path, has_samples=command_line.log_samples)
    folder = output.path if output.path and command_line.log_samples else "RUN"
    return summary.block(
        name, report, command_line.tasks, folder=folder, has_notes=command.is_score
    )
