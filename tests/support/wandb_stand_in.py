"""A stand-in for the package ``wandb``: what lmms-eval logs to it, as lines of ``wandb.jsonl``.

It has the names that ``lmms_eval/loggers/wandb_logger.py`` uses, and no others.
"""

from __future__ import annotations

import json
from typing import Any

from support.runner import Workplace, write

_PACKAGE = """
import json
from types import SimpleNamespace

__version__ = "0.25.0"
run = None

def _log(logged):
    for name, value in logged.items():
        if hasattr(value, "to_dict"):  # a table of samples
            with open("wandb.jsonl", "a") as file:
                file.write(json.dumps({"name": name, "rows": value.to_dict("records")}) + "\\n")

def init(**options):
    config = SimpleNamespace(update=lambda values: None)
    summary = SimpleNamespace(update=lambda values: None)
    return SimpleNamespace(
        config=config, summary=summary, log=_log, log_artifact=print, finish=lambda: None
    )

class Table:
    def __init__(self, columns):
        self.columns = columns
    def add_data(self, *cells):
        assert len(cells) == len(self.columns)

class Artifact:
    def __init__(self, name, type):
        self.name = name
    def new_file(self, name, mode, encoding):
        return open(name, mode, encoding=encoding)
    def __str__(self):
        return f"wandb: artifact {self.name}"
"""
_MODULES = {
    "__init__": _PACKAGE,
    "sdk/__init__": "",
    "sdk/wandb_settings": "class Settings:\n    _jupyter = False\n",
    "sdk/lib/__init__": "",
    "sdk/lib/printer": "def get_printer(jupyter):\n    return None\n",
}


def install(workplace: Workplace) -> None:
    """Put the stand-in before an installed ``wandb``."""
    for name, text in _MODULES.items():
        write(workplace.plugins / "wandb" / f"{name}.py", text)


def logged_tables(workplace: Workplace) -> dict[str, list[dict[str, Any]]]:
    """The tables of samples that were logged, name to rows."""
    lines = (workplace.folder / "wandb.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["name"]: line["rows"] for line in map(json.loads, lines)}
