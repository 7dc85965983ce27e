"""The registry of benchmarks: ours, and those that other packages register.

Each of ours is a folder next to this file with a module ``benchmark``. Another package registers
its own in its ``pyproject.toml``:

    [project.entry-points."mmie_tasks.benchmarks"]
    my_benchmark = "my_package.benchmark:BENCHMARK"

Its task files are in the folder ``task_yamls`` of the package that contains the named module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.task_files import TaskFile, read_task_files
from mmie_tasks.core.errors import SettingWrong, first_line
from mmie_tasks.core.files import task_dir
from mmie_tasks.core.suggestions import did_you_mean, nearest

ENTRY_POINTS = "mmie_tasks.benchmarks"

_OURS = "mmie_tasks.benchmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkEntry:
    """A registered benchmark; none of its modules is imported until `load`.

    Attributes:
        name: The benchmark's tasks have this name, or begin with it and ``_``.
        target: Where the `Benchmark` object is: ``package.module:OBJECT``.
    """

    name: str
    target: str

    @property
    def is_ours(self) -> bool:
        """Whether the benchmark comes with this package."""
        return self.target == f"{_OURS}.{self.name}.benchmark:BENCHMARK"

    @property
    def package(self) -> str:
        """The importable package that contains the benchmark's modules.

        >>> entry_of_task("mmie_sa").package
        'mmie_tasks.benchmarks.mmie'
        """
        module = self.target.partition(":")[0]
        return module.rpartition(".")[0] or module

    def load(self) -> Benchmark:
        """Import the `Benchmark` object. Raises `SettingWrong` if the module cannot be imported, if
        the object lacks a part, or if it or its judge belongs to another benchmark.
        """
        module, _, attribute = self.target.partition(":")
        try:
            benchmark = getattr(import_module(module), attribute or "BENCHMARK")
        except Exception as error:  # another package's module: its benchmark is lost and named
            problem = f"{type(error).__name__}: {first_line(error).rstrip('.')}"
            hint = "correct its module, or reinstall its package"
            raise self._unusable(f"cannot be imported ({problem})", hint) from error
        if not isinstance(benchmark, Benchmark) or getattr(benchmark, "name", "") != self.name:
            hint = f'correct the entry in `{ENTRY_POINTS}`, or write `name = "{self.name}"`'
            raise self._unusable("is not a `Benchmark` of that name", hint)
        if benchmark.judge is not None and benchmark.judge.benchmark != self.name:
            problem = f"has the judge of `{benchmark.judge.benchmark}`"
            raise self._unusable(problem, f'`BenchmarkJudge("{self.name}", ...)`')
        if missing := ", ".join(f"`{part}`" for part in _missing_parts(benchmark)):
            raise self._unusable(f"lacks {missing}", "add to its class what is missing")
        return benchmark

    def task_dir(self) -> Path:
        """The folder with the benchmark's task files; it may be missing. Raises `SettingWrong` if
        the benchmark's package is not installed.
        """
        if self.is_ours:
            return task_dir() / self.name
        try:
            spec = find_spec(self.package)
        except Exception:  # noqa: BLE001 - another package's parent module; named below
            spec = None
        if spec is None or not spec.submodule_search_locations:
            hint = f"register `package.module:OBJECT` in `{ENTRY_POINTS}`, or reinstall"
            raise self._unusable("is not in an installed package", hint)
        return Path(next(iter(spec.submodule_search_locations))) / "task_yamls"

    def task_files(self) -> dict[str, TaskFile]:
        """The benchmark's tasks, to their files.

        Raises:
            SettingWrong: The benchmark's package cannot be found.
            DataBroken: A task file is not YAML.
        """
        return read_task_files(self.task_dir())

    def task_names(self) -> frozenset[str]:
        """The names of the benchmark and of its tasks; raises the errors of `task_files`."""
        return frozenset((self.name, *self.task_files()))

    def _unusable(self, problem: str, hint: str) -> SettingWrong:
        message = f"The benchmark `{self.name}`, registered as `{self.target}`, {problem}."
        return SettingWrong(message, hint=hint)


def _missing_parts(benchmark: Benchmark) -> list[str]:
    """What the benchmark needs for a run and does not define."""
    groups: list[tuple[str, ...]] = [("title",), ("scale",)]
    if benchmark.judge is None:
        groups.append(("score", "prepared", "process_results"))
    else:
        groups += [
            ("request", "prepared", "process_results"),
            ("read", "grade", "prepared", "process_results"),
        ]

    def has(name: str) -> bool:
        return getattr(type(benchmark), name, None) is not getattr(Benchmark, name, None)

    return [parts[0] for parts in groups if not any(map(has, parts))]


def entries() -> tuple[BenchmarkEntry, ...]:
    """Every registered benchmark, ours first; another package cannot replace one of ours."""
    names = sorted(p.parent.name for p in Path(__file__).resolve().parent.glob("*/benchmark.py"))
    by_name = {
        name: BenchmarkEntry(name=name, target=f"{_OURS}.{name}.benchmark:BENCHMARK")
        for name in names
    }
    for name, target in _plugins(tuple(sys.path)):
        by_name.setdefault(name, BenchmarkEntry(name=name, target=target))
    return tuple(by_name.values())


@cache
def _plugins(_search_path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Names and targets of other packages' benchmarks, cached: reading metadata takes 40 ms."""
    return tuple(sorted((entry.name, entry.value) for entry in entry_points(group=ENTRY_POINTS)))


