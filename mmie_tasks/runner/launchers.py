"""Launchers by name, for ``--launcher_args name=...``: all judges, and those of other packages.

The runner accepts a dotted class path as a value of ``AVAILABLE_LAUNCHERS`` and imports it when the
name is used (``llm_judge/launcher/__init__.py:13``), so nothing is imported here. Other packages
register judges in the group ``mmie_tasks.judges`` (see `mmie_tasks.judges.registry`), and
launchers, which start a server, in the group ``mmie_tasks.launchers``:

    [project.entry-points."mmie_tasks.launchers"]
    my_launcher = "my_package.launchers:MyLauncher"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType

from loguru import logger

ENTRY_POINTS = "mmie_tasks.launchers"
JUDGES = "mmie_tasks.runner.judge_launchers"


class Launchers(dict[str, str]):
    """Name to dotted class path. An unknown name ends the run with a list of the names."""

    def __missing__(self, name: str) -> str:
        from mmie_tasks.runner.judge_launchers import refuse_unknown

        refuse_unknown(name, tuple(self))


def add_launchers(launcher: ModuleType) -> None:
    """Add our launchers, and those of installed packages, to the runner's.

    A name that is taken keeps its first meaning, with a warning.

    Args:
        launcher: The module ``lmms_eval.llm_judge.launcher``.
    """
    available = getattr(launcher, "AVAILABLE_LAUNCHERS", None)
    if not isinstance(available, dict):
        logger.warning("mmie-tasks: this lmms-eval has no AVAILABLE_LAUNCHERS; none was added.")
        return
    from mmie_tasks.judges import registry  # imported late: each start of the runner comes here

    registry.warn_about_name_conflicts()
    judges = ((name, f"{JUDGES}.{name}") for name in registry.names())
    for name, class_path in (*judges, *_installed_launchers()):
        first_class_path = available.setdefault(name, class_path)
        if first_class_path != class_path:
            logger.warning(
                f"mmie-tasks: the launcher `{name}` = `{class_path}` was not added: "
                f"`{name}` is `{first_class_path}`. hint: give it another name in `{ENTRY_POINTS}`"
            )
    launcher.AVAILABLE_LAUNCHERS = Launchers(available)  # type: ignore[attr-defined]


def _installed_launchers() -> Iterator[tuple[str, str]]:
    for entry in entry_points(group=ENTRY_POINTS):
        if match := re.fullmatch(r"([\w.]+)\s*:\s*(\w+)", entry.value):
            yield entry.name, ".".join(match.groups())
        else:
            logger.warning(
                f"mmie-tasks: the launcher `{entry.name}` = `{entry.value}` was not added. "
                f"hint: write it as `package.module:Class` in `{ENTRY_POINTS}`"
            )
