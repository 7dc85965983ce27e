"""The command ``mmie-tasks doctor``: checks whether a run can start on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, is_setting, require_judged
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.hub.asset import Check
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.choice import VARIABLE, environment_choices, parse_flags
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in
from mmie_tasks.preflight.assets import check_assets
from mmie_tasks.preflight.findings import Finding, Report, or_problem, problem_from, run_check
from mmie_tasks.preflight.machine import check_gpus, check_packages
from mmie_tasks.preflight.selection import select_tasks, split_names
from mmie_tasks.record.signature import Signature


def examine(options: argparse.Namespace, environment: Mapping[str, str]) -> Report:
    """Check this machine, and the requested benchmarks with their judges.

    Raises:
        SettingWrong: An option has an invalid value.
    """
    selection = select_tasks(split_names(options.tasks)) or dict.fromkeys(entries(), ())
    choices = parse_flags(options.judge, options.judge_args, is_setting)
    require_judged(choices, "`--judge`")
    session = JudgingSession(choices, environment)
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("packages", check_packages),
        (VARIABLE, partial(_check_variable, environment)),
    ]
    for entry in filter(selection.__contains__, entries()):
        requested = selection[entry]
        check = partial(_check_benchmark, entry, environment, session, requested)
        checks.append((entry.name, check))
    findings = (finding for subject, check in checks for finding in or_problem(subject, check))
    return Report(findings=tuple(dict.fromkeys(findings)))


def _check_variable(environment: Mapping[str, str]) -> tuple[Finding, ...]:
    require_judged(environment_choices(environment), f"`{VARIABLE}`")
    return ()


def _check_benchmark(
    entry: BenchmarkEntry,
    environment: Mapping[str, str],
    session: JudgingSession,
    tasks: Sequence[str],
) -> Iterator[Finding]:
    """The findings on a benchmark: its task files, the assets of the requested tasks, its judge."""
    benchmark, folder = entry.load(), entry.task_dir()
    benchmark.configure(session.choices)
    if not entry.is_ours:
        count = len(list(folder.rglob("*.yaml")))
        files = f"of the package `{entry.package}`, task files: {count}"
        hint = f"include `{folder}` in the package's build, and reinstall it"
        yield Finding("ok" if count else "problem", entry.name, files, "" if count else hint)
    subject = f"{entry.name}: data"
    data = list(or_problem(subject, lambda: check_assets(benchmark.assets(tasks, environment))))
    yield from data
    subject, judge = f"{entry.name}: judge", benchmark.judge
    if judge is None:
        yield Finding("ok", subject, "none is needed: it is scored by rule")
        return
    messages = {finding.message for finding in data}
    with judging_in(session, [judge]):
        for finding in or_problem(
            subject, lambda: _check_judges(subject, benchmark, judge, session)
        ):
            if finding.message not in messages:  # what judging needs may be an asset, too
                messages.add(finding.message)
                yield finding


def _check_judges(
    subject: str, benchmark: Benchmark, benchmark_judge: BenchmarkJudge, session: JudgingSession
) -> Iterator[Finding]:
    """The findings on the chosen judge, or on each judge of a panel."""
    choices, judges = benchmark_judge.choices().judges, benchmark_judge.judge().members
    setup = Check(subject=subject, describe=partial(_check_setup, benchmark))
    for number, (choice, judge) in enumerate(zip(choices, judges, strict=True), start=1):
        numbered = subject if len(choices) == 1 else f"{subject} {number}"
        name = f"`{choice.name}`, named by {choice.source}"
        server = partial(_check_server, session, judge, name, benchmark_judge.max_images)
        try:
            assets = judge.assets()
        except MmieTasksError as error:
            yield problem_from(numbered, error)
            continue
        if assets:  # it runs on this machine; its own check might download them
            yield Finding("ok", numbered, name)
            yield from check_gpus(choice.name)
            yield from check_assets(assets)
        else:
            yield from run_check(setup)
            yield from run_check(Check(subject=numbered, describe=server))


def _check_setup(benchmark: Benchmark) -> str:
    benchmark.check_setup()
    return ""


def _check_server(session: JudgingSession, judge: Judge, name: str, max_images: int) -> str:
    session.check(judge, max_images)
    return f"{name}, can be used: {Signature.of_judges([judge.signature])}"