def entry_of_task(task: str) -> BenchmarkEntry | None:
    """The benchmark of a task or group, by its name; None if no benchmark matches.

    >>> [entry.name for entry in map(entry_of_task, ("mmie_sa", "milebench")) if entry]
    ['mmie', 'milebench']
    """
    matches = [entry for entry in entries() if f"{task}_".startswith(f"{entry.name}_")]
    return max(matches, key=lambda entry: len(entry.name), default=None)


def dataset_names() -> frozenset[str]:
    """The names of all datasets of registered benchmarks, which identify folders of answers."""
    return frozenset(name for entry in entries() for name in entry.load().datasets)


def entry_of_module(module: str) -> BenchmarkEntry | None:
    """The benchmark whose package contains a module; None if there is none.

    >>> entry_of_module("mmie_tasks.benchmarks.milebench.benchmark").name
    'milebench'
    """
    return next((e for e in entries() if f"{module}.".startswith(f"{e.package}.")), None)


def entry_names(shown: tuple[BenchmarkEntry, ...]) -> str:
    """Comma-separated names of benchmarks, for a message."""
    return ", ".join(entry.name for entry in shown)


def similar_tasks(name: str) -> list[str]:
    """Benchmarks and tasks like a misspelt name: ``milebench_DocVQA`` for ``DocVQA``."""
    entry = entry_of_task(name)
    searched = entries() if entry is None else (entry,)
    names = sorted(frozenset().union(*(one.task_names() for one in searched)))
    endings = [valid for valid in names if valid.lower().endswith(f"_{name.lower()}")]
    return list(dict.fromkeys((*endings, *nearest(name, names))))


def benchmark_of_task(task: str) -> Benchmark | None:
    """Load the benchmark of a task or group; None if no benchmark matches. Raises `SettingWrong` if
    the benchmark cannot be loaded.
    """
    entry = entry_of_task(task)
    return None if entry is None else entry.load()


def is_setting(name: str) -> bool:
    """Whether a registered benchmark has a setting of this name."""
    return any(name in entry.load().settings_type.model_fields for entry in entries())


def require_judged(choices: Iterable[str], source: str) -> None:
    """Raise `SettingWrong` if a benchmark that a judge is chosen for does not exist or has no
    judge.

    An empty name means all others; `source` is the setting, for messages.
    """
    for name in filter(None, choices):
        entry = entry_of_task(name)
        if entry is None or entry.name != name or entry.load().judge is None:
            judged = [e.name for e in entries() if e.load().judge is not None]
            hint = f"`BENCHMARK=JUDGE:MODEL`, where benchmarks with a judge are {', '.join(judged)}"
            raise SettingWrong(
                f"{source} chooses a judge for `{name}`, which is not a benchmark with a judge.",
                hint=hint + did_you_mean(name, judged),
            )
