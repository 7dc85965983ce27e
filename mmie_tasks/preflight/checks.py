"""What ``doctor`` checks: packages, task files, assets, judges, GPUs and saved answers."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, is_setting, require_judged
from mmie_tasks.benchmarks.task_files import TaskFile
from mmie_tasks.core.errors import DataBroken, MmieTasksError, SettingWrong, first_line
from mmie_tasks.core.files import readable_size
from mmie_tasks.hub.asset import Asset, Check
from mmie_tasks.judges.choice import VARIABLE, environment_choices, parse_flags
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in
from mmie_tasks.preflight.answers import check_answers
from mmie_tasks.preflight.needed import select_tasks
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.signature import Signature

PACKAGES = ("mmie-tasks", "lmms-eval", "torch", "transformers", "huggingface_hub", "datasets")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was checked, the result, and what to do, if anything."""

    subject: str
    message: str
    hint: str = ""
    is_problem: bool = False

    @property
    def text(self) -> str:
        """``mmie: data: 11 samples``."""
        return f"{self.subject}: {self.message}"


def examine(options: argparse.Namespace, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check this machine, the requested benchmarks with their judges, and saved answers.

    Raises:
        SettingWrong: An option has an invalid value.
    """
    selection = select_tasks(options.tasks.split(",")) or dict.fromkeys(entries(), ())
    if options.answers and not options.tasks:
        raise SettingWrong("Saved answers need their tasks.", hint="`--tasks A,B`")
    choices = parse_flags(options.judge, options.judge_args, is_setting)
    require_judged(choices, "`--judge`")
    session = JudgingSession(choices, environment)
    yield Finding("Python", f"{platform.python_version()} on {platform.machine()}")
    yield from map(_package, PACKAGES)
    yield from checked(VARIABLE, lambda: _variable(environment))
    for entry in filter(selection.__contains__, entries()):
        problems: set[str] = set()
        for finding in _benchmark(entry, selection[entry], session, environment):
            if finding.message not in problems:  # what judging needs may be an asset, too
                problems |= {finding.message} if finding.is_problem else set()
                yield finding
    if options.answers:
        for text, error in check_answers(options, selection, environment, downloads=False):
            subject, _, result = text.partition(": ")
            yield problem(text, error) if error else Finding(subject, result)


def _package(name: str) -> Finding:
    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, "is not installed", f"`pip install {name}`", is_problem=True)


def _variable(environment: Mapping[str, str]) -> str:
    require_judged(environment_choices(environment), f"`{VARIABLE}`")
    return ""


def problem(subject: str, error: MmieTasksError) -> Finding:
    """An error as a problem."""
    return Finding(subject, error.message.rstrip("."), error.hint, is_problem=True)


def checked(subject: str, check: Callable[[], str]) -> Iterator[Finding]:
    """The result of a check, if it has one, or the problem that it raises."""
    try:
        if result := check():
            yield Finding(subject, result.rstrip("."))
    except MmieTasksError as error:
        yield problem(subject, error)


def _benchmark(
    entry: BenchmarkEntry,
    tasks: Sequence[str],
    session: JudgingSession,
    environment: Mapping[str, str],
) -> Iterator[Finding]:
    """The findings on a benchmark: its task files, the assets of the requested tasks, its judge."""
    try:
        benchmark = entry.load()
        benchmark.configure(session.choices)
        files = entry.task_files()
        assets = benchmark.assets(tasks, environment)
    except MmieTasksError as error:
        yield problem(entry.name, error)
        return
    if not entry.is_ours:
        hint = f"include `{entry.task_dir()}` in the package's build, and reinstall it"
        text = f"of the package `{entry.package}`, task files: {len(files)}"
        yield Finding(entry.name, text, "" if files else hint, is_problem=not files)
    for name in tasks or files:
        if name in files:
            yield from checked(
                f"{name}: task file", partial(task_file_result, files[name], benchmark)
            )
    yield from asset_findings(assets)
    if benchmark.judge is None:
        yield Finding(f"{entry.name}: judge", "none is needed: it is scored by rule")
        return
    with judging_in(session, [benchmark.judge]):
        yield from _judges(benchmark, benchmark.judge, session)


def task_file_result(file: TaskFile, benchmark: Benchmark) -> str:
    """Load the functions that a task file names, and compare its metrics with the class; empty.

    Raises:
        DataBroken: A function cannot be loaded, or the class has no metric of a name.
    """
    for name in file.functions:
        module, _, function = name.rpartition(".")
        try:
            _load(module, function, file.path.parent)
        except Exception as error:  # another package's module
            raise DataBroken(
                f"`{file.path}` names `{name}`, which cannot be loaded: {type(error).__name__}: "
                f"{first_line(error)}.",
                hint="correct the name in the task file, or the module",
            ) from error
    table = RunnerTable(metrics=benchmark.metrics, scale=benchmark.scale)
    if unknown := [name for name in file.metrics if name not in table.names]:
        raise DataBroken(
            f"`{file.path}` lists the metric `{unknown[0]}`, which the benchmark does not have.",
            hint=f"add it to `metrics` of the class, or leave it out; it has "
            f"{', '.join(table.names)}",
        )
    return ""


def _load(module: str, function: str, folder: Path) -> object:
    """The function, from a file next to the task file or from a module, as lmms-eval finds it
    (``import_function`` in its ``utils.py``).
    """
    path = folder / f"{module}.py"
    if not path.exists():
        return getattr(import_module(module), function)
    spec = spec_from_file_location(module, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"`{path}` is not a module")
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, function)


def asset_findings(assets: Sequence[Asset]) -> Iterator[Finding]:
    """What a run would download, and the results of the checks of the other assets.

    A check of several assets, such as the archives of one dataset, runs once, if all of them are
    here. The checks of an asset end with the first problem.
    """
    missing = [asset for asset in assets if asset.origin == "hub" and not asset.is_here()]
    waiting = {check for asset in missing for check in asset.checks}
    done: set[Check] = set()
    for asset in assets:
        if asset in missing:
            plan = asset.plan
            yield from checked(asset.name, lambda: f"{plan().text}, by the first run")  # noqa: B023
            continue
        if not asset.checks or waiting.intersection(asset.checks):
            yield Finding(asset.name, f"{asset.source} is here")
        for check in asset.checks:
            if check in done | waiting:
                continue
            done.add(check)
            findings = list(checked(check.subject, check.describe))
            yield from findings
            if any(finding.is_problem for finding in findings):
                break


def _judges(
    benchmark: Benchmark, benchmark_judge: BenchmarkJudge, session: JudgingSession
) -> Iterator[Finding]:
    """The findings on the chosen judge, or on each judge of a panel."""
    subject = f"{benchmark.name}: judge"
    try:
        choices, judges = benchmark_judge.choices().judges, benchmark_judge.judge().members
    except MmieTasksError as error:
        yield problem(subject, error)
        return
    for number, (choice, judge) in enumerate(zip(choices, judges, strict=True), start=1):
        numbered = subject if len(choices) == 1 else f"{subject} {number}"
        name = f"`{choice.name}`, named by {choice.source}"
        try:
            assets = judge.assets()
        except MmieTasksError as error:
            yield problem(numbered, error)
            continue
        if assets:  # it runs on this machine; its own check might download them
            yield Finding(numbered, name)
            yield from _gpus(choice.name)
            yield from asset_findings(assets)
            continue

        def usable() -> str:
            session.check(judge, benchmark_judge.max_images)  # noqa: B023 - called at once
            return f"{name}, can be used: {Signature.of_judges([judge.signature])}"  # noqa: B023

        yield from checked(subject, partial(_setup, benchmark))
        yield from checked(numbered, usable)


def _setup(benchmark: Benchmark) -> str:
    benchmark.check_setup()
    return ""


def _gpus(judge: str) -> Iterator[Finding]:
    """The GPUs that a judge in this process would use."""
    import torch

    if not torch.cuda.is_available():
        text = f"torch finds none: the judge `{judge}` would run on the CPU, which is slow"
        yield Finding(
            "GPU", text, "judge on a machine with a GPU, or on a server: `--judge openai:MODEL`"
        )
    for index in range(torch.cuda.device_count()):
        subject = f"GPU {index}"
        try:
            free, total = torch.cuda.mem_get_info(index)
        except RuntimeError:
            yield Finding(subject, "torch cannot use it", "look at `nvidia-smi`", is_problem=True)
        else:
            name = torch.cuda.get_device_name(index)
            text = f"{name}, {readable_size(free)} of {readable_size(total)} free"
            yield Finding(subject, text)
