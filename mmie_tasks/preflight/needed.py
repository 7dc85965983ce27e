"""Finds the benchmarks of the tasks that a command names, and the judges that they would use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mmie_tasks.benchmarks.registry import (
    BenchmarkEntry,
    entries,
    entry_names,
    entry_of_task,
    similar_tasks,
)
from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.choice import JudgeChoices, choose_judges


def refuse_hidden_task(tasks: str) -> None:
    """Raise `SettingWrong` if a folder hides the task of ``--tasks``: lmms-eval would look for task
    files in it (``__main__.py``, ``os.path.isdir``).
    """
    if tasks and Path(tasks).is_dir() and not list(Path(tasks).glob("*.yaml")):
        raise SettingWrong(
            f"lmms-eval looks for task files in the folder `{tasks}` that is here, and there are "
            "none.",
            hint="run the command in another folder to evaluate the task of that name",
        )


def select_tasks(names: Iterable[str]) -> Mapping[BenchmarkEntry, tuple[str, ...]]:
    """Benchmark to its named tasks, in the order of the names.

    Args:
        names: Tasks, and patterns with ``*``; blanks around them and empty ones are left out.

    Raises:
        SettingWrong: No benchmark has a task of that name; the hint has similar names.

    >>> {entry.name: tasks for entry, tasks in select_tasks(["mmie_s*", "mmie"]).items()}
    {'mmie': ('mmie_sa', 'mmie_step', 'mmie')}
    """
    selection: dict[BenchmarkEntry, tuple[str, ...]] = {}
    for name in filter(None, (name.strip() for name in names)):
        entry = entry_of_task(name)
        known = sorted(entry.task_names()) if entry else []
        tasks = [task for task in known if fnmatchcase(task, name)]
        if entry is None or (entry.is_ours and not tasks):
            similar = ", ".join(f"`{similar}`" for similar in similar_tasks(name))
            raise SettingWrong(
                f"There is no task `{name}` of a registered benchmark.",
                hint=f"there is {similar or entry_names(entries())}",
            )
        tasks = tasks or [name]  # of another package: its file may be elsewhere
        selection[entry] = tuple(dict.fromkeys((*selection.get(entry, ()), *tasks)))
    return selection


def judges_of(
    selection: Iterable[BenchmarkEntry], requested: JudgeChoices, environment: Mapping[str, str]
) -> list[Choice]:
    """The judges that these benchmarks would use, each once; of all that are requested if none of
    the benchmarks has a judge.

    Raises:
        SettingWrong: There is no such judge, or it has no such option.
    """
    judged = [own for entry in selection if (own := entry.load().judge) is not None]
    chosen = [choose_judges(j.benchmark, j.default, environment, requested) for j in judged]
    judges: Sequence[Choice] = [
        Choice(name=judge.name, options=judge.options)
        for one in chosen or requested.values()
        for judge in one.judges
    ]
    return [judge for number, judge in enumerate(judges) if judge not in judges[:number]]
