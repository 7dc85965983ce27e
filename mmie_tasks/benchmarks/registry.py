"""The benchmarks there are: ours, and those of other packages.

A benchmark is a package, its room. Ours lie in ``benchmarks/``; another package names its own:

    [project.entry-points."mmie_tasks.benchmarks"]
    my_benchmark = "my_package"

What a room can do is a module in it with a known name: ``task``, ``review``, ``doctor``,
``export``, ``prefetch``. All but ``task`` may be absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.paths import task_dir

ENTRY_POINTS = "mmie_tasks.benchmarks"

_OURS = "mmie_tasks.benchmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One benchmark.

    Attributes:
        name: Its tasks are named like it, with or without more behind a ``_``.
        package: The importable name of its package.
    """

    name: str
    package: str

    @property
    def is_ours(self) -> bool:
        """Whether it comes with this package."""
        return self.package == f"{_OURS}.{self.name}"

    def part(self, name: str) -> ModuleType | None:
        """A module of the room; None where it has none of that name.

        Raises:
            SettingWrong: The package, or the module, cannot be imported.
        """
        if self.is_ours:
            name = {"doctor": "checks", "prefetch": "checks", "review": "benchmark"}.get(name, name)
        try:
            found = find_spec(f"{self.package}.{name}")
            return None if found is None else import_module(f"{self.package}.{name}")
        except (ImportError, SyntaxError, ValueError) as error:  # ValueError: no name of a package
            raise SettingWrong(
                f"The benchmark `{self.name}` cannot be loaded from `{self.package}`: {error}.",
                hint="install its package again, or look at what it imports",
            ) from error

    def task_dir(self) -> Path:
        """The folder with its task files: ``task_yamls`` of its package, if it is not ours.

        Raises:
            SettingWrong: The package cannot be found. The folder may be absent.
        """
        if self.is_ours:
            return task_dir() / self.name
        try:
            found = find_spec(self.package)
        except (ImportError, SyntaxError, ValueError):
            found = None
        if found is None or not found.submodule_search_locations:
            raise SettingWrong(
                f"The benchmark `{self.name}` names `{self.package}`, which is no package.",
                hint=f"name a package in `{ENTRY_POINTS}`, or install it again",
            )
        return Path(next(iter(found.submodule_search_locations))) / "task_yamls"


def rooms() -> tuple[Room, ...]:
    """Every benchmark, ours first; one of another package cannot take a name of ours."""
    here = Path(__file__).resolve().parent
    names = sorted(path.parent.name for path in here.glob("*/task.py"))
    ours = {name: Room(name=name, package=f"{_OURS}.{name}") for name in names}
    others = sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name)
    for entry in others:
        ours.setdefault(entry.name, Room(name=entry.name, package=entry.value))
    return tuple(ours.values())


def room_of(task: str) -> Room | None:
    """The benchmark that a task, group or tag is of; None where it is none of ours.

    >>> [room.name for room in map(room_of, ("mmie_sa", "milebench")) if room]
    ['mmie', 'milebench']
    """
    fitting = [room for room in rooms() if f"{task}_".startswith(f"{room.name}_")]
    return max(fitting, key=lambda room: len(room.name), default=None)


def names_of(found: tuple[Room, ...]) -> str:
    """Their names, for a message."""
    return ", ".join(room.name for room in found)
