"""Launchers by name, for ``--launcher_args name=...``: every judge, and those of other packages.

The runner takes a dotted class path as a value of ``AVAILABLE_LAUNCHERS`` and imports it when the
name is used (``llm_judge/launcher/__init__.py:13``), so nothing is imported here. Other packages
add judges in the group ``mmie_tasks.judges`` (see `mmie_tasks.judges.registry`), and launchers,
which start something, in the group ``mmie_tasks.launchers``:

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
    """Name to dotted class path; a name that is not there ends the run with a list of those."""

    def __missing__(self, name: str) -> str:
        from mmie_tasks.runner.judge_launchers import unknown

        unknown(name, tuple(self))


def add_launchers(launcher: ModuleType) -> None:
    """Make our launchers, and those of installed packages, known to the runner.

    A name that is taken stays with its owner; a warning says so.

    Args:
        launcher: The module ``lmms_eval.llm_judge.launcher``.
    """
    available = getattr(launcher, "AVAILABLE_LAUNCHERS", None)
    if not isinstance(available, dict):
        logger.warning("mmie-tasks: this lmms-eval has no AVAILABLE_LAUNCHERS; none was added.")
        return
    from mmie_tasks.judges import registry  # not at import: every start of the runner pays that

    registry.warn_about_name_conflicts()
    judges = ((name, f"{JUDGES}.{name}") for name in registry.names())
    for name, class_path in (*judges, *_installed()):
        taken_by = available.setdefault(name, class_path)
        if taken_by != class_path:
            logger.warning(
                f"mmie-tasks: the launcher `{name}` = `{class_path}` was not added: "
                f"`{name}` is `{taken_by}`. hint: give it another name in `{ENTRY_POINTS}`"
            )
    launcher.AVAILABLE_LAUNCHERS = Launchers(available)  # type: ignore[attr-defined]


def _installed() -> Iterator[tuple[str, str]]:
    for entry in entry_points(group=ENTRY_POINTS):
        if found := re.fullmatch(r"([\w.]+)\s*:\s*(\w+)", entry.value):
            yield entry.name, ".".join(found.groups())
        else:
            logger.warning(
                f"mmie-tasks: the launcher `{entry.name}` = `{entry.value}` was not added. "
                f"hint: write it as `package.module:Class` in `{ENTRY_POINTS}`"
            )
