"""The command ``mmie-tasks doctor``: checks whether a run can start on this machine."""

from __future__ import annotations

import argparse
import os
import platform
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
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
from mmie_tasks.core.files import cache_dir, free_bytes, nearest_existing, readable_size
from mmie_tasks.hub.asset import Asset, Check, combined_plan, hub_cache
from mmie_tasks.judges.base import HasAssets
from mmie_tasks.judges.choice import VARIABLE, cache_path, environment_choices
from mmie_tasks.judges.flags import add_judge_options, parse_flags
from mmie_tasks.judges.registry import JudgeChoice
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.judging.shared_judge import SharedJudge

PACKAGES = ("mmie-tasks", "lmms-eval", "torch", "transformers", "huggingface_hub", "datasets")
MIN_LMMS_EVAL = (0, 7, 3)
PAIR = "interleaved"
"""The model whose arguments are checked, too."""


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

_wrap = partial(textwrap.wrap, width=100, break_long_words=False, break_on_hyphens=False)

# Of a photo and two images of 512 px: computed from the model's shape, not measured.
_SAMPLE_TFLOP = 52
_LOW_DISK_BYTES = 2**30


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
    models, tasks = _names(options.model), _names(options.tasks)
    selection = select_tasks(tasks)
    choices = parse_flags(options.judge, options.judge_args)
    require_judged(choices, "`--judge`")
    session = JudgingSession(choices, environment)
    findings = list(_check_machine(environment))
    pair = (options.model_args, *tasks) if options.model_args else ()
    if pair and models != [PAIR]:
        raise SettingWrong(
            f"`--model_args` is for `--model {PAIR}`.", hint="leave it out for other models"
        )
    findings += chain.from_iterable(check_model(model, environment, pair) for model in models)
    try:
        require_judged(environment_choices(environment), f"`{VARIABLE}`")
    except SettingWrong as error:
        findings.append(problem_from(VARIABLE, error))
    for entry in (entry for entry in entries() if not tasks or entry in selection):
        new = check_benchmark(entry, environment, session, selection.get(entry, ()))
        findings += (finding for finding in new if finding not in findings)
    return Report(findings=tuple(findings))


def _names(listed: str) -> list[str]:
    """The names in a list that is separated by commas, each once."""
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def mute_logs() -> None:
    """Remove log lines and progress bars of this process: the report contains what matters."""
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars
    from loguru import logger

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
    help_text = (
        "tested models, as behind --model of lmms-eval: can their code be imported? default: none"
    )
    parser.add_argument("--model", default="", metavar="A,B", help=help_text)
    help_text = (
        f"of --model {PAIR}: check writer and drawer, and show the words; default: data and judge "
        "only"
    )
    parser.add_argument("--model_args", default="", metavar="k=v,...", help=help_text)
    parser.add_argument(
        "--tasks", "--task", default="", metavar="A,B", help="tasks of ours; default: all"
    )
    add_judge_options(parser)
    return parser


