"""Launchers by name, for ``--launcher_args name=...``.

The runner takes a dotted class path as a value of ``AVAILABLE_LAUNCHERS`` and imports it when the
name is used (``llm_judge/launcher/__init__.py:13``), so nothing is imported here. Other packages
add their own in the entry-point group ``mmie_tasks.launchers``:

    [project.entry-points."mmie_tasks.launchers"]
    my_judge = "my_package.judges:MyLauncher"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType

from loguru import logger

ENTRY_POINTS = "mmie_tasks.launchers"

LAUNCHERS: dict[str, str] = {}
"""Name to dotted class path. Empty as long as no task of ours needs a judge."""


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
    for name, class_path in (*LAUNCHERS.items(), *_installed()):
        taken_by = available.setdefault(name, class_path)
        if taken_by != class_path:
            logger.warning(
                f"mmie-tasks: the launcher `{name}` = `{class_path}` was not added: "
                f"`{name}` is `{taken_by}`. hint: give it another name in `{ENTRY_POINTS}`"
            )


def _installed() -> Iterator[tuple[str, str]]:
    for entry in entry_points(group=ENTRY_POINTS):
        if found := re.fullmatch(r"([\w.]+)\s*:\s*(\w+)", entry.value):
            yield entry.name, ".".join(found.groups())
        else:
            logger.warning(
                f"mmie-tasks: the launcher `{entry.name}` = `{entry.value}` was not added. "
                f"hint: write it as `package.module:Class` in `{ENTRY_POINTS}`"
            )
