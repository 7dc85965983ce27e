"""What each benchmark needs, asked through its room: a fourth one edits nothing here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from mmie_tasks.doctor.findings import Finding, looked, ok, problem, problem_of
from mmie_tasks.doctor.places import folder
from mmie_tasks.errors import MmieTasksError, SettingWrong
from mmie_tasks.judged import JudgedBy
from mmie_tasks.judges.base import SelfChecking
from mmie_tasks.judges.cache_file import default_path
from mmie_tasks.judges.choosing import Choice

_PACKAGE = Path(__file__).resolve().parents[1]


def rooms() -> tuple[str, ...]:
    """The benchmarks there are."""
    return tuple(sorted(path.parent.name for path in _PACKAGE.glob("benchmarks/*/task.py")))


def rooms_of(tasks: Sequence[str]) -> tuple[str, ...]:
    """The benchmarks that these tasks are of; all of them where no task is named.

    A task, group or tag of ours is named as its benchmark, with or without more behind a ``_``.

    Raises:
        SettingWrong: One of them is none of ours.

    >>> rooms_of(["mmie_sa", "mmie"])
    ('mmie',)
    """
    known = rooms()
    chosen = {task: [room for room in known if f"{task}_".startswith(f"{room}_")] for task in tasks}
    if strangers := [f"`{task}`" for task, found in chosen.items() if not found]:
        raise SettingWrong(
            f"{', '.join(strangers)}: no task of mmie-tasks.",
            hint=f"ours begin with {', '.join(known)}; of others the doctor knows nothing",
        )
    return tuple(room for room in known if not tasks or any(room in e for e in chosen.values()))


def look(room: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What a benchmark needs: its data and words, and its judge."""
    findings = list(_own(f"mmie_tasks.benchmarks.{room}", environment))
    yield from findings
    judged = getattr(import_module(f"mmie_tasks.benchmarks.{room}.task"), "JUDGED", None)
    if isinstance(judged, JudgedBy):
        yield from _judge(f"{room}: judge", judged, findings, environment)
    else:
        yield ok(f"{room}: judge", "none is needed: it is scored by rule")


def _own(package: str, environment: Mapping[str, str], *more: object) -> Iterator[Finding]:
    """The findings of a package's own ``doctor.py``, if it has one."""
    place = _PACKAGE.joinpath(*package.split(".")[1:], "doctor.py")
    if place.is_file():
        yield from import_module(f"{package}.doctor").look(environment, *more)


def _judge(
    subject: str, judged: JudgedBy, before: Sequence[Finding], environment: Mapping[str, str]
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
    own = list(_own(f"mmie_tasks.judges.{choice.name}", environment, choice.options))
    if own:
        yield ok(subject, f"`{choice.name}`, named by {choice.source}")
        yield from own
    else:
        yield from looked(subject, lambda: _asked(judged, choice, before))
    yield from _cache(choice, environment)


def _asked(judged: JudgedBy, choice: Choice, before: Sequence[Finding]) -> str:
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


def _cache(choice: Choice, environment: Mapping[str, str]) -> Iterator[Finding]:
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
