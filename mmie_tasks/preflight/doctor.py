"""The command ``mmie-tasks doctor``."""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType

from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_names, entry_of_task
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.judges.base import SelfChecking
from mmie_tasks.judges.cache_store import default_path
from mmie_tasks.judges.choice import JudgeChoice, parse_choice, with_launcher_args
from mmie_tasks.judging.session import BenchmarkJudge, register_launcher
from mmie_tasks.preflight import machine
from mmie_tasks.preflight.findings import Finding, folder, looked, ok, problem, problem_of

# The report: for people, aligned and no wider than 100 columns, or as JSON.

_WIDTH = 100


def page(findings: Sequence[Finding]) -> str:
    """One line a finding, its hint below it, and the count at the end."""
    subject_width = max((len(finding.subject) for finding in findings), default=0)
    lines = [line for finding in findings for line in _lines(finding, subject_width)]
    return "\n".join([*lines, "", _count(findings)])


def as_json(findings: Iterable[Finding]) -> str:
    """A JSON array of objects with ``status``, ``subject``, ``found`` and ``hint``."""
    return json.dumps([asdict(finding) for finding in findings], indent=1, ensure_ascii=False)


def _lines(finding: Finding, subject_width: int) -> list[str]:
    start = f"{finding.status:<9}{finding.subject:<{subject_width}}  "
    lines = _wrapped(finding.found, start, " " * len(start))
    if finding.hint:
        indent = " " * len(start)
        lines += _wrapped(finding.hint, f"{indent}hint: ", f"{indent}      ")
    return lines


def _wrapped(text: str, first: str, then: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.status for finding in findings)
    if not counts["problem"]:
        warnings = f" Warnings: {counts['warning']}." if counts["warning"] else ""
        return f"A run can begin.{warnings}"
    return f"Problems: {counts['problem']}. Warnings: {counts['warning']}. A run would fail."


# What each benchmark needs, asked through its room: a fourth one edits nothing here.

_JUDGES = Path(__file__).resolve().parents[1] / "judges"


def rooms_of(tasks: Sequence[str]) -> tuple[BenchmarkEntry, ...]:
    """The benchmarks that these tasks are of; all of them where no task is named.

    A task, group or tag is named as its benchmark, with or without more behind a ``_``.

    Raises:
        SettingWrong: One of them is none of ours.

    >>> [room.name for room in rooms_of(["mmie_sa", "mmie"])]
    ['mmie']
    """
    known = entries()
    chosen = {task: entry_of_task(task) for task in tasks}
    if strangers := [f"`{task}`" for task, found in chosen.items() if found is None]:
        raise SettingWrong(
            f"{', '.join(strangers)}: no task of mmie-tasks.",
            hint=f"ours begin with {entry_names(known)}; of others the doctor knows nothing",
        )
    return tuple(room for room in known if not tasks or room in chosen.values())


def look(
    room: BenchmarkEntry, environment: Mapping[str, str], tasks: Sequence[str] = ()
) -> Iterator[Finding]:
    """What a benchmark needs: its task files, its data and words, and its judge.

    Args:
        room: The benchmark.
        environment: Of this process.
        tasks: That are asked for, of whatever benchmark; all where none is named.
    """
    try:
        benchmark, doctor = room.load(), _checks(room)
        if not room.is_ours:
            yield _task_files(room)
    except MmieTasksError as error:
        yield problem_of(room.name, error)
        return
    findings = list(_of_room(doctor, environment, [t for t in tasks if entry_of_task(t) == room]))
    yield from findings
    judged = benchmark.judge
    if judged is not None:
        yield from _judge(f"{room.name}: judge", judged, findings, environment)
    else:
        yield ok(f"{room.name}: judge", "none is needed: it is scored by rule")


def _task_files(room: BenchmarkEntry) -> Finding:
    """Whether another package brought the files that lmms-eval reads."""
    folder = room.task_dir()
    if not (found := len(list(folder.rglob("*.yaml")))):
        hint = "let the package be built with its data, and install it again"
        return problem(room.name, f"no task file in `{folder}`", hint)
    return ok(room.name, f"of the package `{room.package}`, task files: {found}")


def _of_room(
    doctor: ModuleType | None, environment: Mapping[str, str], tasks: Sequence[str]
) -> Iterator[Finding]:
    """The findings of a room's own ``doctor.py``, if it has one.

    Its ``look`` is given the tasks where it has a parameter of that name.
    """
    if doctor is not None:
        wants_tasks = "tasks" in signature(doctor.look).parameters
        yield from doctor.look(environment, **({"tasks": tasks} if wants_tasks else {}))


