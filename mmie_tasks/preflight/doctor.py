"""The command ``mmie-tasks doctor``: checks whether a run can start on this machine."""

from __future__ import annotations

import argparse
import platform
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

from loguru import logger

from mmie_tasks.benchmarks.registry import (
    BenchmarkEntry,
    entries,
    entry_names,
    entry_of_task,
    require_judged,
    similar_tasks,
)
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.files import cache_dir, free_bytes, readable_size
from mmie_tasks.hub.asset import Asset, Check, hub_cache
from mmie_tasks.judges.base import HasAssets
from mmie_tasks.judges.choice import VARIABLE, cache_path, environment_choices
from mmie_tasks.judges.flags import add_judge_options, parse_flags
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.judging.shared_judge import SharedJudge
from mmie_tasks.preflight.plan import PlannedAsset, check_disk_space, is_writable, plan_asset

PACKAGES = ("mmie-tasks", "lmms-eval", "torch", "transformers", "huggingface_hub", "datasets")
PAIR = "interleaved"
"""The model whose arguments are checked, too."""

_LOW_DISK_BYTES = 2**30
_wrap = partial(textwrap.wrap, width=100, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        status: ``ok``; ``warning``: a run works, and the user should know this; ``problem``: a run
            fails.
        subject: What was checked: ``mmie: data``.
        message: The result, one sentence without a full stop.
        hint: What to do; empty if nothing.
    """

    status: Literal["ok", "warning", "problem"]
    subject: str
    message: str
    hint: str = ""


CheckModel: TypeAlias = Callable[[str, Mapping[str, str], Sequence[str]], Sequence[Finding]]
"""Returns the findings on a model of the runner; takes its name, the environment of the run, and of
`interleaved` its arguments and the tasks of the run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What doctor has found."""

    findings: tuple[Finding, ...]

    @property
    def text(self) -> str:
        """A line for each finding, its hint below, aligned; a summary. 100 columns at most."""
        subject_width = max((len(finding.subject) for finding in self.findings), default=0)
        lines: list[str] = []
        for finding in self.findings:
            start = f"{finding.status:<9}{finding.subject:<{subject_width}}  "
            indent = " " * len(start)
            for line in finding.message.splitlines():
                lines += _wrap(line, initial_indent=start, subsequent_indent=indent)
                start = indent
            if finding.hint:
                start, indent = f"{indent}hint: ", f"{indent}      "
                lines += _wrap(finding.hint, initial_indent=start, subsequent_indent=indent)
        counts = Counter(finding.status for finding in self.findings)
        warnings = f" Warnings: {counts['warning']}."
        if counts["problem"]:
            summary = f"Problems: {counts['problem']}.{warnings} A run would fail."
        else:
            summary = f"A run can begin.{warnings if counts['warning'] else ''}"
        return "\n".join([*lines, "", summary])

    @property
    def status(self) -> int:
        """The exit status: 1 if there is a problem, otherwise 0."""
        return int(any(finding.status == "problem" for finding in self.findings))


def run(
    arguments: Sequence[str], environment: Mapping[str, str], check_model: CheckModel
) -> Report:
    """Check this machine, the named models, and the requested benchmarks with their judges.

    Args:
        arguments: Those behind ``doctor``.
        environment: Of this process; judges and benchmarks read it themselves.
        check_model: Checks a model of ``--model``.

    Raises:
        SettingWrong: An option has an invalid value.
    """
    options = _parser().parse_args(arguments)
    models, tasks = split_names(options.model), split_names(options.tasks)
    selection = select_tasks(tasks) or dict.fromkeys(entries(), ())
    choices = parse_flags(options.judge, options.judge_args)
    require_judged(choices, "`--judge`")
    pair = (options.model_args, *tasks) if options.model_args else ()
    if pair and models != [PAIR]:
        raise SettingWrong(
            f"`--model_args` is for `--model {PAIR}`.", hint="leave it out for other models"
        )
    findings = list(_check_machine(environment))
    for model in models:
        findings += check_model(model, environment, pair)
    try:
        require_judged(environment_choices(environment), f"`{VARIABLE}`")
    except SettingWrong as error:
        findings.append(problem_from(VARIABLE, error))
    session = JudgingSession(choices, environment)
    for entry in filter(selection.__contains__, entries()):
        new = check_benchmark(entry, environment, session, selection[entry])
        findings += (finding for finding in new if finding not in findings)
    return Report(findings=tuple(findings))


def split_names(listed: str) -> list[str]:
    """The names in a list that is separated by commas, each once."""
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def mute_logs() -> None:
    """Remove log lines and progress bars of this process: the report contains what matters."""
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars

    logger.remove()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    disable_progress_bars()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks doctor",
        description="Check whether a run can start: packages, disk space, the tested model's code, "
        "data, prompts, judges. Nothing large is downloaded. The exit status is 1 if there is a "
        "problem.",
    )
    model_help = "tested models, whose code is imported as by lmms-eval; default: none"
    parser.add_argument("--model", default="", metavar="A,B", help=model_help)
    pair_help = f"of --model {PAIR}: check writer and drawer; default: data and judge only"
    parser.add_argument("--model_args", default="", metavar="k=v,...", help=pair_help)
    tasks_help = "tasks of ours; default: all"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=tasks_help)
    add_judge_options(parser)
    return parser


def select_tasks(names: Sequence[str]) -> Mapping[BenchmarkEntry, tuple[str, ...]]:
    """Benchmark to its selected tasks, in the order in which they are named.

    Args:
        names: Benchmarks, tasks, tags of tasks, and patterns with ``*``.

    Raises:
        SettingWrong: No benchmark has a task of that name; the hint has similar names.

    >>> {entry.name: tasks for entry, tasks in select_tasks(["mmie_sa", "mmie"]).items()}
    {'mmie': ('mmie_sa', 'mmie')}
    """
    selection: dict[BenchmarkEntry, tuple[str, ...]] = {}
    for name in names:
        entry = entry_of_task(name)
        tasks = () if entry is None else entry.tasks_by_name().get(name, ())
        if entry is not None and ("*" in name or not (tasks or entry.is_ours)):
            tasks = (entry.name,)  # a pattern, or a file in a folder of its own: all tasks
        if entry is None or not tasks:
            similar = ", ".join(f"`{similar}`" for similar in similar_tasks(name))
            raise SettingWrong(
                f"There is no benchmark or task `{name}`.",
                hint=f"there is {similar or entry_names(entries())}",
            )
        selection[entry] = tuple(dict.fromkeys((*selection.get(entry, ()), *tasks)))
    return selection


def _check_machine(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Python, packages and caches: what every benchmark needs."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("ok", "Python", python)
    yield from map(_check_package, PACKAGES)
    yield _check_folder("data cache", cache_dir(environment), "set `MMIE_TASKS_CACHE` to a folder")
    yield _check_folder("Hub cache", hub_cache(), "set `HF_HOME` to a folder")


def _check_package(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("problem", name, "is not installed", f"`pip install {name}`")


def _check_folder(subject: str, path: Path, hint: str) -> Finding:
    """Whether a folder can be written, or created, and how much space is free."""
    if not is_writable(path):
        return Finding("problem", subject, f"`{path}` cannot be written", hint)
    free = free_bytes(path)
    message = f"{readable_size(free)} free for `{path}`"
    if free < _LOW_DISK_BYTES:
        return Finding("warning", subject, message, hint)
    return Finding("ok", subject, message)


def _check_gpus(judge: str) -> Iterator[Finding]:
    """The GPUs that a judge in this process would use."""
    import torch

    if not torch.cuda.is_available():
        message = f"torch finds none: the judge `{judge}` would run on the CPU, which is slow"
        hint = "judge on a machine with a GPU, or on a server: `--judge openai:MODEL`"
        yield Finding("warning", "GPU", message, hint)
    for index in range(torch.cuda.device_count()):
        subject = f"GPU {index}"
        try:
            free, total = torch.cuda.mem_get_info(index)
            name = torch.cuda.get_device_name(index)
        except RuntimeError:
            yield Finding("problem", subject, "torch cannot use it", "look at `nvidia-smi`")
        else:
            message = f"{name}, {readable_size(free)} of {readable_size(total)} free"
            yield Finding("ok", subject, message)


def check_benchmark(
    entry: BenchmarkEntry,
    environment: Mapping[str, str],
    session: JudgingSession,
    tasks: Sequence[str] = (),
) -> Iterator[Finding]:
    """The findings on a benchmark: its task files, its assets, its judge.

    Args:
        entry: The benchmark.
        environment: Of this process.
        session: Opens the judges.
        tasks: The requested tasks of the benchmark; all if none is named.
    """
    try:
        benchmark = entry.load()
        folder = entry.task_dir()
    except MmieTasksError as error:
        yield problem_from(entry.name, error)
        return
    if not entry.is_ours:
        count = len(list(folder.rglob("*.yaml")))
        files = f"of the package `{entry.package}`, task files: {count}"
        hint = f"include `{folder}` in the package's build, and reinstall it"
        yield Finding("ok" if count else "problem", entry.name, files, "" if count else hint)
    try:
        findings = list(check_assets(benchmark.assets(tasks, environment)))
    except MmieTasksError as error:
        findings = [problem_from(f"{entry.name}: data", error)]
    yield from findings
    subject = f"{entry.name}: judge"
    if benchmark.judge is None:
        yield Finding("ok", subject, "none is needed: it is scored by rule")
        return
    messages = {finding.message for finding in findings}
    with session.used_by([benchmark.judge]):
        for finding in _check_judge(subject, benchmark.judge, environment):
            if finding.message not in messages:  # what judging needs may be an asset, too
                messages.add(finding.message)
                yield finding


def _check_judge(
    subject: str, benchmark_judge: BenchmarkJudge, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """The findings on the chosen judge, or on each judge of a panel.

    A judge with assets is checked by their checks; its own check might download them.
    """
    try:
        choices, judges = benchmark_judge.choices().judges, benchmark_judge.judges().judges
    except MmieTasksError as error:
        yield problem_from(subject, error)
        return
    for number, (choice, shared) in enumerate(zip(choices, judges, strict=True), start=1):
        numbered = subject if len(choices) == 1 else f"{subject} {number}"
        name = f"`{choice.name}`, named by {choice.source}"
        try:
            assets = judge.assets() if isinstance(judge := shared.wrapped, HasAssets) else ()
        except MmieTasksError as error:
            yield problem_from(numbered, error)
            continue
        if assets:  # it runs on this machine
            yield Finding("ok", numbered, name)
            yield from _check_gpus(choice.name)
            yield from check_assets(assets)
        else:
            setup = partial(_check_setup, benchmark_judge)
            yield from run_check(Check(subject=subject, describe=setup))
            server = partial(_check_server, shared, name)
            yield from run_check(Check(subject=numbered, describe=server))
        if path := cache_path(choice, environment):
            yield _check_cache(path)


def _check_cache(path: Path) -> Finding:
    subject, hint = "replies' cache", "name another file: `cache=PATH`, or `cache=off`"
    if path.is_dir():
        return Finding("problem", subject, f"`{path}` is a folder", hint)
    return _check_folder(subject, path.parent, hint)


def _check_setup(benchmark_judge: BenchmarkJudge) -> str:
    benchmark_judge.check_setup()
    return ""


def _check_server(shared: SharedJudge, name: str) -> str:
    shared.check()
    return f"{name}, can be used: {shared.judge.signature}"


def problem_from(subject: str, error: MmieTasksError) -> Finding:
    """The problem with the message and the hint of an error.

    >>> from mmie_tasks.core.errors import DataMissing
    >>> problem_from("data", DataMissing("No folder `x`.", hint="`mkdir x`")).hint
    '`mkdir x`'
    """
    message, _, hint = str(error).partition("\n\nhint: ")
    return Finding("problem", subject, message.rstrip("."), hint)


def run_check(check: Check) -> Iterator[Finding]:
    """The result of a check: ok, or a problem if it raises; then what it logged as warnings."""
    warnings: list[str] = []
    sink = logger.add(warnings.append, level="WARNING", format=lambda _record: "{message}")
    try:
        message = check.describe().rstrip(".")
        finding = Finding("ok", check.subject, message) if message else None
    except MmieTasksError as error:
        finding = problem_from(check.subject, error)
    finally:
        with suppress(ValueError):  # importing lmms-eval removes all sinks
            logger.remove(sink)
    if finding is not None:
        yield finding
    for line in dict.fromkeys(warnings):
        message, _, hint = line.strip().partition(" hint: ")
        yield Finding("warning", check.subject, message.rstrip("."), hint)


def check_assets(assets: Sequence[Asset]) -> Iterator[Finding]:
    """What is to be downloaded, and the checks of what is here.

    A check of several assets, such as the archives of one dataset, runs once, when all of them are
    here; a path that the user names need not exist for it. The checks of an asset end with the
    first problem.
    """
    planned = [plan_asset(asset) for asset in assets]
    missing = [entry for entry in planned if not entry.is_here and entry.asset.origin == "hub"]
    try:
        check_disk_space(missing)
    except MmieTasksError as error:
        yield problem_from("disk", error)
    waiting = {check for entry in missing for check in entry.asset.checks}
    finished: set[Check] = set()
    for entry in planned:
        checks = entry.asset.checks
        if entry in missing:
            yield _download_finding(entry)
        elif not checks or waiting.intersection(checks):
            yield Finding("ok", entry.asset.name, f"{entry.source} is here")
        elif not finished.issuperset(checks):
            finished.update(checks)
            for check in checks:
                yield from (findings := list(run_check(check)))
                if any(finding.status == "problem" for finding in findings):
                    break


def _download_finding(entry: PlannedAsset) -> Finding:
    if entry.error:
        return problem_from(entry.asset.name, entry.error)
    state = f"not downloaded yet: {entry.size}, which the first run fetches"
    if entry.plan.size_bytes == 0:
        state = "in the Hub's cache; the first run unpacks it"
    return Finding("ok", entry.asset.name, f"{entry.source}: {state}")
