"""What ``doctor`` checks: packages, task files, assets, judges, GPUs and saved answers."""

from __future__ import annotations

import argparse
import platform
import runpy
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, is_setting, require_judged
from mmie_tasks.benchmarks.task_files import TaskFile
from mmie_tasks.core.errors import DataBroken, MmieTasksError, SettingWrong, first_line
from mmie_tasks.core.files import readable_size
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges.choice import VARIABLE, environment_choices, parse_flags
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in
from mmie_tasks.preflight.answers import check_answers
from mmie_tasks.preflight.finding import Finding, checked
from mmie_tasks.preflight.needed import refuse_hidden_task, select_tasks
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.signature import Signature

_PACKAGES = ("mmie-tasks", "lmms-eval", "torch", "transformers", "huggingface_hub", "datasets")


def examine(options: argparse.Namespace, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check this machine, the requested benchmarks with their judges, and saved answers.

    Raises:
        SettingWrong: An option has an invalid value.
    """
    selection = select_tasks(options.tasks.split(",")) or dict.fromkeys(entries(), ())
    if options.answers and not options.tasks:
        raise SettingWrong("Saved answers need their tasks.", hint="`--tasks A,B`")
    if not options.answers:  # `score` is not concerned
        refuse_hidden_task(options.tasks)
    choices = parse_flags(options.judge, options.judge_args, is_setting)
    require_judged(choices, "`--judge`")
    session = JudgingSession(choices, environment)
    yield Finding("Python", f"{platform.python_version()} on {platform.machine()}")
    yield from map(_package, _PACKAGES)
    variable = f"`{VARIABLE}`"
    yield from checked(VARIABLE, lambda: require_judged(environment_choices(environment), variable))
    for entry in filter(selection.__contains__, entries()):
        problems: set[str] = set()
        for finding in _benchmark(entry, selection[entry], session, environment):
            if finding.message not in problems:  # what judging needs may be an asset, too
                problems |= {finding.message} if finding.hint else set()
                yield finding
    if options.answers:
        yield from check_answers(options, selection, environment, downloads=False)


def _package(name: str) -> Finding:
    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, "is not installed", f"`pip install {name}`")


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
        yield Finding.of_error(entry.name, error)
        return
    if not entry.is_ours:
        hint = "" if files else f"include `{entry.task_dir()}` in the package's build"
        text = f"of the package `{entry.package}`, task files: {len(files)}"
        yield Finding(entry.name, text, hint)
    for name in filter(files.__contains__, tasks or files):
        yield from checked(f"{name}: task file", partial(check_task_file, files[name], benchmark))
    yield from asset_findings(assets)
    if benchmark.judge is None:
        yield Finding(f"{entry.name}: judge", "none is needed: it is scored by rule")
        return
    with judging_in(session, [benchmark.judge]):
        yield from _judges(benchmark, benchmark.judge, session)


def check_task_file(file: TaskFile, benchmark: Benchmark) -> None:
    """Load the functions that a task file names, and compare its metrics with the class.

    Raises:
        DataBroken: A function cannot be loaded, or the class has no metric of a name.
    """
    for name in file.functions:
        module, _, function = name.rpartition(".")
        path = file.path.parent / f"{module}.py"  # before a module: `import_function` of lmms-eval
        try:
            found = runpy.run_path(str(path)) if path.exists() else vars(import_module(module))
            found[function]
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


def asset_findings(assets: Sequence[Asset]) -> Iterator[Finding]:
    """What a run would download, and the results of the checks of the other assets.

    A check that several assets share runs once, if all of them are here. The checks of an asset end
    with the first problem.
    """
    missing = [asset for asset in assets if asset.origin == "hub" and not asset.is_here()]
    waiting = {check for asset in missing for check in asset.checks}
    done = {*waiting}
    for asset in assets:
        if asset in missing:
            plan = asset.plan
            yield from checked(asset.name, lambda: f"{plan().text}, by the first run")  # noqa: B023
            continue
        if not asset.checks or waiting.intersection(asset.checks):
            yield Finding(asset.name, f"{asset.source} is here")
        for check in filter(lambda check: check not in done, asset.checks):
            done.add(check)
            findings = list(checked(check.subject, check.describe))
            yield from findings
            if any(finding.hint for finding in findings):
                break


def _judges(
    benchmark: Benchmark, benchmark_judge: BenchmarkJudge, session: JudgingSession
) -> Iterator[Finding]:
    """The findings on the chosen judge, or on each judge of a panel."""
    subject = f"{benchmark.name}: judge"
    try:
        choices, judges = benchmark_judge.choices().judges, benchmark_judge.judge().members
    except MmieTasksError as error:
        yield Finding.of_error(subject, error)
        return
    for number, (choice, judge) in enumerate(zip(choices, judges, strict=True), start=1):
        numbered = subject if len(choices) == 1 else f"{subject} {number}"
        name = f"`{choice.name}`, named by {choice.source}"
        try:
            assets = judge.assets()
        except MmieTasksError as error:
            yield Finding.of_error(numbered, error)
            continue
        if assets:  # it runs on this machine; its own check might download them
            yield Finding(numbered, name)
            yield from checked("GPU", _gpus)
            yield from asset_findings(assets)
            continue

        def usable() -> str:
            session.check(judge, benchmark_judge.max_images)  # noqa: B023 - called at once
            return f"{name}, can be used: {Signature.of_judges([judge.signature])}"  # noqa: B023

        yield from checked(subject, benchmark.check_setup)
        yield from checked(numbered, usable)


def _gpus() -> str:
    """The GPUs that a judge in this process would use."""
    import torch

    gpus = []
    for index in range(torch.cuda.device_count()):
        try:
            free, total = map(readable_size, torch.cuda.mem_get_info(index))
        except RuntimeError as error:
            message = f"torch cannot use GPU {index}: {first_line(error)}."
            raise DataBroken(message, hint="look at `nvidia-smi`") from error
        gpus.append(f"{torch.cuda.get_device_name(index)}, {free} of {total} free")
    return "; ".join(gpus) or "torch finds none: the judge would run on the CPU, which is slow"