def _of_judge(name: str, environment: Mapping[str, str], options: object) -> Iterator[Finding]:
    """The findings of a judge's own ``doctor.py``, if it has one."""
    if (_JUDGES / name / "assets.py").is_file():
        yield from import_module(f"mmie_tasks.judges.{name}.assets").look(environment, options)


def _judge(
    subject: str, judged: BenchmarkJudge, before: Sequence[Finding], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """The judge: by its own doctor where it has one, else by asking it.

    A judge with a doctor of its own is not asked: that may make it fetch what it lacks.
    """
    try:
        choice = judged.choice()
        judged.judge()
    except MmieTasksError as error:
        yield problem_of(subject, error)
        return
    own = list(_of_judge(choice.name, environment, choice.options))
    if own:
        yield ok(subject, f"`{choice.name}`, named by {choice.source}")
        yield from own
    else:
        yield from looked(subject, lambda: _asked(judged, choice, before))
    yield from _cache(choice, environment)


def _asked(judged: BenchmarkJudge, choice: JudgeChoice, before: Sequence[Finding]) -> str:
    """Words for a judge that can be used.

    Raises:
        MmieTasksError: It cannot.
    """
    try:
        judged.check()
    except MmieTasksError as error:
        told = problem_of("", error).found
        if all(finding.found != told for finding in before):
            raise
        judge = judged.judge()  # what is wrong is not the judge, and was said above
        if isinstance(judge, SelfChecking):
            judge.check()
    return f"`{choice.name}`, named by {choice.source}, can be used: {judged.signature()}"


def _cache(choice: JudgeChoice, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Where replies are kept."""
    subject = "replies' cache"
    wanted = choice.options.get("cache", "on")
    if re.fullmatch("off|false|no|0", wanted.lower()) or choice.name == "replay":
        return
    named = "" if re.fullmatch("on|true|yes|1", wanted.lower()) else wanted
    path = Path(named).expanduser() if named else default_path(environment)
    if path.is_dir():
        yield problem(subject, f"`{path}` is a folder", "name a file: `cache=PATH`")
    else:
        yield folder(subject, path.parent, "name another file: `cache=PATH`, or `cache=off`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is printed, and the exit status: 1 where there is a problem."""

    text: str
    status: int


def quiet() -> None:
    """Keep logs and progress bars of this process off the report: it tells what is to be known."""
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars
    from loguru import logger

    logger.remove()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    disable_progress_bars()


class _AsAsked:
    """Stands for the launcher that a run with this judge would have."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> Report:
    """Look at everything that is asked for.

    Args:
        arguments: What stands behind ``doctor``.
        environment: Of this process: judges and benchmarks read it themselves.

    Raises:
        SettingWrong: An option says something that cannot be understood.
    """
    asked = _parser().parse_args(arguments)
    tasks = [task.strip() for task in asked.tasks.split(",") if task.strip()]
    chosen = rooms_of(tasks)
    launcher = _AsAsked()  # its judge counts as long as it lives
    if choice := _choice(asked.judge, asked.judge_args):
        register_launcher(launcher, choice)
    findings: list[Finding] = [*machine.look(environment)]
    for room in chosen:
        findings += (each for each in look(room, environment, tasks) if each not in findings)
    text = as_json(findings) if asked.json else page(findings)
    return Report(text=text, status=int(any(each.status == "problem" for each in findings)))


def _choice(judge: str | None, judge_args: str | None) -> JudgeChoice | None:
    """The judge that is asked for; None where the benchmarks' own are."""
    words = [*(("--judge", judge) if judge is not None else ())]
    words += ("--judge_args", judge_args) if judge_args is not None else ()
    _, *launcher_args = with_launcher_args(words) or [""]
    if not launcher_args:
        return None
    name, _, options = launcher_args[0].removeprefix("name=").partition(",")
    return parse_choice(f"{name}:{options}", "`--judge`")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks doctor",
        description="See whether a run can begin: packages, GPUs, room, data, prompts, judges. "
        "Nothing large is downloaded. The exit status is 1 where there is a problem.",
    )
    parser.add_argument("--tasks", default="", metavar="A,B", help="tasks of ours; default: all")
    parser.add_argument("--judge", metavar="NAME[:MODEL]", help="as in `mmie-tasks eval`")
    parser.add_argument("--judge_args", "--judge-args", metavar="k=v,...", help="its options")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _checks(entry: BenchmarkEntry) -> ModuleType | None:
    return import_module(f"{entry.package}.checks") if entry.is_ours else None
