"""What each benchmark needs, asked through its room: a fourth one edits nothing here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType

from mmie_tasks.doctor.findings import Finding, looked, ok, problem, problem_of
from mmie_tasks.doctor.places import folder
from mmie_tasks.errors import MmieTasksError, SettingWrong
from mmie_tasks.judged import JudgedBy
from mmie_tasks.judges.base import SelfChecking
from mmie_tasks.judges.cache_file import default_path
from mmie_tasks.judges.choosing import Choice
from mmie_tasks.rooms import Room, names_of, room_of, rooms

_JUDGES = Path(__file__).resolve().parents[1] / "judges"


def rooms_of(tasks: Sequence[str]) -> tuple[Room, ...]:
    """The benchmarks that these tasks are of; all of them where no task is named.

    A task, group or tag is named as its benchmark, with or without more behind a ``_``.

    Raises:
        SettingWrong: One of them is none of ours.

    >>> [room.name for room in rooms_of(["mmie_sa", "mmie"])]
    ['mmie']
    """
    known = rooms()
    chosen = {task: room_of(task) for task in tasks}
    if strangers := [f"`{task}`" for task, found in chosen.items() if found is None]:
        raise SettingWrong(
            f"{', '.join(strangers)}: no task of mmie-tasks.",
            hint=f"ours begin with {names_of(known)}; of others the doctor knows nothing",
        )
    return tuple(room for room in known if not tasks or room in chosen.values())


def look(
    room: Room, environment: Mapping[str, str], tasks: Sequence[str] = ()
) -> Iterator[Finding]:
    """What a benchmark needs: its task files, its data and words, and its judge.

    Args:
        room: The benchmark.
        environment: Of this process.
        tasks: That are asked for, of whatever benchmark; all where none is named.
    """
    try:
        task, doctor = room.part("task"), room.part("doctor")
        if not room.is_ours:
            yield _task_files(room)
    except MmieTasksError as error:
        yield problem_of(room.name, error)
        return
    findings = list(_of_room(doctor, environment, [t for t in tasks if room_of(t) == room]))
    yield from findings
    judged = getattr(task, "JUDGED", None)
    if isinstance(judged, JudgedBy):
        yield from _judge(f"{room.name}: judge", judged, findings, environment)
    else:
        yield ok(f"{room.name}: judge", "none is needed: it is scored by rule")


def _task_files(room: Room) -> Finding:
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
    if (_JUDGES / name / "doctor.py").is_file():
        yield from import_module(f"mmie_tasks.judges.{name}.doctor").look(environment, options)


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
    own = list(_of_judge(choice.name, environment, choice.options))
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
