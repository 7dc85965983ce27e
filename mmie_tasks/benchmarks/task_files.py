"""Reads task files without lmms-eval and without importing the functions that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mmie_tasks.core.errors import DataBroken


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function that a task file names: ``!function package.module.function``."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A task file with those that it includes, whose entries it replaces."""

    path: Path
    content: Mapping[str, Any]

    @property
    def metrics(self) -> list[str]:
        """The names in ``metric_list``."""
        return [str(entry["metric"]) for entry in self.content.get("metric_list") or ()]

    @property
    def functions(self) -> list[str]:
        """The names of the functions, each once."""
        return list(dict.fromkeys(_functions(self.content)))


class _Loader(yaml.SafeLoader):
    """Reads ``!function`` as a name."""


_Loader.add_multi_constructor("!", lambda _loader, _suffix, node: FunctionName(node.value))


def read_task_files(folder: Path) -> dict[str, TaskFile]:
    """Task to its file, of the files below a folder, which may be missing.

    Raises:
        DataBroken: A file is not YAML, or includes a file that does not exist.
    """
    files = {path: _content(path) for path in sorted(folder.rglob("*.yaml"))}
    return {
        content["task"]: TaskFile(path=path, content=content)
        for path, content in files.items()
        if isinstance(content.get("task"), str)
    }


def _content(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a safe loader
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        hint = "correct it, or reinstall the package that contains it"
        raise DataBroken(f"`{path}` is not a task file: {reason}.", hint=hint) from error
    own = content if isinstance(content, dict) else {}
    included = own.get("include") or []
    merged: dict[str, Any] = {}
    for name in reversed([included] if isinstance(included, str) else included):
        merged |= _content(path.parent / name)
    return merged | own


def _functions(value: object) -> list[str]:
    if isinstance(value, FunctionName):
        return [value.text]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for one in values for name in _functions(one)]