def _check_machine(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Python, packages and caches: what every benchmark needs."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("ok", "Python", python)
    for package in PACKAGES:
        yield _check_package(package)
    yield folder_finding("data cache", cache_dir(environment), "set `MMIE_TASKS_CACHE` to a folder")
    yield folder_finding("Hub cache", hub_cache(), "set `HF_HOME` to a folder")


def _check_package(name: str) -> Finding:
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Finding("problem", name, "is not installed", f"`pip install {name}`")
    if name == "lmms-eval" and _version_numbers(installed) < MIN_LMMS_EVAL:
        return Finding(
            "problem",
            name,
            f"{installed}, and 0.7.3 or later is needed",
            "`pip install -U lmms-eval`",
        )
    return Finding("ok", name, installed)


def _version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> _version_numbers("5.23.0.dev1")
    (5, 23, 0)
    """
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def _check_gpus(judge: str) -> Iterator[Finding]:
    """The GPUs that a judge in this process would use."""
    import torch

    if torch.cuda.is_available():
        yield from map(_check_gpu, range(torch.cuda.device_count()))
        return
    has_gpu_support = torch.version.cuda or torch.version.hip
    why = "torch finds none" if has_gpu_support else "this torch is built without GPU support"
    yield Finding(
        "warning",
        "GPU",
        f"none ({why}): the judge `{judge}` would run on the CPU, where a typical MMIE sample "
        "takes about "
        f"{_SAMPLE_TFLOP} TFLOP: a minute at 1 TFLOP/s (computed, not measured)",
        "judge on a machine with a GPU, or on a server: `--judge openai:MODEL`",
    )


def _check_gpu(index: int) -> Finding:
    import torch

    subject = f"GPU {index}"
    try:
        name = torch.cuda.get_device_name(index)
        has_bfloat16 = torch.cuda.get_device_capability(index) >= (8, 0)
        free, total = torch.cuda.mem_get_info(index)
    except RuntimeError:
        hint = (
            'look at `nvidia-smi`; to see the error: `python -c "import torch; '
            f'torch.zeros(1).to({index})"`'
        )
        return Finding("problem", subject, "torch cannot use it", hint)
    dtype = "bfloat16" if has_bfloat16 else "no bfloat16"
    message = f"{name}, {readable_size(free)} of {readable_size(total)} free, {dtype}"
    if has_bfloat16:
        return Finding("ok", subject, message)
    return Finding(
        "warning", subject, f"{message}: the judge computes in float32 here, which is slow"
    )


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
        folder = None if entry.is_ours else entry.task_dir()
    except MmieTasksError as error:
        yield problem_from(entry.name, error)
        return
    if folder and (count := len(list(folder.rglob("*.yaml")))):
        yield Finding("ok", entry.name, f"of the package `{entry.package}`, task files: {count}")
    elif folder:
        hint = "include the folder in the package's build, and reinstall it"
        yield Finding("problem", entry.name, f"no task file in `{folder}`", hint)
    try:
        findings = list(check_assets(benchmark.assets(tasks, environment)))
    except MmieTasksError as error:
        findings = [problem_from(f"{entry.name}: data", error)]
    yield from findings
    if benchmark.judge is None:
        yield Finding("ok", f"{entry.name}: judge", "none is needed: it is scored by rule")
    else:
        with session.used_by([benchmark.judge]):
            yield from _check_judge(f"{entry.name}: judge", benchmark.judge, findings, environment)


def _check_judge(
    subject: str,
    benchmark_judge: BenchmarkJudge,
    benchmark_findings: Sequence[Finding],
    environment: Mapping[str, str],
) -> Iterator[Finding]:
    """The findings on the chosen judge, or on each judge of a panel, behind those on what judging
    needs beside it.

    A judge with assets is checked by their checks; its own check might download them.
    """
    try:
        choices, judges = benchmark_judge.choices().judges, benchmark_judge.judges().judges
    except MmieTasksError as error:
        yield problem_from(subject, error)
        return
    known = {finding.message for finding in benchmark_findings}
    for number, (choice, shared) in enumerate(zip(choices, judges, strict=True), start=1):
        judge_subject = subject if len(choices) == 1 else f"{subject} {number}"
        name = f"`{choice.name}`, named by {choice.source}"
        try:
            assets = judge.assets() if isinstance(judge := shared.wrapped, HasAssets) else ()
        except MmieTasksError as error:
            yield problem_from(judge_subject, error)
            continue
        if assets:  # it runs on this machine
            yield Finding("ok", judge_subject, name)
            yield from _check_gpus(choice.name)
            yield from check_assets(assets)
        else:
            describe = partial(_check_server, shared, name)
            findings = [
                *run_check(Check(subject=subject, describe=partial(_check_setup, benchmark_judge))),
                *run_check(Check(subject=judge_subject, describe=describe)),
            ]
            yield from (new for new in findings if new.message not in known)
            known |= {finding.message for finding in findings}
        yield from _cache_findings(choice, environment)


def _check_setup(benchmark_judge: BenchmarkJudge) -> str:
    benchmark_judge.check_setup()
    return ""


def _check_server(shared: SharedJudge, name: str) -> str:
    shared.check()
    return f"{name}, can be used: {shared.judge.signature}"


def _cache_findings(choice: JudgeChoice, environment: Mapping[str, str]) -> Iterator[Finding]:
    path = cache_path(choice, environment)
    if path is not None and path.is_dir():
        yield Finding(
            "problem", "replies' cache", f"`{path}` is a folder", "name a file: `cache=PATH`"
        )
    elif path is not None:
        yield folder_finding(
            "replies' cache", path.parent, "name another file: `cache=PATH`, or `cache=off`"
        )


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
    sink = logger.add(
        lambda line: warnings.append(str(line).strip()),
        level="WARNING",
        format=lambda _record: "{message}",
    )
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
        message, _, hint = line.partition(" hint: ")
        yield Finding("warning", check.subject, message.rstrip("."), hint)


def check_assets(assets: Sequence[Asset]) -> Iterator[Finding]:
    """A finding for the assets that have to be downloaded, and the checks of the others.

    A check runs once, and only if no asset that shares it has to be downloaded; missing assets that
    share their checks, such as the archives of one dataset, are one finding. The checks of an asset
    end with the first problem.
    """
    missing = [
        asset
        for asset in assets
        if (asset.origin == "hub" or not asset.checks) and not asset.is_here()
    ]
    blocked = {check for asset in missing for check in asset.checks}
    finished: set[Check] = set()
    for asset in assets:
        if asset in missing:
            group = [
                other
                for other in missing
                if other is asset or (asset.checks and other.checks == asset.checks)
            ]
            if asset is group[0]:
                yield _download_finding(group)
        elif not asset.checks or blocked.intersection(asset.checks):
            yield Finding("ok", asset.name, f"{asset.source} is here")
        elif not finished.issuperset(asset.checks):
            finished.update(asset.checks)
            for check in asset.checks:
                yield from (findings := list(run_check(check)))
                if any(finding.status == "problem" for finding in findings):
                    break


def _download_finding(assets: Sequence[Asset]) -> Finding:
    """Whether missing assets can be downloaded, and fit on the disk of the first of them."""
    first, count = assets[0], len(assets)
    subject = first.name if count == 1 else first.checks[0].subject
    try:
        plans = [asset.plan() for asset in assets]
        free = free_bytes(first.folder)
    except MmieTasksError as error:
        return problem_from(subject, error)
    plan = (
        plans[0] if count == 1 else combined_plan(f"{plans[0].source} and {count - 1} more", plans)
    )
    source = shortened(plan.source)
    if plan.size_bytes == 0:
        return Finding("ok", subject, f"{source}: in the Hub's cache; the first run unpacks it")
    size = readable_size(plan.known_bytes) if plan.known_bytes else "size unknown"
    if plan.known_bytes and plan.size_bytes is None:
        size += " or more"
    if plan.known_bytes > free:
        return Finding(
            "problem",
            subject,
            f"{source}: {size} are to be downloaded, and {readable_size(free)} are free for "
            f"`{first.folder}`",
            "free some space, or set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a "
            "folder on a bigger disk",
        )
    state = (
        "accessible, not downloaded yet"
        if plan.is_confirmed
        else "not downloaded yet (access was not checked)"
    )
    return Finding("ok", subject, f"{source}: {state}: {size}, which the first run fetches")


def shortened(source: str) -> str:
    """A source with its commits shortened to 12 digits.

    >>> shortened("MMIE/MMIE@0123456789abcdef0123456789abcdef01234567: data.json")
    'MMIE/MMIE@0123456789ab: data.json'
    """
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", source)


def folder_finding(subject: str, path: Path, hint: str) -> Finding:
    """Whether a folder can be written, or created, and how much space is free.

    Args:
        subject: What the folder is for.
        path: The folder; it need not exist.
        hint: How to choose another.
    """
    folder = nearest_existing(path)
    if not is_writable(folder):
        return Finding("problem", subject, f"`{path}` cannot be written", hint)
    free = free_bytes(path)
    message = f"{readable_size(free)} free for `{path}`"
    is_low = free < _LOW_DISK_BYTES
    return Finding("warning" if is_low else "ok", subject, message, hint if is_low else "")


def is_writable(folder: Path) -> bool:
    """Whether files can be created in an existing folder."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
